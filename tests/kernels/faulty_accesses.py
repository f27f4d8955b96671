"""Loads and stores with planted faults: each kernel's line of the fault ends with `# fault`."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def scale_rows_kernel(x_ptr, out_ptr, row_stride, columns, BLOCK: tl.constexpr):
    """Without fault in itself: a row stride or a length that no 16 divides is a fault of its launch."""
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * row_stride + offsets, mask=offsets < columns)  # fault with an odd length or stride
    tl.store(out_ptr + row * row_stride + offsets, x * 2, mask=offsets < columns)


@triton.jit
def shifted_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Reads from one element behind the beginning, so no wide load is aligned."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets + 1)  # fault
    tl.store(out_ptr + offsets, x)


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Without fault in itself: a tile that leaves threads without work is a fault of its config."""
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # fault with a small tile
    tl.store(out_ptr + offsets, x)


@triton.jit
def many_values_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Sorts a long row in registers: few warps fit."""
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    y = tl.load(x_ptr + n + offsets)
    z = tl.load(x_ptr + 2 * n + offsets)
    total = tl.sum(x * y) + tl.sum(y * z)
    tl.store(out_ptr + offsets, x * total + y * total + z)
