"""Where entries are kept, whose folder that is, and what goes when it is over its size."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from warplens import native_library
from warplens_run import __version__
from warplens_run.base.errors import UsageError
from warplens_run.base.temporary import STAGED_PREFIX, remove
from warplens_run.base.units import parse_bytes

DEFAULT_LIMIT_BYTES: Final = 2 << 30
NO_PLACE: Final = (OSError, RuntimeError)
"""A `RuntimeError` is what Python has for a user without a home, as in many a container."""
ENTRY: Final = re.compile(rf"[0-9a-f]{{32}}-[0-9a-f]{{8}}|{STAGED_PREFIX}[\w-]+")
"""What our own entries are called: nothing else in the directory is ever removed."""
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
PACKAGES: Final = Path(__file__).parents[2]
FOUNDATION: Final = ("warplens_run/base", "warplens_run/formats")
"""What every room stands on: a change there may change what any file reads as."""


def cache_directory() -> Path:
    """`$WARPLENS_CACHE`, else the user's cache directory; an `OSError` where it is not to be used."""
    if problem := refusal():
        raise OSError(problem)
    return _chosen_directory()


def refusal() -> str:
    """Why the folder that was chosen is not used: whoever can write to it could put entries of their own there."""
    if not hasattr(os, "getuid"):  # Windows, whose permissions are not in the mode
        return ""
    with suppress(*NO_PLACE):
        directory = _chosen_directory().absolute()
        # What is below a folder belongs to whoever may rename it: also where a link leads, and who made the link.
        for folder in dict.fromkeys((*directory.parents, *directory.resolve().parents)):
            if problem := _problem_above(folder):
                return f"{directory} is below {folder}, {problem}"
        if directory.is_symlink() and directory.lstat().st_uid not in (os.getuid(), *_system_users()):
            return f"{directory} belongs to another user"
        status = directory.stat()
        if status.st_uid != os.getuid():
            return f"{directory} belongs to another user"
        if status.st_mode & WRITABLE_BY_OTHERS:
            return f"others may write to {directory}"
    return ""


def _problem_above(folder: Path) -> str:
    """Why others decide what is in a folder; nothing where it is not there."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return ""
    if status.st_uid not in (os.getuid(), *_system_users()):
        return "which belongs to another user"
    is_shared = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
    return "to which others may write" if is_shared and not stat.S_ISLNK(status.st_mode) else ""


@lru_cache
def _system_users() -> tuple[int, ...]:
    """Root, and the number of nobody that it has in a container which knows no users but its own."""
    with suppress(OSError, ValueError):
        nobody = int(Path("/proc/sys/kernel/overflowuid").read_text())
        known = [list(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if not any(first <= nobody < first + count for first, _, count in known):
            return 0, nobody
    return (0,)


def _chosen_directory() -> Path:
    if chosen := os.environ.get("WARPLENS_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "warplens"


def made_directory() -> Path:
    """The folder of entries, made where it is missing and ours to make."""
    cache_directory().mkdir(parents=True, exist_ok=True, mode=0o700)
    return cache_directory()  # what it is may have changed


def code_hash(rooms: Sequence[str], columns: str = "") -> str:
    """Changes with whatever could make the same file read differently: the code of these rooms, and the columns.

    A room is named by its folder, from that of the packages on.
    """
    code = [version for room in (*rooms, *FOUNDATION) for version in _versions(str(PACKAGES / room))]
    with suppress(OSError):
        library = native_library.LIBRARY.stat()
        code.append((native_library.LIBRARY.name, library.st_size, library.st_mtime_ns))
    return hashlib.blake2b(f"{__version__} {sorted(code)} {columns}".encode(), digest_size=4).hexdigest()


@lru_cache
def _versions(folder: str) -> tuple[tuple[str, int, int], ...]:
    """Name, size and time of each file of code, which stay what they were when this process began.

    `Path` would take three times as long.
    """
    versions: list[tuple[str, int, int]] = []
    with os.scandir(folder) as found:
        for entry in found:
            if entry.name.endswith((".py", ".toml")):
                status = entry.stat()
                versions.append((entry.name, status.st_size, status.st_mtime_ns))
            elif entry.is_dir() and entry.name != "__pycache__":
                versions += _versions(entry.path)
    return tuple(versions)


def _limit_bytes() -> int:
    try:
        return parse_bytes(os.environ.get("WARPLENS_CACHE_BYTES") or "") or DEFAULT_LIMIT_BYTES
    except UsageError:
        return DEFAULT_LIMIT_BYTES


def evict(kept: Path | None = None) -> None:
    """Remove the oldest entries where the cache is over its size, all but the one that must stay."""
    limit, used = _limit_bytes(), 0
    for entry in sorted(_entries(), key=_age, reverse=True):
        used += _size(entry)
        if used > limit and entry != kept:
            remove(entry)


def _entries() -> list[Path]:
    directory = cache_directory()
    return [entry for entry in directory.iterdir() if ENTRY.fullmatch(entry.name) and entry.is_dir()]


def _age(entry: Path) -> float:
    """When it was last used; another process may remove an entry at any time."""
    try:
        return entry.stat().st_mtime
    except OSError:
        return 0.0


def _size(entry: Path) -> int:
    try:
        return sum(file.stat().st_size for file in entry.iterdir())
    except OSError:
        return 0
