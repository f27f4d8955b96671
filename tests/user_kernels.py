"""Triton kernels as a program has them: with helpers, constants, heuristics and configurations to choose from."""

from __future__ import annotations

import triton
import triton.language as tl
from triton.language import arange

import user_kernel_parts as parts
from user_kernel_parts import SCALE
from user_kernel_parts import halved as half

LOG2E = tl.constexpr(1.4426950408889634)
WIDE = tl.constexpr(2)


@triton.jit
def scale_shift(x, out, count, factor, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    tl.store(out + at, half(tl.load(x + at, mask=at < count)) * factor * SCALE, mask=at < count)


@triton.autotune([triton.Config({"block": 128}, num_warps=2), triton.Config({"block": 256}, num_warps=8)], key=["cols"])
@triton.heuristics({"is_even": lambda given: given["cols"] % given["block"] == 0})
@triton.jit
def row_softmax(x, out, cols, block: tl.constexpr, is_even: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.load(x + tl.program_id(0) * cols + at, mask=at < cols, other=-float("inf"))
    powers = tl.exp2((row - tl.max(row, 0)) * LOG2E)
    tl.store(out + tl.program_id(0) * cols + at, powers / tl.sum(powers, 0), mask=at < cols)


@triton.jit
def product(
    a, b, out, rows, cols, depth, activation: tl.constexpr, block: tl.constexpr, acc: tl.constexpr = tl.float32
):
    down = tl.program_id(0) * block + tl.arange(0, block)
    across = tl.program_id(1) * block + tl.arange(0, block)
    inner = tl.arange(0, block)
    a_at = a + down[:, None] * depth + inner[None, :]
    b_at = b + inner[:, None] * cols + across[None, :]
    total = tl.zeros((block, block), acc)
    for _ in range(0, depth, block):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total, input_precision="ieee")
        a_at += block
        b_at += block * cols
    total = activation(total) if activation is not None else total
    tl.store(out + down[:, None] * cols + across[None, :], parts.doubled(total) / WIDE)


@triton.jit
def positive(x):
    return tl.maximum(x, 0.0)


@triton.jit
def gather(table, index, out, cols, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.load(index + tl.program_id(0))
    tl.store(out + tl.program_id(0) * cols + at, tl.load(table + row * cols + at, mask=at < cols), mask=at < cols)


def table_reader(table):
    """A kernel that reads something which no source can say."""

    @triton.jit
    def reads_table(x, block: tl.constexpr):
        tl.store(x + tl.arange(0, block), table[0])

    return reads_table


@triton.jit(do_not_specialize=["count"], noinline=True)
def unspecialised(x, count, block: tl.constexpr):
    at = arange(0, block)
    tl.store(x + at, 0.0, mask=at < count)


@triton.jit(repr=lambda built: f"staged_of_{built.constants['block']}")
def staged(x, num_stages: tl.constexpr, block: tl.constexpr):
    tl.store(x + tl.arange(0, block), num_stages)
