"""One load with lanes that its mask switches off, and what is done with them: clean kernels, and planted uses."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def uses_kernel(x_ptr, out_ptr, n, USE: tl.constexpr, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + cols, mask=mask)  # planted: the load
    everywhere = cols < BLOCK
    if USE == "masked store":
        tl.store(out_ptr + cols, x + 1, mask=mask)
    elif USE == "selected":
        tl.store(out_ptr, tl.sum(tl.where(mask, x, 0.0), axis=0))
    elif USE == "shifted and masked":
        tl.store(out_ptr + cols, tl.where(mask & (x > 0), x, 0.0))
    elif USE == "own other":
        again = tl.load(x_ptr + cols, mask=mask, other=0.0)
        tl.store(out_ptr, tl.sum(again, axis=0))
    elif USE == "stored":
        tl.store(out_ptr + cols, x)
    elif USE == "times zero":
        tl.store(out_ptr, tl.sum(x * mask.to(tl.float32), axis=0))
    elif USE == "reshaped":
        square = tl.trans(tl.reshape(x, (4, BLOCK // 4)))
        tl.store(out_ptr + tl.arange(0, BLOCK // 4), tl.max(square, axis=1))
    elif USE == "cast":
        tl.store(out_ptr + cols, (x.to(tl.float16) * 2).to(tl.float32), mask=everywhere)
    elif USE == "scan":
        tl.store(out_ptr + cols, tl.cumsum(x, axis=0, reverse=True), mask=mask)
    elif USE == "scan ahead":
        tl.store(out_ptr + cols, tl.cumsum(x, axis=0), mask=mask)
    elif USE == "product":
        tile = x[:, None] + tl.zeros((1, BLOCK), tl.float32)
        product = tl.dot(tl.trans(tile), tl.full((BLOCK, BLOCK), 1.0, tl.float32))
        tl.store(out_ptr + cols, tl.sum(product, axis=1))
    elif USE == "rows of a product":
        tile = x[:, None] + tl.zeros((1, BLOCK), tl.float32)
        product = tl.dot(tile, tl.full((BLOCK, BLOCK), 1.0, tl.float32))
        tl.store(out_ptr + cols, tl.sum(product, axis=1), mask=mask)
    elif USE == "address":
        at = x.to(tl.int32) * 0 + cols
        tl.store(out_ptr + at, tl.full((BLOCK,), 1.0, tl.float32))
    elif USE == "mask":
        tl.store(out_ptr + cols, tl.full((BLOCK,), 1.0, tl.float32), mask=x >= 0)
    elif USE == "branch":
        if tl.sum(x, axis=0) > 0:
            tl.store(out_ptr, 1.0)
    elif USE == "atomic":
        tl.atomic_add(out_ptr + cols, x)


def launch(use: str, n: int = 13, block: int = 16) -> torch.Tensor:
    out = torch.zeros(block)
    uses_kernel[(1,)](torch.ones(n), out, n, USE=use, BLOCK=block)
    return out


@triton.jit
def discards_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols)
    tl.store(out_ptr, tl.sum(tl.where(cols < n, x, 0.0), axis=0))


def launch_discarding() -> torch.Tensor:
    x, out = torch.empty(16), torch.empty(1)
    x[:10] = 1.0
    discards_kernel[(1,)](x, out, 10, BLOCK=16)
    return out


def launch_using() -> torch.Tensor:
    x, out = torch.empty(16), torch.empty(1)
    x[:10] = 1.0
    discards_kernel[(1,)](x, out, 12, BLOCK=16)
    return out


@triton.jit
def two_loads_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + cols, mask=cols < n)
    y = tl.load(y_ptr + cols, mask=cols < n)
    tl.store(out_ptr, tl.sum(x * y, axis=0))


def launch_two() -> torch.Tensor:
    out = torch.zeros(1)
    two_loads_kernel[(1,)](torch.ones(13), torch.ones(13), out, 13, BLOCK=16)
    return out
