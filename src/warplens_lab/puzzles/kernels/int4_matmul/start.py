"""16. int4_matmul: a product with weights of 4 bits, two in a byte.

    c[i, j] = Σ a[i, t] · (stored[t, j] − 8) · scale[t // GROUP, j]        t = 0 … k − 1

A stored weight is a number from 0 to 15 and means −8 … 7. Byte w[r, j] holds two of them: its low half
is stored[2r, j], its high half stored[2r + 1, j]. Every GROUP rows of weights have scales of their own,
one per column. k is a multiple of GROUP, so a step along k can be one group.

Launched as   int4_matmul[(cdiv(m, BLOCK), cdiv(n, BLOCK))](a, w, scale, c, m, n, k, GROUP, BLOCK)
              a: float16, m × k; w: uint8, k/2 × n; scale: float32, k/GROUP × n; c: float32, m × n
You need      & and >>, two tl.dot per step
Goal          each packed byte is read once per tile, not once for each of its halves
"""

import triton
import triton.language as tl


@triton.jit
def int4_matmul(a_ptr, w_ptr, scale_ptr, c_ptr, m, n, k, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    pairs = tl.arange(0, GROUP // 2)
    c = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for group in range(k // GROUP):
        # Byte number `pairs` of this group holds the weights of columns `even` and `even + 1` of a.
        even = group * GROUP + 2 * pairs
        a_even = tl.load(a_ptr + rows[:, None] * k + even[None, :], mask=rows[:, None] < m, other=0.0)
        a_odd = tl.load(a_ptr + rows[:, None] * k + even[None, :] + 1, mask=rows[:, None] < m, other=0.0)
        w_rows = group * (GROUP // 2) + pairs
        w = tl.load(w_ptr + w_rows[:, None] * n + columns[None, :], mask=columns[None, :] < n, other=0)
        low = (w & 15).to(tl.float16) - 8
        # TODO: the odd columns of a meet the high half of each byte.
        c = tl.dot(a_even, low, c)
        c = tl.dot(a_odd, low, c)
        # TODO: the scales of this group.
    c_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c, mask=c_mask)
