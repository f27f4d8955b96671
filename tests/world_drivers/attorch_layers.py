"""attorch: its layers forwards and backwards against those of PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from driving import agree, normal, run
from torch import nn


def _layer(name: str, *shape: int, options: tuple[Any, ...] = (), tolerance: float = 1e-3) -> None:
    import attorch

    agree(getattr(attorch, name)(*options), getattr(nn, name)(*options), normal(*shape), tolerance=tolerance)


def softmax() -> None:
    _layer("Softmax", 6, 90, options=(-1,))


def gelu() -> None:
    _layer("GELU", 6, 90)


def mish() -> None:
    _layer("Mish", 6, 90)


def glu() -> None:
    _layer("GLU", 6, 90)


def layer_norm() -> None:
    _layer("LayerNorm", 6, 90, options=(90,))


def rms_norm() -> None:
    _layer("RMSNorm", 6, 90, options=(90,))


def batch_norm() -> None:
    _layer("BatchNorm2d", 4, 3, 5, 6, options=(3,))


def linear() -> None:
    import attorch

    ours, theirs = attorch.Linear(40, 24), nn.Linear(40, 24)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight.T)
        theirs.bias.copy_(ours.bias)
    agree(ours, theirs, normal(20, 40), tolerance=1e-2)


def conv2d() -> None:
    import attorch

    ours, theirs = attorch.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
    theirs.load_state_dict(ours.state_dict())
    agree(ours, theirs, normal(2, 3, 6, 7), tolerance=1e-2, backward=False)


def cross_entropy() -> None:
    import attorch

    target = torch.tensor([3, 9, 0, 4], device="cuda")
    agree(lambda x: attorch.CrossEntropyLoss()(x, target), lambda x: nn.CrossEntropyLoss()(x, target), normal(4, 10))


def mse_loss() -> None:
    import attorch

    agree(attorch.MSELoss(), nn.MSELoss(), normal(6, 90), normal(6, 90))


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
