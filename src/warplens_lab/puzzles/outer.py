"""Exercises on two vectors that meet in a matrix: their sum, their product, and the gradients of that product.

They came after the sixteen others and are numbered behind them, so that files which learners have keep their names.
"""

from __future__ import annotations

from typing import Any, Final

from warplens_lab.puzzles.drawing import Draw, cdiv, unwritten
from warplens_lab.puzzles.records import Case, Goal, Puzzle, sizes

TILES: Final = (
    sizes("one tile, and it is full", rows=16, columns=32, block_rows=16, block_columns=32),
    sizes(rows=16, columns=32, block_rows=8, block_columns=16),
    sizes("neither side is a multiple of its block", rows=21, columns=40, block_rows=8, block_columns=16),
    sizes("one tile, most of it empty", rows=3, columns=5, block_rows=8, block_columns=16),
)
ONCE_PER_TILE: Final = Goal("loaded", 1.05, "x and y are read once per tile, not once per element of it")


def _launch(rows: int, columns: int, block_rows: int, block_columns: int) -> tuple[tuple[int, int], dict[str, int]]:
    numbers = {"rows": rows, "columns": columns, "BLOCK_ROWS": block_rows, "BLOCK_COLUMNS": block_columns}
    return (cdiv(rows, block_rows), cdiv(columns, block_columns)), numbers


def _outer_add(draw: Draw, rows: int, columns: int, block_rows: int, block_columns: int) -> Case:
    grid, numbers = _launch(rows, columns, block_rows, block_columns)
    x, y = draw.normal(rows), draw.normal(columns)
    down, across = x.double()[:, None], y.double()[None, :]
    return Case(
        grid,
        {"x_ptr": x, "y_ptr": y, "out_ptr": unwritten(rows, columns), **numbers},
        {"out_ptr": down + across},
        mistakes={"y is not added": down + 0 * across, "x is not added": 0 * down + across},
        least_loaded=x.nbytes * grid[1] + y.nbytes * grid[0],
        flop=rows * columns,
    )


def _outer_multiply(draw: Draw, rows: int, columns: int, block_rows: int, block_columns: int) -> Case:
    grid, numbers = _launch(rows, columns, block_rows, block_columns)
    x, y = draw.normal(rows), draw.normal(columns)
    down, across = x.double()[:, None], y.double()[None, :]
    return Case(
        grid,
        {"x_ptr": x, "y_ptr": y, "out_ptr": unwritten(rows, columns), **numbers},
        {"out_ptr": (down * across).relu()},
        mistakes={
            "the maximum with 0 is not taken": down * across,
            "the maximum with 0 is taken of x and of y, not of their product": down.relu() * across.relu(),
            "x and y are added, not multiplied": (down + across).relu(),
        },
        least_loaded=x.nbytes * grid[1] + y.nbytes * grid[0],
        flop=2 * rows * columns,
    )


def _outer_multiply_backward(draw: Draw, rows: int, columns: int, block_rows: int, block_columns: int) -> Case:
    import torch

    grid, numbers = _launch(rows, columns, block_rows, block_columns)
    x, y, dout = draw.normal(rows), draw.normal(columns), draw.normal(rows, columns)
    wide_x, wide_y, wide_dout = x.double(), y.double(), dout.double()
    passed = wide_dout * (wide_x[:, None] * wide_y[None, :] > 0)

    def gradients(through: Any) -> dict[str, Any]:
        return {"dx": through @ wide_y, "dy": through.t() @ wide_x}

    everywhere = {
        f"the gradient passes to {name} where the product is negative too, where the forward step gave 0": values
        for name, values in gradients(wide_dout).items()
    }
    right = gradients(passed)
    return Case(
        grid,
        {
            "x_ptr": x,
            "y_ptr": y,
            "dout_ptr": dout,
            "dx_ptr": torch.zeros(rows),
            "dy_ptr": torch.zeros(columns),
            **numbers,
        },
        {"dx_ptr": right["dx"], "dy_ptr": right["dy"]},
        mistakes={
            **everywhere,
            "the factor y is missing in dx": passed.sum(1),
            "the factor x is missing in dy": passed.sum(0),
            "dout is missing in dx: every element counts as 1": (passed != 0).double() @ wide_y,
            "dout is missing in dy: every element counts as 1": (passed != 0).double().t() @ wide_x,
        },
        least_loaded=dout.nbytes + x.nbytes * grid[1] + y.nbytes * grid[0],
        flop=5 * rows * columns,
        tolerance=1e-3,
    )


PUZZLES: Final = (
    Puzzle(
        17, "outer_add", "easy", "add every element of a column of numbers to every element of a row",
        "two one-dimensional blocks that make a two-dimensional one",
        (
            "The tile needs BLOCK_ROWS elements of x and BLOCK_COLUMNS of y: two loads of one dimension each.",
            "x belongs to the rows and y to the columns of out: x[:, None] has the shape (R, 1), y[None, :] (1, C).",
            "x[:, None] + y[None, :] has the shape of the tile. Each load has a mask of its own, the store has both.",
        ),
        _outer_add, TILES, ONCE_PER_TILE, measured=2,
    ),
    Puzzle(
        18, "outer_multiply", "easy", "relu of an outer product, without storing the product",
        "fusing: what is computed in a tile need not go through memory",
        (
            "As in outer_add, with a product: x[:, None] * y[None, :] is the tile.",
            "relu is a maximum with 0 of each element: tl.maximum(product, 0.0).",
            "Take it of the product: two negative numbers have a positive one.",
        ),
        _outer_multiply, TILES, ONCE_PER_TILE, measured=2,
    ),
    Puzzle(
        19, "outer_multiply_backward", "medium", "the gradients of outer_multiply, both in one pass over dout",
        "a backward step that computes again what the forward step did not store, sums over both sides of a tile",
        (
            "relu lets a gradient pass where its input was positive: compute the product again, and "
            "tl.where(product > 0, dout, 0.0).",
            "dx[i] is the sum over a row of that tile times y, dy[j] the sum over a column times x: tl.sum with axis=1 "
            "and axis=0.",
            "A row is cut into several tiles, so several programs add to the same dx[i], as in histogram: "
            "tl.atomic_add.",
        ),
        _outer_multiply_backward, TILES,
        Goal("loaded", 1.05, "each element of dout is read once, for both gradients"), measured=2,
    ),
)  # fmt: skip
