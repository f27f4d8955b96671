"""`warplens tree` on Proton's trees and on traces: all that Proton's viewer does, and the same for both."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from support import ROOT, frame, kernel, launch, op, write_trace
from warplens.analyses.paths.tree_display import FRAME_FORMATS
from warplens.cli import main
from warplens.cli.traces.tree import FORMATS

SAMPLES = ROOT / "samples" / "proton"
SHADOW, PYTHON, SAMPLED = (SAMPLES / f"{name}.hatchet.gz" for name in ("tree_shadow", "tree_python", "pcsampling"))
SCOPES, META = SAMPLES / "scopes.hatchet.gz", SAMPLES / "launch_metadata.hatchet.gz"
Run = Callable[..., tuple[int, str, str]]
Printed = Callable[..., list[list[str]]]
Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "140")

    def run_inside(*args: str | Path) -> tuple[int, str, str]:
        code = main(["tree", *map(str, args)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_inside


@pytest.fixture
def printed(run: Run) -> Printed:
    """The words of each line."""

    def words(*args: str | Path) -> list[list[str]]:
        code, out, err = run(*args)
        assert (code, err) == (0, "")
        return [line.split() for line in out.splitlines()]

    return words


@pytest.fixture
def rows(run: Run) -> Rows:
    def parsed(*args: str | Path) -> list[dict[str, Any]]:
        code, out, err = run(*args, "--json")
        assert (code, err) == (0, "")
        found = json.loads(out)
        assert isinstance(found, list)
        return found

    return parsed


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Two kernels of 60 and 20 µs below two lines of one function."""
    events = [
        frame("src/train.py(3): step", 0, 40), op("aten::mm", 1, 10), launch(2, 1, 1), kernel("gemm_k", 20, 60, 1),
        frame("src/train.py(9): step", 50, 40), op("aten::add", 51, 10), launch(52, 1, 2), kernel("add_k", 90, 20, 2),
    ]  # fmt: skip
    return write_trace(tmp_path / "trace.json", events)


def test_metrics_of_proton_and_ours_side_by_side(printed: Printed) -> None:
    lines = printed(SHADOW, "-m", "time/ms,tflop16/s,gbyte/s,util,percent", "-t", "0")
    assert lines[0] == ["time/ms", "tflop16/s", "gbyte/s", "util", "percent", "GPU", "time", "by", "call", "path"]
    assert lines[1] == ["868.840", "226.4", "368.6", "0.2289", "100.0%", "all"]
    assert ["100.300", "567.3", "692.5", "0.5734", "11.5%", "matmul_<grid:2048>_<warps:8>_<stages:3>"] in lines
    assert ["0.087", "595.4", "–", "0.6018", "0.0%", "cublas"] in lines
    assert len(lines) == 27


def test_the_same_verb_on_a_trace(printed: Printed, trace: Path) -> None:
    lines = printed(trace, "-m", "time/us,avg_time/us,time/%,exc:time/us")
    assert lines[1] == ["80.0", "40.0", "100.0%", "0.0", "all"]
    assert ["60.0", "60.0", "75.0%", "60.0", "gemm_k"] in [line[:5] for line in lines]


def test_without_metrics_named_samples_are_shown_where_there_are_any(printed: Printed) -> None:
    assert printed(SHADOW)[0][:3] == ["gpu_us", "percent", "count"]
    assert printed(SAMPLED)[0][:4] == ["gpu_us", "percent", "count", "num_samples"]
    assert printed(SAMPLES / "instrumented.hatchet.gz")[:3] == [
        ["cycles", "normalized_cycles", "by", "call", "path"], ["23,184", "1,449", "all"], ["23,184", "1,449", "bar"],
    ]  # fmt: skip


def test_the_metrics_that_a_profile_offers(run: Run, rows: Rows, trace: Path) -> None:
    found = {row["metric"]: row for row in rows(SCOPES, "--list")}
    assert {"gpu_us", "tflop32/s", "tb/s", "cpu_time/ms", "tokens", "tokens/s", "util"} <= set(found)
    assert (found["tokens"]["total"], found["time/ms"]["unit"]) == (192, "ms")
    code, out, _ = run(SCOPES, "-l")
    assert code == 0
    assert "tokens over GPU time" in out
    assert [row["metric"] for row in rows(trace, "--list")][:5] == ["gpu_us", "self_us", "percent", "count", "avg_us"]


def test_a_metric_that_is_not_there_is_a_usage_error_that_lists_what_is(run: Run) -> None:
    code, out, err = run(SHADOW, "-m", "time/ms,tflop8/s")
    assert (code, out) == (2, "")
    assert err.splitlines()[0] == "error: this profile has no flops8, which tflop8/s needs"
    assert "tflop16/s" in err


def test_includes_excludes_and_drops(rows: Rows) -> None:
    only = rows(SHADOW, "-i", "cublas", "-t", "0")
    assert only[0]["gpu_us"] == pytest.approx(729.699)
    assert {row["name"] for row in only if row["depth"] == 2} == {"cublas"}
    moved = rows(META, "-e", "__proton", "-t", "0")
    assert (moved[0]["count"], [row["depth"] for row in moved if row["kind"] == "kernel"]) == (23, [2, 2, 2, 2])
    dropped = rows(META, "--drop", "__proton", "-t", "0")
    assert (dropped[0]["count"], dropped[0]["gpu_us"]) == (21, pytest.approx(354.594))


def test_thresholds_by_share_or_by_value(rows: Rows, printed: Printed) -> None:
    assert {row["name"] for row in rows(SHADOW, "-t", "25")} == {
        "all", "triton", "matmul_1024_1024_1024", "matmul_4096_4096_512", "matmul_8192_8192_1024",
    }  # fmt: skip
    fast = rows(SHADOW, "-t", "tflop16/s>=560", "-m", "tflop16/s")
    assert [row["name"] for row in fast] == [
        "all", "matmul_8192_8192_1024", "triton", "matmul_<grid:2048>_<warps:8>_<stages:3>", "cublas",
        "matmul_4096_4096_512", "cublas",
    ]  # fmt: skip
    assert "below tflop16/s of 560" in " ".join(printed(SHADOW, "-t", "tflop16/s >= 560")[-1])


def test_frames_are_spelled_as_asked(rows: Rows, trace: Path) -> None:
    def names(path: Path, spelling: str) -> list[str]:
        return [row["name"] for row in rows(path, "-f", spelling) if row["kind"] == "python"]

    assert names(trace, "full") == ["src/train.py(3): step", "src/train.py(9): step"]
    assert names(trace, "file_function_line") == ["train.py(3): step", "train.py(9): step"]
    assert names(trace, "function_line") == ["(3): step", "(9): step"]
    assert names(trace, "file_function") == ["train.py: step"]
    assert names(PYTHON, "file_function")[:3] == [
        "proton_tree_python.py: <module>",
        "proton_tree_python.py: go",
        "jit.py: <lambda>",
    ]


def test_siblings_come_in_the_order_asked_for(rows: Rows) -> None:
    def top(*options: str) -> list[str]:
        return [row["name"] for row in rows(SHADOW, "-d", "1", "-t", "0", *options)][1:]

    names = ["matmul_1024_1024_1024", "matmul_4096_4096_512", "matmul_8192_8192_1024"]
    assert top()[:3] == names[::-1]
    assert top("--sort", "count")[:3] == names
    assert top("--sort", "tflop16/s", "-m", "time/ms")[:3] == names[::-1]
    assert top("--sort", "name")[1:] == names


def test_one_list_by_the_first_metric(printed: Printed) -> None:
    """As proton-viewer --print-sorted -m tflop16/s has them, but for the root."""
    lines = printed(SHADOW, "--print-sorted", "-m", "tflop16/s", "-t", "0")
    assert [float(line[0]) for line in lines[1:6]] == [658.0, 595.4, 567.3, 467.3, 422.3]
    assert lines[1][1:] == ["cublas", "←", "matmul_8192_8192_1024"]
    assert len(lines) == 1 + 25
    by_time = printed(SHADOW, "--print-sorted", "-m", "time/ms")
    assert [line[0] for line in by_time[1:4]] == ["346.269", "345.642", "289.079"]


def test_a_difference_path_by_path(rows: Rows, printed: Printed) -> None:
    """The differences are those of proton-viewer -m time/ms -diff tree_shadow pcsampling."""
    lines = printed(SAMPLED, "--diff", SHADOW, "-m", "time/ms")
    assert lines[0][:3] == ["time/ms", "other", "±"]
    assert lines[1] == ["30.134", "868.840", "-838.706", "all"]
    found = {
        row["name"]: row["time/ms_difference"] for row in rows(SAMPLED, "--diff", SHADOW, "-m", "time/ms", "-t", "0")
    }
    assert found["matmul_1024_1024_1024"] == pytest.approx(-228.432, abs=5e-4)
    assert found["matmul_<grid:16384>_<warps:4>_<stages:4>"] == pytest.approx(-100.533, abs=5e-4)
    assert "+" in " ".join(word for line in printed(SHADOW, "--diff", SAMPLED) for word in line)


def test_a_difference_is_ordered_as_asked(rows: Rows) -> None:
    def top(*options: str) -> list[str]:
        found = rows(SAMPLED, "--diff", SHADOW, "-t", "0", "-d", "1", *options)
        return [row["name"] for row in found if row["depth"] and row["kind"] == "annotation"]

    names = ["matmul_1024_1024_1024", "matmul_4096_4096_512", "matmul_8192_8192_1024"]
    assert top() == names[::-1]
    assert top("--sort", "count") == top("--sort", "name") == names


def test_a_difference_keeps_what_only_one_side_has(rows: Rows) -> None:
    found = {row["name"]: row for row in rows(SHADOW, "--diff", PYTHON, "-m", "count,avg_time/us", "-t", "0")}
    only = found["matmul_4096_4096_512"]
    assert (only["count"], only["count_other"], only["count_difference"]) == (5633, 0, 5633)
    assert (only["avg_time/us_other"], only["avg_time/us_difference"]) == (None, None)
    theirs = found["traces/proton_tree_python.py(26): <module>"]
    assert (theirs["count"], theirs["count_difference"]) == (0, -11_745)


def test_a_difference_of_two_traces(rows: Rows, trace: Path, tmp_path: Path) -> None:
    events = [op("aten::mm", 1, 10), launch(2, 1, 1), kernel("gemm_k", 20, 50, 1)]
    other = write_trace(tmp_path / "other.json", events)
    found = {row["name"]: row["gpu_us_difference"] for row in rows(trace, "--diff", other, "-c", "op", "-t", "0")}
    assert found == {"all": 30, "aten::mm": 10, "gemm_k": 10, "aten::add": 20, "add_k": 20}


def test_a_metric_that_only_one_side_has_names_the_other(run: Run) -> None:
    code, _, err = run(SAMPLED, "--diff", SHADOW, "-m", "num_samples")
    assert (code, "tree_shadow.hatchet.gz: this profile has no metric 'num_samples'" in err) == (2, True)


def test_the_gpu_can_be_named_and_an_unknown_one_is_no_failure(run: Run, rows: Rows, tmp_path: Path) -> None:
    own, other = rows(SHADOW, "-m", "util")[0]["util"], rows(SHADOW, "-m", "util", "--gpu", "a100-40")[0]["util"]
    assert other == pytest.approx(own * 989.4 / 312, rel=0.01)
    unknown = tmp_path / "x.hatchet"
    leaf = {"frame": {"name": "k"}, "metrics": {"time (ns)": 1000, "count": 1, "flops16": 5}, "children": []}
    unknown.write_text(json.dumps([{"children": [leaf], "frame": {"name": "ROOT"}, "metrics": {}}]))
    code, out, err = run(unknown, "-m", "util,gpu_us")
    assert (code, out.split()[7:10]) == (0, ["–", "1.0", "all"])
    assert err == "note: the limits of this GPU are not known; name it with --gpu or --gpu-file\n"


def test_rows_in_files(run: Run, tmp_path: Path) -> None:
    for name in ("t.csv", "t.json", "t.md", "t.parquet", "t.xlsx"):
        code, out, err = run(SHADOW, "-o", tmp_path / name, "-m", "tflop16/s")
        assert (code, out, err) == (0, "", f"wrote {tmp_path / name}\n")
    with (tmp_path / "t.csv").open() as stream:
        found = list(csv.DictReader(stream))
    expected = "node,parent,depth,name,kind,gpu_us,self_us,percent,count,avg_us,tflop16/s"
    assert (len(found), ",".join(found[0])) == (26, expected)
    assert float(found[0]["tflop16/s"]) == pytest.approx(226.439384, abs=1e-6)
    table = json.loads((tmp_path / "t.json").read_text())["tables"]["tree"]
    assert (len(table["rows"]), table["rows"][0]["count"]) == (26, 14_784)
    assert "FLOPs over GPU time" in {column["name"]: column["meaning"] for column in table["columns"]}["tflop16/s"]
    assert pl.read_parquet(tmp_path / "t.parquet")["gpu_us"][0] == pytest.approx(868_839.88)
    assert "| 0 | – | 0 | all | root |" in (tmp_path / "t.md").read_text()


def test_options_that_are_given_also_cut_a_file(run: Run, tmp_path: Path) -> None:
    run(SHADOW, "-o", tmp_path / "t.csv", "-t", "25", "-d", "1")
    assert len((tmp_path / "t.csv").read_text().splitlines()) == 1 + 4


def test_pictures_of_protons_trees(run: Run, tmp_path: Path) -> None:
    assert run(SHADOW, "-o", tmp_path / "t.svg")[0] == 0
    assert "matmul_8192_8192_1024" in (tmp_path / "t.svg").read_text()
    assert run(SHADOW, "-o", tmp_path / "t.folded")[0] == 0
    lines = (tmp_path / "t.folded").read_text().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == 868_839_880
    assert run(SHADOW, "-o", tmp_path / "t.speedscope.json")[0] == 0


BAD = {
    "a picture of a difference": (["--diff", str(SAMPLED), "-o", "x.svg"], "one profile, not the difference"),
    "a value as the threshold of a difference": (["--diff", str(SAMPLED), "-t", "count>=3"], "takes a percentage"),
    "a broken pattern": (["--drop", "("], "is not a valid regular expression"),
    "no metric for the order": (["--sort", "beauty"], "no metric 'beauty'"),
    "no metric for the threshold": (["-t", "beauty>=3"], "no metric 'beauty'"),
}


@pytest.mark.parametrize("options, says", BAD.values(), ids=BAD)
def test_what_makes_no_sense_is_said(run: Run, options: list[str], says: str) -> None:
    code, out, err = run(SHADOW, *options)
    assert (code, out) == (2, "")
    assert says in err.splitlines()[0]


@pytest.mark.parametrize("options", [["-t", "lots"], ["-f", "short"], ["-d", "0"]])
def test_options_that_argparse_refuses(options: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["tree", str(SHADOW), *options])


def test_what_is_wrong_with_the_numbers_is_said(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "x.hatchet"
    leaf = {"frame": {"name": "k"}, "metrics": {"time (ns)": 1000, "count": 1, "bytes": -5}, "children": []}
    path.write_text(json.dumps([{"children": [leaf], "frame": {"name": "ROOT"}, "metrics": {"bytes": 0}}]))
    code, out, err = run(path)
    assert (code, out.split()[-1]) == (0, "k")
    assert err.startswith("warning: x.hatchet: 1 negative amount")


def test_the_formats_that_argparse_knows_are_those_there_are() -> None:
    assert tuple(FRAME_FORMATS) == FORMATS


def test_nothing_on_any_path(run: Run) -> None:
    assert run(SHADOW, "-i", "no such thing") == (0, "", "no GPU work on any path\n")
