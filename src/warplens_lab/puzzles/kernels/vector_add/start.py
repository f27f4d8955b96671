"""1. vector_add: add two vectors.

    out[i] = x[i] + y[i]        for i = 0 … n − 1

Many programs run the same kernel. Each adds one block of BLOCK elements: program 0 takes elements
0 … BLOCK − 1, program 1 the next BLOCK of them, and so on. n need not be a multiple of BLOCK, so the
last block may reach beyond the end of the vectors.

Launched as   vector_add[(cdiv(n, BLOCK),)](x, y, out, n, BLOCK)
              x, y, out: float32 of n elements
You need      tl.program_id, tl.arange, tl.load and tl.store with mask=
Goal          every element of x and y is read once
"""

import triton
import triton.language as tl


@triton.jit
def vector_add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    offsets = block * BLOCK + tl.arange(0, BLOCK)
    # TODO: right only where n is a multiple of BLOCK. What do the lanes with offsets >= n touch?
    x = tl.load(x_ptr + offsets)
    y = tl.load(y_ptr + offsets)
    tl.store(out_ptr + offsets, x + y)
