"""flash-attention: its Triton files, imported without the package's CUDA extension."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from driving import agree, bare_package, checkout, close, normal, run
from torch.nn import functional


def _from(module: str, name: str) -> Any:
    bare_package("flash_attn", checkout("flash-attention") / "flash_attn")
    return getattr(import_module(f"flash_attn.{module}"), name)


def rotary() -> None:
    x, angles = normal(2, 12, 3, 32), normal(12, 16)
    first, second = x.chunk(2, -1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    expected = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    close(_from("ops.triton.rotary", "apply_rotary")(x, angles.cos(), angles.sin()), expected)


def cross_entropy() -> None:
    apply = _from("ops.triton.cross_entropy", "cross_entropy_loss")
    target = torch.tensor([3, 99, 0, 41], device="cuda")
    reference = lambda x: functional.cross_entropy(x, target, reduction="none")  # noqa: E731
    agree(lambda x: apply(x, target)[0], reference, normal(4, 100))


def layer_norm() -> None:
    apply = _from("ops.triton.layer_norm", "layer_norm_fn")
    reference = lambda x, w, b: functional.layer_norm(x, w.shape, w, b, 1e-6)  # noqa: E731
    agree(apply, reference, normal(6, 200), normal(200), normal(200), tolerance=1e-3)


def attention() -> None:
    apply = _from("flash_attn_triton", "flash_attn_func")
    inputs = [normal(1, 128, 2, 64).half() for _ in range(3)]

    def reference(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        parts = [value.transpose(1, 2) for value in (q, k, v)]
        return functional.scaled_dot_product_attention(*parts, is_causal=True).transpose(1, 2)

    agree(lambda q, k, v: apply(q, k, v, None, True), reference, *inputs, tolerance=2e-2)


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
