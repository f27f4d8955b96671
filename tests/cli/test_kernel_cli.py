"""`warplens kernel`, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("triton")

from support import ROOT
from warplens.cli import main

KERNELS = ROOT / "tests" / "kernels"
ADD = f"{KERNELS / 'vector_add.py'}::vector_add_kernel"
SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
from kernels import vector_add
vector_add.launch(*vector_add.inputs())
"""


def test_a_check_tells_what_an_undivided_size_costs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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


def test_a_trace_counts_the_bytes_of_a_script(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script, trace = tmp_path / "add.py", tmp_path / "add.wkt"
    script.write_text(SCRIPT.format(folder=str(ROOT / "tests")))
    assert main(["kernel", "trace", "-o", str(trace), "--json", str(script)]) == 0
    [launch] = json.loads(capsys.readouterr().out)
    assert launch["kernel"] == "vector_add_kernel"
    assert main(["kernel", "trace", "--table", "kernel_faults", "--json", str(trace)]) == 0
    assert json.loads(capsys.readouterr().out) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check", "missing.py::k", "--signature", "i32"], "there is no file"),
        (["check", ADD], "a kernel needs its signature"),
        (["check", ADD, "--signature", "*fp32"], "the signature has 1 entries"),
        (["check", ADD, "--signature", "*fp32, *fp32, *fp32, i32, 64", "--target", "sm1"], "unknown target"),
        (["trace", "missing.py"], "there is no file"),
        (["diff", "a.json", "b.json"], "a.json"),
    ],
)
def test_bad_requests_are_one_line(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["kernel", *arguments]) in (1, 2)
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert words in shown
    assert "Traceback" not in shown
