"""`warplens kernel`, through the command line."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

pytest.importorskip("triton")

from support import ROOT, nightly_after
from warplens.cli import main

pytestmark = pytest.mark.usefixtures("warm_compiler")
KERNELS = ROOT / "tests" / "kernels"
ADD = f"{KERNELS / 'vector_add.py'}::vector_add_kernel"
SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from kernels import vector_add
vector_add.launch(*vector_add.inputs())
"""


FAULTY = "from kernels import planted_race\nplanted_race.launch_sum()\n"
HALF = """
import sys
sys.path.insert(0, {folder!r})
import torch
from kernels import partly_touched
partly_touched.copy(torch.randn(4, 20), torch.empty(4, 20), 0, 40)
"""
HASH = """
import torch, triton
import triton.language as tl
@triton.jit
def hash_kernel(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(x_ptr + tl.arange(0, BLOCK), x * 1103515245)
hash_kernel[(1,)](torch.arange(8, dtype=torch.int32), 8)
print("hashed")
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def _use_the_cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests of this file share what they compile, as a user's commands do."""
    monkeypatch.setenv("WARPLENS_CACHE", str(place))


def test_a_check_shows_what_an_undivided_size_costs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    assert (
        main(["kernel", "check", ADD, "--signature", "*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", "-o", str(good)])
        == 0
    )
    shown = capsys.readouterr().out
    assert "vector_add_kernel on sm90" in shown
    assert "nothing to suggest" in shown
    assert "128 bits per thread" in shown
    assert main(["kernel", "check", ADD, "--signature", "*fp32, *fp32:16, *fp32:16, i32:16, 1024", "-o", str(bad)]) == 0
    shown = capsys.readouterr().out
    assert "WK102" in shown
    assert "x_ptr" in shown
    assert main(["kernel", "diff", str(good), str(bad)]) == 1
    assert "regression" in capsys.readouterr().out
    assert main(["kernel", "diff", str(bad), str(good), "--json"]) == 0
    capsys.readouterr()
    # A second kernel, whose config was changed, is compared too; one that is missing fails.
    for path, config in ((good, "BLOCK=1"), (bad, "BLOCK=2")):
        content = json.loads(path.read_text())
        first = json.loads(good.read_text())["facts"][0]
        worse = {"spill_store_bytes": 8} if path == bad else {}
        content["facts"] = [first, {**first, "kernel": "second", "config": config, **worse}]
        path.write_text(json.dumps(content))
    assert main(["kernel", "diff", str(good), str(bad)]) == 1
    printed = capsys.readouterr()
    assert "second" in printed.out
    assert "(no rows)" not in printed.out
    assert "1 compilation without a difference" in printed.err
    content["facts"].pop()
    bad.write_text(json.dumps(content))
    assert main(["kernel", "diff", str(good), str(bad)]) == 1
    assert "compiled with BLOCK=1" in capsys.readouterr().out


def test_a_trace_counts_the_bytes_of_a_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script, trace = tmp_path / "add.py", tmp_path / "add.wkt"
    script.write_text(SCRIPT.format(folder=str(ROOT / "tests")))
    assert main(["kernel", "trace", "-o", str(trace), "--json", str(script)]) == 0
    [launch] = json.loads(capsys.readouterr().out)
    assert launch["kernel"] == "vector_add_kernel"
    assert main(["kernel", "trace", "--table", "kernel_faults", "--json", str(trace)]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_overflow_may_be_intended_and_what_a_script_prints_is_not_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "hash.py"
    script.write_text(HASH)
    assert main(["kernel", "trace", str(script)]) == 0
    assert "note      integer_overflow  hash.py:7  (may be intended)" in capsys.readouterr().out
    assert main(["kernel", "trace", "--json", str(script)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["faults"] == 1
    assert main(["kernel", "trace", "--count", "-o", str(tmp_path / "x.html"), str(script)]) == 2


def test_what_is_left_out_is_a_note_a_fault_with_strict_and_undecided_where_the_script_fails(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script, trace = tmp_path / "half.py", tmp_path / "half.wkt"
    script.write_text(HALF.format(folder=str(ROOT / "tests")))
    assert main(["kernel", "trace", "--shadow", "fp64", "-o", str(trace), str(script)]) == 0
    shown = capsys.readouterr().out
    assert "note      unread_input  partly_touched.py" in shown
    assert "no program reads x_ptr[2, 0], the first of 40 elements: rows 2 to 3" in shown
    assert "→ check the grid, the offsets and the mask" in shown
    assert "numbers   out_ptr (float32): error 0 ulps in the median, 0 at most" in shown
    assert main(["kernel", "trace", "--strict", str(trace)]) == 1
    assert "FAULT     unwritten_output" in capsys.readouterr().out
    assert main(["kernel", "trace", "--table", "kernel_numbers", "--json", str(trace)]) == 0
    assert [row["tensor"] for row in json.loads(capsys.readouterr().out)] == ["out_ptr"]
    script.write_text(script.read_text() + "raise ValueError\n")
    assert main(["kernel", "trace", "--strict", "--count", str(script)]) == 1
    assert "unread_input" not in capsys.readouterr().out


def test_options_behind_a_script_are_ours_and_those_behind_two_dashes_its_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "add.py"
    script.write_text(SCRIPT.format(folder=str(ROOT / "tests")) + "print(sys.argv[1:])\n")
    command = ["kernel", "trace", str(script), "a", "--size", "5", "--table", "kernel_faults", "--", "--table", "b"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert "['a', '--size', '5', '--table', 'b']" in shown
    assert "kernel_faults: one row per fault" in shown
    assert main(["kernel", "check", ADD, "--signature", "i32", "--sise", "5"]) == 2
    assert "--sise" in capsys.readouterr().err


def sampled_profile(path: Path) -> Path:
    """A tree as Proton writes one: ten launches on an H200, 40 µs in all, with samples on two lines."""

    def node(name: str, *children: object, **metrics: int | str) -> dict[str, object]:
        return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}

    def line(number: int, samples: int, **waits: int) -> dict[str, object]:
        stalled = {f"stalled_{name}": count for name, count in waits.items()}
        where = f"/gpu/host/vector_add.py:{number}@vector_add_kernel"
        return node(where, num_samples=samples, num_stalled_samples=sum(waits.values()), **stalled)

    times = {"time (ns)": 40_000, "count": 10, "device_id": "0", "device_type": "CUDA"}
    kernel = node("vector_add_kernel", line(14, 75, long_scoreboard=60), line(16, 25, lg_throttle=5), **times)
    gpu = {"arch": "90", "bus_width": 6016, "clock_rate": 1980000, "memory_clock_rate": 3201000, "num_sms": 132}
    path.write_text(json.dumps([node("ROOT", kernel), {"CUDA": {"0": gpu}}]))
    return path


def test_a_profile_puts_times_beside_the_facts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script, profile = tmp_path / "add.py", str(sampled_profile(tmp_path / "add.hatchet"))
    script.write_text(SCRIPT.format(folder=str(ROOT / "tests")))
    assert main(["kernel", "check", str(script), "--count", "--profile", profile, "-o", str(tmp_path / "t") + "/"]) == 0
    shown = capsys.readouterr().out
    assert "measured    40.00 µs in 10 launches, 4.000 µs each, 100.0 % of GPU time  add.hatchet" in shown
    assert "of what H200 allows, bound by memory" in shown
    # Three times 1,000 floats are moved, and four whole blocks of 256 added.
    assert "1.024 kFLOP, 11.7 KiB per launch (traced: each byte read once" in shown
    assert "75.0 %   vector_add.py:14  long_scoreboard 100 %" in shown
    assert "LDG.E" in shown.split("vector_add.py:14  long")[1].splitlines()[1]
    assert "WK109" in shown and "4 blocks on H200" in shown and "(≤ 40.00 µs at stake)" in shown
    [row] = csv.DictReader((tmp_path / "t" / "kernel_measured.csv").read_text().splitlines())
    assert (row["count"], row["bytes"], row["flop"]) == ("10", "12000.0", "1024.0")


def shown(arguments: list[str], columns: int, capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        main(["kernel", *arguments])
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("verb", nightly_after(1, ["trace", "check"]))
def test_narrow_terminals_get_every_word_of_wide_ones(
    verb: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script, trace = tmp_path / "add.py", tmp_path / "add.wkt"
    script.write_text(SCRIPT.format(folder=str(ROOT / "tests")) + FAULTY)
    if verb == "trace":
        shown(["trace", str(script), "-o", str(trace)], 200, capsys)
        arguments = ["trace", str(trace)]
    else:
        arguments = ["check", str(script), "--profile", str(sampled_profile(tmp_path / "add.hatchet"))]
    wide = shown(arguments, 200, capsys)
    assert not any("…" in line for line in wide)
    for columns in (60, 80):
        narrow = shown(arguments, columns, capsys)
        assert max(map(len, narrow)) <= columns
        assert " ".join(narrow).split() == " ".join(wide).split()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", ADD, "--signature", "i32", "--traced", "x.wkt"], "--traced needs a profile"),
        (["check", ADD, "--signature", "i32", "--profile", "missing.hatchet"], "missing.hatchet"),
        (["check", ADD, "--signature", "i32", "--count", "--profile", "x"], "--count needs a script"),
        (["check", "missing.py::k", "--signature", "i32"], "no such file"),
        (["check", ADD], "vector_add_kernel needs a signature"),
        (["check", ADD, "--signature", "*fp32"], "the signature has 1 entries"),
        (["check", ADD, "--signature", "*fp32, *fp32, *fp32, i32, 64", "--target", "sm1"], "unknown target"),
        (["trace", "missing.py"], "no such file"),
        (["diff", "a.json", "b.json"], "a.json"),
    ],
)
def test_bad_requests_are_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", *arguments]) in (1, 2)
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert words in shown
    assert "Traceback" not in shown


def test_check_as_json_is_an_object_per_compilation_with_facts_and_suggestions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["kernel", "check", ADD, "--signature", "*fp32, *fp32:16, *fp32:16, i32:16, 1024", "--target", "sm80,sm90"]
    assert main([*words, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert [check["target"] for check in (first, second)] == ["sm80", "sm90"]
    assert first["facts"]["kernel"] == first["kernel"] == "vector_add_kernel"
    assert first["facts"]["registers"] > 0
    assert {"WK102"} <= {suggestion["code"] for suggestion in first["suggestions"]}
    assert first["measured"] is None
    assert main([*words, "--json", "--top", "1"]) == 0
    assert json.loads(capsys.readouterr().out) == [first]
    assert main([*words, "--json", "--table", "kernel_suggestions"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["code"] for row in rows if row["target"] == "sm80"] == [
        suggestion["code"] for suggestion in first["suggestions"]
    ]


@pytest.mark.nightly
def test_a_check_of_a_script_names_the_commands_that_time_its_changes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    script = tmp_path / "hash.py"
    script.write_text(HASH)
    assert main(["kernel", "check", str(script)]) == 0
    printed = capsys.readouterr()
    assert "num_warps=1" in printed.out  # eight elements for 128 threads
    assert printed.err.splitlines()[-1] == (
        "next, to time the changes on a host with a GPU: "
        f"warplens profile -o run.warplens {script} && warplens prove run.warplens --allow-source"
    )


@pytest.mark.parametrize("verb", ["check", "trace"])
def test_the_help_warns_that_the_file_is_executed(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kernel", verb, "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "is executed, with your rights" in text
