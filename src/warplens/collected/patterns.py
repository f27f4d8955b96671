"""Regular expressions as Python compiles them, collected in one file.

A report uses 230 of them, its own and those of the modules that it imports. To parse them takes 30 ms, an eighteenth of
the report of a small trace. What they are compiled to depends on the expression, its flags and the version of Python
alone, and the engine checks it before it is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

from warplens.collected.kept_file import KeptFile

MOST_KEPT: Final = 2_000
"""Expressions of users are among them."""
NOT_KEPT: Final = re.LOCALE | re.DEBUG
"""Flags under which compiling depends on the machine, or prints."""

Key = tuple[bool, str | bytes, int]
"""Whether it is for text, since equal text and bytes would be compared; the expression; its flags."""


class CollectedPatterns:
    """Compiles as Python does; what it finds in the collection is not parsed."""

    def __init__(self, path: Path) -> None:
        self.kept = KeptFile(path, MOST_KEPT)
        self._used: dict[Key, None] = {}
        self._missing = 0
        self._compiler = _compiler_of_python()
        self._plain: Callable[..., re.Pattern[str]] = getattr(self._compiler, "compile", re.compile)

    def use(self) -> None:
        if self._compiler is not None:
            self.kept.read()
            self._compiler.compile = self.compile

    def compile(self, pattern: Any, flags: int = 0) -> re.Pattern[str]:
        if not isinstance(pattern, str | bytes) or flags & NOT_KEPT:
            return self._plain(pattern, flags)
        key = (isinstance(pattern, str), pattern, int(flags))
        self._used[key] = None
        made = self.kept.entry(key)
        if made is not None:
            with suppress(ValueError, TypeError, RuntimeError):  # damaged on the disk
                return cast("re.Pattern[str]", self._compiler._sre.compile(pattern, *made))
        self._missing += 1
        return self._plain(pattern, flags)

    def renew(self) -> None:
        """Keep the expressions that were compiled, if many of them were not in the collection."""
        if self.kept.is_to_be_written(self._missing):
            self.kept.keep({key: self._made(*key[1:]) for key in self._used})

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
