"""PTX of one kernel as statements: guard, operation, operands, source line; and its parameters and shared arrays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from warplens_lab.cuda.slicing import COMMENT, body_lines
from warplens_lab.cuda.text import split_outside
from warplens_lab.facts.locations import Frames
from warplens_lab.facts.machine import read_ptx

_LABEL = re.compile(r"^\s*([$\w.]+)\s*:(?!:)")
_STATEMENT = re.compile(
    r"^(?:@(?P<negated>!?)(?P<guard>[%$\w@]+)\s+)?(?P<name>[a-z][\w.:]*)\s*(?P<rest>.*)$", re.DOTALL
)
_PARAMETER = re.compile(r"\.param\s[^,()]{0,200}?(?<![\w$])([\w$]+)(?:\[\d+\])?\s*(?=[,)\n])")
_SHARED = re.compile(r"\.shared\s+(?:\.align\s+\d+\s+)?\.\w+\s+([\w$]+)(?:\[(\d*)\])?")
_THREADS = re.compile(r"^\.(maxntid|reqntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", re.MULTILINE)
_LOCAL = re.compile(r"\.reg\s+\.\w+\s+([^;\s][^;]*);")
_WORD = re.compile(r"[%$]?[A-Za-z_][\w$]*")
_BRACKET = re.compile(r"^[ \t]*\{[^\n]+$", re.MULTILINE)
BRANCHES: Final = ("bra", "brx")
ENDS: Final = ("ret", "exit", "trap")


@dataclass(frozen=True)
class Statement:
    name: str
    operands: tuple[str, ...]
    frames: Frames
    guard: str = ""
    is_negated: bool = False

    @property
    def base(self) -> str:
        return self.name.partition(".")[0]

    @property
    def is_branch(self) -> bool:
        return self.base in BRANCHES

    @property
    def ends(self) -> bool:
        return self.base in ENDS


@dataclass(frozen=True)
class PtxKernel:
    items: tuple[Statement | str, ...]
    """Statements and, as texts, labels."""
    parameters: tuple[str, ...]
    shared: dict[str, int] = field(default_factory=dict)
    """Bytes of the shared arrays by their names; 0 where the launch decides."""
    threads: tuple[int, ...] = ()
    """The most threads of a block that the source allows."""


def parse_kernel(text: str, name: str) -> PtxKernel:
    lines = text.splitlines()
    begin = next(
        (at for at, line in enumerate(lines) if ".entry" in line and re.search(rf"\b{re.escape(name)}\(", line)), 0
    )
    head_end, end = body_lines(lines, begin)
    head = "\n".join(lines[begin:head_end])
    # Inline assembly may begin with a bracket; its line has a place too.
    plain = _BRACKET.sub("\tinline;", text)
    frames = {instruction.position: instruction.frames for instruction in read_ptx(plain)}
    threads = _THREADS.search(head)
    return PtxKernel(
        tuple(_items(lines, head_end + 1, end, frames)),
        tuple(_PARAMETER.findall(head + "\n")),
        {match[1]: int(match[2] or 0) for match in _SHARED.finditer(text)},
        tuple(int(side) for side in threads.groups()[1:] if side) if threads else (),
    )


class _Scopes:
    """Inline assembly may declare the same name in several `{ }` blocks: each gets a number of its own."""

    def __init__(self) -> None:
        self._names: list[dict[str, str]] = []
        self._count = 0

    def enter(self) -> None:
        self._names.append({})
        self._count += 1

    def leave(self) -> None:
        if self._names:
            self._names.pop()

    def declare(self, names: str) -> None:
        if self._names:
            self._names[-1] |= {name.strip(): f"{name.strip()}@{self._count}" for name in names.split(",")}

    def renamed(self, text: str) -> str:
        known = {name: other for scope in self._names for name, other in scope.items()}
        return _WORD.sub(lambda match: known.get(match[0], match[0]), text) if known else text


def _items(lines: list[str], begin: int, end: int, frames: dict[int, Frames]) -> Iterator[Statement | str]:
    scopes, pending = _Scopes(), ""
    place: Frames = ()
    for at in range(begin, end):
        line = COMMENT.sub("", lines[at]).strip()
        # Line 0 is the compiler's own: what stands before counts.
        place = frames[at] if at in frames and frames[at] and frames[at][0].line else place
        if not pending and line.startswith((".loc", ".file", ".pragma", ".section")):
            continue
        while match := (_LABEL.match(line) if not pending else None):
            yield match[1]
            line = line[match.end() :].strip()
        pending = f"{pending} {line}".strip()
        while pending:
            if pending[0] in "{}" and not pending.startswith("{%"):
                scopes.enter() if pending[0] == "{" else scopes.leave()
                pending = pending[1:].strip()
            elif ";" in pending:
                text, _, pending = pending.partition(";")
                pending = pending.strip()
                if local := _LOCAL.match(text.strip() + ";"):
                    scopes.declare(local[1])
                elif statement := _statement(scopes.renamed(text.strip()), place):
                    yield statement
            else:
                break


def _statement(text: str, frames: Frames) -> Statement | None:
    match = _STATEMENT.match(text)
    if match is None:
        return None
    operands = tuple(split_outside(match["rest"].replace("\n", " ")))
    return Statement(match["name"], operands, frames, match["guard"] or "", bool(match["negated"]))
