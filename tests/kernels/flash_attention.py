"""Attention, forward, with the softmax taken block by block over the keys; causal or not."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def flash_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    out_ptr,
    scale,
    length,
    WIDTH: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    CAUSAL: tl.constexpr,
):
    first = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1) * length * WIDTH
    rows = first + tl.arange(0, BLOCK_M)
    inner = tl.arange(0, WIDTH)
    q = tl.load(q_ptr + head + rows[:, None] * WIDTH + inner[None, :], mask=rows[:, None] < length, other=0.0)
    highest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    out = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    end = tl.minimum(first + BLOCK_M, length) if CAUSAL else length
    for start in range(0, end, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        k = tl.load(k_ptr + head + columns[None, :] * WIDTH + inner[:, None], mask=columns[None, :] < length, other=0.0)
        score = tl.dot(q, k) * scale
        seen = columns[None, :] < length
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        score = tl.where(seen, score, -float("inf"))
        new_highest = tl.maximum(highest, tl.max(score, axis=1))
        weight = tl.exp(score - new_highest[:, None])
        correction = tl.exp(highest - new_highest)
        total = total * correction + tl.sum(weight, axis=1)
        v = tl.load(v_ptr + head + columns[:, None] * WIDTH + inner[None, :], mask=columns[:, None] < length, other=0.0)
        out = out * correction[:, None] + tl.dot(weight.to(v.dtype), v)
        highest = new_highest
    out = out / total[:, None]
    pointers = out_ptr + head + rows[:, None] * WIDTH + inner[None, :]
    tl.store(pointers, out.to(out_ptr.dtype.element_ty), mask=rows[:, None] < length)


def inputs(
    heads: int = 2, length: int = 40, width: int = 16, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    q, k, v = torch.randn(3, heads, length, width).to(dtype).unbind()
    return q.contiguous(), k.contiguous(), v.contiguous()


def launch(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False, block: int = 16) -> torch.Tensor:
    heads, length, width = q.shape
    out = torch.empty_like(q)
    sizes = {"WIDTH": width, "BLOCK_M": block, "BLOCK_N": block, "CAUSAL": causal}
    flash_attention_kernel[(triton.cdiv(length, block), heads)](q, k, v, out, width**-0.5, length, **sizes)
    return out


def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool = False) -> torch.Tensor:
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(q.float(), k.float(), v.float(), is_causal=causal).to(q.dtype)
