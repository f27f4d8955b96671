"""The product of a tile is never in memory: it is made from two blocks and finished before the only store."""

import triton
import triton.language as tl


@triton.jit
def outer_multiply(x_ptr, y_ptr, out_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i, mask=i < rows)
    y = tl.load(y_ptr + j, mask=j < columns)
    product = x[:, None] * y[None, :]
    tl.store(out_ptr + i[:, None] * columns + j[None, :], tl.maximum(product, 0.0), mask=mask)
