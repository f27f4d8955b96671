"""Kernels whose loops the compiler pipelines, or splits into partitions of warps."""

import triton
import triton.language as tl


@triton.jit
def pipelined_kernel(a_ptr, b_ptr, c_ptr, k, a_stride, b_stride, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_block = a_ptr + rows[:, None] * a_stride + depth[None, :]
    b_block = b_ptr + depth[:, None] * b_stride + columns[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for _ in range(0, k, BK):
        a = tl.load(a_block)
        b = tl.load(b_block)
        total = tl.dot(a, b, total)
        a_block += BK
        b_block += BK * b_stride
    tl.store(c_ptr + rows[:, None] * b_stride + columns[None, :], total.to(tl.float16))


@triton.jit
def persistent_kernel(a, b, c, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, PROGRAMS: tl.constexpr):
    across = tl.cdiv(n, BN)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m, BM) * across, PROGRAMS, flatten=True, warp_specialize=True):
        row = tile // across * BM
        column = tile % across * BN
        total = tl.zeros((BM, BN), tl.float32)
        for at in range(0, k, BK):
            total = tl.dot(a.load([row, at]), b.load([column, at]).T, total)
        c.store([row, column], total.to(tl.float16))


@triton.jit
def attention_kernel(
    q, k, v, out, scale, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, WS: tl.constexpr
):
    start = tl.program_id(0) * BM
    queries = q.load([start, 0])
    total = tl.zeros((BM, D), tl.float32)
    largest = tl.full((BM,), float("-inf"), tl.float32)
    norm = tl.full((BM,), 1.0, tl.float32)
    for at in tl.range(0, length, BN, warp_specialize=WS):
        scores = tl.dot(queries, k.load([at, 0]).T)
        larger = tl.maximum(largest, tl.max(scores, 1) * scale)
        weights = tl.math.exp2(scores * scale - larger[:, None])
        shrink = tl.math.exp2(largest - larger)
        norm = norm * shrink + tl.sum(weights, 1)
        total = tl.dot(weights.to(tl.float16), v.load([at, 0]), total * shrink[:, None])
        largest = larger
    out.store([start, 0], (total / norm[:, None]).to(tl.float16))


@triton.jit
def split_attention_kernel(q, k, v, out, length, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Its descriptors are made here: of the host's, Triton splits none on sm90."""
    queries = tl.make_tensor_descriptor(q, [length, D], [D, 1], [BM, D])
    keys = tl.make_tensor_descriptor(k, [length, D], [D, 1], [BN, D])
    values = tl.make_tensor_descriptor(v, [length, D], [D, 1], [BN, D])
    start = tl.program_id(0) * BM
    rows = queries.load([start, 0])
    total = tl.zeros((BM, D), tl.float32)
    for at in tl.range(0, length, BN, warp_specialize=True):
        scores = tl.dot(rows, keys.load([at, 0]).T)
        total = tl.dot(tl.math.exp2(scores).to(tl.float16), values.load([at, 0]), total)
    made = tl.make_tensor_descriptor(out, [length, D], [D, 1], [BM, D])
    made.store([start, 0], total.to(tl.float16))
