"""Whether loaded values decide what a statement reads or writes: a gather, a length, a list of tiles.

Such a statement may leave out any element, and nothing follows from what it left out. Found in the text of the kernel:
a name that is assigned from a load, or from another such name, carries loaded values; the statement depends on them
where its pointers, its mask or the conditions around it use one. Names are taken for the whole function, so that a
name that holds a loaded value anywhere counts as loaded everywhere.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from warplens_lab.tracing.records import Place, Site

LOADS: Final = frozenset(("load", "gather", "descriptor_load", "inline_asm_elementwise"))
Function = ast.FunctionDef


@lru_cache(maxsize=256)
def depends_on_data(site: Site) -> bool:
    """A statement whose text is not there counts as one that does not."""
    loaded: frozenset[str] = frozenset()
    for caller, callee in zip(site.path, (*site.path[1:], None), strict=True):
        function = _function(caller)
        if function is None:
            return False
        names = _loaded_names(function, loaded)
        line = caller[1]
        if _is_decided(function, line, names):
            return True
        calls = [node for node in _calls_at(function, line) if callee is None or _called(node) == callee[2]]
        if callee is None:
            return any(_uses(part, names) for call in calls if _is_access(call) for part in _addresses(call))
        inner = _function(callee)
        loaded = _parameters(calls, inner, names) if inner is not None else frozenset()
    return False


def loop_around(site: Site) -> int | None:
    """The line of the innermost loop around a statement."""
    function = _function(site.path[-1]) if site.path else None
    if function is None:
        return None
    loops = (node for node in ast.walk(function) if isinstance(node, ast.For | ast.While))
    return max((node.lineno for node in loops if node.lineno < site.line <= (node.end_lineno or 0)), default=None)


def _function(place: Place) -> Function | None:
    file, line, _ = place
    holding = [node for node in _functions("".join(linecache.getlines(file)))
               if node.lineno <= line <= (node.end_lineno or node.lineno)]  # fmt: skip
    return max(holding, key=lambda node: node.lineno, default=None)


@lru_cache(maxsize=32)
def _functions(source: str) -> tuple[Function, ...]:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def _loaded_names(function: Function, given: Iterable[str]) -> frozenset[str]:
    names = set(given)
    assigned = [(targets, value) for node in ast.walk(function) for targets, value in _assignments(node)]
    size = -1
    while size != len(names):
        size = len(names)
        for targets, value in assigned:
            if _loads(value) or _uses(value, names):
                names |= targets
    return frozenset(names)


def _assignments(node: ast.AST) -> Iterator[tuple[set[str], ast.expr]]:
    if isinstance(node, ast.Assign):
        yield {name for target in node.targets for name in _names(target)}, node.value
    elif isinstance(node, ast.AugAssign | ast.AnnAssign) and node.value is not None:
        yield set(_names(node.target)), node.value
    elif isinstance(node, ast.For):
        yield set(_names(node.target)), node.iter


def _is_decided(function: Function, line: int, names: frozenset[str]) -> bool:
    """Whether a condition on loaded values stands around the line, or may have ended the function or loop before it."""
    for node in ast.walk(function):
        test = node.iter if isinstance(node, ast.For) else getattr(node, "test", None)
        if not isinstance(node, ast.If | ast.While | ast.For) or test is None or node.lineno >= line:
            continue
        if not (_uses(test, names) or _loads(test)):
            continue
        leaves = any(isinstance(inner, ast.Return | ast.Continue | ast.Break) for inner in ast.walk(node))
        if leaves or line <= (node.end_lineno or node.lineno):
            return True
    return False


def _calls_at(function: Function, line: int) -> list[ast.Call]:
    return [node for node in ast.walk(function)
            if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno)]  # fmt: skip


def _addresses(call: ast.Call) -> Iterator[ast.expr]:
    """All that decides where a call reads or writes: not the values."""
    if isinstance(call.func, ast.Attribute):
        yield call.func.value
    stores = _called(call) in ("store", "atomic_store") or "atomic" in _called(call)
    yield from (part for at, part in enumerate(call.args) if not (stores and at == 1))
    yield from (word.value for word in call.keywords if word.arg not in ("other", "value", "val"))


def _is_access(call: ast.Call) -> bool:
    return _called(call) in ("load", "store", "gather", "scatter") or "atomic" in _called(call)


def _parameters(calls: Iterable[ast.Call], callee: Function, names: frozenset[str]) -> frozenset[str]:
    """Parameters of a function that are given loaded values."""
    order = [argument.arg for argument in callee.args.args]
    given = set()
    for call in calls:
        given |= {name for name, part in zip(order, call.args, strict=False) if _uses(part, names) or _loads(part)}
        given |= {word.arg for word in call.keywords if word.arg and (_uses(word.value, names) or _loads(word.value))}
    return frozenset(given)


def _loads(node: ast.AST) -> bool:
    calls = (_called(part) for part in ast.walk(node) if isinstance(part, ast.Call))
    return any(name in LOADS or "atomic" in name for name in calls)


def _uses(node: ast.AST, names: Iterable[str]) -> bool:
    return any(name in names for name in _names(node))


def _names(node: ast.AST) -> Iterator[str]:
    return (part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _called(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
