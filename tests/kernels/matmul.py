"""Matrix product with masks on all three sizes: any shape works."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    m_size,
    n_size,
    k_size,
    a_stride,
    b_stride,
    c_stride,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * a_stride + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * b_stride + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k_size, BLOCK_K):
        left = k_size - start
        a = tl.load(a_ptrs, mask=(rows[:, None] < m_size) & (inner[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(inner[:, None] < left) & (columns[None, :] < n_size), other=0.0)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * b_stride
    c_mask = (rows[:, None] < m_size) & (columns[None, :] < n_size)
    tl.store(c_ptr + rows[:, None] * c_stride + columns[None, :], total.to(c_ptr.dtype.element_ty), mask=c_mask)


def inputs(
    m: int = 40, n: int = 24, k: int = 36, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)


def launch(a: torch.Tensor, b: torch.Tensor, block: int = 16) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype)
    grid = (triton.cdiv(m, block), triton.cdiv(n, block))
    sizes = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block}
    matmul_kernel[grid](a, b, c, m, n, k, a.stride(0), b.stride(0), c.stride(0), **sizes)
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() @ b.float()).to(a.dtype)
