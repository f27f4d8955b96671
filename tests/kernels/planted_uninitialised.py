"""A planted fault: a sum is added to what `torch.empty` left in memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def accumulate_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets, mask=mask)
    total = tl.load(total_ptr + offsets, mask=mask)  # planted: uninitialised
    tl.store(total_ptr + offsets, total + x, mask=mask)


@triton.jit
def atomic_sum_kernel(x_ptr, total_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.atomic_add(total_ptr, tl.sum(x, axis=0))  # planted: uninitialised atomic


def launch(n: int = 80, block: int = 32) -> torch.Tensor:
    total = torch.empty(n)
    total[:40] = 0.0
    accumulate_kernel[(triton.cdiv(n, block),)](torch.ones(n), total, n, BLOCK=block)
    return total


def launch_atomic(n: int = 64, block: int = 32) -> torch.Tensor:
    total = torch.empty(1)
    atomic_sum_kernel[(triton.cdiv(n, block),)](torch.ones(n), total, n, BLOCK=block)
    return total
