"""The compiler's remarks as data: MLIR prints them as `file:line:column: remark: …`, a source line and a caret."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

_HEAD = re.compile(
    r"(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<severity>remark|warning|error|note): (?P<text>.*)",
    re.DOTALL,
)
_UNPLACED = re.compile(r"(?:<unknown>:0|loc\(.*\)): (?P<severity>remark|warning|error): (?P<text>.*)", re.DOTALL)
_CARET = re.compile(r"\s*\^\s*")


@dataclass(frozen=True)
class Remark:
    """One remark; `count` says how often the compiler made it, for a loop that it pipelined makes several loads."""

    severity: str
    file: str
    line: int
    column: int
    text: str
    source: str = ""
    caret: str = ""
    notes: tuple[str, ...] = ()
    count: int = 1


def parse_remarks(stderr: str) -> tuple[Remark, ...]:
    """
    >>> (remark,) = parse_remarks("k.py:3:5: remark: too slow\\n    y = x\\n    ^\\nk.py:3:5: note: see x\\n")
    >>> remark.line, remark.column, remark.text, remark.source, remark.notes
    (3, 5, 'too slow', '    y = x', ('see x',))
    """
    return tuple(_counted(_with_notes(_blocks(stderr.splitlines()))))


def _blocks(lines: list[str]) -> Iterator[Remark]:
    at = 0
    while at < len(lines):
        remark = _head(lines[at])
        at += 1
        if remark is None:
            continue
        rest: list[str] = []
        while at < len(lines) and _head(lines[at]) is None and not _CARET.fullmatch(lines[at]):
            rest.append(lines[at])
            at += 1
        if at < len(lines) and _CARET.fullmatch(lines[at]) and rest:
            remark = replace(remark, source=rest.pop(), caret=lines[at].rstrip())
            at += 1
            more = [line.strip() for line in rest if line.strip()]
            remark = replace(remark, text=" ".join([remark.text, *more]))
        yield remark


def _head(line: str) -> Remark | None:
    match = _HEAD.fullmatch(line)
    if match:
        position = match["file"], int(match["line"]), int(match["column"])
        return Remark(match["severity"], *position, match["text"].strip())
    match = _UNPLACED.fullmatch(line)
    return Remark(match["severity"], "", 0, 0, match["text"].strip()) if match else None


def _with_notes(blocks: Iterable[Remark]) -> Iterator[Remark]:
    last: Remark | None = None
    for block in blocks:
        if block.severity == "note" and last is not None:
            last = replace(last, notes=(*last.notes, block.text))
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last


def _counted(remarks: Iterable[Remark]) -> list[Remark]:
    counts: dict[Remark, int] = {}
    for remark in remarks:
        counts[remark] = counts.get(remark, 0) + 1
    return [replace(remark, count=count) for remark, count in counts.items()]
