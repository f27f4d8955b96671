"""What ops cost and how fast they ran, in TraceLens' form: a row per call, and a row per op and sizes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from warplens.analyses.roofline.costing import Costing, costing
from warplens.analyses.shared import shared
from warplens.compat.calls import Calls
from warplens.compat.frame import Aggregate, Frame
from warplens.compat.launchers import DETAILS, RECOMPUTED, statistics
from warplens.compat.names import DTYPES, INPUTS, IS_COMPILED, KERNEL_TIME, OP_SHEETS, OVERLAP, PARAM, PLACES, SHEET_OF
from warplens.compat.overlaps import overlaps
from warplens.compat.params import Params, params_of
from warplens.costs import VECTOR, Call, Cost, cost_or_reason, has_model, parse_call
from warplens.hardware import DTYPES as ARITHMETIC_TYPES
from warplens.hardware import UNITS, Gpu
from warplens.model.kinds import CODE
from warplens.model.trace import Ints
from warplens_run.base.errors import UsageError

DATA_MOVEMENT: Final = re.compile("at::native::direct_copy_kernel_cuda|transpose_")
"""Kernels that TraceLens leaves out of its time without data movement."""
ELEMENTWISE: Final = ("UnaryElementwise", "BinaryElementwise")
MOVES: Final = frozenset({"copy", "fill", "transfer"})
"""Families of copies and memsets, which record their own sizes."""
MEBIBYTE: Final = 1024 * 1024
PRECISIONS: Final = frozenset({"fp64", "fp32", "bf16", "fp16", "fp8", "fp4", "int8"})
NOT_A_NUMBER: Final = float("nan")
FIRST_ONLY: Final = ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte")


class Arch(NamedTuple):
    """The limits that a roofline is drawn with: bytes per second, and TFLOP/s by `matrix_bf16` and the like."""

    mem_bw_gbps: float | None
    max_achievable_tflops: Mapping[str, float]

    @classmethod
    def of_gpu(cls, gpu: Gpu) -> Arch:
        peaks = {
            f"{unit}_{DTYPES.get(dtype, dtype)}": peak.value
            for unit in UNITS
            for dtype in ARITHMETIC_TYPES
            if (peak := gpu.peak_tflops(unit, dtype))
        }
        return cls(gpu.bandwidth_tbps().value * 1000, peaks)

    @classmethod
    def of_dict(cls, arch: Mapping[str, Any]) -> Arch:
        rates = arch.get("max_achievable_tflops") or {}
        bandwidth = arch.get("mem_bw_gbps")
        numbers = [*rates.values(), bandwidth or 0] if isinstance(rates, Mapping) else [rates]
        if not all(isinstance(number, (int, float)) for number in numbers):
            raise UsageError(
                "not a GPU description: limits that are not numbers",
                hint='{"mem_bw_gbps": 5300, "max_achievable_tflops": {"matrix_bf16": 708}}',
            )
        return cls(bandwidth, rates)


class Metrics(NamedTuple):
    """What a call costs, or its backward pass, and the GPU events that did it."""

    cost: Cost
    events: Ints
    busy_us: float
    params: Params


def has_own_model(calls: Calls, row: int) -> bool:
    """Whether TraceLens has a model for the op of this name."""
    name = calls.name(row)
    return name in SHEET_OF or IS_COMPILED.match(name) is not None


@shared
def metrics_of(calls: Calls, row: int, is_backward: bool) -> Metrics | None:
    """The cost of a call; None where it is not known."""
    inside = calls.backward if is_backward else calls.subtree
    events, own_events = inside.of(row), calls.subtree.of(row)
    kernel = calls.kernel[int(events[0])] if len(events) else ""
    call, modelled = _modelled(calls, calls.name(row), int(calls.trace.ints("spec")[row]), kernel)
    own = _recorded(calls, row, own_events) or modelled
    cost = _sum(calls, events) if is_backward or own is None else own
    if cost is None:
        return None
    if OP_SHEETS.get(call.op) in ELEMENTWISE:
        cost = _per_element(call, cost)
    kernels = [calls.kernel[event] for event in events.tolist()]
    return Metrics(cost, events, inside.busy(row), params_of(call, calls.inputs(row), own or cost, kernels))


def _per_element(call: Call, cost: Cost) -> Cost:
    """As TraceLens counts: one operation for each element, whatever it is, in the type of the first argument."""
    first, elements = call.tensor(0), dict(cost.params).get("elements")
    if first is None or elements is None:
        return cost
    return msgspec.structs.replace(cost, flop=float(elements), dtype=first.dtype)


@shared
def _modelled(calls: Calls, op: str, spec: int, kernel: str) -> tuple[Call, Cost | None]:
    """A call with these inputs, and what the tables of costs say of it; also of calls without GPU work."""
    dims, types, strides, concrete = calls.trace.specs.row(spec) if spec >= 0 else ("",) * 4
    call = parse_call(op, dims, types, strides, concrete, kernel=kernel)
    cost = cost_or_reason(call) if has_model(op) else None
    return call, cost if isinstance(cost, Cost) else None


def _recorded(calls: Calls, row: int, events: Ints) -> Cost | None:
    """The cost that the roofline has for this very call: for some ops it depends on more than the inputs."""
    costs = costing(calls.work)
    own = events[costs.event_call[events] == row]
    return _group_cost(costs, int(own[0])) if len(own) else None


def _sum(calls: Calls, events: Ints) -> Cost | None:
    """The costs of all calls to which these events belong, added up; of the kind that most FLOPs or bytes are of.

    None where only copies and memsets beside kernels have costs: a product without shapes clears its workspace.
    """
    costs = costing(calls.work)
    _, first = np.unique(costs.event_call[events], return_index=True)
    costed = [cost for event in events[first].tolist() if (cost := _group_cost(costs, event)) is not None]
    computes = (calls.gpu["kind"].to_numpy()[events] == CODE["kernel"]).any()
    if not costed or (computes and all(cost.family in MOVES for cost in costed)):
        return None
    most = max(costed, key=lambda cost: (cost.flop, cost.bytes))
    return msgspec.structs.replace(
        most, flop=sum(cost.flop for cost in costed), bytes=sum(cost.bytes for cost in costed)
    )


def _group_cost(costs: Costing, event: int) -> Cost | None:
    at = int(costs.groups["cost"][int(costs.event_group[event])])
    return costs.costs[at] if at >= 0 else None


def spec_of(cost: Cost) -> str:
    """The arithmetic unit and the type, for example `matrix_bf16`; empty for types that units have no rate for."""
    dtype = DTYPES.get(cost.dtype, cost.dtype)
    return f"{cost.unit or VECTOR}_{dtype}" if dtype in PRECISIONS else ""


def figures(metrics: Metrics, arch: Arch | None = None) -> dict[str, Any]:
    """GFLOPs, bytes and rates of one call, and its roofline where limits are given."""
    cost, busy_us = metrics.cost, metrics.busy_us
    row = {
        "GFLOPS": cost.flop / 1e9,
        KERNEL_TIME: busy_us,
        "TFLOPS/s": cost.flop / busy_us / 1e6 if busy_us else NOT_A_NUMBER,
        "Data Moved (MB)": cost.bytes / MEBIBYTE,
        "FLOPS/Byte": cost.flop / cost.bytes if cost.bytes else NOT_A_NUMBER,
        "TB/s": cost.bytes / busy_us / 1e6 if busy_us else NOT_A_NUMBER,
        "Compute Spec": spec_of(cost),
    }
    peak = arch.max_achievable_tflops.get(spec_of(cost)) if arch is not None else None
    if arch is not None and arch.mem_bw_gbps and (peak or not cost.flop):
        compute_us = cost.flop / peak / 1e6 if peak else 0.0
        memory_us = cost.bytes / arch.mem_bw_gbps / 1e3
        roofline_us = max(compute_us, memory_us)
        row |= {
            "Roofline Time (µs)": roofline_us,
            "Roofline Bound": "COMPUTE_BOUND" if compute_us >= memory_us else "MEMORY_BOUND",
            "Pct Roofline": 100 * roofline_us / busy_us if busy_us else NOT_A_NUMBER,
        }
    return row


def perf_metrics(
    calls: Calls,
    rows: Iterable[int],
    *,
    bwd: bool = False,
    non_data_mov: bool = False,
    include_kernel_details: bool = False,
    include_args: bool = False,
    args_cols: Sequence[str] = INPUTS,
    arch: Arch | None = None,
    detect_recompute: bool = False,
) -> Frame:
    """A row per call with a known cost; with `bwd`, of its backward pass."""
    entries = []
    for row in rows:
        metrics = metrics_of(calls, row, bwd)
        if metrics is None or (bwd and not calls.has_backward[row]):
            continue
        entry = {
            "cat": "cpu_op",
            "name": calls.name(row),
            "UID": row,
            **calls.numbers(row),
            **calls.place(row),
            "external_id": calls.external_id(row),
            **overlaps(calls).of(calls.direct.of(row)),
        }
        if include_args:
            inputs = calls.input_lists(row)
            entry |= {name: inputs.get(name) for name in args_cols}
        shown = figures(metrics, arch)
        if non_data_mov:
            shown = dict(list(shown.items())[:3]) | _without_data_movement(calls, metrics) | shown
        entry |= shown | {f"{PARAM}{name}": value for name, value in metrics.params.items()}
        if include_kernel_details:
            entry |= {DETAILS: kernels_of(calls, metrics.events), "num_kernels": len(metrics.events)}
        if detect_recompute:
            entry[RECOMPUTED] = bool(calls.recomputed[row])
        entries.append(entry)
    return Frame.of_rows(entries)


def _without_data_movement(calls: Calls, metrics: Metrics) -> dict[str, float]:
    """The time of the kernels that compute, and the rate in it."""
    kept = [event for event in metrics.events.tolist() if DATA_MOVEMENT.search(calls.kernel[event]) is None]
    busy_us = calls.busy_us(np.array(kept, np.int64))
    rate = metrics.cost.flop / busy_us / 1e6 if busy_us else NOT_A_NUMBER
    return {"Non-Data-Mov Kernel Time (µs)": busy_us, "Non-Data-Mov TFLOPS/s": rate}


def kernels_of(calls: Calls, events: Ints) -> list[dict[str, Any]]:
    """The kernels of a call with their own numbers."""
    numbered = zip(calls.details(events), events.tolist(), strict=True)
    return [it | {"gpu_op_uid": calls.uid[event]} for it, event in numbered]


def summarize(
    frame: Frame,
    agg_metrics: Sequence[Aggregate] = ("mean", "std"),
    *,
    group_by_num_kernels: bool = False,
    include_overlapping_kernels: bool = False,
) -> Frame:
    """Costed calls by op and sizes, those with most time first."""
    if not frame.height:
        return Frame()
    sizes = [name for name in frame if name.startswith(PARAM)]
    sizes += ["num_kernels"] if group_by_num_kernels and "num_kernels" in frame else []
    keys = ["name", *sizes, *(OVERLAP[:1] if include_overlapping_kernels else ())]
    keys += [RECOMPUTED] if RECOMPUTED in frame else []
    varying = ["TB/s", "TFLOPS/s", "Pct Roofline", "Non-Data-Mov TFLOPS/s"]
    chosen: dict[str, Sequence[Aggregate]] = {name: ["first"] for name in FIRST_ONLY}
    chosen |= dict.fromkeys(varying[:2], agg_metrics)
    chosen |= {name: ["first"] for name in (*PLACES, "Compute Spec", "Roofline Time (µs)", "Roofline Bound")}
    chosen |= dict.fromkeys(varying[2:], agg_metrics)
    chosen |= {"Non-Data-Mov Kernel Time (µs)": ["sum"], DETAILS: [statistics(agg_metrics)]}
    if include_overlapping_kernels:
        chosen |= {OVERLAP[0]: ["first"], OVERLAP[1]: [statistics(agg_metrics)], OVERLAP[2]: agg_metrics}
    chosen |= {name: ["first"] for name in INPUTS}
    chosen |= {KERNEL_TIME: [*agg_metrics, "sum"]}
    grouped = frame.grouped(keys, {name: how for name, how in chosen.items() if name in frame}, as_text=True)
    groups = frame.groups(keys, as_text=True)
    grouped["name_count"] = [len(rows) for rows in groups]
    grouped["UID_first"] = [frame["UID"][rows[0]] for rows in groups]
    for size in sizes:  # as TraceLens has them: as texts
        grouped[size] = [str(value) for value in grouped[size]]
    if include_overlapping_kernels:
        del grouped[OVERLAP[0]]
    renamed = Frame(
        {"Compute Spec" if name == "Compute Spec_first" else name: values for name, values in grouped.items()}
    )
    ahead = ["name", f"{OVERLAP[0]}_first", *PLACES, *sizes]
    return renamed.only(dict.fromkeys([*ahead, *renamed])).sorted_by(f"{KERNEL_TIME}_sum", "UID_first")
