"""Units: op calls that launched GPU work, grouped where op, inputs and the launched kernels are the same.

A kernel belongs to the outermost op around its launch that launches work itself: running that op again runs the kernel
again, with everything else the op launches. A Triton kernel that the program launches itself is a call of its own where
the capture recorded its launch. Other work outside ops, in replayed graphs or in collectives belongs to no unit.
"""

from __future__ import annotations

import json
import re
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.missing_data import torch_hint
from warplens.analyses.shared import shared
from warplens.analyses.workspace import COMMUNICATION, NO_LAUNCH, Workspace
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints, Trace

OP: Final = re.compile(r"(?P<name>[A-Za-z_]\w*::\w+)(?:\.(?P<overload>\w+))?")
NOT_OPS: Final = re.compile(r"(torch::autograd|autograd|c10d|nccl|record_param_comms|profiler)::")
TRITON: Final = re.compile(r"triton_\w+")
TENSOR: Final = re.compile(r'\[(\d+),\s*(\d+),\s*(\d+),\s*(\d+),\s*(\d+),\s*"([^"]*)"\]')

IN_GRAPH: Final = "launched by a graph: its ops ran at capture, not in this trace"
NO_OP: Final = "launched outside any op"
NO_OPS: Final = "the trace has no ops: record {}"
WITH_OPS: Final = "with ProfilerActivity.CPU and record_shapes=True, as warplens profile does"
WITH_TORCH: Final = "a PyTorch program with warplens profile"
NO_LAUNCH_REASON: Final = "its launch is not in the trace"
COLLECTIVE: Final = "a collective: it needs the other ranks"
NOT_AN_OP: Final = "launched by {}, which is not a callable op"


class UnitCalls(NamedTuple):
    """The calls of a trace that launched GPU work, the units that they form, and the work of no unit."""

    calls: pl.DataFrame
    """One row per call: call (row of the op's event, or of the event that launched a kernel outside ops), unit,
    total_ns."""
    units: pl.DataFrame
    """One row per unit, the longest first: unit, op (code of the op's name, or of the kernel's where there is no op),
    spec, arguments (row of `Trace.arguments`, or -1), launch (number of the capture's record, or -1), call (the first
    one), calls, total_ns."""
    pieces: pl.DataFrame
    """One row per GPU event of a call: call, unit, place in the call, and the columns of `Workspace.gpu`."""
    rest: pl.DataFrame
    """The GPU events of no unit, each with the reason."""


@shared
def unit_calls(work: Workspace) -> UnitCalls:
    gpu = _with_geometry(work)
    call, reason = _callers(work, gpu["record"].to_numpy() >= 0)
    own_launch = pl.when(pl.col("call") == pl.col("launch")).then("record").otherwise(NONE)
    gpu = gpu.with_columns(pl.Series("call", call), pl.Series("reason", reason, dtype=pl.String))
    gpu = gpu.with_columns(own_launch.alias("record"))
    rest = gpu.filter(pl.col("call") < 0)
    order = ["call", "launched", "start_ns"]
    pieces = gpu.filter(pl.col("call") >= 0).sort(order, maintain_order=True)
    pieces = pieces.with_columns(pl.int_range(pl.len()).over("call").alias("place"))
    calls = _signatures(work, pieces)
    key = ["op_name", "spec", "values", "sequence", "record"]
    units = (
        calls.group_by(key, maintain_order=True)
        .agg(
            pl.col("call").first(),
            pl.col("op_name").first().alias("op"),
            pl.col("record").first().alias("launch"),
            pl.col("arguments").first(),
            pl.len().alias("calls"),
            pl.col("total_ns").sum(),
        )
        .sort("total_ns", "call", descending=[True, False])
        .with_row_index("unit")
    )
    calls = calls.join(units.select(*key, "unit"), on=key, how="left", maintain_order="left")
    pieces = pieces.join(calls.select("call", "unit"), on="call", how="left", maintain_order="left")
    columns = ["unit", "op", "spec", "arguments", "launch", "call", "calls", "total_ns"]
    return UnitCalls(calls.select("call", "unit", "total_ns"), units.select(columns), pieces, rest)


def _with_geometry(work: Workspace) -> pl.DataFrame:
    """GPU events with their grids, the bytes of copies, and the times of their launches."""
    trace, gpu = work.trace, work.gpu
    shapes = trace.geometries.select("grid", "block").with_row_index("geometry").cast({"geometry": pl.Int32})
    launch = gpu["launch"].to_numpy()
    starts = trace.ints("start_ns")
    launched = np.where(launch >= 0, starts[np.maximum(launch, 0)], gpu["start_ns"].to_numpy())
    return (
        gpu.with_columns(pl.Series("launched", launched))
        .join(shapes, on="geometry", how="left", maintain_order="left")
        .join(trace.copies, on="id", how="left", maintain_order="left")
        .join(trace.launched.select("id", "record"), on="id", how="left", maintain_order="left")
        .with_columns(pl.col("grid", "block").fill_null(""), pl.col("bytes", "record").fill_null(NONE))
    )


def _callers(work: Workspace, is_recorded: Bools) -> tuple[Ints, list[str]]:
    """For each GPU event the call it belongs to (-1: none), and where there is none, why."""
    trace, gpu = work.trace, work.gpu
    callable_op = _callable(trace)
    launcher = gpu["op_row"].to_numpy().astype(np.int64)
    graph = gpu["in_graph"].to_numpy() & ~joined_with_capture(work)
    collective = (gpu["kernel_category"] == COMMUNICATION).to_numpy()
    fits = (launcher >= 0) & ~graph & ~collective
    fits[fits] = callable_op[launcher[fits]]
    outermost = _outermost(work, np.unique(launcher[fits]), callable_op)
    call = np.where(fits, outermost[np.maximum(launcher, 0)], NONE)
    # No op that can be called launched it: its launch itself is the call.
    is_launch = is_recorded & ~fits & ~graph & ~collective
    call = np.where(is_launch, gpu["launch"].to_numpy(), call)
    fits |= is_launch
    names = gpu["op"].to_list()
    no_launch, no_op = _reasons_without_op(work)
    reasons = [
        "" if fit else IN_GRAPH if in_graph else COLLECTIVE if shared
        else no_launch if name == NO_LAUNCH
        else no_op if row < 0 else NOT_AN_OP.format(name)
        for fit, in_graph, shared, row, name in zip(fits, graph, collective, launcher, names, strict=True)
    ]  # fmt: skip
    return call, reasons


def joined_with_capture(work: Workspace) -> Bools:
    """Which GPU events of graphs have the op of the graph's capture; the ops of other recorded callers are no calls."""
    if work.trace.graph_launches["joined"].sum() == 0:
        return np.zeros(len(work.gpu), bool)
    is_joined: Bools = np.isin(work.gpu["id"].to_numpy(), work.trace.contexts["id"].to_numpy())
    return is_joined


def _reasons_without_op(work: Workspace) -> tuple[str, str]:
    """Of events without a launch, and of those launched outside ops: one where no op was recorded at all."""
    if len(work.trace.rows_of("op")):
        return NO_LAUNCH_REASON, NO_OP
    reason = NO_OPS.format(torch_hint(work, WITH_OPS) or WITH_TORCH)
    return reason, reason


def _callable(trace: Trace) -> Bools:
    """Which events are calls of an op that can be called again."""
    named = np.array([is_op_name(name) for name in trace.names], bool)
    is_op = trace.ints("kind") == CODE["op"]
    is_callable: Bools = is_op & named[trace.ints("name")] if len(named) else is_op
    return is_callable


def is_op_name(name: str) -> bool:
    """
    >>> [is_op_name(name) for name in ("aten::mm.out", "triton_poi_fused_add_0", "AddmmBackward0", "c10d::allreduce_")]
    [True, True, False, False]
    """
    if TRITON.fullmatch(name):
        return True
    return OP.fullmatch(name) is not None and NOT_OPS.match(name) is None


def _outermost(work: Workspace, launchers: Ints, callable_op: Bools) -> Ints:
    """For each launching op the outermost one around it that launches work itself."""
    launches = np.zeros(len(work.trace), bool)
    launches[launchers] = True
    outermost = np.arange(len(work.trace), dtype=np.int64)
    best, at = launchers.copy(), launchers.copy()
    active = np.arange(len(launchers))
    while len(active):
        at[active] = work.enclosing_op[at[active]]
        active = active[at[active] >= 0]
        outer = active[launches[at[active]] & callable_op[at[active]]]
        best[outer] = at[outer]
    outermost[launchers] = best
    return outermost


def _signatures(work: Workspace, pieces: pl.DataFrame) -> pl.DataFrame:
    """One row per call, with all that two calls of one unit have in common."""
    trace = work.trace
    kinds = ["name", "grid", "block", "bytes"]
    codes = pieces.select(kinds).unique(maintain_order=True).with_row_index("code")
    pieces = pieces.join(codes, on=kinds, how="left", maintain_order="left")
    calls = pieces.group_by("call", maintain_order=True).agg(
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("code").cast(pl.String).str.join(",").alias("sequence"),
        pl.col("record", "name").first(),
    )
    is_launch = (calls["record"] >= 0).to_numpy()
    rows = calls["call"].to_numpy()
    spec = np.where(is_launch, NONE, trace.ints("spec").astype(np.int64)[rows])
    op_name = np.where(is_launch, calls["name"].to_numpy(), trace.ints("name").astype(np.int64)[rows])
    row_of_event = dict(zip(trace.arguments["id"].to_list(), range(len(trace.arguments)), strict=True))
    argument_rows = [row_of_event.get(row, NONE) for row in rows.tolist()]
    given = trace.arguments["inputs"].gather([max(row, 0) for row in argument_rows]).to_list() if row_of_event else []
    values = [aliases(given[call]) if row >= 0 else "" for call, row in enumerate(argument_rows)]
    return calls.drop("name").with_columns(
        pl.Series("op_name", op_name),
        pl.Series("spec", spec),
        pl.Series("arguments", argument_rows, dtype=pl.Int64),
        pl.Series("values", values, dtype=pl.String),
    )


def aliases(inputs: str) -> str:
    """The recorded inputs with each tensor's ids replaced by the number of its storage within the call.

    >>> aliases('[[17,9,0,4,2,"cuda:0"],[18,9,2,2,2,"cuda:0"],true]')
    '[[0,0,4,2,"cuda:0"],[0,2,2,2,"cuda:0"],true]'
    """
    seen: dict[str, int] = {}

    def named(match: re.Match[str]) -> str:
        _, storage, offset, elements, size, device = match.groups()
        number = seen.setdefault(storage, len(seen))
        return f"[{number},{offset},{elements},{size},{json.dumps(device)}]"

    return TENSOR.sub(named, inputs)
