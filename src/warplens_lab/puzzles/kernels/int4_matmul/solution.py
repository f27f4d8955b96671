"""Each byte is loaded once and split in the tile; a group's own sum is scaled before it joins the others."""

import triton
import triton.language as tl


@triton.jit
def int4_matmul(a_ptr, w_ptr, scale_ptr, c_ptr, m, n, k, GROUP: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    pairs = tl.arange(0, GROUP // 2)
    c = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for group in range(k // GROUP):
        even = group * GROUP + 2 * pairs
        a_even = tl.load(a_ptr + rows[:, None] * k + even[None, :], mask=rows[:, None] < m, other=0.0)
        a_odd = tl.load(a_ptr + rows[:, None] * k + even[None, :] + 1, mask=rows[:, None] < m, other=0.0)
        w_rows = group * (GROUP // 2) + pairs
        w = tl.load(w_ptr + w_rows[:, None] * n + columns[None, :], mask=columns[None, :] < n, other=0)
        low = (w & 15).to(tl.float16) - 8
        high = (w >> 4).to(tl.float16) - 8
        sums = tl.dot(a_odd, high, tl.dot(a_even, low))
        scale = tl.load(scale_ptr + group * n + columns, mask=columns < n, other=0.0)
        c += sums * scale[None, :]
    c_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c, mask=c_mask)
