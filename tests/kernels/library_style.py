"""Kernels as libraries write and launch them: what a compiled kernel is asked for, and names of their own.

Each function computes on small inputs and gives the result with the one that it must equal.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents

exp = tl.exp
"""A name of the file's own for a function of the language."""
Pair = tuple[torch.Tensor, torch.Tensor]


@triton.jit
def no_language_here(x, y):
    return x * y + x


@triton.jit
def scalar_kernel(x_ptr, out_ptr, eps, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    wide = eps.to(tl.float32) + eps.dtype.primitive_bitwidth
    tl.store(out_ptr + at, no_language_here(exp(x), wide), mask=at < n)


def scalars_and_names() -> Pair:
    x = torch.linspace(-1, 1, 50, device="cuda")
    out = torch.empty_like(x)
    scalar_kernel[(1,)](x, out, 0.5, 50, BLOCK=64)
    return out, x.exp() * 32.5 + x.exp()


@triton.jit
def rows_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=num_stages):
        at = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + at, mask=at < columns, other=0.0)
        tl.store(out_ptr + row * columns + at, x * 2, mask=at < columns)


def occupancy() -> Pair:
    """As many programs as fit, from what the compiled kernel needs and the GPU has; then the compiled kernel runs."""
    x = torch.randn(9, 40, device="cuda")
    out = torch.empty_like(x)
    properties = triton.runtime.driver.active.utils.get_device_properties(0)
    kernel = rows_kernel.warmup(x, out, 9, 40, BLOCK=64, num_stages=2, num_warps=4, grid=(1,))
    kernel._init_handles()
    assert 8 <= kernel.n_regs <= 255 and kernel.metadata.num_warps == 4
    fitting = properties["max_num_regs"] // (kernel.n_regs * properties["warpSize"] * 4)
    kernel[(min(fitting, 3), 1, 1)](x, out, 9, 40, 64, 2)
    return out, x * 2


class KeptKernel(triton.KernelInterface):
    """A wrapper that keeps the compiled kernel of its first launch, and launches that with what is not constant."""

    def __init__(self, function):
        self.fn = function
        while not isinstance(function, triton.runtime.JITFunction):
            function = function.fn
        self.names = [parameter.name for parameter in function.params]
        self.kernel = None

    def run(self, *args, **kwargs):
        if self.kernel is None:
            self.kernel = self.fn.run(*args, **kwargs)
        else:
            self.kernel[kwargs["grid"]](*args)


@KeptKernel
@triton.autotune([triton.Config({"FACTOR": 3}), triton.Config({"FACTOR": 5})], key=["n"])
@triton.heuristics({"BLOCK": lambda arguments: triton.next_power_of_2(arguments["n"])})
@triton.jit(do_not_specialize=["n"])
def stacked_kernel(x_ptr, out_ptr, n, FACTOR: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=at < n) * FACTOR, mask=at < n)


def kept_kernel() -> Pair:
    x = torch.randn(50, device="cuda")
    first, second = torch.empty_like(x), torch.empty_like(x)
    stacked_kernel[(1, 1, 1)](x, first, 50)
    stacked_kernel[(1, 1, 1)](first, second, 50)
    return second, x * 9


@triton.jit
def dependent_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.extra.cuda.gdc_wait()
    x = tl.load(x_ptr + at)
    gdc_launch_dependents()
    started = tl.extra.cuda.globaltimer()
    fast = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    tl.store(out_ptr + at, tl.where(started > 0, fast, 0.0))


def dependent_launch() -> Pair:
    x = torch.randn(64, device="cuda")
    out = torch.empty_like(x)
    dependent_kernel[(1,)](x, out, BLOCK=64, launch_pdl=True)
    return out, torch.tanh(x)


@triton.jit
def addressed_kernel(addresses_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x_ptr = tl.load(addresses_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(out_ptr + tl.program_id(0) * n + at, tl.load(x_ptr + at, mask=at < n), mask=at < n)


def addresses(read: int = 20) -> Pair:
    """Tensors that the kernel finds by their addresses in memory."""
    group = [torch.randn(20, device="cuda") for _ in range(3)]
    pointers = torch.tensor([member.data_ptr() for member in group], device="cuda")
    out = torch.zeros(3, read, device="cuda")
    addressed_kernel[(3,)](pointers, out, read, BLOCK=32)
    return out[:, :20], torch.stack(group)


class TypedPointer:
    """All that a GPU needs of a tensor."""

    def __init__(self, tensor: torch.Tensor, offset: int) -> None:
        self.address = tensor.data_ptr() + tensor.element_size() * offset
        self.dtype = tensor.dtype

    def data_ptr(self) -> int:
        return self.address


@triton.jit
def smallest(DTYPE: tl.constexpr):
    kind: tl.constexpr = DTYPE.value
    return -float("inf") if kind.is_floating() else -(2**31)


@triton.jit
def pointed_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=smallest(x_ptr.dtype.element_ty))
    tl.store(out_ptr, tl.load(x_ptr + tl.argmax(x, axis=0)))


def typed_pointers() -> Pair:
    x, out = torch.randn(50, device="cuda"), torch.empty(1, device="cuda")
    pointed_kernel[(1,)](TypedPointer(x, 30), out, 20, BLOCK=32)
    return out, x[30:].max()[None]


@triton.jit
def logical_kernel(x_ptr, out_ptr, rows, columns, EXTRA: tl.constexpr, BLOCK: tl.constexpr):
    """`and`, `or`, `not`, `min` of blocks, each lane for itself; a constant that decides ends the evaluation."""
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = row < rows and column < columns
    x = tl.zeros((BLOCK, BLOCK), tl.float32)
    for step in range(2):
        part = tl.load(x_ptr + row * columns + column, mask=inside & (column % 2 == step), other=0.0)
        x += part * (step.to(tl.float32) * 0 + 1) + (step.dtype.primitive_bitwidth - 32)
    x = min(x, 0.5) if EXTRA is not None and EXTRA.anything else min(x, 1.0)
    tl.store(out_ptr + row * columns + column, tl.where(not (row > 1 or column > 2), x, -x), mask=inside)


def logic_of_blocks() -> Pair:
    x = torch.randn(5, 7, device="cuda")
    out = torch.empty_like(x)
    logical_kernel[(1,)](x, out, 5, 7, None, BLOCK=8)
    kept = torch.zeros(5, 7, dtype=torch.bool)
    kept[:2, :3] = True
    return out, torch.where(kept, x.clamp(max=1.0), -x.clamp(max=1.0))


@triton.jit
def scaled_product_kernel(a_ptr, scale_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr, GROUP: tl.constexpr):
    rows, bytes_at, groups = tl.arange(0, M), tl.arange(0, K // 2), tl.arange(0, K // GROUP)
    a = tl.load(a_ptr + rows[:, None] * (K // 2) + bytes_at[None, :])
    scale = tl.load(scale_ptr + rows[:, None] * (K // GROUP) + groups[None, :])
    product = tl.dot_scaled(a, scale, "e2m1", a.T, scale, "e2m1")
    tl.store(out_ptr + rows[:, None] * M + rows[None, :], product)


def scaled_product() -> Pair:
    """Four-bit numbers with a scale of eight bits for 16 of them, as nvfp4 has them."""
    codes = torch.randint(0, 16, (32, 64), device="cuda")
    scale = (torch.rand(32, 4, device="cuda") + 0.5).to(torch.float8_e4m3fn)
    packed = (codes[:, ::2] | (codes[:, 1::2] << 4)).to(torch.uint8)
    out = torch.empty(32, 32, device="cuda")
    scaled_product_kernel[(1,)](packed, scale, out, M=32, K=64, GROUP=16)
    sizes = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
    values = torch.cat([sizes, -sizes])[codes] * scale.float().repeat_interleave(16, 1)
    return out, values @ values.T


def device_blas() -> Pair:
    from triton._C.libtriton import nvidia

    a, b = torch.randn(16, 8, device="cuda").half(), torch.randn(24, 8, device="cuda").half()
    out = torch.empty(16, 24, device="cuda", dtype=torch.float16)
    nvidia.cublas.CublasLt(torch.empty(1024, dtype=torch.uint8, device="cuda")).matmul(a, b, out)
    return out, a @ b.T


CASES = (
    scalars_and_names,
    occupancy,
    kept_kernel,
    dependent_launch,
    addresses,
    typed_pointers,
    logic_of_blocks,
    scaled_product,
    device_blas,
)

if __name__ == "__main__":
    torch.manual_seed(0)
    for case in CASES:
        result, expected = case()
        assert torch.allclose(result, expected, rtol=1e-2, atol=1e-2), case.__name__
    state = torch.cuda.default_generators[0].get_state()
    torch.cuda.default_generators[0].set_state(state.view(torch.int64).add(4).view(torch.uint8))
    assert torch.cuda.default_generators[0].get_offset() == 4
    assert torch.cuda.get_device_capability()[0] * 10 == math.floor(
        triton.runtime.driver.active.get_current_target().arch
    )
