"""Which loads feed a matrix product, as far as its statement names them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Final

from warplens_lab.tracing.records import Site

FACTORS: Final = {"dot": (0, 1), "dot_scaled": (0, 3)}
"""Places of the two factors among the arguments."""
HANDED_ON: Final = ("to", "trans", "T", "permute")
"""A factor may be changed so on the way and still be the block that was loaded."""


def operands_of(sites: Sequence[Site], loading: Iterable[int]) -> list[tuple[tuple[int, ...], ...]]:
    """For each statement the load statements of its two factors; empty where it is not a product.

    A factor that its statement computes, or whose name no load assigns, has none.
    """
    loads: dict[tuple[str, str, str], list[int]] = {}
    for number in loading:
        site = sites[number]
        name = _assigned(site.statement)
        if name:
            loads.setdefault((site.file, site.function, name), []).append(number)
    operands = []
    for site in sites:
        names = factor_names(site.statement)
        operands.append(tuple(tuple(loads.get((site.file, site.function, name), ())) for name in names))
    return operands


def factor_names(statement: str) -> tuple[str, ...]:
    """Names of the two factors; an empty name where a factor is an expression of its own.

    >>> factor_names("total = tl.dot(a, tl.trans(b), total)")
    ('a', 'b')
    >>> factor_names("x = a + b")
    ()
    """
    for node in _nodes(statement):
        if isinstance(node, ast.Call) and _called(node) in FACTORS:
            positions = FACTORS[_called(node)]
            return tuple(_name(node.args[position]) if position < len(node.args) else "" for position in positions)
    return ()


def _assigned(statement: str) -> str:
    """The name that a statement gives to what it loads."""
    nodes = _nodes(statement)
    assigned = next((node for node in nodes if isinstance(node, ast.Assign)), None)
    if assigned is None or len(assigned.targets) != 1 or not isinstance(assigned.targets[0], ast.Name):
        return ""
    loads = any(isinstance(node, ast.Call) and _called(node) == "load" for node in nodes)
    return assigned.targets[0].id if loads else ""


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and node.attr in HANDED_ON:
        return _name(node.value)
    if isinstance(node, ast.Call) and _called(node) in HANDED_ON:
        function = node.func
        is_method = isinstance(function, ast.Attribute) and _name(function.value) not in ("", "tl")
        inner = function.value if is_method and isinstance(function, ast.Attribute) else next(iter(node.args), None)
        return _name(inner) if inner is not None else ""
    return ""


def _called(node: ast.Call) -> str:
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _nodes(statement: str) -> list[ast.AST]:
    try:
        return list(ast.walk(ast.parse(statement)))
    except (SyntaxError, ValueError, RecursionError):
        return []
