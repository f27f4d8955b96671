"""Triton's tutorials: their functions on small sizes, without the benchmarks at their ends."""

from __future__ import annotations

from typing import Any

import torch
from driving import agree, checkout, close, definitions, normal, run


def _tutorial(number: str) -> Any:
    (file,) = checkout("triton").glob(f"python/tutorials/{number}-*.py")
    return definitions(file)


def _halves(*shape: int) -> torch.Tensor:
    return (torch.rand(shape, device="cuda") - 0.5).half()


def vector_add() -> None:
    x, y = normal(3000), normal(3000)
    close(_tutorial("01").add(x, y), x + y)


def fused_softmax() -> None:
    x = normal(37, 781)
    close(_tutorial("02").softmax(x), x.softmax(1))


def matmul() -> None:
    a, b = _halves(200, 128), _halves(128, 96)
    close(_tutorial("03").matmul(a, b), a @ b, 1e-2)


def dropout() -> None:
    x, keep = normal(1500), torch.rand(1500, device="cuda") > 0.5
    close(_tutorial("04").dropout(x, keep.int(), 0.5), torch.where(keep, x * 2, 0.0))


def seeded_dropout() -> None:
    x, seeded = normal(4000), _tutorial("04").seeded_dropout
    result = seeded(x, p=0.25, seed=123)
    kept = result != 0
    close(result, torch.where(kept, x / 0.75, 0.0))
    close(result, seeded(x, p=0.25, seed=123))
    assert 0.7 < kept.float().mean() < 0.8 and not torch.equal(result, seeded(x, p=0.25, seed=512))


def layer_norm() -> None:
    module = _tutorial("05")
    ours = lambda x, w, b: module.LayerNorm.apply(x, w.shape, w, b, 1e-5)  # noqa: E731
    reference = lambda x, w, b: torch.nn.functional.layer_norm(x, w.shape, w, b, 1e-5)  # noqa: E731
    agree(ours, reference, normal(70, 300), normal(300), normal(300), tolerance=1e-3)


def fused_attention() -> None:
    apply = _tutorial("06").attention

    def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = (q @ k.transpose(2, 3)).float() * 0.5
        hidden = torch.ones(q.shape[2], q.shape[2]).tril() == 0
        return scores.masked_fill(hidden, float("-inf")).softmax(-1).half() @ v

    inputs = [(normal(1, 2, 128, 64) * 0.5).half() for _ in range(3)]
    agree(lambda q, k, v: apply(q, k, v, True, 0.5, False), reference, *inputs, tolerance=2e-2)


def extern_functions() -> None:
    module, x = _tutorial("07"), torch.rand(3000, device="cuda")
    result = torch.zeros_like(x)
    module.asin_kernel[(3,)](x, result, 3000, BLOCK_SIZE=1024)
    close(result, torch.asin(x))


def grouped_gemm() -> None:
    a, b = [_halves(256, 128), _halves(128, 64)], [_halves(128, 128), _halves(64, 256)]
    close(_tutorial("08").group_gemm_fn(a, b), [left @ right for left, right in zip(a, b, strict=True)], 1e-2)


def grouped_gemm_tma() -> None:
    a, b = [_halves(128, 64), _halves(256, 64)], [_halves(128, 64), _halves(128, 64)]
    close(_tutorial("08").group_gemm_tma_fn(a, b), [left @ right.T for left, right in zip(a, b, strict=True)], 1e-2)


def _persistent(name: str, transposed: bool, *options: Any) -> None:
    a, b = _halves(256, 128), _halves(256, 128)
    result = getattr(_tutorial("09"), name)(a, b if transposed else b.T, *options)
    close(result, a @ b.T, 1e-2)


def matmul_naive() -> None:
    _persistent("matmul", False)


def matmul_persistent() -> None:
    _persistent("matmul_persistent", False)


def matmul_tma() -> None:
    _persistent("matmul_tma", True, False)


def matmul_tma_persistent() -> None:
    _persistent("matmul_tma_persistent", True, True)


def matmul_tma_clc() -> None:
    _persistent("matmul_tma_clc", True, False)


def matmul_descriptor_persistent() -> None:
    _persistent("matmul_descriptor_persistent", True, False)


def device_blas() -> None:
    a, b = _halves(256, 128), _halves(256, 128)
    close(_tutorial("09").device_blas_matmul(a, b), a @ b.T, 1e-2)


def _block_scaled(kind: str) -> None:
    """The tutorial's own comparison with its reference."""
    _tutorial("10").validate_block_scaled(128, 256, 512, block_scale_type=kind)


def nvfp4() -> None:
    _block_scaled("nvfp4")


def mxfp4() -> None:
    _block_scaled("mxfp4")


def mxfp8() -> None:
    _block_scaled("mxfp8")


def dependent_launch() -> None:
    x, y = normal(3000), normal(3000)
    close(_tutorial("11").add(x, y, launch_pdl=True), x + y)


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
