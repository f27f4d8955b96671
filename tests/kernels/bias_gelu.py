"""Bias and GELU (tanh form) in one pass over a matrix."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def gelu(x):
    """tanh(u) = 2 sigmoid(2u) - 1, so that 0.5 x (1 + tanh(u)) is x sigmoid(2u)."""
    inner = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    return x / (1.0 + tl.exp(0.0 - inner))


@triton.jit
def bias_gelu_kernel(x_ptr, bias_ptr, out_ptr, total, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < total
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + offsets % columns, mask=mask, other=0.0).to(tl.float32)
    tl.store(out_ptr + offsets, gelu(x + bias).to(out_ptr.dtype.element_ty), mask=mask)


def inputs(rows: int = 10, columns: int = 40, dtype: torch.dtype = torch.bfloat16) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(rows, columns).to(dtype), torch.randn(columns).to(dtype)


def launch(x: torch.Tensor, bias: torch.Tensor, block: int = 128) -> torch.Tensor:
    out = torch.empty_like(x)
    bias_gelu_kernel[(triton.cdiv(x.numel(), block),)](x, bias, out, x.numel(), x.shape[1], BLOCK=block)
    return out


def reference(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x.float() + bias.float(), approximate="tanh").to(x.dtype)
