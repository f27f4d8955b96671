"""Matrix products: tiled, persistent, split along K, and a convolution."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    offs_k = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + rows[:, None] * stride_am + offs_k[None, :] * stride_ak
    b_ptrs = b_ptr + offs_k[:, None] * stride_bk + cols[None, :] * stride_bn
    # plant(narrow_sum): tl.float32 -> tl.float16
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    # plant(short_loop): tl.cdiv(K, BLOCK_K) -> K // BLOCK_K
    for k in range(tl.cdiv(K, BLOCK_K)):
        left = K - k * BLOCK_K
        # find(short_loop, wrong_step)
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (offs_k[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(offs_k[:, None] < left) & (cols[None, :] < N), other=0.0)
        # plant(narrow_sum): acc) -> acc, out_dtype=tl.float16)
        # find(narrow_sum)
        acc = tl.dot(a, b, acc)
        # plant(wrong_step): stride_ak -> stride_am
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk
    c_ptrs = c_ptr + rows[:, None] * stride_cm + cols[None, :] * stride_cn
    # plant(no_mask): (rows[:, None] < M) & (cols[None, :] < N) -> rows[:, None] < M
    # find(no_mask)
    tl.store(c_ptrs, acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def run_matmul(k=100, dtype=torch.float32):
    torch.manual_seed(0)
    a, b = torch.randn(40, k).to(dtype), torch.randn(k, 24).to(dtype)
    c = torch.empty(40, 24, dtype=dtype)
    grid = (triton.cdiv(40, 32), triton.cdiv(24, 16))
    matmul_kernel[grid](a, b, c, 40, 24, k, *a.stride(), *b.stride(), *c.stride(), BLOCK_M=32, BLOCK_N=16, BLOCK_K=32)
    return c, a.double() @ b.double()


def run_matmul_half():
    return run_matmul(1024, torch.float16)


@triton.jit
def persistent_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_SMS: tl.constexpr,
):  # fmt: skip
    num_n = tl.cdiv(N, BLOCK_N)
    # plant(tile_left): tl.cdiv(M, BLOCK_M) -> (M // BLOCK_M)
    num_tiles = tl.cdiv(M, BLOCK_M) * num_n
    for tile in range(tl.program_id(0), num_tiles, NUM_SMS):
        offs_m = (tile // num_n) * BLOCK_M + tl.arange(0, BLOCK_M)
        offs_n = (tile % num_n) * BLOCK_N + tl.arange(0, BLOCK_N)
        acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for k in tl.static_range(0, K, BLOCK_K):
            offs_k = k + tl.arange(0, BLOCK_K)
            a = tl.load(a_ptr + (offs_m % M)[:, None] * K + offs_k[None, :])
            b = tl.load(b_ptr + offs_k[:, None] * N + (offs_n % N)[None, :])
            acc = tl.dot(a, b, acc)
        mask = (offs_m[:, None] < M) & (offs_n[None, :] < N)
        # find(tile_left)
        tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=mask)


def run_persistent_matmul():
    torch.manual_seed(0)
    a, b, c = torch.randn(72, 32), torch.randn(32, 40), torch.empty(72, 40)
    persistent_matmul_kernel[(3,)](a, b, c, 72, 40, 32, BLOCK_M=32, BLOCK_N=16, BLOCK_K=16, NUM_SMS=3)
    return c, a.double() @ b.double()


@triton.jit
def split_k_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    SPLIT_K: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.arange(0, BLOCK_N)
    offs_k = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(tl.cdiv(K, BLOCK_K * SPLIT_K)):
        at = offs_k + k * BLOCK_K * SPLIT_K
        a = tl.load(a_ptr + rows[:, None] * K + at[None, :], mask=(rows[:, None] < M) & (at[None, :] < K), other=0.0)
        b = tl.load(b_ptr + at[:, None] * N + cols[None, :], mask=at[:, None] < K, other=0.0)
        acc += tl.dot(a, b)
    c_ptrs = c_ptr + rows[:, None] * N + cols[None, :]
    # plant(two_writers): tl.atomic_add -> tl.store
    # find(two_writers)
    tl.atomic_add(c_ptrs, acc, mask=rows[:, None] < M)


def run_split_k():
    torch.manual_seed(0)
    a, b, c = torch.randn(24, 96), torch.randn(96, 16), torch.zeros(24, 16)
    split_k_kernel[(2, 3)](a, b, c, 24, 16, 96, BLOCK_M=16, BLOCK_N=16, BLOCK_K=16, SPLIT_K=3)
    return c, a.double() @ b.double()


@triton.jit
def conv1d_kernel(
    x_ptr, w_ptr, y_ptr, C_IN, LENGTH, x_stride_c, w_stride_o, w_stride_c, y_stride_o,
    WIDTH: tl.constexpr, C_OUT: tl.constexpr, BLOCK_C: tl.constexpr, BLOCK_L: tl.constexpr,
):  # fmt: skip
    offs_l = tl.program_id(0) * BLOCK_L + tl.arange(0, BLOCK_L)
    offs_o = tl.arange(0, C_OUT)
    offs_c = tl.arange(0, BLOCK_C)
    # plant(narrow_sum): tl.float32 -> tl.bfloat16
    acc = tl.zeros((C_OUT, BLOCK_L), dtype=tl.float32)
    for tap in range(WIDTH):
        at = offs_l + tap - WIDTH // 2
        x_ptrs = x_ptr + offs_c[:, None] * x_stride_c + at[None, :]
        w_ptrs = w_ptr + offs_o[:, None] * w_stride_o + offs_c[None, :] * w_stride_c + tap
        for _ in range(tl.cdiv(C_IN, BLOCK_C)):
            x = tl.load(x_ptrs, mask=(at[None, :] >= 0) & (at[None, :] < LENGTH), other=0.0)
            # find(wrong_step)
            w = tl.load(w_ptrs)
            # plant(narrow_sum): tl.dot(w, x) -> tl.dot(w, x).to(tl.bfloat16)
            # find(narrow_sum)
            acc += tl.dot(w, x)
            x_ptrs += BLOCK_C * x_stride_c
            # plant(wrong_step): BLOCK_C * w_stride_c -> BLOCK_C
            w_ptrs += BLOCK_C * w_stride_c
    y_ptrs = y_ptr + offs_o[:, None] * y_stride_o + offs_l[None, :]
    tl.store(y_ptrs, acc, mask=offs_l[None, :] < LENGTH)


def run_conv1d(channels=32, dtype=torch.float32):
    torch.manual_seed(0)
    x, w = torch.randn(channels, 40).to(dtype), torch.randn(16, channels, 3).to(dtype)
    y = torch.empty(16, 40, dtype=dtype)
    strides = (x.stride(0), w.stride(0), w.stride(1), y.stride(0))
    conv1d_kernel[(3,)](x, w, y, channels, 40, *strides, WIDTH=3, C_OUT=16, BLOCK_C=16, BLOCK_L=16)
    return y, torch.nn.functional.conv1d(x.double()[None], w.double(), padding=1)[0]


def run_conv1d_bfloat():
    return run_conv1d(256, torch.bfloat16)
