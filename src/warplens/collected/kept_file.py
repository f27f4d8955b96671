"""A file of what this version of Python made of some texts, among its own files of bytecode."""

from __future__ import annotations

import marshal
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from warplens.errors import WarplensError
from warplens.files import write_whole

MOST_MISSING: Final = 8
"""So many entries may be missing in the file before it is written again."""
VERSION: Final = f"2, Python {sys.version}".encode()
"""Of the file and of what compiles: one of another version is not used."""
SIZE_BYTES: Final = 8


class KeptFile:
    """Entries by the text that they were made of, each as `marshal` packs it."""

    def __init__(self, path: Path, most: int) -> None:
        self.path = path
        self.most = most
        """Above so many only those of the last process are kept."""
        self.entries: dict[Any, bytes] = {}

    def read(self) -> None:
        """Without a file, or with one of another version, all is made as ever."""
        with suppress(OSError, EOFError, ValueError, TypeError):
            stored = self.path.read_bytes()
            start = SIZE_BYTES + int.from_bytes(stored[:SIZE_BYTES], "little")
            if stored[SIZE_BYTES:start] == VERSION:
                self.entries = dict(marshal.loads(stored[start:]))

    def entry(self, key: Any) -> Any:
        """None where it is not there, or damaged on the disk."""
        with suppress(KeyError, EOFError, ValueError, TypeError):
            return marshal.loads(self.entries[key])
        return None

    def is_to_be_written(self, missing: int) -> bool:
        return missing > MOST_MISSING and not sys.dont_write_bytecode and os.access(self.path.parent, os.W_OK)

    def keep(self, used: dict[Any, Any]) -> None:
        """What a process used, with what others did before."""
        entries = {} if len(self.entries) > self.most else dict(self.entries)
        entries |= {key: marshal.dumps(made) for key, made in used.items()}
        with suppress(WarplensError):
            write_whole(self.path, len(VERSION).to_bytes(SIZE_BYTES, "little") + VERSION + marshal.dumps(entries))
