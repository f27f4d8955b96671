"""Some mutants of every reader, and what the run of many of them (`tests/fuzz/mutants.py`) calls a failure."""

from __future__ import annotations

import importlib.util
import sys
from argparse import Namespace
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

import mutant_subjects
from mutant_subjects import MAIN, Subject
from native_reading import needs_library
from support import ROOT
from warplens.errors import FormatError

SCRIPT = ROOT / "tests" / "fuzz" / "mutants.py"
_spec = importlib.util.spec_from_file_location("fuzz_mutants", SCRIPT)
assert _spec is not None and _spec.loader is not None
mutants: Any = importlib.util.module_from_spec(_spec)
sys.modules["fuzz_mutants"] = mutants
_spec.loader.exec_module(mutants)


@needs_library
def test_some_mutants_of_every_reader_open_and_add_up_or_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = mutants.main(["--count", "75", "--seed", "11", "--out", str(tmp_path / "out")])
    assert status == 0, capsys.readouterr().out
    report = (tmp_path / "out" / "report.txt").read_text()
    assert "mutants 75;" in report
    assert "foreign exception: 0" in report


def test_a_mutant_is_the_same_in_every_process() -> None:
    assert mutants.made(5, 3, []) == mutants.made(5, 3, [])
    assert mutants.made(5, 3, ["nsys"])[0] == "nsys"


def judged(check: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int = 10) -> Any:
    monkeypatch.setitem(mutant_subjects.SUBJECTS, "planted", Subject(1, lambda rng: {}, lambda *_: check()))
    monkeypatch.setattr(mutants, "_printed", lambda: "")
    return mutants.judged(0, "planted", {MAIN: b"x" * size}, tmp_path)


def fails(error: BaseException) -> Any:
    def check() -> None:
        raise error

    return check


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (ValueError("odd"), "foreign exception"),
        (FormatError("two\nlines"), "foreign exception"),
        (RuntimeWarning("overflow"), "warning"),
        (AssertionError("sums"), "wrong totals"),
        (FormatError("not a trace"), "refused"),
    ],
)
def test_what_is_raised_decides(
    error: BaseException, result: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = judged(fails(error), tmp_path, monkeypatch)
    assert (outcome.result, bool(outcome.cause)) == (result, result != "refused")


def test_memory_beyond_64_times_the_file_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "LEAST_GROWTH", 8 << 20)
    grown = judged(lambda: bytearray(32 << 20), tmp_path, monkeypatch)
    assert grown.result == "growth"
    assert judged(lambda: bytearray(32 << 20), tmp_path, monkeypatch, 1 << 20).result == "opened"


@pytest.mark.parametrize(
    ("does", "result"), [("while True: pass", "hang"), ("import os; os.abort()", "process died"), ("pass", "")]
)
def test_a_process_that_hangs_or_dies_is_a_failure_of_its_mutant(
    does: str, result: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutants, "CPU_SECONDS", 0.3)
    done = '{{"number": {0}, "subject": "x", "result": "opened"}}'

    def start(_: Namespace, first: int, count: int) -> Popen[bytes]:
        lines = [f"print('{{\"begins\": {first}}}', flush=True)"]
        lines += [does] if first == 1 else []
        return Popen([sys.executable, "-c", "\n".join([*lines, f"print('{done.format(first)}')"])], stdout=PIPE)

    monkeypatch.setattr(mutants, "_start", start)
    found = list(mutants.watch(Namespace(first=0, count=3, seed=1, kind=["proton msgpack"])))
    assert [outcome.number for outcome in found] == [0, 1, 2]
    assert found[1].result == (result or "opened")
