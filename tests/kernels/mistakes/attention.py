"""Attention with keys and values in a loop."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, N_CTX, scale, stride_h, stride_n, stride_d,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, HEAD_DIM: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    start_m = tl.program_id(0) * BLOCK_M
    base = tl.program_id(1) * stride_h
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    offs_d = tl.arange(0, HEAD_DIM)
    q = tl.load(q_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :] * stride_d, mask=offs_m[:, None] < N_CTX)
    k_ptrs = k_ptr + base + offs_n[None, :] * stride_n + offs_d[:, None] * stride_d
    v_ptrs = v_ptr + base + offs_n[:, None] * stride_n + offs_d[None, :] * stride_d
    m_i = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    l_i = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, HEAD_DIM), dtype=tl.float32)
    end_n = tl.minimum(start_m + BLOCK_M, N_CTX) if CAUSAL else N_CTX
    # plant(short_loop): end_n, -> end_n // BLOCK_N * BLOCK_N,
    for start_n in range(0, end_n, BLOCK_N):
        at = start_n + offs_n
        # find(short_loop)
        k = tl.load(k_ptrs, mask=at[None, :] < N_CTX, other=0.0)
        qk = tl.dot(q, k) * scale
        seen = at[None, :] < N_CTX
        if CAUSAL:
            seen = seen & (at[None, :] <= offs_m[:, None])
        qk = tl.where(seen, qk, -float("inf"))
        m_new = tl.maximum(m_i, tl.max(qk, axis=1))
        p = tl.exp(qk - m_new[:, None])
        alpha = tl.exp(m_i - m_new)
        l_i = l_i * alpha + tl.sum(p, axis=1)
        # plant(no_other): , other=0.0 ->
        # find(no_other, wrong_step)
        v = tl.load(v_ptrs, mask=at[:, None] < N_CTX, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p.to(v.dtype), v)
        m_i = m_new
        k_ptrs += BLOCK_N * stride_n
        # plant(wrong_step): BLOCK_N * stride_n -> BLOCK_N
        v_ptrs += BLOCK_N * stride_n
    o_ptrs = o_ptr + base + offs_m[:, None] * stride_n + offs_d[None, :] * stride_d
    tl.store(o_ptrs, acc / l_i[:, None], mask=offs_m[:, None] < N_CTX)


def run_attention(causal=False):
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 56, 16) for _ in range(3))
    o = torch.empty_like(q)
    attention_kernel[(2, 2)](q, k, v, o, 56, 0.25, *q.stride(), BLOCK_M=32, BLOCK_N=32, HEAD_DIM=16, CAUSAL=causal)
    wide = [tensor.double() for tensor in (q, k, v)]
    return o, torch.nn.functional.scaled_dot_product_attention(*wide, is_causal=causal)


def run_causal_attention():
    return run_attention(causal=True)
