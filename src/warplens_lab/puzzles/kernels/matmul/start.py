"""12. matmul: a product of two matrices.

    c[i, j] = a[i, 0] · b[0, j] + … + a[i, k − 1] · b[k − 1, j]

Each program computes one tile of c, BLOCK_M × BLOCK_N. It goes along k in steps of BLOCK_K and adds up
the products of small tiles. No size need be a multiple of its block.

Launched as   matmul[(cdiv(m, BLOCK_M), cdiv(n, BLOCK_N))](a, b, c, m, n, k, BLOCK_M, BLOCK_N, BLOCK_K)
              a: m × k, b: k × n, c: m × n, all float32 and contiguous
You need      tl.dot, tl.zeros, a loop along k
Goal          each tile of a and of b is read once per tile of c
"""

import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    # TODO: this is the first of the steps along k.
    inner = tl.arange(0, BLOCK_K)
    a_mask = (rows[:, None] < m) & (inner[None, :] < k)
    b_mask = (inner[:, None] < k) & (columns[None, :] < n)
    a = tl.load(a_ptr + rows[:, None] * k + inner[None, :], mask=a_mask, other=0.0)
    b = tl.load(b_ptr + inner[:, None] * n + columns[None, :], mask=b_mask, other=0.0)
    c = tl.dot(a, b)
    c_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c_ptr + rows[:, None] * n + columns[None, :], c, mask=c_mask)
