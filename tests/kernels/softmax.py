"""Softmax over the rows of a matrix: one row per program, padded to a power of two."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, out_ptr, row_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row * row_stride + offsets, mask=mask, other=-float("inf"))
    shifted = x - tl.max(x, axis=0)
    raised = tl.exp(shifted)
    total = tl.sum(raised, axis=0)
    tl.store(out_ptr + row * row_stride + offsets, raised / total, mask=mask)


def inputs(rows: int = 6, columns: int = 100) -> tuple[torch.Tensor]:
    torch.manual_seed(0)
    return (torch.randn(rows, columns),)


def launch(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    rows, columns = x.shape
    softmax_kernel[(rows,)](x, out, x.stride(0), columns, BLOCK=triton.next_power_of_2(columns))
    return out


def reference(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, dim=1)
