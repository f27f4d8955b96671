"""What the first bytes of a trace tell: its rank, and whether it was converted by Warplens."""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path
from typing import Final

from warplens.model.rank_timeline import CONVERTED
from warplens.model.trace import MOST_RANKS
from warplens.readers.registry import EXECUTION_TRACE
from warplens.readers.shared.file_head import head_of
from warplens_run.base import bounded
from warplens_run.formats.bundle_files import MANIFEST

HEAD_BYTES: Final = 1 << 16
ZIP: Final = b"PK\x03\x04"
OWN_RANK: Final = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}\[\]]*?"rank"\s*:\s*(\d{1,7})\b')
CONVERSION: Final = re.compile(rb'\A\{[\s\S]*"' + CONVERTED.encode() + rb'"\s*:')
EVENTS: Final = b'"traceEvents"'


def own_rank(path: Path) -> int:
    """The rank that a trace or a capture bundle records, -1 where its first bytes do not."""
    if path.is_dir():
        return _manifest_rank(_text_of(path / MANIFEST))
    head = head_of(path, HEAD_BYTES)
    if head.startswith(ZIP):
        return _manifest_rank(_zipped(path))
    match = OWN_RANK.search(head)
    return int(match[1]) if match else -1


def is_converted(path: Path) -> bool:
    """Whether `warplens convert` wrote it."""
    before, events, _ = head_of(path, HEAD_BYTES).partition(EVENTS)
    return bool(events) and CONVERSION.match(before) is not None


def is_execution_trace(path: Path) -> bool:
    """Whether it is an ExecutionTrace, which is not a rank of its own."""
    return EXECUTION_TRACE.matches(head_of(path, HEAD_BYTES))


def _text_of(path: Path) -> str:
    try:
        return path.read_text("utf-8") if path.is_file() else ""
    except (OSError, ValueError):
        return ""


def _zipped(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            name = next((name for name in archive.namelist() if name.rpartition("/")[2] == MANIFEST), "")
            with archive.open(name) as file:
                return file.read(HEAD_BYTES).decode("utf-8", "replace")
    except (OSError, KeyError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, NotImplementedError):
        return ""


def _manifest_rank(text: str) -> int:
    try:
        facts = bounded.decoded(text)
    except (ValueError, RecursionError):
        return -1
    rank = facts.get("rank", -1) if isinstance(facts, dict) and facts.get("world_size", 1) != 1 else -1
    return bounded.whole(rank, -1, 0, MOST_RANKS - 1)
