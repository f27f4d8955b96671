"""A planted fault: loads are masked, the store is not, so that the last program writes past the end."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, out_ptr, factor, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, x * factor)  # planted: missing mask


def launch(n: int = 100, block: int = 32) -> torch.Tensor:
    x = torch.arange(n, dtype=torch.float32)
    out = torch.zeros(n)
    scale_kernel[(triton.cdiv(n, block),)](x, out, 2.0, n, BLOCK=block)
    return out
