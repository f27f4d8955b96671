"""i counts rows of x and columns of out, so it is multiplied by the one's row stride and the other's column stride."""

import triton
import triton.language as tl


@triton.jit
def transpose(
    x_ptr, out_ptr, rows, columns, x_row_stride, x_column_stride, out_row_stride, out_column_stride, BLOCK: tl.constexpr
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    j = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i[:, None] * x_row_stride + j[None, :] * x_column_stride, mask=mask)
    tl.store(out_ptr + i[:, None] * out_column_stride + j[None, :] * out_row_stride, x, mask=mask)
