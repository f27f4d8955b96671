"""Kernels that leave elements of their tensors alone: on purpose, or by a mistake."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def copy_kernel(x_ptr, out_ptr, start, end, BLOCK: tl.constexpr):
    offsets = start + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < end
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask), mask=mask)


@triton.jit
def embedding_kernel(ids_ptr, table_ptr, out_ptr, DIM: tl.constexpr):
    row = tl.program_id(0)
    number = tl.load(ids_ptr + row)
    cols = tl.arange(0, DIM)
    tl.store(out_ptr + row * DIM + cols, tl.load(table_ptr + number * DIM + cols))


@triton.jit
def loaded_row(table_ptr, number, cols, DIM: tl.constexpr):
    return tl.load(table_ptr + number * DIM + cols)


@triton.jit
def called_embedding_kernel(ids_ptr, table_ptr, out_ptr, DIM: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, DIM)
    tl.store(out_ptr + row * DIM + cols, loaded_row(table_ptr, tl.load(ids_ptr + row), cols, DIM))


@triton.jit
def ragged_sum_kernel(lengths_ptr, x_ptr, out_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = 0.0
    for start in range(0, tl.load(lengths_ptr + row), BLOCK):
        total += tl.sum(tl.load(x_ptr + row * n_cols + start + tl.arange(0, BLOCK)), axis=0)
    tl.store(out_ptr + row, total)


@triton.jit
def lower_triangle_kernel(x_ptr, out_ptr, N: tl.constexpr):
    rows, cols = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    x = tl.load(x_ptr + rows * N + cols, mask=cols <= rows, other=0.0)
    tl.store(out_ptr + tl.arange(0, N), tl.sum(x, axis=1))


@triton.jit
def same_flag_kernel(flag_ptr, VALUE: tl.constexpr):
    tl.store(flag_ptr, VALUE)


@triton.jit
def narrow_rows_kernel(x_ptr, out_ptr, stride, N: tl.constexpr):
    rows, cols = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    tl.store(out_ptr + rows * stride + cols, tl.load(x_ptr + rows * N + cols))


def copy(x: torch.Tensor, out: torch.Tensor, start: int, end: int, programs: int | None = None) -> None:
    copy_kernel[(programs or triton.cdiv(end - start, 16),)](x, out, start, end, BLOCK=16)


def embed(kernel=embedding_kernel) -> torch.Tensor:
    out = torch.empty(3, 8)
    kernel[(3,)](torch.tensor([4, 1, 4]), torch.randn(20, 8), out, DIM=8)
    return out


def embed_by_call() -> torch.Tensor:
    return embed(called_embedding_kernel)


def ragged() -> torch.Tensor:
    out = torch.empty(3)
    ragged_sum_kernel[(3,)](torch.tensor([16, 32, 16]), torch.randn(3, 48), out, 48, BLOCK=16)
    return out


def triangle() -> torch.Tensor:
    out = torch.empty(16)
    lower_triangle_kernel[(1,)](torch.randn(16, 16), out, N=16)
    return out
