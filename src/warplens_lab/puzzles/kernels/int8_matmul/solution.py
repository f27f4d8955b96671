"""A column's scale does not depend on k, so it is applied once, to the finished sum."""

import triton
import triton.language as tl


@triton.jit
def int8_matmul(a_ptr, w_ptr, scale_ptr, c_ptr, m, n, k, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        a_mask = (rows[:, None] < m) & (inner[None, :] < k)
        w_mask = (inner[:, None] < k) & (columns[None, :] < n)
        a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_mask, other=0.0)
        w = tl.load(w_ptr + inner[:, None] * n + columns[None, :], mask=w_mask, other=0)
        c = tl.dot(a, w.to(tl.float16), c)
    scale = tl.load(scale_ptr + columns, mask=columns < n, other=0.0)
    c_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c * scale[None, :], mask=c_mask)
