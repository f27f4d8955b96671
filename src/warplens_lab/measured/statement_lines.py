"""The lines of a file that one statement covers: a loop with its body, a call that is written over several lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator


def statement_lines(source: str, line: int) -> range:
    """The lines of the innermost statement that the line is in; the line alone where the text is not Python.

    >>> text = "for k in range(n):\\n    a = load(\\n        p,\\n    )\\n"
    >>> list(statement_lines(text, 1)), list(statement_lines(text, 3))
    ([1, 2, 3, 4], [2, 3, 4])
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return range(line, line + 1)
    inside = [statement for statement in _statements(tree) if line in statement]
    return min(inside, key=len, default=range(line, line + 1))


def _statements(tree: ast.AST) -> Iterator[range]:
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and not isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield range(node.lineno, (node.end_lineno or node.lineno) + 1)
