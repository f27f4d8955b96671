"""Where each line of LLVM IR comes from: `!dbg` marks and the debug metadata at the foot of the module."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from warplens_lab.facts.locations import Frames
from warplens_lab.facts.records import SourcePlace

_NODE = re.compile(r"^(!\d+) = (?:distinct )?!(DI\w+)\((.*)\)\s*$")
_FIELD = re.compile(r'(?<!\w)(\w+): ("(?:[^"\\]|\\.)*"|[^,]*)')
_MARK = re.compile(r"!dbg (!\d+)")
_DEEPEST: Final = 64

Node = tuple[str, Mapping[str, str]]


class DebugLocations:
    """The debug metadata of a module."""

    def __init__(self, lines: Sequence[str]) -> None:
        nodes = (_NODE.match(line) for line in lines if line.startswith("!"))
        self._nodes: dict[str, Node] = {m[1]: (m[2], dict(_FIELD.findall(m[3]))) for m in nodes if m}
        self._frames: dict[str, Frames] = {}

    def frames(self, mark: str) -> Frames:
        """Innermost first; each frame of a chain of inlined calls."""
        if mark not in self._frames:
            self._frames[mark] = tuple(self._chain(mark))
        return self._frames[mark]

    def _chain(self, mark: str) -> list[SourcePlace]:
        chain: list[SourcePlace] = []
        while mark in self._nodes and len(chain) < _DEEPEST:
            kind, fields = self._nodes[mark]
            if kind == "DISubprogram":
                chain.append(SourcePlace(self._file(mark), _number(fields, "line"), 0))
                break
            if kind != "DILocation":
                break
            chain.append(
                SourcePlace(self._file(fields.get("scope", "")), _number(fields, "line"), _number(fields, "column"))
            )
            mark = fields.get("inlinedAt", "")
        return chain

    def _file(self, scope: str) -> str:
        for _ in range(_DEEPEST):
            kind, fields = self._nodes.get(scope, ("", {}))
            if kind == "DIFile":
                folder, name = (fields.get(field, "").strip('"') for field in ("directory", "filename"))
                return f"{folder.rstrip('/')}/{name}" if folder else name
            scope = fields.get("file", "") or fields.get("scope", "")
        return ""


def llvm_frames(text: str) -> list[Frames]:
    """By line of the text."""
    lines = text.splitlines()
    locations = DebugLocations(lines)
    marks = (_MARK.findall(line) if not line.startswith("!") else [] for line in lines)
    return [locations.frames(line_marks[-1]) if line_marks else () for line_marks in marks]


def _number(fields: Mapping[str, str], name: str) -> int:
    value = fields.get(name, "")
    return int(value) if value.isdecimal() else 0
