"""What Python's own modules compile from text while classes are defined, collected in one file.

A report defines some hundred named tuples, dataclasses and structs. `typing` compiles each of their annotations,
`dataclasses` and `collections` each of the methods that they write: 700 texts, 20 ms, a twenty-fifth of the report of a
small trace. What they are compiled to depends on the text and the version of Python alone.
"""

from __future__ import annotations

import builtins
import importlib
import sys
from pathlib import Path
from types import CodeType
from typing import Any, Final

from warplens.collected.kept_file import KeptFile

MOST_KEPT: Final = 5_000
FILE: Final = "<string>"
"""What Python calls the file of a text without one."""
COMPILING: Final = {"typing": "compile", "dataclasses": "exec", "collections": "eval"}
"""The modules, and the function of Python by which each compiles."""

Key = tuple[str, str]
"""The mode, "eval" or "exec", and the text."""


class CollectedTexts:
    """Compiles as Python does; what it finds in the collection is not parsed."""

    def __init__(self, path: Path) -> None:
        self.kept = KeptFile(path, MOST_KEPT)
        self._used: dict[Key, CodeType] = {}
        self._missing = 0

    def use(self) -> None:
        """Each of the modules finds our function before Python's of the same name; one that asks for none is as ever.

        `dataclasses` is imported for it, with 7 ms that no call for help must take.
        """
        self.kept.read()
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
        code = self.kept.entry(key)
        return code if isinstance(code, CodeType) else None

    def _compiled(self, key: Key) -> CodeType:
        self._missing += 1
        return builtins.compile(key[1], FILE, key[0], dont_inherit=True)

    def exec(self, source: Any, *spaces: Any) -> None:
        builtins.exec(self.compile(source, FILE, "exec") if isinstance(source, str) else source, *spaces)

    def eval(self, source: Any, *spaces: Any) -> Any:
        return builtins.eval(self.compile(source, FILE, "eval") if isinstance(source, str) else source, *spaces)

    def renew(self) -> None:
        """Keep the texts that were compiled, if many of them were not in the collection."""
        if self.kept.is_to_be_written(self._missing):
            self.kept.keep(self._used)

    def leave(self) -> None:
        for module, name in COMPILING.items():
            if module in sys.modules:
                vars(sys.modules[module]).pop(name, None)
