"""Small kernels that each do one thing a trace must get right."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def bfloat_arithmetic_kernel(x_ptr, y_ptr, out_ptr, sums_ptr, N: tl.constexpr):
    """Arithmetic, comparison and a sum in bfloat16 itself, which the plain interpreter gets wrong."""
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    product = x * y + x
    tl.store(out_ptr + at, tl.where(x > y, product, -product))
    tl.store(sums_ptr, tl.sum(product, axis=0))


def bfloat_arithmetic(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, sums = torch.empty_like(x), torch.empty(1, dtype=x.dtype)
    bfloat_arithmetic_kernel[(1,)](x, y, out, sums, N=x.numel())
    return out, sums


@triton.jit
def to_float_kernel(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(tl.float32))


def to_float(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty(x.shape)
    to_float_kernel[(1,)](x, out, N=x.numel())
    return out


@triton.jit
def descriptor_copy_kernel(x_desc, out_ptr, rows, columns, BLOCK: tl.constexpr):
    first = tl.program_id(0) * BLOCK
    tile = x_desc.load([first, 0])
    out_desc = tl.make_tensor_descriptor(out_ptr, [rows, columns], [columns, 1], [BLOCK, BLOCK])
    out_desc.store([first, 0], tile)


def descriptor_copy(x: torch.Tensor, block: int = 8) -> torch.Tensor:
    out = torch.empty_like(x)
    descriptor = TensorDescriptor(x, list(x.shape), list(x.stride()), [block, block])
    descriptor_copy_kernel[(triton.cdiv(x.shape[0], block),)](descriptor, out, *x.shape, BLOCK=block)
    return out


@triton.jit
def load_twice(pointers):
    return tl.load(pointers) + tl.load(pointers)


@triton.jit
def nested_call_kernel(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, load_twice(x_ptr + at))


def nested_call(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    nested_call_kernel[(1,)](x, out, N=x.numel())
    return out


@triton.jit
def locked_sum_kernel(x_ptr, lock_ptr, total_ptr, BLOCK: tl.constexpr):
    """Plain loads and stores of one element, ordered by a lock."""
    part = tl.sum(tl.load(x_ptr + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)), axis=0)
    while tl.atomic_cas(lock_ptr, 0, 1) == 1:
        pass
    tl.store(total_ptr, tl.load(total_ptr) + part)
    tl.atomic_xchg(lock_ptr, 0)


def locked_sum(x: torch.Tensor, block: int = 16) -> torch.Tensor:
    total, lock = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    locked_sum_kernel[(x.numel() // block,)](x, lock, total, BLOCK=block)
    return total


@triton.jit
def chosen_pointer_kernel(x_ptr, y_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(tl.where(at < N // 2, x_ptr + at, y_ptr + at)))


def chosen_pointer(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    chosen_pointer_kernel[(1,)](x, y, out, N=x.numel())
    return out


@triton.jit
def asserting_kernel(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.device_assert(x >= 0, "negative input")


def asserting(x: torch.Tensor, block: int = 8) -> None:
    asserting_kernel[(x.numel() // block,)](x, N=block)


@triton.jit
def overflowing_kernel(out_ptr, factor, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, at * factor)


def overflowing(factor: int, n: int = 8) -> torch.Tensor:
    out = torch.empty(n, dtype=torch.int32)
    overflowing_kernel[(1,)](out, factor, N=n)
    return out


@triton.jit
def printing_kernel(x_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    print("x is", x)
    tl.device_print("and again", x)


def printing(x: torch.Tensor) -> None:
    printing_kernel[(1,)](x, N=x.numel())


@triton.jit
def mistyped_kernel(x_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(x_ptr + at, tl.dot(x, x))


def mistyped(x: torch.Tensor) -> None:
    mistyped_kernel[(2,)](x, N=x.numel())


@triton.jit
def strided_copy_kernel(x_ptr, out_ptr, step, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at * step))


def strided_copy(x: torch.Tensor, step: int, n: int) -> torch.Tensor:
    out = torch.empty(n, dtype=x.dtype)
    strided_copy_kernel[(1,)](x, out, step, N=n)
    return out


@triton.autotune(configs=[triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})], key=["n"])
@triton.jit
def tuned_copy_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def tuned_copy(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    tuned_copy_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out


@triton.jit
def product_combine(left, right):
    return left * right


@triton.jit
def product_kernel(x_ptr, out_ptr, running_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(x_ptr + at)
    tl.store(out_ptr, tl.reduce(x, 0, product_combine))
    tl.store(running_ptr + at, tl.cumsum(x, axis=0))


def product(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    out, running = torch.empty(1), torch.empty_like(x)
    product_kernel[(1,)](x, out, running, N=x.numel())
    return out, running


@triton.jit
def block_sum_kernel(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.atomic_add(out_ptr, tl.sum(x, axis=0))


def block_sum(x: torch.Tensor, out: torch.Tensor, block: int = 16) -> None:
    block_sum_kernel[(x.numel() // block,)](x, out, N=block)


@triton.jit
def convert_kernel(x_ptr, out_ptr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out_ptr + at, tl.load(x_ptr + at).to(out_ptr.dtype.element_ty))


def convert(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    out = torch.empty(x.shape, dtype=dtype)
    convert_kernel[(1,)](x, out, N=x.numel())
    return out


@triton.jit
def last_sums_kernel(
    x_ptr, parts_ptr, arrived_ptr, out_ptr, BLOCK: tl.constexpr, PARTS: tl.constexpr, SEM: tl.constexpr
):
    """The program that arrives last sums what all have stored, which its counter orders unless it is relaxed."""
    program = tl.program_id(0)
    tl.store(parts_ptr + program, tl.sum(tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK)), axis=0))
    if tl.atomic_add(arrived_ptr, 1, sem=SEM) == PARTS - 1:
        tl.store(out_ptr, tl.sum(tl.load(parts_ptr + tl.arange(0, PARTS)), axis=0))


def last_sums(x: torch.Tensor, sem: str, block: int = 16) -> torch.Tensor:
    parts = x.numel() // block
    out, arrived = torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    last_sums_kernel[(parts,)](x, torch.empty(parts), arrived, out, BLOCK=block, PARTS=parts, SEM=sem)
    return out


@triton.jit
def cleared_sum_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Program 0 clears what the others may have added to before."""
    program = tl.program_id(0)
    if program == 0:
        tl.store(out_ptr, 0.0)
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + program * BLOCK + tl.arange(0, BLOCK)), axis=0))


def cleared_sum(x: torch.Tensor, block: int = 16) -> torch.Tensor:
    out = torch.empty(1)
    cleared_sum_kernel[(x.numel() // block,)](x, out, BLOCK=block)
    return out
