"""3. transpose: copy a matrix transposed, whatever its strides.

    out[j, i] = x[i, j]

The stride of a dimension says how many elements of memory are between two neighbours along it. Rows
may be further apart than they are long (what is between them belongs to other data), and x may be
a transposed view itself, so use the strides that are given and assume nothing.

Launched as   transpose[(cdiv(rows, BLOCK), cdiv(columns, BLOCK))](
                  x, out, rows, columns, x_row_stride, x_column_stride,
                  out_row_stride, out_column_stride, BLOCK)
              x: float32, rows × columns; out: float32, columns × rows
You need      one set of addresses to load from, another to store to
Goal          every element is read once
"""

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
    # TODO: this puts x[i, j] where out[i, j] is.
    tl.store(out_ptr + i[:, None] * out_row_stride + j[None, :] * out_column_stride, x, mask=mask)
