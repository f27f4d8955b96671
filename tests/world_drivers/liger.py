"""Liger-Kernel: each operation forwards and backwards against PyTorch."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from driving import agree, normal, run
from torch.nn import functional


def _op(module: str, name: str) -> Any:
    return getattr(import_module(f"liger_kernel.ops.{module}"), name).apply


def _rms(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def rms_norm() -> None:
    apply = _op("rms_norm", "LigerRMSNormFunction")
    agree(lambda x, w: apply(x, w, 1e-6, 0.0, "llama", False), _rms, normal(6, 200), normal(200))


def layer_norm() -> None:
    apply = _op("layer_norm", "LigerLayerNormFunction")
    reference = lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b, 1e-5)  # noqa: E731
    agree(lambda x, w, b: apply(x, w, b, 1e-5), reference, normal(6, 200), normal(200), normal(200))


def swiglu() -> None:
    agree(_op("swiglu", "LigerSiLUMulFunction"), lambda a, b: functional.silu(a) * b, normal(5, 72), normal(5, 72))


def geglu() -> None:
    reference = lambda a, b: functional.gelu(a, approximate="tanh") * b  # noqa: E731
    agree(_op("geglu", "LigerGELUMulFunction"), reference, normal(5, 72), normal(5, 72))


def softmax() -> None:
    agree(_op("softmax", "LigerSoftmaxFunction"), lambda x: x.softmax(-1), normal(5, 300))


def sparsemax() -> None:
    def reference(x: torch.Tensor) -> torch.Tensor:
        ordered = x.sort(-1, descending=True).values
        sums, counts = ordered.cumsum(-1), torch.arange(1, x.shape[-1] + 1)
        size = (1 + counts * ordered > sums).sum(-1, keepdim=True)
        return (x - (sums.gather(-1, size - 1) - 1) / size).clamp(min=0)

    apply = _op("sparsemax", "LigerSparsemaxFunction")
    agree(lambda x: apply(x, -1), reference, normal(5, 60))


def cross_entropy() -> None:
    apply = _op("cross_entropy", "LigerCrossEntropyFunction")
    target = torch.tensor([3, 99, -100, 0, 41, 7], device="cuda")
    agree(lambda x: apply(x, target, None, -100)[0], lambda x: functional.cross_entropy(x, target), normal(6, 100))


def fused_linear_cross_entropy() -> None:
    apply = _op("fused_linear_cross_entropy", "LigerFusedLinearCrossEntropyFunction")
    target = torch.tensor([3, 99, -100, 0, 41, 7], device="cuda")
    reference = lambda x, w: functional.cross_entropy(x @ w.T, target)  # noqa: E731
    agree(lambda x, w: apply(x, w, target)[0], reference, normal(6, 32), normal(100, 32))


def kl_div() -> None:
    apply = _op("kl_div", "LigerKLDivLossFunction")
    target = normal(4, 90).softmax(-1)
    reference = lambda x: functional.kl_div(x, target, reduction="batchmean")  # noqa: E731
    agree(lambda x: apply(x, target), reference, normal(4, 90).log_softmax(-1))


def jsd() -> None:
    apply = _op("jsd", "LigerJSDFunction")
    target = normal(4, 90).log_softmax(-1)

    def reference(x: torch.Tensor) -> torch.Tensor:
        middle = ((x.exp() + target.exp()) / 2).log()
        parts = [functional.kl_div(middle, log, reduction="batchmean", log_target=True) for log in (x, target)]
        return (parts[0] + parts[1]) / 2

    agree(lambda x: apply(x, target), reference, normal(4, 90).log_softmax(-1))


def tvd() -> None:
    apply = _op("tvd", "LigerTVDLossFunction")
    target = normal(4, 90).softmax(-1)
    reference = lambda p: (p - target).abs().sum() / 2 / len(p)  # noqa: E731
    agree(lambda p: apply(p, target), reference, normal(4, 90).softmax(-1))


def dyt() -> None:
    reference = lambda x, a, g, b: g * torch.tanh(a * x) + b  # noqa: E731
    agree(_op("dyt", "LigerDyTFunction"), reference, normal(4, 90), normal(1), normal(90), normal(90))


def rope() -> None:
    apply = _op("rope", "LigerRopeFunction")
    angles = normal(1, 6, 16).repeat(1, 1, 2)

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * angles.cos()[:, None] + torch.cat([-second, first], -1) * angles.sin()[:, None]

    def applied(q: torch.Tensor, k: torch.Tensor) -> Any:
        # The kernel writes into its arguments.
        return apply(q.clone(), k.clone(), angles.cos(), angles.sin())

    agree(applied, lambda q, k: (turned(q), turned(k)), normal(2, 4, 6, 32), normal(2, 2, 6, 32))


def group_norm() -> None:
    apply = _op("group_norm", "LigerGroupNormFunction")
    reference = lambda x, w, b: functional.group_norm(x, 3, w, b, 1e-5)  # noqa: E731
    ours = lambda x, w, b: apply(x, w, b, 6, 3, 1e-5)  # noqa: E731
    agree(ours, reference, normal(2, 6, 40), normal(6), normal(6), tolerance=1e-3)


def relu_squared() -> None:
    agree(_op("relu_squared", "LigerReLUSquaredFunction"), lambda x: functional.relu(x).square(), normal(5, 72))


def poly_norm() -> None:
    apply = _op("poly_norm", "LigerPolyNormFunction")

    def reference(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        powers = [x**3, x**2, x]
        normed = [power * torch.rsqrt(power.square().mean(-1, keepdim=True) + 1e-6) for power in powers]
        return w[0] * normed[0] + w[1] * normed[1] + w[2] * normed[2] + b

    agree(lambda x, w, b: apply(x, w, b, 1e-6, False), reference, normal(5, 72), normal(3), normal(), tolerance=1e-3)


def fused_add_rms_norm() -> None:
    apply = _op("fused_add_rms_norm", "LigerFusedAddRMSNormFunction")
    reference = lambda x, r, w: (_rms(x + r, w), x + r)  # noqa: E731
    agree(lambda x, r, w: apply(x, r, w, 1e-6), reference, normal(6, 200), normal(6, 200), normal(200))


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
