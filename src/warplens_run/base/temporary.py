"""Temporary files and folders whose names tell their owner, and the removal of those that a killed process left.

A name has the machine, the process and a random part. What a dead process of this machine left is removed by the next
process that writes beside it; what another machine or container left, whose processes cannot be seen from here, when
it is a week old. Whatever belongs to another user, or is a link, stays. Standard library only.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

FILE_PREFIX: Final = ".warplens-"
FILE_SUFFIX: Final = ".tmp"
STAGED_PREFIX: Final = "writing-"
"""Of a folder that gets its own name when it is whole."""
FOLDER_PREFIX: Final = "warplens-"
"""Of a folder in the system's place for temporary files."""
OWNER: Final = r"([0-9a-f]{8})-(\d{1,9})"
TEMPORARY: Final = re.compile(rf"(?:\.warplens-|writing-|warplens-){OWNER}-\w+(?:\.tmp)?")
OTHERS_KEPT_S: Final = 7 * 86400
"""How long what another machine wrote is kept after its last change."""


_cleared: set[str] = set()
"""Folders in which this process has looked already."""
_made: list[str] = []


def owner() -> str:
    """The machine and this process, for a name."""
    return f"{_machine()}-{os.getpid()}"


@lru_cache
def _machine() -> str:
    """Eight characters for the machine since it was started, and for the container in which processes are numbered."""
    from hashlib import blake2b  # 4 ms, which help and completion need not spend

    parts = [os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
    with suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").stat().st_ino))
    return blake2b("\n".join(parts).encode(errors="replace"), digest_size=4).hexdigest()


def temporary_file_name() -> str:
    # Not tempfile: its files are readable by their owner alone, and reports are shared.
    return f"{FILE_PREFIX}{owner()}-{os.urandom(6).hex()}{FILE_SUFFIX}"


def staged_folder_name() -> str:
    return f"{STAGED_PREFIX}{owner()}-{os.urandom(6).hex()}"


def temporary_folder() -> TemporaryDirectory[str]:
    """A folder for the time of a block, in the system's place for such."""
    from tempfile import TemporaryDirectory, gettempdir

    remove_left(Path(gettempdir()))
    folder = TemporaryDirectory(prefix=f"{FOLDER_PREFIX}{owner()}-", ignore_cleanup_errors=True)
    _made.append(folder.name)
    return folder


def remove_made() -> None:
    """What `temporary_folder` made and is still there, for a process that ends at once."""
    for name in _made:
        remove(Path(name))


def remove_left(folder: Path) -> None:
    """Remove what killed processes left in a folder; each process looks once."""
    name = os.path.abspath(folder)  # noqa: PTH100 - what may be a link is not resolved
    if name in _cleared:
        return
    _cleared.add(name)
    with suppress(OSError), os.scandir(name) as entries:
        for entry in entries:
            if (match := TEMPORARY.fullmatch(entry.name)) and is_left(entry.path, match[1], int(match[2])):
                remove(Path(entry.path))


def is_left(path: str | Path, machine: str, process: int) -> bool:
    """Whether a file or folder of this user was written by a process that has ended."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return False
    if hasattr(os, "getuid") and status.st_uid != os.getuid():
        return False
    if machine == _machine() and os.name == "posix":  # elsewhere signal 0 would end the process
        return not _is_alive(process)
    return time.time() - status.st_mtime > OTHERS_KEPT_S


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        return True
    return True


def remove(path: Path) -> None:
    """Remove a file, or what can be removed of a folder; nothing where it is not there."""
    if path.is_dir() and not path.is_symlink():
        import shutil  # 4 ms, for this alone

        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)
