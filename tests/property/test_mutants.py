"""Some mutants of every reader; `tests/fuzz/mutants.py` runs many."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from native_reading import needs_library
from support import ROOT

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
