"""TraceLens' frames of kernels: one row each, summed up by kernel, and the short ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from warplens.compat.calls import Calls, nested
from warplens.compat.frame import Frame, is_missing
from warplens.compat.names import KERNEL_CATEGORY, KERNEL_INPUTS, KERNEL_US, op_category
from warplens.model.kinds import CODE

PARENT: Final = "Parent cpu_op"
PARENT_CATEGORY: Final = "Parent op category"
NAME: Final = "Kernel name"
GRAPH_LAUNCHES: Final = ("cudagraph", "graphlaunch")
SHORT: Final = "Short Kernel duration (µs)"


def kernels(
    calls: Calls,
    *,
    launcher_detail: bool = False,
    cpu_op_detail: bool = True,
    nn_module_detail: bool = False,
    with_categories: bool = False,
) -> Frame:
    """A row per kernel, copies and fills of the runtime aside."""
    grids = [tuple(map(nested, sizes)) for sizes in calls.trace.geometries.select("grid", "block").rows()]

    def rows() -> Iterator[dict[str, Any]]:
        kinds = calls.gpu["kind"].to_numpy()
        geometry = calls.gpu["geometry"].to_list()
        for event in np.flatnonzero(kinds == CODE["kernel"]).tolist():
            launch, op, module = int(calls.launch[event]), int(calls.op[event]), int(calls.module[event])
            row = _kernel(calls, event)
            if launcher_detail and launch >= 0:
                grid, block = grids[geometry[event]] if geometry[event] >= 0 else (None, None)
                row |= {"Launcher UID": launch, "Launcher": calls.name(launch), "Grid": grid, "Block": block}
            if cpu_op_detail and op >= 0:
                row |= _parent(calls, event, op)
            if nn_module_detail and module >= 0:
                row |= _module(calls, event, module)
            yield row | ({KERNEL_CATEGORY: calls.category[event]} if with_categories else {})

    return Frame.of_rows(rows())


def _kernel(calls: Calls, event: int) -> dict[str, Any]:
    return {
        "UID": calls.uid[event],
        NAME: calls.kernel[event],
        "Kernel t start": (calls.trace.meta.origin_ns + int(calls.start_ns[event])) / 1000,
        KERNEL_US: int(calls.dur_ns[event]) / 1000,
        "Kernel stream": calls.stream_of(event),
    }


def _parent(calls: Calls, event: int, op: int) -> dict[str, Any]:
    """The innermost op around the launch, and the kernel's share of its time."""
    own = calls.direct.of(op)
    busy_us, count = calls.subtree.busy(op), len(calls.subtree.of(op))
    return {
        "Parent cpu_op UID": op,
        PARENT: calls.name(op),
        **calls.inputs(op).named(KERNEL_INPUTS),
        "kernel_file": None,
        "Parent cpu_op busy time (µs)": busy_us,
        "Parent cpu_op kernel count": count,
        "Percent of Parent cpu_op busy time (%)": _percent(calls, event, busy_us, count),
        PARENT_CATEGORY: op_category(calls.name(op), calls.kernel[int(own[0])] if len(own) else ""),
    }


def _module(calls: Calls, event: int, module: int) -> dict[str, Any]:
    busy_us, count = calls.modules.busy(module), len(calls.modules.of(module))
    return {
        "Parent nn.Module UID": module,
        "Parent nn.Module": calls.name(module),
        "Parent nn.Module kernel count": count,
        "Parent nn.Module GPU busy time (µs)": busy_us,
        "Percent of Parent nn.Module busy time (%)": _percent(calls, event, busy_us, count),
    }


def _percent(calls: Calls, event: int, busy_us: float, count: int) -> float:
    if count == 1 or not busy_us:
        return 100.0 if count == 1 else float("nan")
    return int(calls.dur_ns[event]) / 10 / busy_us


def kernel_summary(calls: Calls, total_us: float, *, with_categories: bool = False) -> Frame:
    """Kernels by op, name and stream; those outside ops by what launched them."""
    frame = kernels(calls, launcher_detail=True, with_categories=with_categories)
    if not frame.height:
        return frame
    for name in (PARENT, "Launcher"):
        frame.setdefault(name, [None] * frame.height)
    categories = frame.get(PARENT_CATEGORY, [None] * frame.height)
    launchers = frame["Launcher"]
    has_ops = any(op is not None for op in frame[PARENT])
    frame[PARENT_CATEGORY] = [
        given if given is not None else _of_launch(launcher)
        for given, launcher in zip(categories, launchers, strict=True)
    ]
    frame[PARENT] = [op if op is not None else launcher for op, launcher in zip(frame[PARENT], launchers, strict=True)]
    keys = [PARENT_CATEGORY, *((PARENT,) if has_ops else ()), NAME, "Kernel stream"]
    keys += [KERNEL_CATEGORY] if with_categories else []
    grouped = frame.grouped(keys, {KERNEL_US: ["sum", "count", "mean", "min", "max"]}, in_order=True)
    sums = grouped[f"{KERNEL_US}_sum"]
    kernels_us = sum(frame[KERNEL_US])
    for label, whole in (("Percent of kernels time (%)", kernels_us), ("Percent of total time (%)", total_us)):
        grouped[label] = [100 * us / whole if whole else float("nan") for us in sums]
    return grouped.sorted_by(f"{KERNEL_US}_sum")


def _of_launch(launcher: str | None) -> str | None:
    """The category of a kernel outside ops."""
    if not launcher:
        return None
    return "graph" if any(word in launcher.lower() for word in GRAPH_LAUNCHES) else "runtime"


def short_kernels(
    calls: Calls, total_us: float, *, threshold_us: float = 10, bins: int = 100, topk: int | None = None
) -> tuple[Frame, Frame]:
    """How long kernels below a threshold take, and which take most time together."""
    frame = kernels(calls)
    is_short = [us < threshold_us for us in frame.get(KERNEL_US, [])]
    short = frame.where(is_short) if any(is_short) else Frame()
    if not short.height:
        return Frame(bin_start=[], bin_end=[], count=[]), Frame()
    counts, edges = np.histogram(short[KERNEL_US], bins=bins)
    histogram = Frame(bin_start=edges[:-1].tolist(), bin_end=edges[1:].tolist(), count=counts.tolist())
    keys = [NAME]
    if calls.is_op.any():
        keys = [PARENT, KERNEL_INPUTS[0], *KERNEL_INPUTS[2:], NAME]
        # As there, kernels outside ops and of ops without shapes are in no group.
        present = zip(*(short.get(key, [None] * short.height) for key in keys), strict=True)
        short = short.where([not any(map(is_missing, values)) for values in present])
        if not short.height:
            return histogram, Frame()
    grouped = short.grouped(keys, {KERNEL_US: ["sum", "count", "mean"]})
    grouped = grouped.renamed(
        {
            f"{KERNEL_US}_sum": f"{SHORT} sum",
            f"{KERNEL_US}_count": "Short Kernel count",
            f"{KERNEL_US}_mean": f"{SHORT} mean",
        }
    )
    grouped[f"{SHORT} percent of total time"] = [
        100 * us / total_us if total_us else float("nan") for us in grouped[f"{SHORT} sum"]
    ]
    grouped = grouped.sorted_by(f"{SHORT} sum", "Short Kernel count")
    return histogram, grouped.head(topk)
