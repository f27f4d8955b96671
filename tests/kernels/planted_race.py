"""Planted faults: a sum that every program stores to one element, and an in-place shift that reads a neighbour's block."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def racy_sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr, tl.sum(x, axis=0))  # planted: write-write race


@triton.jit
def shift_in_place_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n - 1
    following = tl.load(x_ptr + offsets + 1, mask=mask)
    tl.store(x_ptr + offsets, following, mask=mask)  # planted: read-write race


def launch_sum(n: int = 96, block: int = 32) -> torch.Tensor:
    out = torch.zeros(1)
    racy_sum_kernel[(triton.cdiv(n, block),)](torch.arange(n, dtype=torch.float32), out, n, BLOCK=block)
    return out


def launch_shift(n: int = 96, block: int = 32) -> torch.Tensor:
    x = torch.arange(n, dtype=torch.float32)
    shift_in_place_kernel[(triton.cdiv(n, block),)](x, n, BLOCK=block)
    return x
