"""4. row_sum: sum each row of a matrix.

    out[row] = x[row, 0] + x[row, 1] + … + x[row, columns − 1]

One program sums one row. A block must be a power of two, so BLOCK is the next one that holds the row:
it may be longer than the row. Row number r begins at element r · row_stride.

Launched as   row_sum[(rows,)](x, out, columns, row_stride, BLOCK)
              x: float32, rows × columns; out: float32 of rows elements; BLOCK ≥ columns
You need      tl.sum, and tl.load with mask= and other=
Goal          every element is read once
"""

import triton
import triton.language as tl


@triton.jit
def row_sum(x_ptr, out_ptr, columns, row_stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    # TODO: where BLOCK is more than columns, this adds what follows the row.
    x = tl.load(x_ptr + row * row_stride + offsets)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
