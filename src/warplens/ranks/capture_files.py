"""Traces of graph captures beside a trace: serving engines write them next to it, or in a folder `capture_traces/`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

CAPTURE: Final = re.compile(r"(?<![a-z])captures?(?![a-z])", re.IGNORECASE)
"""In the name of a file or folder: `capture_traces`, `graph_capture_rank_0.….json.gz`, `decode.capture.json`."""
ENDINGS: Final = (".json", ".json.gz")


class CapturedTrace(NamedTuple):
    """A folder that is one run: its only trace, and where the captures of its graphs are."""

    trace: Path
    captures: tuple[Path, ...]
    execution_trace: Path | None = None
    """Where it has one."""


def is_named_capture(path: Path) -> bool:
    """Whether a trace is by its own name or its folder's that of a capture.

    >>> is_named_capture(Path("run/capture_traces/bs_32_rank0.json.gz")), is_named_capture(Path("run/rank0.json"))
    (True, False)
    >>> is_named_capture(Path("decode.capture.json.gz")), is_named_capture(Path("captured.json"))
    (True, False)
    """
    return path.name.endswith(ENDINGS) and any(CAPTURE.search(name) for name in (path.name, path.parent.name))


def without_captures(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Profiles, and captures that are beside them; where all are called captures, they are what is to be opened."""
    captures = [path for path in paths if is_named_capture(path)]
    profiles = [path for path in paths if path not in set(captures)]
    return (profiles, captures) if profiles else (captures, [])


def captures_in(entries: Sequence[Path]) -> list[Path]:
    """Of a folder's entries those that are captures, or folders of them."""
    return [entry for entry in entries if CAPTURE.search(entry.name) and _has_traces(entry)]


def _has_traces(entry: Path) -> bool:
    if not entry.is_dir():
        return entry.name.endswith(ENDINGS)
    return any(inside.name.endswith(ENDINGS) for inside in entry.iterdir())
