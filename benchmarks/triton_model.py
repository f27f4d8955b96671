"""A small model with Triton kernels of its own between PyTorch's ops: elementwise, a tuned softmax, a product."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def sigmoid(x):
    return 1 / (1 + tl.exp2(-x * LOG2E))


@triton.jit
def gate(x, y, out, count, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    mask = at < count
    given = tl.load(x + at, mask=mask).to(tl.float32)
    tl.store(out + at, given * sigmoid(given) * tl.load(y + at, mask=mask), mask=mask)


@triton.autotune([triton.Config({}, num_warps=warps) for warps in (2, 4, 8)], key=["cols"])
@triton.heuristics({"block": lambda given: triton.next_power_of_2(given["cols"])})
@triton.jit
def row_softmax(x, out, cols, stride, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.load(x + tl.program_id(0) * stride + at, mask=at < cols, other=-float("inf")).to(tl.float32)
    powers = tl.exp2((row - tl.max(row, 0)) * LOG2E)
    tl.store(out + tl.program_id(0) * stride + at, powers / tl.sum(powers, 0), mask=at < cols)


@triton.jit
def product(a, b, out, rows, cols, depth, activation: tl.constexpr, block: tl.constexpr, step: tl.constexpr):
    down = tl.program_id(0) * block + tl.arange(0, block)
    across = tl.program_id(1) * block + tl.arange(0, block)
    inner = tl.arange(0, step)
    a_at = a + down[:, None] * depth + inner[None, :]
    b_at = b + inner[:, None] * cols + across[None, :]
    total = tl.zeros((block, block), dtype=tl.float32)
    for _ in range(0, depth, step):
        total = tl.dot(tl.load(a_at), tl.load(b_at), total)
        a_at += step
        b_at += step * cols
    if activation is not None:
        total = activation(total)
    at = down[:, None] * cols + across[None, :]
    tl.store(out + at, total, mask=(down < rows)[:, None] & (across < cols)[None, :])


@triton.jit
def gather_rows(table, index, out, cols, block: tl.constexpr):
    at = tl.arange(0, block)
    row = tl.load(index + tl.program_id(0))
    tl.store(out + tl.program_id(0) * cols + at, tl.load(table + row * cols + at, mask=at < cols), mask=at < cols)


class Model:
    """Sides are multiples of the product's block; the two products of a layer have one grid and two depths."""

    def __init__(self, device: str, rows: int = 8192, width: int = 2048, vocab: int = 32000) -> None:
        made = {"device": device, "dtype": torch.bfloat16}
        self.table = torch.randn(vocab, width, **made)
        self.tokens = torch.randint(0, vocab, (rows,), device=device)
        self.out = torch.randn(width, width, **made)
        self.down = torch.randn(2 * width, width, **made)
        self.up = torch.randn(width, 2 * width, **made)
        self.rows, self.width = rows, width

    def step(self) -> Tensor:
        x = torch.empty(self.rows, self.width, device=self.table.device, dtype=self.table.dtype)
        block = triton.next_power_of_2(self.width)
        gather_rows[(self.rows,)](self.table, self.tokens, x, self.width, block=block)
        x = torch.nn.functional.layer_norm(x, (self.width,))
        x = self._multiplied(x, self.out, sigmoid)
        wide = torch.mm(x, self.up)
        x = self._multiplied(self._gated(wide, wide), self.down, None)
        out = torch.empty_like(x)
        row_softmax[(self.rows,)](x, out, self.width, x.stride(0))
        return out.sum(dim=0)

    def _multiplied(self, a: Tensor, b: Tensor, activation: object) -> Tensor:
        out = torch.empty(a.shape[0], b.shape[1], device=a.device, dtype=a.dtype)
        block = 128
        grid = (a.shape[0] // block, b.shape[1] // block)
        product[grid](a, b, out, *out.shape, a.shape[1], activation, block, 64, num_warps=8, num_stages=3)
        return out

    def _gated(self, x: Tensor, y: Tensor) -> Tensor:
        out = torch.empty_like(x)
        gate[lambda given: (triton.cdiv(x.numel(), given["block"]),)](x, y, out, x.numel(), block=1024)
        return out
