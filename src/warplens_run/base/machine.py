"""What this process may use of the machine: cores and memory, as the system and its control groups allow.

Standard library only: recording and replay run on hosts that have nothing else.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

CORES: Final = "WARPLENS_CORES"
"""The variable that limits the cores of a process: set for processes that share a machine with others like them."""
GROUPS: Final = Path("/proc/self/cgroup")
GROUP_ROOT: Final = Path("/sys/fs/cgroup")
MEMORY_FILES: Final = (
    ("", "memory.max", "memory.current", "inactive_file"),
    ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)
"""Of both versions of control groups: the folder, the limit, what is used, and what of it is cache to be dropped."""


def usable_cores() -> int:
    """At least 1; `WARPLENS_CORES`, the cores that the process is bound to and its CPU quota limit it."""
    limits = [_bound_cores(), _quota(), _asked_cores()]
    return max(1, min(limit for limit in limits if limit is not None))


def free_ram() -> int | None:
    """What this process may still take, in bytes; None where the system does not say."""
    limits = [left for left in (_meminfo(), *_left_in_groups()) if left is not None]
    return min(limits) if limits else None


def return_memory() -> None:
    """Give back to the system what is free, where the C library can: it keeps what once was large for later."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def _bound_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _asked_cores() -> int | None:
    text = os.environ.get(CORES, "")
    return int(text) if text.isdecimal() else None


def _quota() -> int | None:
    """The CPU quota of a container, in whole cores; half a core is one."""
    for group in _groups(""):
        try:
            quota, period = (group / "cpu.max").read_text().split()
            return max(1, round(int(quota) / int(period)))
        except (OSError, ValueError):
            continue  # no such group, or "max": no limit
    return None


def _meminfo() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def _left_in_groups() -> Iterator[int]:
    for controller, limit, used, cache in MEMORY_FILES:
        for group in _groups(controller):
            try:
                left = int((group / limit).read_text()) - int((group / used).read_text())
            except (OSError, ValueError):
                continue
            yield max(1, left + _stat(group, cache))


def _stat(group: Path, name: str) -> int:
    try:
        lines = (group / "memory.stat").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))
    except (OSError, StopIteration, ValueError, IndexError):
        return 0


def _groups(controller: str) -> Iterator[Path]:
    """The process's own group and those around it; batch systems limit a job in a group far below the root."""
    root = GROUP_ROOT / controller
    own = next((path for names, path in _memberships() if controller in names.split(",")), "/")
    folder = root / own.strip("/")
    while folder != root and root in folder.parents:
        yield folder
        folder = folder.parent
    yield root


def _memberships() -> Iterator[tuple[str, str]]:
    """Controllers and path of each group; version 2 has one line, without controllers."""
    try:
        lines = GROUPS.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        names, separator, path = rest.partition(":")
        if separator and ".." not in path:
            yield names, path
