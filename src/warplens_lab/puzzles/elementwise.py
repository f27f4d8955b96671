"""Exercises on blocks and masks: a sum of vectors, a broadcast row, a transposed copy."""

from __future__ import annotations

from typing import Final

from warplens_lab.puzzles.drawing import Draw, cdiv, rows_apart, unwritten, unwritten_rows_apart
from warplens_lab.puzzles.records import Case, Goal, Puzzle, sizes


def _vector_add(draw: Draw, n: int, block: int) -> Case:
    x, y = draw.normal(n), draw.normal(n)
    return Case(
        (cdiv(n, block),),
        {"x_ptr": x, "y_ptr": y, "out_ptr": unwritten(n), "n": n, "BLOCK": block},
        {"out_ptr": x.double() + y.double()},
        mistakes={"y is not added": x, "x is not added": y},
        flop=n,
    )


def _scale_add(draw: Draw, rows: int, columns: int, block_rows: int, block_columns: int) -> Case:
    x, b, a = draw.normal(rows, columns), draw.normal(columns), 2.5
    wide = x.double()
    tiles_down = cdiv(rows, block_rows)
    return Case(
        (tiles_down, cdiv(columns, block_columns)),
        {
            "x_ptr": x,
            "b_ptr": b,
            "out_ptr": unwritten(rows, columns),
            "a": a,
            "rows": rows,
            "columns": columns,
            "BLOCK_ROWS": block_rows,
            "BLOCK_COLUMNS": block_columns,
        },
        {"out_ptr": a * wide + b.double()},
        mistakes={
            "b is not added": a * wide,
            "x is not scaled by a": wide + b.double(),
            "a scales b too, not only x": a * (wide + b.double()),
        },
        least_loaded=x.nbytes + b.nbytes * tiles_down,
        flop=2 * rows * columns,
    )


def _transpose(draw: Draw, rows: int, columns: int, gap: int, turned: bool, block: int) -> Case:
    x = draw.normal(columns, rows).t() if turned else rows_apart(draw.normal(rows, columns), gap)
    out = unwritten_rows_apart(columns, rows, gap)
    return Case(
        (cdiv(rows, block), cdiv(columns, block)),
        {
            "x_ptr": x,
            "out_ptr": out,
            "rows": rows,
            "columns": columns,
            "x_row_stride": x.stride(0),
            "x_column_stride": x.stride(1),
            "out_row_stride": out.stride(0),
            "out_column_stride": out.stride(1),
            "BLOCK": block,
        },
        {"out_ptr": x.double().t()},
        tolerance=0.0,
        flop=0,
    )


PUZZLES: Final = (
    Puzzle(
        1, "vector_add", "first steps", "add two vectors, block by block",
        "program ids, offsets, a mask for the last block",
        (
            "Which elements does program 0 take, which program 1? offsets = program id × BLOCK + 0 … BLOCK − 1.",
            "In the last block some offsets are n or more. They must be neither read nor written.",
            "mask = offsets < n, given to both loads and to the store.",
        ),
        _vector_add,
        (
            sizes(n=64, block=64),
            sizes(n=256, block=64),
            sizes("the last block is not full", n=200, block=64),
            sizes("one block, most of it empty", n=5, block=16),
        ),
        Goal("loaded", 1.01, "every element of x and y is read once"),
        measured=1,
    ),
    Puzzle(
        2, "scale_add", "first steps", "scale a matrix and add one row to all of its rows",
        "two-dimensional blocks, [:, None] and [None, :], a mask of two conditions",
        (
            "b has one element per column, so its offsets are the block's columns, in one dimension.",
            "b[None, :] is a row that meets every row of the tile: a tile of shape (R, C) plus (1, C) is (R, C).",
            "The load of b needs a mask of its own: its block is one-dimensional.",
        ),
        _scale_add,
        (
            sizes(rows=16, columns=32, block_rows=8, block_columns=16),
            sizes("neither side is a multiple of its block", rows=10, columns=21, block_rows=8, block_columns=16),
            sizes("fewer rows than a block has", rows=3, columns=40, block_rows=8, block_columns=16),
        ),
        Goal("loaded", 1.05, "b is read once per tile, not once per row of the tile"),
    ),
    Puzzle(
        3, "transpose", "easy", "copy a matrix transposed, whatever its strides",
        "addresses from strides, memory that is not contiguous",
        (
            "Element (i, j) of x is at i · x_row_stride + j · x_column_stride. What is its place in out?",
            "out[j, i] = x[i, j]: i counts the columns of out, so it is multiplied by out_column_stride.",
            "The values need no rearranging: the tile is stored under other addresses than it was loaded from.",
        ),
        _transpose,
        (
            sizes(rows=32, columns=32, gap=0, turned=False, block=16),
            sizes("no side is a multiple of the block", rows=20, columns=33, gap=0, turned=False, block=16),
            sizes("rows are further apart than they are long", rows=20, columns=33, gap=3, turned=False, block=16),
            sizes("x is itself a transposed view", rows=18, columns=10, gap=0, turned=True, block=16),
        ),
        Goal("loaded", 1.01, "every element is read once"),
    ),
)  # fmt: skip
