"""The functions that a compiled kernel comes from: the kernel, and what it calls in the user's files."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens_lab.compiling.compiling import Artefacts
from warplens_lab.cuda.text import functions
from warplens_lab.facts.records import SourcePlace
from warplens_lab.scenes.kernel_code import CodeSource

MOST_BYTES: Final = 4 << 20
PYTHON: Final = ".py"
CPP: Final = (".cu", ".cuh", ".h", ".hpp", ".inl")


@dataclass(frozen=True)
class Source:
    file: str
    line: int
    name: str
    text: tuple[str, ...]

    def numbered(self, file: int) -> CodeSource:
        return CodeSource(file, self.line, self.name, self.text)


@dataclass(frozen=True, order=True)
class _Span:
    first: int
    last: int
    name: str


def sources(artefacts: Artefacts, places: Iterable[SourcePlace]) -> list[Source]:
    """The kernel first, then the functions that hold `places`, its own file's before those of others."""
    kernel = artefacts.kernel
    own = str(kernel.file)
    lines_by_file: dict[str, set[int]] = {own: {kernel.first_line}}
    for place in places:
        lines_by_file.setdefault(place.file, set()).add(place.line)
    functions: list[Source] = []
    for file in sorted(lines_by_file, key=lambda name: (name != own, name)):
        lines = artefacts.source_lines if file == own else _lines(file)
        functions += _functions(file, lines, lines_by_file[file])
    return sorted(functions, key=lambda source: not (source.file == own and _holds(source, kernel.first_line)))


def _holds(source: Source, line: int) -> bool:
    return source.line <= line < source.line + len(source.text)


def _lines(file: str) -> Sequence[str]:
    """The compiler's texts name what to read: only files of code, and only of a sensible size."""
    path = Path(file)
    try:
        if path.suffix in (PYTHON, *CPP) and path.stat().st_size <= MOST_BYTES:
            return path.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        pass
    return ()


def _functions(file: str, lines: Sequence[str], wanted_lines: Iterable[int]) -> list[Source]:
    if not lines:
        return []
    spans = _spans(lines) if Path(file).suffix == PYTHON else _cpp_spans(lines)
    inside = [max(holding) for line in wanted_lines if (holding := [s for s in spans if s.first <= line <= s.last])]
    return [Source(file, s.first, s.name, tuple(lines[s.first - 1 : s.last])) for s in sorted(set(inside))]


def _spans(lines: Sequence[str]) -> list[_Span]:
    """Of every function, from its last decorator on: a list of configs to tune is not part of it."""
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError):
        return []
    return [
        _Span(
            max((decorator.lineno for decorator in node.decorator_list), default=node.lineno),
            node.end_lineno or 0,
            node.name,
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    ]


def _cpp_spans(lines: Sequence[str]) -> list[_Span]:
    text = "\n".join(lines)
    return [
        _Span(
            text.count("\n", 0, function.start) + 1,
            text.count("\n", 0, function.end) + 1,
            " ".join(function.head.partition("(")[0].split()[-1:]),
        )
        for function in functions(text)
    ]
