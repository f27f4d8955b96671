"""What Python's own modules compile from text while classes are defined, collected in one file.

A report defines some hundred named tuples, dataclasses and structs. `typing` compiles each of their annotations,
`dataclasses` and `collections` each of the methods that they write: 700 texts, 20 ms, a twenty-fifth of the report of a
small trace. What they are compiled to depends on the text and the version of Python alone.
"""

from __future__ import annotations

import builtins
import importlib
import marshal
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import CodeType
from typing import Any, Final, cast

from warplens.errors import WarplensError
from warplens.files import write_whole

MOST_MISSING: Final = 8
"""So many texts may be missing in the collection before it is made again."""
MOST_KEPT: Final = 5_000
"""Above so many only those of the last process are kept."""
VERSION: Final = f"1, Python {sys.version}".encode()
"""Of the file and of what compiles: a collection of another one is not used."""
FILE: Final = "<string>"
"""What Python calls the file of a text without one."""
COMPILING: Final = {"typing": "compile", "dataclasses": "exec", "collections": "eval"}
"""The modules, and the function of Python by which each compiles."""

Key = tuple[str, str]
"""The mode, "eval" or "exec", and the text."""


class CollectedTexts:
    """Compiles as Python does; what it finds in the collection is not parsed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept: dict[Key, bytes] = {}
        self._used: dict[Key, CodeType] = {}
        self._missing = 0

    def use(self) -> None:
        """Each of the modules finds our function before Python's of the same name; one that asks for none is as ever.

        `dataclasses` is imported for it, with 7 ms that no call for help must take.
        """
        with suppress(OSError, EOFError, ValueError, TypeError):
            self._kept = _unpacked(self._path.read_bytes())
        for module, name in COMPILING.items():
            vars(importlib.import_module(module))[name] = getattr(self, name)

    def compile(self, source: Any, filename: Any, mode: str, *more: Any, **options: Any) -> Any:
        if not isinstance(source, str) or filename != FILE or mode not in ("eval", "exec") or more or options:
            return builtins.compile(source, filename, mode, *more, **options)
        key = (mode, source)
        code = self._used.get(key)
        if code is None:
            self._used[key] = code = self._loaded(key) or self._compiled(key)
        return code

    def _loaded(self, key: Key) -> CodeType | None:
        with suppress(KeyError, EOFError, ValueError, TypeError):  # not there, or damaged on the disk
            code = marshal.loads(self._kept[key])
            return code if isinstance(code, CodeType) else None
        return None

    def _compiled(self, key: Key) -> CodeType:
        self._missing += 1
        return builtins.compile(key[1], FILE, key[0], dont_inherit=True)

    def exec(self, source: Any, *spaces: Any) -> None:
        builtins.exec(self.compile(source, FILE, "exec") if isinstance(source, str) else source, *spaces)

    def eval(self, source: Any, *spaces: Any) -> Any:
        return builtins.eval(self.compile(source, FILE, "eval") if isinstance(source, str) else source, *spaces)

    def renew(self) -> None:
        """Keep the texts that were compiled, if many of them were not in the collection."""
        if self._missing <= MOST_MISSING or sys.dont_write_bytecode or not os.access(self._path.parent, os.W_OK):
            return
        kept = {} if len(self._kept) > MOST_KEPT else dict(self._kept)
        kept |= {key: marshal.dumps(code) for key, code in self._used.items()}
        with suppress(WarplensError):
            write_whole(self._path, _packed(kept))

    def leave(self) -> None:
        for module, name in COMPILING.items():
            if module in sys.modules:
                vars(sys.modules[module]).pop(name, None)


def _packed(kept: Mapping[Key, bytes]) -> bytes:
    return len(VERSION).to_bytes(8, "little") + VERSION + marshal.dumps(dict(kept))


def _unpacked(stored: bytes) -> dict[Key, bytes]:
    start = 8 + int.from_bytes(stored[:8], "little")
    if stored[8:start] != VERSION:
        raise ValueError("a collection of another version")
    return cast("dict[Key, bytes]", marshal.loads(stored[start:]))
