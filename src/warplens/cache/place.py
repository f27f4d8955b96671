"""Where entries are kept, whose folder that is, and what goes when it is over its size."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from warplens import __version__, native_library
from warplens.errors import UsageError
from warplens.files import TEMPORARY_FOLDER, remove_folder
from warplens.units import parse_bytes

DEFAULT_LIMIT_BYTES: Final = 2 << 30
NO_PLACE: Final = (OSError, RuntimeError)
"""A `RuntimeError` is what Python has for a user without a home, as in many a container."""
ENTRY: Final = re.compile(rf"[0-9a-f]{{32}}-[0-9a-f]{{8}}|{TEMPORARY_FOLDER}\w+")
"""What our own entries are called: nothing else in the directory is ever removed."""
KEY_FILE: Final = "key"
KEY_BYTES: Final = 32
SEAL_BYTES: Final = 32
WRITABLE_BY_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH
PLAIN: Final = os.O_RDONLY | sum(getattr(os, flag, 0) for flag in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""Opens without following a link or waiting for a writer; Windows has neither."""
PACKAGE: Final = Path(__file__).parents[1]


def cache_directory() -> Path:
    """`$WARPLENS_CACHE`, else the user's cache directory; where others may write there, a folder of one's own in it."""
    chosen = os.environ.get("WARPLENS_CACHE")
    directory = Path(chosen) if chosen else _default_directory()
    if is_private(directory) or not directory.is_dir():
        return directory
    return directory / f"warplens-{os.getuid()}"


def _default_directory() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "warplens"


def is_private(path: Path) -> bool:
    """Whether a folder or file is this user's own and nobody else may write to it; a link is not."""
    try:
        status = path.lstat()
    except OSError:
        return False
    if not hasattr(os, "getuid"):  # Windows, whose permissions are not in the mode
        return True
    is_own = status.st_uid == os.getuid() and not stat.S_ISLNK(status.st_mode)
    return is_own and not status.st_mode & WRITABLE_BY_OTHERS


def plain_bytes(path: Path) -> bytes:
    """The content of a plain file; an `OSError` for a link, a pipe (it may have no writer) or a device."""
    with os.fdopen(os.open(path, PLAIN), "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise OSError(f"{path} is not a plain file")
        return stream.read()


def made_directory() -> Path:
    """The folder of entries, made where it is missing."""
    directory = cache_directory()
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    return directory


def private_key() -> bytes:
    """The user's key, which seals entries: made on first use, in the default folder whatever `$WARPLENS_CACHE` is.

    Where that cannot be written, as with a read-only home, it is in the folder of entries itself.
    """
    with suppress(*NO_PLACE):
        return _key_in(_default_directory())
    return _key_in(made_directory())


def seal(name: str, content: bytes) -> bytes:
    """What shows that this user wrote this content under this name."""
    return hmac.digest(private_key(), name.encode() + b"\0" + content, "sha256")


def sealed(name: str, content: bytes) -> bytes:
    """The content after its seal."""
    return seal(name, content) + content


def unsealed(name: str, stored: bytes) -> bytes:
    """The content of what `sealed` made; a `ValueError` for anything else."""
    found, content = stored[:SEAL_BYTES], stored[SEAL_BYTES:]
    if not hmac.compare_digest(found, seal(name, content)):
        raise ValueError(f"{name} is not sealed by this user")
    return content


def _key_in(folder: Path) -> bytes:
    """An `OSError` where there is none that can be trusted."""
    path = folder / KEY_FILE
    if not os.path.lexists(path):
        _make_key(path)
    if not is_private(path) or path.stat().st_mode & stat.S_IRWXO or len(key := plain_bytes(path)) != KEY_BYTES:
        raise OSError(f"{path} is not a key of this user's own")
    return key


def _make_key(path: Path) -> None:
    """Whole, and only if no other process was first."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = path.with_name(f".{KEY_FILE}-{os.urandom(6).hex()}")
    try:
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(os.urandom(KEY_BYTES))
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def code_hash(rooms: Sequence[str], columns: str = "") -> str:
    """Changes with whatever could make the same file read differently: the code of these rooms, and the columns."""
    code = [version for room in rooms for version in _versions(str(PACKAGE / room))]
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
            remove_folder(entry)


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
