"""`warplens advise`: the verdict, then findings that say where, why and what to do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import warplens
from finding_traces import GEMM, H200, Call, back_to_back, filler, geometry, product
from support import ROOT, op, write_trace
from warplens.cli import main
from warplens.model.finding import COLUMNS, EVIDENCE_COLUMNS

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An odd vocabulary that costs 0.53 of 2 ms, and a kernel with too few blocks that costs 0.1."""
    monkeypatch.setenv("COLUMNS", "100")
    few = Call("mine::few", GEMM, 200, kernel_args=geometry(66))
    return write_trace(tmp_path / "t.json", back_to_back(product(1000, 4096, 50257, 768), few, filler(800)), **H200)


def printed(capsys: Captured, *args: str | Path) -> str:
    assert main(["advise", *map(str, args)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def array(capsys: Captured, *args: str | Path) -> list[dict[str, Any]]:
    found = json.loads(printed(capsys, *args, "--json"))
    assert isinstance(found, list)
    return found


def test_the_verdict_comes_first_then_the_numbered_findings(trace: Path, capsys: Captured) -> None:
    lines = printed(capsys, trace).splitlines()
    assert lines[0].startswith("GPU-bound. GEMM takes 2.0 of 2.0 ms of the run (")
    titles = [line for line in lines if re.match(r"\d+\. WL", line)]
    assert titles == [
        "1. WL201  1 GEMM with the unaligned size 50257 runs on slow kernels",
        "2. WL210  kernels have fewer blocks than the GPU has multiprocessors",
    ]
    gains = [line.strip() for line in lines if line.startswith("       gain ")]
    assert gains == ["gain   0.5 ms (0.4 to 0.7)", "gain   ≤ 0.2 ms"]
    assert max(map(len, lines)) <= 100


def test_a_bound_is_the_same_here_and_in_the_report(capsys: Captured) -> None:
    path = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
    shown = re.findall(r"gain +≤ (\S+ \S+) per step", printed(capsys, path))
    answered = [each for each in warplens.open(path).answer().findings if each.is_upper_bound and each.gain_ms]
    bounds = [each.gain.removeprefix("≤ ") for each in answered]
    assert len(shown) > 2
    assert shown == bounds


def test_each_finding_says_where_why_and_what_to_do_and_lists_its_evidence(trace: Path, capsys: Captured) -> None:
    *blocks, ending = printed(capsys, trace).split("\n\n")[1:]
    assert len(blocks) == 2
    assert ending.startswith("≤: upper bound: the gain if the cause were removed entirely.")
    for block in blocks:
        labels = re.findall(r"^ {7}(gain|where|why|do|-) ", block, re.MULTILINE)
        assert labels == ["gain", "where", "why", "do", "-"]
    assert "where  train.py:4 step" in blocks[0]
    assert "do     pad 50257 to 50264" in blocks[0]


def test_json_is_one_array_with_the_columns_of_the_table_and_the_evidence(trace: Path, capsys: Captured) -> None:
    found = array(capsys, trace)
    assert [row["code"] for row in found] == ["WL201", "WL210"]
    profile = warplens.open(trace, cache=False)
    for row, expected in zip(found, profile.table("findings").to_dicts(), strict=True):
        evidence = row.pop("evidence_rows")
        assert row.pop("targets") == evidence[0]["targets"]
        assert list(row) == [column.name for column in COLUMNS]
        assert row == expected
        assert [list(each) for each in evidence] == [[*(column.name for column in EVIDENCE_COLUMNS[2:]), "targets"]]
    assert "\n" not in printed(capsys, trace, "--json").rstrip("\n")


def test_json_names_the_table_rows_behind_each_finding(trace: Path, capsys: Captured) -> None:
    profile = warplens.open(trace, cache=False)
    product, launch = (row["evidence_rows"][0]["targets"][0] for row in array(capsys, trace))
    assert (product["to"], product["table"], launch["to"], launch["table"]) == ("row", "roofline", "row", "launches")
    assert profile.table("roofline").frame["params"][product["row"]] == "B=1 M=4096 N=50257 K=768 layout=nn"
    assert profile.table("launches").frame["blocks"][launch["row"]] == 66


def test_top_keeps_the_largest(trace: Path, capsys: Captured) -> None:
    assert [row["code"] for row in array(capsys, trace, "--top", "1")] == ["WL201"]
    assert "WL210" not in printed(capsys, trace, "--top", "1")


def test_min_gain_moves_the_threshold(trace: Path, capsys: Captured) -> None:
    assert [row["code"] for row in array(capsys, trace, "--min-gain", "5.1")] == ["WL201"]
    assert [row["code"] for row in array(capsys, trace, "--min-gain", "0")] == ["WL201", "WL210"]


def test_without_findings_it_says_so(trace: Path, tmp_path: Path, capsys: Captured) -> None:
    healthy = write_trace(tmp_path / "healthy.json", back_to_back(filler(100), filler(100)), **H200)
    lines = printed(capsys, healthy).splitlines()
    assert lines[0].startswith("GPU-bound. ")
    assert lines[-1].startswith("no findings")
    assert array(capsys, healthy) == []
    alone = write_trace(tmp_path / "cpu.json", [op("aten::mm", 0, 5)])
    lines = printed(capsys, alone).splitlines()
    assert lines[0] == "CPU only: this trace has no GPU work (measured)."
    assert lines[-1].startswith("no findings")


def test_gpu_says_whose_limits_hold(trace: Path, capsys: Captured) -> None:
    """On an A100 the same 0.32 TFLOP in 1 ms are no slow product."""
    assert "WL201" not in {row["code"] for row in array(capsys, trace, "--gpu", "A100 SXM 80GB")}


def test_an_unknown_gpu_is_one_line_and_the_closest_names(trace: Path, capsys: Captured) -> None:
    assert main(["advise", str(trace), "--gpu", "H2000"]) == 2
    captured = capsys.readouterr()
    error, empty, hint = captured.err.splitlines()
    assert (captured.out, error, empty) == ("", "error: no GPU is known as 'H2000'", "")
    assert hint.startswith("hint: ")
    assert "H200" in hint


def test_gpu_file_says_whose_limits_hold(trace: Path, tmp_path: Path, capsys: Captured) -> None:
    """With half of an H200's matrix units the product is at 80 % of its limit."""
    (tmp_path / "mine.toml").write_text('base = "H200"\n[matrix]\nbf16 = 395\n')
    assert [row["code"] for row in array(capsys, trace, "--gpu-file", tmp_path / "mine.toml")] == ["WL210"]
    assert main(["advise", str(trace), "--gpu-file", str(tmp_path / "absent.toml")]) == 2
    assert capsys.readouterr().err.startswith(f"error: cannot read the GPU file {tmp_path / 'absent.toml'}")


@pytest.mark.parametrize("words", [("--top", "0"), ("--top", "x"), ("--min-gain", "x")])
def test_options_that_make_no_sense_are_usage_errors(trace: Path, words: tuple[str, ...], capsys: Captured) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["advise", str(trace), *words])
    assert stopped.value.code == 2
    assert words[0] in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["nan", "-1", "101", "inf"])
def test_a_least_gain_that_is_no_percentage_is_refused(trace: Path, capsys: Captured, limit: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["advise", str(trace), f"--min-gain={limit}"])
    assert stopped.value.code == 2
    assert f"{limit} is not a percentage from 0 to 100" in capsys.readouterr().err


def test_the_roofline_columns_of_a_table_fit_the_terminal_and_keep_its_sizes(trace: Path, capsys: Captured) -> None:
    for table, sizes in (("gemm", "50257"), ("op_shapes", "[[4096, 768]"), ("roofline", "N=50257")):
        assert main(["show", str(trace), table, "--roofline"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert "percent_of_roofline" in lines[1] and sizes[:6] in lines[2]
        assert max(map(len, lines)) <= 100
    assert main(["show", str(trace), "op_shapes", "--roofline", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)[0]
    assert list(row)[:4] == ["op", "input_dims", "count", "kernel_us_mean"] and row["bound"] == "compute"


def test_a_table_without_a_roofline_says_so(trace: Path, capsys: Captured) -> None:
    assert main(["show", str(trace), "kernels", "--roofline"]) == 2
    assert "table kernels has no roofline" in capsys.readouterr().err
