"""unsloth: its kernels' wrappers, imported without the package's own patches of other libraries."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from driving import agree, bare_package, checkout, close, normal, run
from torch.nn import functional


def _from(module: str, name: str) -> Any:
    for package in ("unsloth", "unsloth.kernels"):
        bare_package(package, checkout("unsloth").joinpath(*package.split(".")))
    return getattr(import_module(f"unsloth.kernels.{module}"), name)


def _rms(gemma: bool) -> None:
    apply, weight = _from("rms_layernorm", "fast_rms_layernorm"), normal(200)
    layer = SimpleNamespace(weight=weight, variance_epsilon=1e-6)
    scale = weight + 1 if gemma else weight
    reference = lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * scale  # noqa: E731
    agree(lambda x: apply(layer, x, gemma), reference, normal(6, 200))


def rms_layernorm() -> None:
    _rms(gemma=False)


def gemma_rms_layernorm() -> None:
    _rms(gemma=True)


def layernorm() -> None:
    apply, weight, bias = _from("layernorm", "fast_layernorm"), normal(200), normal(200)
    layer = SimpleNamespace(weight=weight, bias=bias, eps=1e-5, elementwise_affine=True)
    agree(lambda x: apply(layer, x), lambda x: functional.layer_norm(x, [200], weight, bias), normal(6, 200))


def swiglu() -> None:
    e, g = normal(2, 3, 70), normal(2, 3, 70)
    close(_from("swiglu", "swiglu_fg_kernel")(e, g), functional.silu(e) * g)


def swiglu_backward() -> None:
    slope, e, g = normal(6, 70), normal(6, 70), normal(6, 70)
    sigmoid = torch.sigmoid(e)
    expected = [e * sigmoid * g, slope * e * sigmoid, slope * g * sigmoid * (1 + e * (1 - sigmoid))]
    close(_from("swiglu", "swiglu_DWf_DW_dfg_kernel")(slope.clone(), e.clone(), g.clone()), expected)


def geglu_exact() -> None:
    e, g = normal(2, 3, 70), normal(2, 3, 70)
    close(_from("geglu", "geglu_exact_forward_kernel")(e, g), functional.gelu(e) * g)


def geglu_approximate() -> None:
    e, g = normal(2, 3, 70), normal(2, 3, 70)
    expected = functional.gelu(e, approximate="tanh") * g
    close(_from("geglu", "geglu_approx_forward_kernel")(e, g), expected)


def rope() -> None:
    q, k, angles = normal(2, 4, 6, 32), normal(2, 2, 6, 32), normal(6, 16).repeat(1, 2)

    def turned(x: torch.Tensor) -> torch.Tensor:
        first, second = x.chunk(2, -1)
        return x * angles.cos() + torch.cat([-second, first], -1) * angles.sin()

    result = _from("rope_embedding", "fast_rope_embedding")(q.clone(), k.clone(), angles.cos(), angles.sin())
    close(result, [turned(q), turned(k)])


def cross_entropy() -> None:
    apply = _from("cross_entropy_loss", "fast_cross_entropy_loss")
    target = torch.tensor([[3, 99, 0, -100]], device="cuda")
    reference = lambda x: functional.cross_entropy(x.view(-1, 100), target.view(-1))  # noqa: E731
    agree(lambda x: apply(x.clone(), target), reference, normal(1, 4, 100))


def fp8_dequantise() -> None:
    codes = normal(256, 256).to(torch.float8_e4m3fn)
    scales = torch.rand(2, 2, device="cuda")
    expected = codes.float() * scales.repeat_interleave(128, 0).repeat_interleave(128, 1)
    close(_from("fp8", "weight_dequant_block")(codes, scales, 128, torch.float32), expected)


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
