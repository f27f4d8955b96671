"""2. scale_add: scale a matrix and add one row to all of its rows.

    out[i, j] = a · x[i, j] + b[j]

Each program computes one tile of BLOCK_ROWS × BLOCK_COLUMNS. A tile is a two-dimensional block:
rows[:, None] is a column of row numbers, columns[None, :] a row of column numbers, and what is
computed from both has the shape of the tile. b has one dimension: one element for each column.

Launched as   scale_add[(cdiv(rows, BLOCK_ROWS), cdiv(columns, BLOCK_COLUMNS))](
                  x, b, out, a, rows, columns, BLOCK_ROWS, BLOCK_COLUMNS)
              x, out: float32, rows × columns, contiguous; b: float32 of columns elements; a: a number
You need      [:, None] and [None, :], & between two conditions
Goal          b is read once per tile, not once per row of the tile
"""

import triton
import triton.language as tl


@triton.jit
def scale_add(x_ptr, b_ptr, out_ptr, a, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    offsets = i[:, None] * columns + j[None, :]
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + offsets, mask=mask)
    # TODO: load the part of b that this tile needs, and add it to every row.
    tl.store(out_ptr + offsets, a * x, mask=mask)
