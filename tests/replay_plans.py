"""Replay plans made by hand, for the tests that run them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats.replay_plan import (
    DTYPES,
    Argument,
    Fill,
    Kernel,
    ReplayPlan,
    Storage,
    TensorView,
    Times,
    Unit,
)


def times(ns: int = 1000, count: int = 1) -> Times:
    return Times(ns * count, float(ns), float(ns), float(ns), ns, ns)


def tensor(
    storage: int, *shape: int, dtype: str = "float32", stride: tuple[int, ...] = (), offset: int = 0
) -> Argument:
    """Contiguous where no stride is given."""
    steps = stride or tuple(math.prod(shape[place + 1 :]) for place in range(len(shape)))
    return Argument("tensor", tensor=TensorView(storage, shape, steps, dtype, offset))


def storage(elements: int, dtype: str = "float32", fill: Fill | None = None, **facts: Any) -> Storage:
    return Storage(elements * DTYPES[dtype], dtype, fill or Fill(), **facts)


def value(kind: str, given: Any = None) -> Argument:
    return Argument(kind, given)


def listed(*items: Argument) -> Argument:
    return Argument("list", items=items)


def choice(*items: Argument) -> Argument:
    return Argument("choice", items=items)


def unit(op: str, arguments: tuple[Argument, ...] = (), storages: tuple[Storage, ...] = (), **facts: Any) -> Unit:
    """`ns`: its traced time."""
    ns = facts.pop("ns", 1000)
    count = facts.pop("count", 1)
    name, _, overload = op.partition(".")
    kernels = facts.pop("kernels", (Kernel("some_kernel", "kernel", times(ns, count), grid=(1, 1, 1)),))
    identity = facts.pop("id", op)
    return Unit(identity, name, kernels, count, times(ns, count), "ATen op", overload, "", arguments, storages, **facts)


def add(identity: str = "add", ns: int = 1000, **facts: Any) -> Unit:
    arguments = (tensor(0, 4, 8), tensor(1, 4, 8))
    return unit("aten::add.Tensor", arguments, (storage(32), storage(32)), id=identity, ns=ns, **facts)


def plan(*units: Unit, **facts: Any) -> ReplayPlan:
    gpu_ns = sum(each.times.total_ns for each in units)
    return ReplayPlan(trace="made.json", content_hash="", gpu_ns=gpu_ns, wall_ns=2 * gpu_ns, units=units, **facts)


def saved(folder: Path, *units: Unit, **facts: Any) -> Path:
    path = folder / "plan.json"
    plan_file.save(path, plan(*units, **facts))
    return path
