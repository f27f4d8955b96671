"""Two blocks of one dimension are loaded, and only their sum has two: each element of x serves a whole row."""

import triton
import triton.language as tl


@triton.jit
def outer_add(x_ptr, y_ptr, out_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i, mask=i < rows)
    y = tl.load(y_ptr + j, mask=j < columns)
    tl.store(out_ptr + i[:, None] * columns + j[None, :], x[:, None] + y[None, :], mask=mask)
