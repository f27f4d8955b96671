"""Histogram of small integers with one atomic add per element."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def histogram_kernel(x_ptr, counts_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    bins = tl.load(x_ptr + offsets, mask=mask, other=0)
    tl.atomic_add(counts_ptr + bins, 1, mask=mask)


BINS = 16


def inputs(n: int = 300) -> tuple[torch.Tensor]:
    torch.manual_seed(0)
    return (torch.randint(0, BINS, (n,), dtype=torch.int32),)


def launch(x: torch.Tensor, block: int = 64) -> torch.Tensor:
    counts = torch.zeros(BINS, dtype=torch.int32)
    histogram_kernel[(triton.cdiv(x.numel(), block),)](x, counts, x.numel(), BLOCK=block)
    return counts


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.bincount(x.long(), minlength=BINS).to(torch.int32)
