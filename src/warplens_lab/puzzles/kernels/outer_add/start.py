"""17. outer_add: add every element of a column of numbers to every element of a row.

    out[i, j] = x[i] + y[j]

x has one element for each row of out, y one for each column. Each program computes one tile of
BLOCK_ROWS × BLOCK_COLUMNS from a block of x and a block of y. With one tile there is one program;
with more, each finds its own part of x and of y by its two program ids.

Launched as   outer_add[(cdiv(rows, BLOCK_ROWS), cdiv(columns, BLOCK_COLUMNS))](
                  x, y, out, rows, columns, BLOCK_ROWS, BLOCK_COLUMNS)
              x: float32 of rows elements; y: float32 of columns elements; out: float32, rows × columns
You need      [:, None] and [None, :], a mask for each load and both for the store
Goal          x and y are read once per tile, not once per element of it
"""

import triton
import triton.language as tl


@triton.jit
def outer_add(x_ptr, y_ptr, out_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i, mask=i < rows)
    # TODO: this stores x alone, the same in every column. Add y, which is the same in every row.
    tl.store(out_ptr + i[:, None] * columns + j[None, :], x[:, None], mask=mask)
