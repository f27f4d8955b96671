"""flash-linear-attention: modules and attention operations, against plain PyTorch and its recurrences."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from driving import agree, bare_package, checkout, close, normal, run
from torch.nn import functional


def _from(module: str, name: str) -> Any:
    """Without the packages' own imports: some kernels have keys of their autotune that Triton 3.9 refuses."""
    for package in ("fla", "fla.ops"):
        bare_package(package, checkout("flash-linear-attention").joinpath(*package.split(".")))
    return getattr(import_module(f"fla.{module}"), name)


def softmax() -> None:
    x = normal(5, 70)
    close(_from("ops.utils.softmax", "softmax_fwd")(x), x.softmax(-1))


def logsumexp() -> None:
    x = normal(5, 70)
    close(_from("ops.utils.logsumexp", "logsumexp_fwd")(x), x.logsumexp(-1))


def cumsum() -> None:
    x = normal(2, 96, 3)
    expected = torch.cat([part.cumsum(1) for part in x.split(32, 1)], 1)
    close(_from("ops.utils.cumsum", "chunk_local_cumsum")(x, 32), expected, 1e-3)


def layer_norm() -> None:
    apply = _from("modules.layernorm", "layer_norm")
    reference = lambda x, w, b: functional.layer_norm(x, w.shape, w, b)  # noqa: E731
    agree(apply, reference, normal(6, 200), normal(200), normal(200), tolerance=1e-3)


def l2norm() -> None:
    agree(_from("modules.l2norm", "l2norm"), lambda x: functional.normalize(x, dim=-1), normal(6, 64))


def swiglu() -> None:
    agree(_from("modules.activations", "swiglu"), lambda x, y: functional.silu(x) * y, normal(6, 64), normal(6, 64))


def rotary() -> None:
    x, angles = normal(2, 12, 3, 32), normal(12, 16)
    first, second = x.chunk(2, -1)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    expected = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    close(_from("modules.rotary", "rotary_embedding")(x, angles.cos(), angles.sin()), expected)


def cross_entropy() -> None:
    apply = _from("modules.fused_cross_entropy", "cross_entropy_loss")
    target = torch.tensor([3, 99, 0, 41], device="cuda")
    reference = lambda x: functional.cross_entropy(x, target, reduction="none")  # noqa: E731
    agree(lambda x: apply(x, target)[0], reference, normal(4, 100))


def _recurrent(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
    """Each step: the state decays, takes up k·v, and is read by q."""
    state, outputs = torch.zeros(q.shape[0], q.shape[2], q.shape[3], v.shape[3]), []
    for at in range(q.shape[1]):
        state = state * decay[:, at, :, :, None] + k[:, at, :, :, None] * v[:, at, :, None, :]
        outputs.append((q[:, at, :, :, None] * q.shape[-1] ** -0.5 * state).sum(-2))
    return torch.stack(outputs, 1)


def _qkv(length: int, size: int = 32) -> list[torch.Tensor]:
    return [normal(1, length, 2, size) for _ in range(3)]


def recurrent_gla() -> None:
    apply = _from("ops.gla", "fused_recurrent_gla")
    gate = functional.logsigmoid(normal(1, 20, 2, 32))
    reference = lambda q, k, v, g: _recurrent(q, k, v, g.exp())  # noqa: E731
    agree(lambda q, k, v, g: apply(q, k, v, g)[0], reference, *_qkv(20), gate, tolerance=2e-3)


def chunk_gla() -> None:
    apply = _from("ops.gla", "chunk_gla")
    q, k, v = _qkv(64)
    gate = functional.logsigmoid(normal(1, 64, 2, 32)) / 4
    close(apply(q, k, v, gate)[0], _recurrent(q, k, v, gate.exp()), 1e-2)


def chunk_simple_gla() -> None:
    apply = _from("ops.simple_gla", "chunk_simple_gla")
    gate = functional.logsigmoid(normal(1, 64, 2)) / 4
    reference = lambda q, k, v, g: _recurrent(q, k, v, g.exp()[..., None])  # noqa: E731
    agree(lambda q, k, v, g: apply(q, k, v, g)[0], reference, *_qkv(64), gate, tolerance=2e-2)


def chunk_retention() -> None:
    q, k, v = _qkv(64)
    decay = (1 - 2.0 ** (-5 - torch.arange(2.0))).expand(1, 64, 2)[..., None]
    close(_from("ops.retention", "chunk_retention")(q, k, v)[0], _recurrent(q, k, v, decay), 1e-2)


def recurrent_hgrn() -> None:
    def reference(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        state, outputs = torch.zeros(2, 32), []
        for at in range(x.shape[1]):
            state = g[:, at].exp() * state + x[:, at]
            outputs.append(state)
        return torch.stack(outputs, 1)

    apply = _from("ops.hgrn", "fused_recurrent_hgrn")
    gate = functional.logsigmoid(normal(2, 20, 32))
    agree(lambda x, g: apply(x, g)[0], reference, normal(2, 20, 32), gate, tolerance=1e-3)


def chunk_delta_rule() -> None:
    q, k, v = _qkv(64)
    k, beta = functional.normalize(k, dim=-1), torch.rand(1, 64, 2, device="cuda")
    state, outputs = torch.zeros(1, 2, 32, 32), []
    for at in range(64):
        old = (k[:, at, :, :, None] * state).sum(-2)
        new = (v[:, at] - old) * beta[:, at, :, None]
        state = state + k[:, at, :, :, None] * new[:, :, None, :]
        outputs.append((q[:, at, :, :, None] * 32**-0.5 * state).sum(-2))
    halves = [value.bfloat16() for value in (q, k, v, beta)]
    close(_from("ops.delta_rule", "chunk_delta_rule")(*halves)[0], torch.stack(outputs, 1), 5e-2)


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
