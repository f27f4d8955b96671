"""Matrix product without masks: sizes must be multiples of the block."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_unmasked_kernel(
    a_ptr,
    b_ptr,
    c_ptr,
    n_size,
    k_size,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * k_size + inner[None, :]
    b_ptrs = b_ptr + inner[:, None] * n_size + columns[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _start in range(0, k_size, BLOCK_K):
        a = tl.load(a_ptrs)
        b = tl.load(b_ptrs)
        total = tl.dot(a, b, total)
        a_ptrs += BLOCK_K
        b_ptrs += BLOCK_K * n_size
    tl.store(c_ptr + rows[:, None] * n_size + columns[None, :], total.to(c_ptr.dtype.element_ty))


def inputs(
    m: int = 32, n: int = 48, k: int = 32, dtype: torch.dtype = torch.float16
) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)


def launch(a: torch.Tensor, b: torch.Tensor, block: int = 16) -> torch.Tensor:
    (m, k), n = a.shape, b.shape[1]
    if any(size % block for size in (m, n, k)):
        raise ValueError(f"{m}, {n} and {k} must be multiples of {block}")
    c = torch.empty((m, n), dtype=a.dtype)
    sizes = {"BLOCK_M": block, "BLOCK_N": block, "BLOCK_K": block}
    matmul_unmasked_kernel[(m // block, n // block)](a, b, c, n, k, **sizes)
    return c


def reference(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.float() @ b.float()).to(a.dtype)
