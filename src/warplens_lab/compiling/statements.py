"""Statements of a source file, found by one of their lines."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache


def statement_at(file: str, line: int) -> str:
    """The innermost statement at a line of a file, joined to one line; empty where the source cannot be read."""
    spans = _statements("".join(linecache.getlines(file)))
    holding = [span for span in spans if span[0] <= line <= span[1]]
    if not holding:
        return linecache.getline(file, line).strip()
    first, last = min(holding, key=lambda span: (span[1] - span[0], -span[0]))
    return " ".join(linecache.getline(file, number).strip() for number in range(first, last + 1))


@lru_cache(maxsize=32)
def _statements(source: str) -> tuple[tuple[int, int], ...]:
    """First and last line of every statement; of one with a body, its head only."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    spans = []
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None)
            last = max(node.lineno, body[0].lineno - 1) if body else (node.end_lineno or node.lineno)
            spans.append((node.lineno, last))
    return tuple(spans)
