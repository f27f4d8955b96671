"""Matrix product of half-precision activations and int8 weights, one scale per output column."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def quantised_matmul_kernel(
    a_ptr,
    weight_ptr,
    scale_ptr,
    c_ptr,
    m_size,
    n_size,
    k_size,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    row_mask = rows[:, None] < m_size
    column_mask = columns[None, :] < n_size
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, k_size, BLOCK_K):
        k = start + inner
        a = tl.load(a_ptr + rows[:, None] * k_size + k[None, :], mask=row_mask & (k[None, :] < k_size), other=0.0)
        weight_mask = (k[:, None] < k_size) & column_mask
        weight = tl.load(weight_ptr + k[:, None] * n_size + columns[None, :], mask=weight_mask, other=0)
        total = tl.dot(a, weight.to(a.dtype), total)
    scale = tl.load(scale_ptr + columns, mask=columns < n_size, other=0.0)
    scaled = total * scale[None, :]
    pointers = c_ptr + rows[:, None] * n_size + columns[None, :]
    tl.store(pointers, scaled.to(c_ptr.dtype.element_ty), mask=row_mask & column_mask)


def inputs(
    m: int = 24, n: int = 40, k: int = 32, dtype: torch.dtype = torch.bfloat16
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    weight = torch.randint(-127, 128, (k, n), dtype=torch.int8)
    return torch.randn(m, k).to(dtype), weight, torch.rand(n) / 127


def launch(a: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor, block: int = 16) -> torch.Tensor:
    (m, k), n = a.shape, weight.shape[1]
    c = torch.empty((m, n), dtype=a.dtype)
    grid = (triton.cdiv(m, block), triton.cdiv(n, block))
    sizes = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block}
    quantised_matmul_kernel[grid](a, weight, scale, c, m, n, k, **sizes)
    return c


def reference(a: torch.Tensor, weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return ((a.float() @ weight.float()) * scale).to(a.dtype)
