"""b is loaded as a block of one dimension and meets every row of the tile through [None, :]."""

import triton
import triton.language as tl


@triton.jit
def scale_add(x_ptr, b_ptr, out_ptr, a, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    offsets = i[:, None] * columns + j[None, :]
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + offsets, mask=mask)
    b = tl.load(b_ptr + j, mask=j < columns)
    tl.store(out_ptr + offsets, a * x + b[None, :], mask=mask)
