"""FlagGems: its operations, called as functions, against PyTorch's."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from driving import close, normal, run
from torch.nn import functional


def _op(module: str, name: str | None = None) -> Any:
    return getattr(import_module(f"flag_gems.ops.{module}"), name or module)


def softmax() -> None:
    x = normal(5, 300)
    # Twice: the second launch goes through the wrapper's own cache of compiled kernels.
    for _ in range(2):
        close(_op("softmax")(x, -1), x.softmax(-1))
    close(_op("softmax")(x, 0), x.softmax(0))


def softmax_backward() -> None:
    x, slope = normal(6, 90), normal(6, 90)
    y = x.softmax(-1)
    expected = y * (slope - (y * slope).sum(-1, keepdim=True))
    close(_op("softmax", "softmax_backward")(slope, y, -1, x.dtype), expected)


def mm() -> None:
    a, b = normal(48, 64).half(), normal(64, 80).half()
    close(_op("mm")(a, b), a @ b, 2e-2)


def addmm() -> None:
    bias, a, b = normal(80).half(), normal(48, 64).half(), normal(64, 80).half()
    close(_op("addmm")(bias, a, b, beta=0.5, alpha=2.0), torch.addmm(bias, a, b, beta=0.5, alpha=2.0), 2e-2)


def bmm() -> None:
    a, b = normal(2, 40, 64).half(), normal(2, 64, 48).half()
    close(_op("bmm")(a, b), a @ b, 2e-2)


def mv() -> None:
    a, b = normal(48, 70), normal(70)
    close(_op("mv")(a, b), a @ b, 1e-3)


def layer_norm() -> None:
    x, weight, bias = normal(6, 200), normal(200), normal(200)
    close(_op("layernorm", "layer_norm")(x, [200], weight, bias)[0], functional.layer_norm(x, [200], weight, bias))


def rms_norm() -> None:
    x, weight = normal(6, 200), normal(200)
    close(_op("rms_norm")(x, [200], weight), functional.rms_norm(x, [200], weight, 1e-5))


def group_norm() -> None:
    x, weight, bias = normal(2, 6, 40), normal(6), normal(6)
    close(_op("groupnorm", "group_norm")(x, weight, bias, 2, 6, 40, 3)[0], functional.group_norm(x, 3, weight, bias))


def gelu() -> None:
    x = normal(6, 200)
    close(_op("gelu")(x), functional.gelu(x))


def cumsum() -> None:
    x = normal(4, 300)
    close(_op("cumsum")(x, 1), x.cumsum(1), 1e-3)


def argmax() -> None:
    x = normal(4, 300)
    close(_op("argmax")(x, 1), x.argmax(1))


def topk() -> None:
    x = normal(3, 200)
    values, indexes = _op("topk")(x, 5)
    expected = x.topk(5)
    close([values, indexes], [expected.values, expected.indices])


def sort() -> None:
    x = normal(3, 100)
    values, indexes = _op("sort")(x)
    expected = x.sort()
    close([values, indexes], [expected.values, expected.indices])


def embedding() -> None:
    weight, at = normal(20, 32), torch.tensor([[1, 19], [0, 7]], device="cuda")
    close(_op("embedding")(weight, at), weight[at])


def gather() -> None:
    x, at = normal(6, 20), torch.randint(0, 20, (6, 8), device="cuda")
    close(_op("gather")(x, 1, at), x.gather(1, at))


def var_mean() -> None:
    x = normal(6, 200)
    close(_op("var_mean")(x, [1]), torch.var_mean(x, [1]), 1e-3)


def sum_dim() -> None:
    x = normal(6, 200)
    close(_op("sum", "sum_dim")(x, [1]), x.sum(1), 1e-3)


def dropout() -> None:
    x = normal(4000)
    result, kept = _op("dropout")(x, 0.25, True)
    close(result, torch.where(kept.bool(), x / 0.75, 0.0))
    assert 0.7 < kept.float().mean() < 0.8


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
