"""15. int8_matmul: a product with weights of 8 bits.

    c[i, j] = Σ a[i, t] · (w[t, j] · scale[j])        t = 0 … k − 1

Large weights are often kept as int8 with one scale per column: half the memory of float16, and memory
is what most of these products wait for. The kernel loads the bytes and makes numbers of them only in
the tile. Where does the scale go so that it is applied as seldom as possible?

Launched as   int8_matmul[(cdiv(m, BLOCK), cdiv(n, BLOCK))](a, w, scale, c, m, n, k, BLOCK)
              a: float16, m × k; w: int8, k × n; scale: float32 of n elements; c: float32, m × n
You need      .to(tl.float16): tl.dot needs both sides of one type
Goal          weights travel as bytes, scales once per tile
"""

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
    # TODO: the scales.
    c_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c, mask=c_mask)
