"""One tile of dout serves both gradients; programs of a row of tiles add to the same part of dx, hence the atomics."""

import triton
import triton.language as tl


@triton.jit
def outer_multiply_backward(
    x_ptr, y_ptr, dout_ptr, dx_ptr, dy_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr
):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i, mask=i < rows, other=0.0)
    y = tl.load(y_ptr + j, mask=j < columns, other=0.0)
    dout = tl.load(dout_ptr + i[:, None] * columns + j[None, :], mask=mask, other=0.0)
    passed = tl.where(x[:, None] * y[None, :] > 0, dout, 0.0)
    tl.atomic_add(dx_ptr + i, tl.sum(passed * y[None, :], axis=1), mask=i < rows)
    tl.atomic_add(dy_ptr + j, tl.sum(passed * x[:, None], axis=0), mask=j < columns)
