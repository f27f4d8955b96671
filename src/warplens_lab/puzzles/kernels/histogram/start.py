"""9. histogram: count how often each number occurs.

    counts[v] = how many i have x[i] = v

Each program takes one block of x, but all of them count in the same memory, and on a GPU they run at
the same time, in any order. counts is 0 everywhere before the launch.

Launched as   histogram[(cdiv(n, BLOCK),)](x, counts, n, BLOCK)
              x: int32 of n elements, 0 ≤ x[i] < number of bins; counts: int32, one per bin
You need      tl.atomic_add
Goal          every element of x is read once
"""

import triton
import triton.language as tl


@triton.jit
def histogram(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask, other=0)
    # TODO: read, add, write back. What if another lane, or another program, does the same in between?
    count = tl.load(counts_ptr + x, mask=mask)
    tl.store(counts_ptr + x, count + 1, mask=mask)
