"""Runs of the command that end badly: interrupted, on a full disk, or many at once. What they leave is checked here."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import polars as pl

from support import ROOT

TRACE = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
OUTPUTS = ("x.html", "x.xlsx", "x.json", "x.md", "x.csv", "x.parquet", "out/")
"""Of `report`."""
LIMIT_SECONDS = 600
BEGUN = "begun\n"
START = (
    "-c",
    "import sys; from warplens.__main__ import main; sys.stdout.write('begun\\n'); sys.stdout.flush(); main()",
)
"""As `python -m warplens`, and says when the command's own code begins: before that, Ctrl-C is Python's to handle."""


WARNINGS = "error,ignore:unclosed file:ResourceWarning"
"""An interrupt leaves the file of the module open that Python is loading; users see no such warning."""


def command(
    words: Sequence[str], cache: Path, *, temporary: Path | None = None, piped: Path | None = None
) -> subprocess.Popen[str]:
    """The command in a process of its own, which Ctrl-C reaches; a file may be piped into it."""
    environment = {**os.environ, "WARPLENS_CACHE": str(cache), "PYTHONWARNINGS": WARNINGS, "NO_COLOR": "1"}
    if temporary is not None:
        environment["TMPDIR"] = str(temporary)
    with (piped or Path(os.devnull)).open("rb") as stdin:
        return subprocess.Popen(
            [sys.executable, *START, *words], text=True, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=stdin,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip


def finished(words: Sequence[str], cache: Path, **options: Path | None) -> tuple[int, str, str]:
    """Status, output and errors."""
    process = command(words, cache, **options)
    out, err = process.communicate(timeout=LIMIT_SECONDS)
    return process.returncode, out.removeprefix(BEGUN), err


def interrupted(
    words: Sequence[str],
    cache: Path,
    after_seconds: float,
    number: signal.Signals = signal.SIGINT,
    **options: Path | None,
) -> tuple[int, str]:
    """Status and errors of a command that gets Ctrl-C so long after it began; it may have been done by then."""
    process = command(words, cache, **options)
    assert process.stdout is not None
    assert process.stdout.readline() == BEGUN
    time.sleep(after_seconds)
    process.send_signal(number)
    _, err = process.communicate(timeout=LIMIT_SECONDS)
    return process.returncode, err


def left(folder: Path) -> list[str]:
    """Every file below a folder, temporary ones too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _page(path: Path) -> bool:
    return path.read_text("utf-8").rstrip().endswith("</html>")


def _workbook(path: Path) -> bool:
    with zipfile.ZipFile(path) as archive:
        return archive.testzip() is None


def _json(path: Path) -> bool:
    content = path.read_bytes()
    json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return True


def _table(path: Path) -> bool:
    return pl.read_parquet(path).width > 0


def _lines(path: Path) -> bool:
    return path.read_bytes().endswith(b"\n")


WHOLE: Mapping[str, Callable[[Path], bool]] = {
    ".html": _page, ".xlsx": _workbook, ".json": _json, ".gz": _json, ".parquet": _table, ".csv": _lines, ".md": _lines,
}  # fmt: skip


def is_whole(path: Path) -> bool:
    """Whether a file was written to its end."""
    try:
        return path.suffix != ".tmp" and WHOLE.get(path.suffix, Path.is_file)(path)
    except (ValueError, OSError, zipfile.BadZipFile, pl.exceptions.PolarsError):
        return False


def half_written(folder: Path) -> list[str]:
    """Files that are temporary or cut short."""
    return [name for name in left(folder) if not is_whole(folder / name)]


def error_lines(err: str) -> list[str]:
    """The lines of stderr that say what went wrong: there should be one, and a hint."""
    return [line for line in err.splitlines() if line.startswith("error:") or "Traceback" in line]
