"""The Triton kernels of a recorded run, compiled as they were launched, beside the time that they took."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import warplens
from launch_bundles import bundle, recorded, scale, softmax
from warplens.cli import main
from warplens_lab.comparing.compilations import compare_facts
from warplens_lab.opened.check import OpenedCheck
from warplens_lab.proof.run_kernels import check_run
from warplens_run.base.errors import UsageError

pytestmark = [pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION"), pytest.mark.usefixtures("warm_compiler")]
H100 = {"id": 0, "name": "NVIDIA H100 80GB HBM3", "computeMajor": 9, "computeMinor": 0, "numSms": 132}


def program() -> None:
    softmax()
    for _ in range(3):
        scale()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    recorder = recorded(program, warm=softmax)
    return bundle(tmp_path_factory.mktemp("runs") / "run.warplens", recorder, devices=[H100])


@pytest.fixture(scope="module")
def opened(run: Path, warm_compiler: None) -> OpenedCheck:
    profile = warplens.open(run).with_timeline()
    return OpenedCheck(check_run(profile.workspace, run, allow_source=True), str(run))


def test_kernels_are_listed_by_their_time_with_facts_roofline_and_suggestions(opened: OpenedCheck) -> None:
    rows = opened.table("kernel_run").to_dicts()
    assert [(row["kernel"], row["count"], row["total_us"]) for row in rows] == [
        ("scale_shift", 3, 9.0),
        ("row_softmax", 1, 3.0),
    ]
    first = rows[0]
    assert (first["target"], first["percent"], first["mean_us"]) == ("sm90", 75.0, 3.0)
    assert first["registers"] > 0 and first["failure"] is None
    # Two tensors of a thousand numbers, against the card's bandwidth.
    assert first["bytes"] == 8000.0 and 0 < first["percent_of_roofline"] < 1
    assert (rows[1]["suggestions"], first["suggestions"]) == ("WK102", "")
    assert opened.verdict().startswith("2 Triton kernels with 100 % of the GPU time: ")


def test_what_autotune_timed_is_kept_with_its_choice(opened: OpenedCheck) -> None:
    rows = opened.table("kernel_autotune").to_dicts()
    assert [(row["kernel"], row["time_us"], row["times_best"]) for row in rows] == [("row_softmax", 1000.0, 1.0)] * 2
    assert sorted(row["config"].partition(",")[0] for row in rows) == ["block=128", "block=256"]
    (chosen,) = [row for row in rows if row["is_chosen"]]
    assert chosen["config"].startswith("block=128, num_warps=2")


def test_sources_of_a_run_are_compiled_where_that_is_allowed(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", "check", str(run)]) == 2
    assert "--allow-source" in capsys.readouterr().err
    assert main(["kernel", "check", str(run), "--launches", "3"]) == 2
    assert "is a recorded run, which takes no launches" in capsys.readouterr().err


def test_two_runs_are_compared_by_facts_and_times(opened: OpenedCheck) -> None:
    facts = [check.facts for check in opened.checks]
    same, slower = compare_facts(facts, facts, [3.0, 3.0], [3.1, 4.0])
    assert same.to_dicts()[0] | {"kernel": ""} == {
        "kernel": "", "target": "sm90", "measure": "mean_us", "before": "3", "after": "3.1", "verdict": "same",
    }  # fmt: skip
    assert slower.to_dicts()[0]["verdict"] == "regression"
    assert {row["measure"] for row in compare_facts(facts, facts)[0].to_dicts()}.isdisjoint({"mean_us"})


def test_a_run_without_kernels_of_its_own_says_how_to_record_them(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 0, "dur": 1, "pid": 0, "tid": 7, "args": {"stream": 7}}
    trace.write_text(json.dumps({"deviceProperties": [H100], "traceEvents": [event]}))
    profile = warplens.open(trace).with_timeline()
    with pytest.raises(UsageError, match=r"trace.json has no Triton kernel") as raised:
        check_run(profile.workspace, trace, allow_source=True)
    assert "warplens profile" in (raised.value.hint or "")
