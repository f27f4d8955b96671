"""A matrix product, a softmax and fused attention in Triton, with named regions inside, for Proton and Nsight Compute.

python kernels.py [rounds]        each kernel and a torch.mm, so often
"""

import sys

import torch
import triton
import triton.language as tl
import triton.profiler.language as pl

pl.enable_semantic("triton")


@triton.jit
def matmul_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # noqa: N803
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    left = a + rows[:, None] * k + inner[None, :]
    right = b + inner[:, None] * n + columns[None, :]
    total = tl.zeros((BM, BN), dtype=tl.float32)
    with pl.scope("product"):
        for _ in range(0, k, BK):
            x = tl.load(left)
            y = tl.load(right)
            total = tl.dot(x, y, total)
            left += BK
            right += BK * n
    with pl.scope("store"):
        tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.float16))


@triton.jit
def softmax_kernel(x, y, n, BLOCK: tl.constexpr):  # noqa: N803
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    with pl.scope("load"):
        values = tl.load(x + row * n + columns, mask=columns < n, other=-float("inf"))
    with pl.scope("reduce"):
        powers = tl.exp(values - tl.max(values, 0))
        total = tl.sum(powers, 0)
    with pl.scope("store"):
        tl.store(y + row * n + columns, powers / total, mask=columns < n)


@triton.jit
def attention_kernel(q, k, v, o, length, scale, HEAD: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):  # noqa: N803
    start = tl.program_id(1) * length * HEAD
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    inner = tl.arange(0, HEAD)
    columns = tl.arange(0, BN)
    query = tl.load(q + start + rows[:, None] * HEAD + inner[None, :])
    best = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, HEAD), tl.float32)
    for first in range(0, length, BN):
        with pl.scope("scores"):
            keys = tl.load(k + start + (first + columns)[None, :] * HEAD + inner[:, None])
            scores = tl.dot(query, keys) * scale
        with pl.scope("softmax"):
            higher = tl.maximum(best, tl.max(scores, 1))
            powers = tl.exp(scores - higher[:, None])
            shrink = tl.exp(best - higher)
            total = total * shrink + tl.sum(powers, 1)
            best = higher
        with pl.scope("values"):
            values = tl.load(v + start + (first + columns)[:, None] * HEAD + inner[None, :])
            result = tl.dot(powers.to(tl.float16), values, result * shrink[:, None])
    tl.store(o + start + rows[:, None] * HEAD + inner[None, :], (result / total[:, None]).to(tl.float16))


def inputs(size):
    half = {"device": "cuda", "dtype": torch.float16}
    a, b = torch.randn(size, size, **half), torch.randn(size, size, **half)
    x = torch.randn(4096, 4096, device="cuda")
    q, k, v = (torch.randn(16, 1024, 64, **half) for _ in range(3))
    return a, b, torch.empty_like(a), x, torch.empty_like(x), q, k, v, torch.empty_like(q)


def one_round(a, b, c, x, y, q, k, v, o):
    size = len(a)
    matmul_kernel[(size // 128, size // 128)](a, b, c, size, size, size, 128, 128, 64, num_warps=8)
    softmax_kernel[(len(x),)](x, y, x.shape[1], 4096, num_warps=8)
    attention_kernel[(1024 // 64, 16)](q, k, v, o, 1024, 0.125, 64, 64, 64, num_warps=4)
    torch.mm(a, b, out=c)


if __name__ == "__main__":
    tensors = inputs(int(sys.argv[2]) if len(sys.argv) > 2 else 1024)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 10):
        one_round(*tensors)
    torch.cuda.synchronize()
