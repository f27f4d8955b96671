"""Sum of a vector in two launches: a partial sum per program, then the sum of those."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def sum_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    offsets = program * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + program, tl.sum(x, axis=0))


def inputs(n: int = 1000) -> tuple[torch.Tensor]:
    torch.manual_seed(0)
    return (torch.randn(n),)


def launch(x: torch.Tensor, block: int = 128) -> torch.Tensor:
    programs = triton.cdiv(x.numel(), block)
    partial = torch.empty(programs)
    out = torch.empty(1)
    sum_kernel[(programs,)](x, partial, x.numel(), BLOCK=block)
    sum_kernel[(1,)](partial, out, programs, BLOCK=triton.next_power_of_2(programs))
    return out


def reference(x: torch.Tensor) -> torch.Tensor:
    return x.sum().reshape(1)
