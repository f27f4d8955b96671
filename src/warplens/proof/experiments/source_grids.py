"""How many blocks a Triton kernel needs with another tile: read from its source, and checked against the record.

A launch records how many blocks there were, and not how the program came to that number. Two ways to choose it can be
read from the kernel: each block takes `program_id * TILE` and what follows, or the kernel itself computes how many
tiles there are with `cdiv(size, TILE)`. A tile that is only the step of a loop leaves the grid as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Final

from warplens.proof.experiments.unit_edits import NoExperiment

PROGRAM_ID: Final = "program_id"
ANY_GRID: Final = "num_programs"
"""Read by a kernel that divides its work by the number of its blocks: it may stay as it is."""
UNCLEAR: Final = "how the grid follows {} cannot be read from the source of {}"
MOST_SIDES: Final = 6
"""Different `cdiv(size, tile)` of a kernel: more than a grid has."""


@dataclass(frozen=True)
class Tile:
    """A constant of a kernel, with the value that it had and another."""

    name: str
    before: int
    after: int


def grid_with(
    source: str, function: str, grid: tuple[int, ...], values: Mapping[str, int], tile: Tile
) -> tuple[int, ...]:
    """The grid for the same work with the other tile; `values` are the launch's whole numbers by parameter."""
    body = _KernelBody(source, function)
    if body.calls(ANY_GRID):
        return grid
    axes = body.tiled_axes(tile.name)
    if axes:
        return tuple(_side(side, tile) if axis in axes else side for axis, side in enumerate(grid))
    counted = set(_counted_grids(body, grid, values, tile))
    if len(counted) == 1:
        return counted.pop()
    if not counted and body.is_loop_step(tile.name):
        return grid
    raise NoExperiment(UNCLEAR.format(tile.name, function))


def _side(blocks: int, tile: Tile) -> int:
    """As many blocks as cover exactly what was covered: none may reach further without a mask."""
    covered = blocks * tile.before
    if covered % tile.after:
        raise NoExperiment(
            f"{blocks} blocks of {tile.name}={tile.before} are not a whole number of blocks of {tile.after}"
        )
    return covered // tile.after


def _counted_grids(
    body: _KernelBody, grid: tuple[int, ...], values: Mapping[str, int], tile: Tile
) -> Iterator[tuple[int, ...]]:
    """Each way in which counts of tiles that the kernel computes give one side of the grid, with the other tile."""
    pairs = [pair for pair in body.counts if all(values.get(name, 0) > 0 for name in pair)][:MOST_SIDES]
    changed = {**values, tile.name: tile.after}
    for count in range(1, len(pairs) + 1):
        for chosen in combinations(pairs, count):
            if tile.name not in (name for _, name in chosen):
                continue
            before, after = (prod(-(-own[size] // own[name]) for size, name in chosen) for own in (values, changed))
            for axis, side in enumerate(grid):
                if side == before and side > 1:
                    yield (*grid[:axis], after, *grid[axis + 1 :])


class _KernelBody:
    """What a kernel's source shows of its blocks."""

    def __init__(self, source: str, function: str) -> None:
        self._nodes = list(ast.walk(kernel_definition(source, function)))
        self._parents = {child: node for node in self._nodes for child in ast.iter_child_nodes(node)}
        self._axes = dict(self._assigned_axes())

    def calls(self, name: str) -> list[ast.Call]:
        return [node for node in self._nodes if isinstance(node, ast.Call) and _called(node) == name]

    def tiled_axes(self, tile: str) -> set[int]:
        """The axes whose block numbers are only ever multiplied by the tile; not clear where some are used otherwise
        too, as by a kernel that stores one sum per block."""
        tiled = {axis for axis, node in self._block_numbers() if self._is_times(node, tile)}
        if any(axis in tiled and not self._is_times(node, tile) for axis, node in self._block_numbers()):
            raise NoExperiment(f"its blocks are not numbered by {tile} alone")
        return tiled

    @property
    def counts(self) -> list[tuple[str, str]]:
        """Size and tile of each `cdiv(size, tile)` that is not the length of a loop."""
        found = [node for node in self.calls("cdiv") if len(node.args) == 2 and not self._is_in_range(node)]
        pairs = [(size.id, tile.id) for size, tile in (node.args for node in found)
                 if isinstance(size, ast.Name) and isinstance(tile, ast.Name)]  # fmt: skip
        return list(dict.fromkeys(pairs))

    def is_loop_step(self, tile: str) -> bool:
        steps = [node.args[2] for node in self.calls("range") if len(node.args) == 3]
        lengths = [node.args[1] for node in self.calls("cdiv") if len(node.args) == 2 and self._is_in_range(node)]
        return any(isinstance(node, ast.Name) and node.id == tile for node in (*steps, *lengths))

    def _assigned_axes(self) -> Iterator[tuple[str, int]]:
        stored = [node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
        for node in self._nodes:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                axis = _axis(node.value)
                if axis is not None and stored.count(node.targets[0].id) == 1:
                    yield node.targets[0].id, axis

    def _block_numbers(self) -> Iterator[tuple[int, ast.expr]]:
        """Where the number of a block is used, with its axis."""
        for node in self._nodes:
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self._axes:
                yield self._axes[node.id], node
            elif isinstance(node, ast.Call) and _called(node) == PROGRAM_ID:
                axis, outer = _axis(node), self._outermost(node)
                if axis is not None and not self._is_assigned(outer):
                    yield axis, node

    def _outermost(self, node: ast.AST) -> ast.AST:
        """The node with the casts around it: `x.to(tl.int64)` is the same number."""
        parent = self._parents.get(node)
        while isinstance(parent, ast.Attribute) and parent.attr == "to":
            node = self._parents[parent]
            parent = self._parents.get(node)
        return node

    def _is_assigned(self, node: ast.AST) -> bool:
        parent = self._parents.get(node)
        return isinstance(parent, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id in self._axes for target in parent.targets
        )

    def _is_times(self, node: ast.AST, tile: str) -> bool:
        node = self._outermost(node)
        parent = self._parents.get(node)
        if not isinstance(parent, ast.BinOp) or not isinstance(parent.op, ast.Mult):
            return False
        other = parent.right if parent.left is node else parent.left
        return isinstance(other, ast.Name) and other.id == tile

    def _is_in_range(self, node: ast.AST) -> bool:
        parent = self._parents.get(node)
        while parent is not None and not isinstance(parent, ast.stmt):
            if isinstance(parent, ast.Call) and _called(parent) == "range":
                return True
            parent = self._parents.get(parent)
        return False


def kernel_definition(source: str, function: str) -> ast.FunctionDef:
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        raise NoExperiment(f"its source is not valid Python: {error}") from error
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == function:
            return node
    raise NoExperiment(f"its source has no function {function}")


def _called(node: ast.Call) -> str:
    """The last part of what is called: `tl.program_id` and `program_id` are the same."""
    function = node.func
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _axis(node: ast.AST) -> int | None:
    """Of `tl.program_id(axis)`, also with casts around it."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "to":
        node = node.func.value
    if not isinstance(node, ast.Call) or _called(node) != PROGRAM_ID:
        return None
    given = [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg == "axis")]
    first = given[0] if given else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, int) else None
