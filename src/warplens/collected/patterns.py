"""Regular expressions as Python compiles them, collected in one file.

A report uses 230 of them, its own and those of the modules that it imports. To parse them takes 30 ms, an eighteenth of
the report of a small trace. What they are compiled to depends on the expression, its flags and the version of Python
alone, and the engine checks it before it is used.
"""

from __future__ import annotations

import marshal
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from warplens.errors import WarplensError
from warplens.files import write_whole

MOST_MISSING: Final = 8
"""So many expressions may be missing in the collection before it is made again."""
MOST_KEPT: Final = 2_000
"""Above so many only those of the last process are kept: expressions of users are among them."""
VERSION: Final = f"1, Python {sys.version}".encode()
"""Of the file and of what compiles: a collection of another one is not used."""
NOT_KEPT: Final = re.LOCALE | re.DEBUG
"""Flags under which compiling depends on the machine, or prints."""

Key = tuple[bool, str | bytes, int]
"""Whether it is for text, since equal text and bytes would be compared; the expression; its flags."""
Place = tuple[int, int]


class CollectedPatterns:
    """Compiles as Python does; what it finds in the collection is not parsed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._places: dict[Key, Place] = {}
        self._code = memoryview(b"")
        self._used: dict[Key, None] = {}
        self._missing = 0
        self._compiler = _compiler_of_python()
        self._plain: Callable[..., re.Pattern[str]] = getattr(self._compiler, "compile", re.compile)

    def use(self) -> None:
        if self._compiler is None:
            return
        # Without a collection, or with one of another version, expressions are compiled as ever.
        with suppress(OSError, EOFError, ValueError, TypeError):
            self._places, self._code = _unpacked(memoryview(self._path.read_bytes()))
        self._compiler.compile = self.compile

    def compile(self, pattern: Any, flags: int = 0) -> re.Pattern[str]:
        if not isinstance(pattern, str | bytes) or flags & NOT_KEPT:
            return self._plain(pattern, flags)
        key = (isinstance(pattern, str), pattern, int(flags))
        self._used[key] = None
        place = self._places.get(key)
        if place is not None:
            with suppress(EOFError, ValueError, TypeError, RuntimeError):  # damaged on the disk
                made = marshal.loads(self._code[slice(*place)])
                return cast("re.Pattern[str]", self._compiler._sre.compile(pattern, *made))
        self._missing += 1
        return self._plain(pattern, flags)

    def renew(self) -> None:
        """Keep the expressions that were compiled, if many of them were not in the collection."""
        if self._missing <= MOST_MISSING or sys.dont_write_bytecode or not os.access(self._path.parent, os.W_OK):
            return
        kept = self._used if len(self._places) > MOST_KEPT else {**dict.fromkeys(self._places), **self._used}
        with suppress(WarplensError):
            write_whole(self._path, _packed({key: self._made(*key[1:]) for key in kept}))

    def _made(self, pattern: str | bytes, flags: int) -> tuple[Any, ...]:
        """What the engine is given for an expression, beside its text."""
        engine = self._compiler._sre
        given: list[tuple[Any, ...]] = []
        plain, engine.compile = engine.compile, lambda *made: given.append(made)
        try:
            self._plain(pattern, flags)
        finally:
            engine.compile = plain
        _, all_flags, code, *groups = given[0]
        return (int(all_flags), [int(each) for each in code], *groups)  # `marshal` takes no numbers with names

    def leave(self) -> None:
        if self._compiler is not None:
            self._compiler.compile = self._plain


def _compiler_of_python() -> Any:
    """The module that `re` compiles with, which is not public; None where a version of Python has it otherwise."""
    found = getattr(re, "_compiler", None) or getattr(re, "sre_compile", None)
    has_engine = callable(getattr(getattr(found, "_sre", None), "compile", None))
    return found if has_engine and callable(getattr(found, "compile", None)) else None


def _packed(made: dict[Key, tuple[Any, ...]]) -> bytes:
    """The collection as a file: the sizes of version and index, these two, and what the engine is given."""
    places: dict[Key, Place] = {}
    code = bytearray()
    for key, each in made.items():
        start = len(code)
        code += marshal.dumps(each)
        places[key] = (start, len(code))
    index = marshal.dumps(places)
    sizes = len(VERSION).to_bytes(8, "little") + len(index).to_bytes(8, "little")
    return sizes + VERSION + index + code


def _unpacked(stored: memoryview) -> tuple[dict[Key, Place], memoryview]:
    index_start = 16 + int.from_bytes(stored[:8], "little")
    if stored[16:index_start] != VERSION:
        raise ValueError("a collection of another version")
    code_start = index_start + int.from_bytes(stored[8:16], "little")
    return marshal.loads(stored[index_start:code_start]), stored[code_start:]
