"""A planted fault: each program takes the block of the next one, so that the last reads past the end."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def shifted_copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    x = tl.load(x_ptr + offsets + BLOCK, mask=mask)  # planted: out of bounds
    tl.store(out_ptr + offsets, x, mask=mask)


def launch(n: int = 256, block: int = 64) -> torch.Tensor:
    x = torch.arange(n, dtype=torch.float32)
    out = torch.zeros(n)
    shifted_copy_kernel[(triton.cdiv(n, block),)](x, out, n, BLOCK=block)
    return out
