"""`warplens diff` as a user runs it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support import HANG_SECONDS, ROOT, SAMPLES, RunInside, annotation, kernel, launch, op, write_trace
from warplens.cli import main
from warplens.profiles.comparison import DIFF_TABLE_NAMES

pytestmark = pytest.mark.usefixtures("one_cache")
GEMM_A = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"
GEMM_B = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"
ESCAPE = "\x1b"
BY_NAME = {path.name.split(".")[0]: path for path in SAMPLES}
Printed = Callable[..., str]


def run(*args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "100", **environment}
    command = [sys.executable, "-m", "warplens", "diff", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=HANG_SECONDS, cwd=ROOT)


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Printed:
    monkeypatch.setenv("COLUMNS", "100")

    def run_inside(*args: str | Path) -> str:
        assert main(["diff", *(str(arg) for arg in args)]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        return captured.out

    return run_inside


def made(path: Path, name: str, us: float) -> Path:
    events: list[dict[str, Any]] = []
    for step in range(3):
        at = step * (us + 60)
        dims = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
        events += [annotation(f"ProfilerStep#{step}", at, us + 59), op("aten::mm", at + 1, 9, **dims)]
        events += [launch(at + 2, 1, step + 1), kernel(name, at + 20, us + step, step + 1)]
    return write_trace(path, events)


def longest(lines: list[str]) -> int:
    """Of the lines besides commands, which stay whole to be pasted, however long the paths."""
    return max(len(line) for line in lines if "warplens diff " not in line)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pair")
    return made(folder / "before.json", GEMM_A, 900.0), made(folder / "after.json", GEMM_B, 300.0)


def test_the_screen_begins_with_the_verdict_and_says_what_was_compared(
    printed: Printed, pair: tuple[Path, Path]
) -> None:
    lines = printed(*pair).splitlines()
    verdict = "B is 2.69× faster (2.58 to 2.81): 954.5 µs (915.3 to 959.5) → 354.5 µs (339.3 to 359.5)"
    assert lines[0] == f"verdict   {verdict}"
    assert lines[1].lstrip().startswith("per unprofiled step (estimated). ")
    labels = [line.split()[0] for line in lines if line and not line.startswith(" ")]
    assert labels[:6] == ["verdict", "A", "B", "matched", "times", "noise"]
    assert "100 % of A's and 100 % of B's GPU time" in "\n".join(lines)
    assert len(lines) <= 40
    assert longest(lines) <= 100


def test_the_table_says_what_its_times_are_of(printed: Printed, pair: tuple[Path, Path]) -> None:
    assert "\none recorded step " in printed(*pair)
    assert "\nrecorded trace " in printed(*pair, "--whole")
    corrected = printed(*pair, "--timeline", "corrected")
    assert "\none corrected step " in corrected
    assert "ms per corrected step (estimated)" in " ".join(corrected.split())


def test_commands_to_paste_have_the_paths_and_options_that_were_given(
    printed: Printed, pair: tuple[Path, Path]
) -> None:
    lines = printed(*pair, "--whole", "--gap", "7us").splitlines()
    assert lines[-1].strip() == f"warplens diff {pair[0]} {pair[1]} --table diff_ops --gap 7us --whole"
    assert main(lines[-1].split()[1:]) == 0


PAIRS = [
    ("gpt2_train_step", "gpt2_train_compiled"),
    ("bloom_prefill", "resnet50_train"),
    ("cudagraph_infer", "cudagraph_infer"),
    ("cpu_mlp_train", "cpu_mlp_train"),
    ("cpu_mlp_train", "gpt2_train_step"),
]


@pytest.mark.parametrize(("a", "b"), PAIRS)
def test_any_two_traces_fit_one_screen_and_exit_with_0(printed: Printed, a: str, b: str) -> None:
    lines = printed(BY_NAME[a], BY_NAME[b]).splitlines()
    assert lines[0].startswith("verdict   ")
    assert len(lines) <= 40
    assert longest(lines) <= 100
    assert not any(ESCAPE in line for line in lines)


def test_unlike_traces_say_what_share_matched(printed: Printed) -> None:
    text = " ".join(printed(BY_NAME["bloom_prefill"], BY_NAME["resnet50_train"]).split())
    assert "are these the same work?" in text
    assert "matched 0 % of A's and 0 % of B's GPU time" in text


def test_json_is_the_answer_and_of_a_table_one_array_of_rows(printed: Printed, pair: tuple[Path, Path]) -> None:
    answer = json.loads(printed(*pair, "--json"))
    assert answer["kind"] == "diff"
    assert answer["verdict"].startswith("B is 2.69× faster")
    assert answer["certainty"] == "estimated"
    assert [clock["recorded_ms"] for clock in answer["compared"]] == [pytest.approx(0.9595), pytest.approx(0.3595)]
    parts = json.loads(printed(*pair, "--table", "diff_summary", "--json"))
    assert (parts[0]["kind"], parts[0]["part"]) == ("total", "step")
    ops = json.loads(printed(*pair, "--table", "diff_ops", "--json"))
    assert [row["op"] for row in ops] == ["aten::mm"]
    tree = json.loads(printed(*pair, "--tree", "--context", "op", "--json"))
    assert [row["name"] for row in tree][:2] == ["all", "aten::mm"]
    assert len(json.loads(printed(*pair, "--table", "diff_summary", "--json", "--top", "2"))) == 2


def test_one_table_and_the_tree_as_text(printed: Printed, pair: tuple[Path, Path]) -> None:
    assert "matched_by" in printed(*pair, "--table", "diff_ops")
    lines = printed(*pair, "--tree").splitlines()
    assert lines[0].split()[:2] == ["Δ", "µs"]
    assert lines[1].split()[-1] == "all"
    assert lines[1].startswith("      −600.0")
    assert "… " in printed(*pair, "--tree", "--depth", "1")


def test_every_output_holds_every_table(pair: tuple[Path, Path], tmp_path: Path) -> None:
    targets = [f"{tmp_path}/{name}" for name in ("t/", "d.xlsx", "d.json", "d.md")]
    finished = run(*pair, *(part for target in targets for part in ("-o", target)))
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "wrote" in finished.stdout
    assert {path.stem for path in (tmp_path / "t").iterdir()} == set(DIFF_TABLE_NAMES)
    document = json.loads((tmp_path / "d.json").read_text())
    assert set(document["tables"]) == set(DIFF_TABLE_NAMES)
    assert (tmp_path / "d.xlsx").read_bytes().startswith(b"PK")
    assert "2.69× faster" in (tmp_path / "d.md").read_text()
    with (tmp_path / "t" / "diff_ops.csv").open() as stream:
        (row,) = csv.DictReader(stream)
    assert (row["op"], float(row["a_us"]), float(row["b_us"])) == ("aten::mm", 900.5, 300.5)
    refused = run(*pair, "-o", f"{tmp_path}/d.md")
    assert refused.returncode == 2
    assert "--force" in refused.stderr


def test_quiet_only_writes_the_outputs(run_inside: RunInside, pair: tuple[Path, Path], tmp_path: Path) -> None:
    finished = run_inside("diff", *pair, "-q", "-o", f"{tmp_path}/d.md")
    assert (finished.returncode, finished.stdout) == (0, "")
    assert "d.md" in finished.stderr
    assert (tmp_path / "d.md").exists()


FAILURES: dict[str, tuple[int, list[str], str]] = {
    "no such file": (1, ["{a}", "/nonexistent/trace.json"], "no such file"),
    "no trace": (1, ["{bad}", "{a}"], "text, but not JSON"),
    "tables of a report": (2, ["{tables}", "{tables}"], "tables has no profiles"),
    "an empty directory": (2, ["{folder}", "{folder}"], "folder is empty"),
    "no such table": (2, ["{a}", "{b}", "--table", "kernelz"], "no table 'kernelz'"),
    "no such context": (2, ["{a}", "{b}", "--tree", "--context", "line"], "no context 'line'"),
    "two things at once": (2, ["{a}", "{b}", "--tree", "--table", "diff_ops"], "exclude"),
    "rows of the answer": (2, ["{a}", "{b}", "--json", "--top", "2"], "--top: --json alone prints no rows"),
    "no such output": (2, ["{a}", "{b}", "-o", "x.docx"], "x.docx"),
    "only one trace": (2, ["{a}"], "give two traces, or two steps of one"),
}
IN_A_PROCESS = ("no such file", "no such table")
"""One of each code."""


@pytest.mark.parametrize("what", FAILURES)
def test_failures_say_one_line_and_set_the_exit_code(
    run_inside: RunInside, pair: tuple[Path, Path], tmp_path: Path, what: str
) -> None:
    code, arguments, message = FAILURES[what]
    bad = tmp_path / "bad.json"
    bad.write_text("hello, world")
    folder = tmp_path / "folder"
    folder.mkdir()
    tables = tmp_path / "tables"
    tables.mkdir()
    (tables / "kernels.csv").write_text("op\n")
    values = {"a": pair[0], "b": pair[1], "bad": bad, "folder": folder, "tables": tables}
    words = [argument.format(**values) for argument in arguments]
    finished = run(*words) if what in IN_A_PROCESS else run_inside("diff", *words)
    assert (finished.returncode, finished.stdout) == (code, "")
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr


def test_given_step_times_are_compared_next_to_the_recorded_ones(pair: tuple[Path, Path], printed: Printed) -> None:
    text = " ".join(printed(*pair, "--step-time", "0.9ms,0.6ms").split())
    assert "B is 1.50× faster: 900.0 → 600.0 µs per unprofiled step (measured; 959.5 → 359.5 µs recorded)." in text
    a, b = (
        "A 900.0 µs (measured, given) · 959.5 µs recorded, all 3 steps",
        "B 600.0 µs (measured, given) · 359.5 µs recorded, all 3 steps",
    )
    assert f"step {a}; {b}" in text


def test_a_given_step_time_is_compared_with_the_interval_of_an_estimate(
    pair: tuple[Path, Path], printed: Printed
) -> None:
    text = " ".join(printed(*pair, "--step-time", ",0.34ms").split())
    estimated = "954.5 µs (915.3 to 959.5"
    assert f"step A {estimated}, estimated) · 959.5 µs recorded, all 3 steps; B 340.0 µs (measured, given)" in text
    each = f"{estimated}, estimated) → 340.0 µs (measured, given)"
    assert f"B is 2.81× faster (2.69 to 2.82): {each} per unprofiled step." in text
    both = " ".join(printed(*pair, "--step-time", "0.9ms,0.9ms").split())
    assert "A 900.0 µs (measured, given)" in both
    assert "estimated) · 359.5 µs recorded, all 3 steps (the time that is given fits no cost of recording)" in both


def test_what_is_not_a_pair_of_step_times_is_refused(
    pair: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A single time too: it would make both sides equally long."""
    for given in ("1ms,2ms,3ms", "1ms", "fast"):
        assert main(["diff", *map(str, pair), "--step-time", given]) == 2
        assert "21.4ms,34.3ms" in capsys.readouterr().err
    assert main(["diff", *map(str, pair), "--step-time", "fast,1ms"]) == 2


def test_corrected_timelines_are_compared_as_they_nearly_were(pair: tuple[Path, Path], printed: Printed) -> None:
    rows = json.loads(printed(*pair, "--timeline", "corrected", "--table", "diff_timeline", "--json"))
    recorded = json.loads(printed(*pair, "--table", "diff_timeline", "--json"))
    total, whole = (next(row for row in some if row["measure"] == "total") for some in (rows, recorded))
    assert total["a_us"] < whole["a_us"]
    assert total["a_us"] == pytest.approx(whole["a_us"], rel=0.1)
