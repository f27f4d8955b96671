"""Some files of every grammar, each with `report` and another command; `tests/fuzz/grammars.py` makes many."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from native_reading import needs_library
from support import ROOT

SCRIPT = ROOT / "tests" / "fuzz" / "grammars.py"
NIGHTLY_SECONDS = 600


@needs_library
@pytest.mark.parametrize(
    "limit",
    [
        pytest.param(("--count", "24", "--seed", "1"), id="one of each"),
        pytest.param(("--count", "1000000", "--seconds", f"{NIGHTLY_SECONDS}"), id="many", marks=pytest.mark.nightly),
    ],
)
def test_files_that_lie_in_their_own_format_are_read_or_refused(limit: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), *limit, "--out", str(tmp_path / "out")]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "foreign exception: 0" in ended.stdout
