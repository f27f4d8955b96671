"""18. outer_multiply: relu of an outer product, without storing the product.

    out[i, j] = max(x[i] · y[j], 0)

As two steps this would write the product, read it again and write the result: three passes over a
matrix. Here the product of a tile stays in the program until it is finished.

Launched as   outer_multiply[(cdiv(rows, BLOCK_ROWS), cdiv(columns, BLOCK_COLUMNS))](
                  x, y, out, rows, columns, BLOCK_ROWS, BLOCK_COLUMNS)
              x: float32 of rows elements; y: float32 of columns elements; out: float32, rows × columns
You need      what outer_add needs, tl.maximum
Goal          x and y are read once per tile, not once per element of it
"""

import triton
import triton.language as tl


@triton.jit
def outer_multiply(x_ptr, y_ptr, out_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i, mask=i < rows)
    y = tl.load(y_ptr + j, mask=j < columns)
    # TODO: multiply, and only then take the maximum with 0. Why is this not the same?
    product = tl.maximum(x, 0.0)[:, None] * tl.maximum(y, 0.0)[None, :]
    tl.store(out_ptr + i[:, None] * columns + j[None, :], product, mask=mask)
