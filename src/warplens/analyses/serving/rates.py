"""What each iteration computes and moves: operations, bytes, keys and values, where the costs of its ops are known."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from warplens.analyses.roofline.costing import costing
from warplens.analyses.roofline.utilization import utilization
from warplens.analyses.serving.iterations import served
from warplens.analyses.shared import shared
from warplens.analyses.workspace import Workspace
from warplens.costs import Cost
from warplens.costs.tensors import ITEM_BYTES
from warplens.model.trace import Ints
from warplens.model.tree import Floats

NOT_MEMORY: Final = ("transfer", "collective")
"""Families whose bytes go over links, not through the GPU's memory."""


class Work(NamedTuple):
    """Sums per iteration."""

    flop: Floats
    bytes: Floats
    kernel_ns: Ints
    costed_ns: Ints
    """GPU time of what has a cost."""
    approximate_bytes: Floats
    """Of `bytes`, those that some argument that is not recorded could change."""
    cache_bytes: Floats
    """Keys and values that attention reads; 0 where no attention has a cost."""


class Peaks(NamedTuple):
    """What all GPUs of the trace could do by their data sheets; 0 where it is not known."""

    flops: float
    bytes_per_s: float
    peak_of: str


@shared
def iteration_work(work: Workspace) -> Work:
    iterations = served(work)
    assert iterations is not None
    costs = costing(work)
    flop = np.array([float(cost.flop) for cost in costs.costs] + [0.0])
    moved = np.array([float(cost.bytes) if cost.family not in NOT_MEMORY else 0.0 for cost in costs.costs] + [0.0])
    cache = np.array([_cache_bytes(cost) for cost in costs.costs] + [0.0])
    of_group = costs.groups["cost"].to_numpy()
    firsts = np.unique(costs.event_call, return_index=True)[1]
    own = iterations.event_iteration
    firsts = firsts[own[firsts] >= 0]
    cost_of_call = of_group[costs.event_group[firsts]]
    duration = work.gpu["dur_ns"].to_numpy()
    known = own >= 0
    costed = known & (of_group[costs.event_group] >= 0)
    count = len(iterations)
    call_ns = np.bincount(costs.event_call, weights=duration)[costs.event_call[firsts]].astype(np.float64)
    possible = _possible(work, moved[cost_of_call], call_ns)
    is_approximate = np.array([bool(cost.approximate) for cost in costs.costs] + [False])[cost_of_call]
    of_call = flop[cost_of_call], possible, possible * is_approximate, cache[cost_of_call]
    call_sums = (np.bincount(own[firsts], weights=values, minlength=count).astype(np.float64) for values in of_call)
    time_sums = (
        np.bincount(own[chosen], weights=duration[chosen], minlength=count).astype(np.int64)
        for chosen in (known, costed)
    )
    flops, all_bytes, approximate_bytes, cache_bytes = call_sums
    kernel_ns, costed_ns = time_sums
    return Work(flops, all_bytes, kernel_ns, costed_ns, approximate_bytes, cache_bytes)


def _possible(work: Workspace, moved: Floats, call_ns: Floats) -> Floats:
    """Bytes of each call, at most as many as the memory moves in its time: some are counted from whole tables of
    which a kernel reads a few rows."""
    limit = peaks(work).bytes_per_s
    return np.minimum(moved, limit * call_ns / 1e9) if limit else moved


def _cache_bytes(cost: Cost) -> float:
    """Bytes of keys and values of one attention."""
    if cost.family != "attention":
        return 0.0
    sizes = {name: float(size) for name, size in cost.params if isinstance(size, int)}
    item_bytes = ITEM_BYTES.get(cost.dtype, 0.0)
    if "keys" in sizes:  # with a paged cache, whose element type may be another: all but queries and output
        width = sizes.get("D", 0.0) + sizes.get("Dv", 0.0)
        return max(0.0, cost.bytes - sizes.get("queries", 0.0) * sizes.get("Hq", 0.0) * width * item_bytes)
    if not {"B", "Nkv", "Hkv", "D", "Dv"} <= sizes.keys():
        return 0.0
    return sizes["B"] * sizes["Nkv"] * sizes["Hkv"] * (sizes["D"] + sizes["Dv"]) * item_bytes


@shared
def peaks(work: Workspace) -> Peaks:
    gpu, used = work.hardware, utilization(work)
    if gpu is None:
        return Peaks(0.0, 0.0, "")
    gpus = max(1, work.gpu["device"].n_unique())
    # The data sheet's figures, as everybody's MFU and MBU are.
    bandwidth = gpu.datasheet.bandwidth_tbps or gpu.bandwidth_tbps().value
    return Peaks((used.peak_tflops * 1e12 if used else 0.0), bandwidth * 1e12 * gpus, used.peak_of if used else "")
