"""tritonbench: kernels of its operators, launched as the operators do."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
import triton
from driving import close, normal, run

LENGTHS = (3, 0, 17, 9)


def _kernels(operator: str, module: str = "kernels") -> Any:
    return import_module(f"tritonbench.operators.{operator}.{module}")


def vector_add() -> None:
    x, y = normal(3000), normal(3000)
    result = torch.empty_like(x)
    _kernels("vector_add").triton_add_kernel[(3,)](x, y, result, 3000, BLOCK_SIZE=1024)
    close(result, x + y)


def vector_exp() -> None:
    x = normal(3000)
    result = torch.empty_like(x)
    _kernels("vector_exp").triton_exp_kernel[(3,)](x, result, 3000, BLOCK_SIZE=1024)
    close(result, x.exp())


def scalar_sum() -> None:
    x, result = normal(1000), torch.zeros(1, device="cuda")
    _kernels("sum").triton_sum_kernel_scalar_result[(1,)](x, result, 1000, BLOCK_SIZE_M=1024)
    close(result, x.sum()[None], 1e-3)


def _jagged(operator: str, kernel: str, per_row: bool, *limit: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Rows of several matrices one below the other, with the offset of each; with one result a matrix or a row."""
    parts = [normal(length, 20) for length in LENGTHS if length]
    values = torch.cat(parts)
    ends = torch.tensor([len(part) for part in parts], device="cuda").cumsum(0)
    offsets = torch.cat([torch.zeros(1, dtype=ends.dtype, device="cuda"), ends])
    result = torch.empty(len(values) if per_row else len(parts), 20, device="cuda")
    grid = lambda meta: (len(parts) * triton.cdiv(20, meta["BLOCK_SIZE_M"]),)  # noqa: E731
    getattr(_kernels(operator), kernel)[grid](values, offsets, result, 20, *limit)
    return result, parts


def jagged_mean() -> None:
    kernel = "triton_jagged_mean_kernel_simple_fused_sum_then_buffer"
    result, parts = _jagged("jagged_mean", kernel, False, max(LENGTHS))
    close(result, torch.stack([part.mean(0) for part in parts]))


def jagged_sum() -> None:
    kernel = "triton_jagged_sum_kernel_variable_length_loop_sum_then_buffer"
    result, parts = _jagged("jagged_sum", kernel, False)
    close(result, torch.stack([part.sum(0) for part in parts]))


def jagged_softmax() -> None:
    kernel = "triton_jagged_softmax_kernel_variable_length_loop_buffer_then_sum"
    result, parts = _jagged("jagged_softmax", kernel, True)
    close(result, torch.cat([part.softmax(0) for part in parts]))


def int4_gemm() -> None:
    module = _kernels("int4_gemm", "kernel")
    a, codes = normal(16, 256).bfloat16(), torch.randint(-8, 8, (256, 128), device="cuda")
    packed = ((codes[::2] & 15) | ((codes[1::2] & 15) << 4)).to(torch.int8)
    close(module.matmul(a, packed), a.float() @ codes.float(), 2e-2)


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
