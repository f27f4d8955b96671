"""Matrix products with planted faults: each kernel's line of the fault ends with `# fault`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def full_precision_kernel(a_ptr, b_ptr, c_ptr, k_size, BLOCK: tl.constexpr):
    """Full fp32 products: no matrix unit does them."""
    rows = tl.arange(0, BLOCK)
    a_ptrs = a_ptr + rows[:, None] * k_size + rows[None, :]
    b_ptrs = b_ptr + rows[:, None] * BLOCK + rows[None, :]
    total = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for _ in range(0, k_size, BLOCK):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        total = tl.dot(a, b, total, input_precision="ieee")  # fault
        a_ptrs += BLOCK
        b_ptrs += BLOCK * BLOCK
    tl.store(c_ptr + rows[:, None] * BLOCK + rows[None, :], total)


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, k_size, n_size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Without fault in itself: too few rows, one stage or too few warps for the tile are faults of its config."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_ptrs = a_ptr + rows[:, None] * k_size + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * n_size + columns[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k_size, K):  # fault with one stage
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        total = tl.dot(a, b, total)  # fault with few rows
        a_ptrs += K
        b_ptrs += K * n_size
    tl.store(c_ptr + rows[:, None] * n_size + columns[None, :], total.to(tl.float16))


@triton.jit
def stores_in_loop_kernel(a_ptr, b_ptr, c_ptr, k_size, n_size, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Writes every partial sum, each in the layout of a store."""
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    inner = tl.arange(0, K)
    a_ptrs = a_ptr + rows[:, None] * k_size + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * n_size + columns[None, :]
    c_ptrs = c_ptr + rows[:, None] * n_size + columns[None, :]
    total = tl.zeros((M, N), dtype=tl.float32)
    for _ in range(0, k_size, K):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        total = tl.dot(a, b, total)
        tl.store(c_ptrs, total.to(tl.float16))  # fault
        a_ptrs += K
        b_ptrs += K * n_size


@triton.jit
def uneven_kernel(x_ptr, BLOCK: tl.constexpr):
    """Does not compile for sizes that are no power of two."""
    offsets = tl.arange(0, BLOCK)  # fault
    tl.store(x_ptr + offsets, offsets)
