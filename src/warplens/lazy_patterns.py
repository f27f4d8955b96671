"""Regular expressions that are compiled when they are first used: all together take longer than a small trace."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any


class LazyPattern:
    """A regular expression with the methods of a compiled one.

    >>> LazyPattern(r"gemm_(\\d+)").search("a gemm_64")[1]
    '64'
    """

    __slots__ = ("_compiled", "_flags", "pattern")

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self._flags = flags
        self._compiled: re.Pattern[str] | None = None

    def compiled(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self.pattern, self._flags)
        return self._compiled

    def match(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compiled()).match(text)

    def search(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compiled()).search(text)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        return (self._compiled or self.compiled()).fullmatch(text)

    def findall(self, text: str) -> list[Any]:
        return self.compiled().findall(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self.compiled().finditer(text)

    def sub(self, replacement: str | Callable[[re.Match[str]], str], text: str) -> str:
        return self.compiled().sub(replacement, text)
