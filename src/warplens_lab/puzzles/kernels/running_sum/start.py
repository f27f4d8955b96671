"""10. running_sum: the sum of all elements up to each one.

    out[row, j] = x[row, 0] + x[row, 1] + … + x[row, j]

One program takes one row, and a row may be longer than a block. Within a block Triton has the running
sum ready; from block to block it is yours to carry.

Launched as   running_sum[(rows,)](x, out, columns, BLOCK)
              x, out: float32, rows × columns, contiguous
You need      tl.cumsum
Goal          every element is read once
"""

import triton
import triton.language as tl


@triton.jit
def running_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        x = tl.load(x_ptr + row + offsets, mask=mask, other=0.0)
        # TODO: each block begins at zero again.
        tl.store(out_ptr + row + offsets, tl.cumsum(x, axis=0), mask=mask)
