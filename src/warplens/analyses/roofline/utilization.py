"""How many operations a step asks for, and how many the GPU could do: what model FLOPs utilisation is made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.roofline.costing import Costing, costing, kernel_dtype
from warplens.analyses.roofline.limits import unit_of
from warplens.analyses.workspace import Workspace
from warplens.costs import MATRIX
from warplens.hardware import Gpu
from warplens.model.trace import Bools


class Utilization(NamedTuple):
    """Operations per step (of the trace without steps), and the peak of the unit that does most products."""

    tflop: float
    peak_tflops: float
    peak_of: str
    costed_percent: float


def utilization(work: Workspace) -> Utilization | None:
    """None where the GPU, or the cost of any matrix product, is not known."""
    costs, gpu = costing(work), work.hardware
    if gpu is None:
        return None
    peak = _product_peak(work, costs, gpu)
    if peak is None:
        return None
    unit, dtype = peak
    # The data sheet's, as everybody's MFU is; a ceiling that was measured would flatter.
    tflops = gpu.datasheet.of(unit).get(dtype) or (ceiling.value if (ceiling := gpu.peak_tflops(unit, dtype)) else 0.0)
    gpus = work.gpu["device"].n_unique()
    costed = int(costs.groups.filter(pl.col("cost") >= 0)["total_ns"].sum())
    return Utilization(
        _flop_of_step(work, costs) / 1e12, tflops * gpus, f"{unit} {dtype}", 100 * costed / max(1, work.gpu_total_ns)
    )


def _flop_of_step(work: Workspace, costs: Costing) -> float:
    """The mean over the steps that launched GPU work."""
    steps = work.gpu["step"].to_numpy()
    in_steps = steps >= 0
    if not in_steps.any():
        return flop_of_calls(costs, np.ones(len(steps), bool))
    return flop_of_calls(costs, in_steps) / len(np.unique(steps[in_steps]))


def flop_of_calls(costs: Costing, chosen: Bools) -> float:
    """Operations of the calls that these GPU events belong to, upper bounds left out.

    A call counts once and whole, however many kernels it has and however long they take: it belongs where its first
    event does, as it was made in one step.
    """
    flop_of_cost = np.array([0.0 if cost.is_loose else float(cost.flop) for cost in costs.costs] + [0.0])
    flop_of_group = flop_of_cost[costs.groups["cost"].to_numpy()]
    first_events = np.unique(costs.event_call, return_index=True)[1]
    first_events = first_events[chosen[first_events]]
    return float(flop_of_group[costs.event_group[first_events]].sum())


def _product_peak(work: Workspace, costs: Costing, gpu: Gpu) -> tuple[str, str] | None:
    """The unit and number type of most operations of matrix products."""
    flop_by_unit: dict[tuple[str, str], float] = {}
    for number, kernel, count, union_ns in costs.groups.select("cost", "kernel", "count", "union_ns").iter_rows():
        cost = costs.costs[number] if number >= 0 else None
        if cost is None or cost.unit != MATRIX or not cost.flop or cost.is_loose or not union_ns:
            continue
        unit = unit_of(cost, gpu, kernel_dtype(work, kernel), cost.flop * count / union_ns / 1e3)
        flop_by_unit[unit] = flop_by_unit.get(unit, 0.0) + float(cost.flop) * count
    return max(flop_by_unit, key=flop_by_unit.__getitem__, default=None)
