"""5. long_row_sum: sum rows that are longer than a block.

    out[row] = x[row, 0] + x[row, 1] + … + x[row, columns − 1]

As row_sum, but a row may have any length, and a program holds only BLOCK elements at a time. So it
goes along its row block by block and keeps what it has summed so far.

Launched as   long_row_sum[(rows,)](x, out, columns, BLOCK)
              x: float32, rows × columns, contiguous; out: float32 of rows elements
You need      for start in range(0, columns, BLOCK), tl.zeros
Goal          every element is read once
"""

import triton
import triton.language as tl


@triton.jit
def long_row_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    # TODO: this is the first block of the row only.
    x = tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(x, axis=0))
