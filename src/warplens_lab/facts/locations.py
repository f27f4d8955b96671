"""Where an instruction comes from: MLIR's `loc(…)` and the assembler's line marks, down to a line of the user."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from warplens_lab.facts.records import SourcePlace

Frames = tuple[SourcePlace, ...]
"""Innermost first: a helper's line, then the line that calls it."""

_LIBRARY: Final = re.compile(
    r"[/\\]triton[/\\](language|tools|experimental)[/\\]"
    r"|[/\\](cuda-headers|nvidia[/\\][^/\\]+[/\\]include|local[/\\]cuda|cuda-\d[\d.]*)[/\\]"
)
"""Triton's own functions, and CUDA's headers."""
_DEFINITION = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$")
_FILE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):(\d+)')
_NAMED = re.compile(r'"(?:[^"\\]|\\.)*"\((.*)\)', re.DOTALL)
_CALL = re.compile(r"callsite\((?=.*\)\Z)(.*) at (#loc\d*|.*)\)", re.DOTALL)
_FUSED = re.compile(r"fused(?=.*\]\Z)(?:<.*>)?\[(.*)\]", re.DOTALL)
_DEEPEST: Final = 64


def users_place(frames: Iterable[SourcePlace]) -> SourcePlace | None:
    """The innermost frame that is not Triton's or CUDA's own: `tl.sum` counts where it is called."""
    listed = list(frames)
    return next((frame for frame in listed if not _LIBRARY.search(frame.file)), listed[-1] if listed else None)


class Locations:
    """The location table at the head and foot of an MLIR module."""

    def __init__(self, text: str) -> None:
        definitions = (_DEFINITION.match(line) for line in text.splitlines() if line.startswith("#loc"))
        self._table: Mapping[str, str] = {match[1]: match[2] for match in definitions if match}
        self._frames: dict[str, Frames] = {}

    def frames(self, text: str, depth: int = 0) -> Frames:
        if text not in self._frames:
            self._frames[text] = self._resolved(text.strip(), depth) if depth < _DEEPEST else ()
        return self._frames[text]

    def _resolved(self, text: str, depth: int) -> Frames:
        if text.startswith("#"):
            return self.frames(self._table[text], depth + 1) if text in self._table else ()
        if match := _CALL.fullmatch(text):
            return self.frames(match[1], depth + 1) + self.frames(match[2], depth + 1)
        if match := _FILE.fullmatch(text):
            return (SourcePlace(match[1], int(match[2]), int(match[3])),)
        if match := _NAMED.fullmatch(text):
            return self.frames(match[1], depth + 1)
        if match := _FUSED.fullmatch(text):
            return self.frames(match[1].split(", ")[0], depth + 1)
        return ()
