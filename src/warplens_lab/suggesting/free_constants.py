"""The constexprs of a kernel that a config may set: sizes of tiles, and not sizes of the problem.

A tile's size multiplies the number of the program, or is the step of a loop. A constant that only spans a dimension, as
HEAD_DIM does, is the problem's own; and one that another constexpr or `tl.static_assert` goes by is not free either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from warplens_lab.compiling.kernels_in_text import kernels_in
from warplens_lab.compiling.loading import LoadedKernel
from warplens_run.base.errors import UsageError

ASSERTION: Final = "static_assert"
LOOPS: Final = ("range", "static_range")
COUNTS: Final = ("cdiv", "program_id", "num_programs")


def free_constants(kernel: LoadedKernel) -> frozenset[str] | None:
    """None where the kernel's text is not known; what `triton.heuristics` sets follows from something else."""
    try:
        written = kernels_in(kernel.file).get(kernel.name)
    except (OSError, UsageError):
        return None
    if written is None:
        return None
    function = written.node
    constants = {parameter.name for parameter in written.parameters() if parameter.is_constexpr}
    tiles = set(_tiles(function)) & constants
    return frozenset(tiles - set(_bound(function)) - set(kernel.heuristics))


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _tiles(function: ast.FunctionDef) -> Iterator[str]:
    """Names that step through a dimension."""
    programs = _program_numbers(function)
    for node in ast.walk(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            left, right = _names(node.left), _names(node.right)
            if left & programs or _is_program_id(node.left):
                yield from right
            if right & programs or _is_program_id(node.right):
                yield from left
        elif _called(node) in LOOPS and isinstance(node, ast.Call) and len(node.args) == 3:
            yield from _names(node.args[2])
        elif _called(node) == "cdiv" and isinstance(node, ast.Call) and len(node.args) == 2:
            yield from _names(node.args[1])
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            # A pointer or offset that a loop moves on by a tile.
            yield from _names(node.value)


def _is_program_id(node: ast.AST) -> bool:
    return any(_called(inner) in COUNTS for inner in ast.walk(node))


def _program_numbers(function: ast.FunctionDef) -> set[str]:
    """Variables that number programs or tiles: computed from the program's number, or a loop's own variable."""
    numbers: set[str] = set()
    assigned = [node for node in ast.walk(function) if isinstance(node, (ast.Assign, ast.For))]
    for _ in range(len(assigned) + 1):
        before = len(numbers)
        for node in assigned:
            value = node.value if isinstance(node, ast.Assign) else node.iter
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            counts_tiles = isinstance(node, ast.For) and not _has_step(node)
            if counts_tiles or _is_program_id(value) or (_names(value) & numbers and _is_scalar(value)):
                for target in targets:
                    numbers |= _names(target)
        if len(numbers) == before:
            break
    return numbers


def _has_step(loop: ast.For) -> bool:
    return isinstance(loop.iter, ast.Call) and len(loop.iter.args) == 3


def _is_scalar(value: ast.AST) -> bool:
    """No tile is made of it: a tile of offsets is not a number of a program."""
    return not any(_called(node) in ("arange", "load") for node in ast.walk(value))


def _bound(function: ast.FunctionDef) -> Iterator[str]:
    """Names that an assertion of the compiler or another constexpr goes by."""
    for node in ast.walk(function):
        if _called(node) == ASSERTION:
            yield from _names(node)
        elif isinstance(node, ast.AnnAssign) and node.value is not None and "constexpr" in ast.unparse(node.annotation):
            yield from _names(node.value)
    for default in (*function.args.defaults, *function.args.kw_defaults):
        if default is not None:
            yield from _names(default)
