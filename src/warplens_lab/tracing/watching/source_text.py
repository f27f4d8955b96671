"""The text of a kernel's functions for a page: read from the file, and only while it still says what was traced."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from pathlib import Path

from warplens_lab.scenes.kernel_scene import SceneSource
from warplens_lab.tracing.records import Site, TracedLaunch

MOST_SOURCE_BYTES = 4 << 20


def sources_of(launch: TracedLaunch) -> tuple[tuple[SceneSource, ...], tuple[str, ...]]:
    """The functions that the launch went through, the kernel first, and notes on what is missing."""
    files = dict.fromkeys([launch.file, *(site.file for site in launch.sites)])
    sources: list[SceneSource] = []
    notes: list[str] = []
    for file in files:
        sites = [site for site in launch.sites if site.file == file]
        first = [launch.line] if file == launch.file else []
        functions = _functions(file, sites, first)
        if functions is None:
            notes.append(
                f"{Path(file).name or 'the kernel'}: its text is not here, or not as it was when it was traced"
            )
        else:
            sources += functions
    return tuple(sources), tuple(notes)


def _functions(file: str, sites: Sequence[Site], first: Sequence[int]) -> list[SceneSource] | None:
    """None where the file cannot be read or has changed: a line next to the wrong text would mislead."""
    # A trace may come from anywhere: it names what to read, so only Python files, and only the functions it traced.
    path = Path(file)
    if path.suffix != ".py":
        return None
    try:
        if path.stat().st_size > MOST_SOURCE_BYTES:
            return None
        text = path.read_text("utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    lines = text.splitlines()
    if not all(_says(lines, site) for site in sites):
        return None
    spans = _spans(tree)
    traced_spans = {span for line in [*first, *(site.line for site in sites)] if (span := _holding(spans, line))}
    return [SceneSource(file, begin, tuple(lines[begin - 1 : end])) for begin, end in sorted(traced_spans)]


def _says(lines: Sequence[str], site: Site) -> bool:
    return 0 < site.line <= len(lines) and lines[site.line - 1].strip() in site.statement


def _spans(tree: ast.AST) -> list[tuple[int, int]]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [
        (min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in functions
    ]


def _holding(spans: Sequence[tuple[int, int]], line: int) -> tuple[int, int] | None:
    """The innermost function with this line."""
    holding = [span for span in spans if span[0] <= line <= span[1]]
    return min(holding, key=lambda span: span[1] - span[0]) if holding else None
