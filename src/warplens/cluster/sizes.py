"""How large a trace is once unpacked, and how many may be read at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from warplens.cluster.records import Item
from warplens_run.base.files import is_stream
from warplens_run.base.machine import free_ram, usable_cores

BYTES_PER_JSON_BYTE: Final = 5
"""Memory at the peak of reading and analysing a trace."""
PROCESS_BYTES: Final = 150 << 20
"""A Python process with Polars in it, before it reads anything."""
MEMORY_SHARE: Final = 0.8
"""Of the free memory: the rest is for the caller and for estimates that are too low."""
GZIP_RATIO: Final = 16
"""Of traces: 10 to 31, mostly 14 to 16; used where the file does not say."""
PLAUSIBLE_RATIOS: Final = (4, 200)
"""Outside of them a gzip file's last four bytes are not its size: several members, or over 4 GiB."""
WORTH_PROCESSES_BYTES: Final = 48 << 20
"""Two processes that share less take longer to start, nearly a second, than they save."""


def unpacked_bytes(path: Path) -> int:
    """An estimate, from the size of a file or of all files in a folder; 0 where there is nothing."""
    try:
        if path.is_dir():
            return sum(map(_file_bytes, (file for file in path.rglob("*") if file.is_file())))
        return 0 if is_stream(path) else _file_bytes(path)  # a pipe among the ranks may have no writer
    except OSError:
        return 0  # reading it reports what is wrong


def _file_bytes(path: Path) -> int:
    size = path.stat().st_size
    with path.open("rb") as stream:
        if stream.read(2) != b"\x1f\x8b" or size < 18:
            return size
        stream.seek(-4, os.SEEK_END)
        unpacked = int.from_bytes(stream.read(4), "little")
    least, most = PLAUSIBLE_RATIOS
    return unpacked if size * least <= unpacked <= size * most else size * GZIP_RATIO


def needed_bytes(size_bytes: int) -> int:
    """Memory of a process that handles a trace of this unpacked size."""
    return PROCESS_BYTES + BYTES_PER_JSON_BYTE * size_bytes


def process_count(items: Sequence[Item[Any]]) -> int:
    """Processes that have a core each and fit in memory together; 0 where the caller's own does it sooner."""
    if len(items) < 2 or sum(item.size_bytes for item in items) < WORTH_PROCESSES_BYTES:
        return 0
    count = fitting_processes(items)
    return count if count > 1 else 0


def fitting_processes(items: Sequence[Item[Any]]) -> int:
    """At least 1."""
    free = free_ram()
    largest = max(item.size_bytes for item in items)
    fitting = int(free * MEMORY_SHARE) // needed_bytes(largest) if free is not None else len(items)
    return max(1, min(usable_cores(), len(items), fitting))
