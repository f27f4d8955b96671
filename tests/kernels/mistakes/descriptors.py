"""Kernels with tensor descriptors, made in the kernel and on the host."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def descriptor_matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):  # fmt: skip
    # plant(wrong_width): [M, K] -> [M, N]
    a_desc = tl.make_tensor_descriptor(a_ptr, shape=[M, K], strides=[K, 1], block_shape=[BLOCK_M, BLOCK_K])
    b_desc = tl.make_tensor_descriptor(b_ptr, shape=[K, N], strides=[N, 1], block_shape=[BLOCK_K, BLOCK_N])
    c_desc = tl.make_tensor_descriptor(c_ptr, shape=[M, N], strides=[N, 1], block_shape=[BLOCK_M, BLOCK_N])
    off_m = tl.program_id(0) * BLOCK_M
    off_n = tl.program_id(1) * BLOCK_N
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for k in range(0, K, BLOCK_K):
        # find(wrong_width)
        a = a_desc.load([off_m, k])
        b = b_desc.load([k, off_n])
        acc = tl.dot(a, b, acc)
    c_desc.store([off_m, off_n], acc)


def run_descriptor_matmul():
    torch.manual_seed(0)
    a, b, c = torch.randn(40, 96), torch.randn(96, 48), torch.empty(40, 48)
    descriptor_matmul_kernel[(2, 3)](a, b, c, 40, 48, 96, BLOCK_M=32, BLOCK_N=16, BLOCK_K=32)
    return c, a.double() @ b.double()


@triton.jit
def descriptor_scale_kernel(x_desc, out_desc, scale, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    off_m = tl.program_id(0) * BLOCK_M
    for col in range(0, n_cols, BLOCK_N):
        x = x_desc.load([off_m, col])
        # find(wrong_width)
        out_desc.store([off_m, col], x * scale)


def run_descriptor_scale():
    torch.manual_seed(0)
    x = torch.randn(16, 72)
    out = torch.empty_like(x)
    x_desc = TensorDescriptor(x, shape=[16, 72], strides=[72, 1], block_shape=[8, 16])
    # plant(wrong_width): [16, 72] -> [16, 64]
    out_desc = TensorDescriptor(out, shape=[16, 72], strides=[72, 1], block_shape=[8, 16])
    descriptor_scale_kernel[(2,)](x_desc, out_desc, 2.0, 72, BLOCK_M=8, BLOCK_N=16)
    return out, 2.0 * x.double()


@triton.jit
def descriptor_sum_kernel(x_desc, out_ptr, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    off_m = tl.program_id(0) * BLOCK_M
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    for col in range(0, n_cols, BLOCK_N):
        # find(wrong_width)
        total += tl.sum(x_desc.load([off_m, col]).to(tl.float32), axis=1)
    tl.store(out_ptr + off_m + tl.arange(0, BLOCK_M), total)


def run_descriptor_sum():
    torch.manual_seed(0)
    x, out = torch.randn(16, 80).half(), torch.empty(16)
    # plant(wrong_width): [16, 80] -> [16, 80 // x.element_size()]
    x_desc = TensorDescriptor(x, shape=[16, 80], strides=[80, 1], block_shape=[8, 32])
    descriptor_sum_kernel[(2,)](x_desc, out, 80, BLOCK_M=8, BLOCK_N=32)
    return out, x.double().sum(1)
