"""`roofline` and its families' tables: how far each op is from the hardware's limit (docs/concepts/costs.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.missing_data import quality_note_or, torch_hint
from warplens.analyses.roofline.costing import (
    COSTED,
    NO_SHAPES,
    REASONS,
    copy_cost,
    costing,
    kernel_dtype,
    recorded_bytes,
)
from warplens.analyses.roofline.limits import flag_of, limit_of
from warplens.analyses.shared import shared
from warplens.analyses.work.attention import score_elements
from warplens.analyses.work.kernels import STEP_TIME
from warplens.analyses.work.places import Places, places_of
from warplens.analyses.workspace import NO_LAUNCH, Workspace, percent_of, rows_of_groups
from warplens.costs import Cost
from warplens.hardware import UNITS
from warplens.model.kinds import NONE
from warplens.model.records import records
from warplens.model.table import Column, Table, frame_of_rows
from warplens.model.trace import Ints

COLUMNS = (
    Column("op", "the op whose inputs give the cost", "", pl.String),
    Column("family", "which formula gives FLOPs and bytes; `warplens explain costs` lists them", "", pl.String),
    Column("params", "the sizes that the formula uses", "", pl.String),
    Column("dtype", "element type of the main input", "", pl.String),
    Column("flop", "floating-point operations of one call (a multiply–add is 2)", "", pl.Float64),
    Column("bytes", "bytes one call must move: inputs read once, outputs written once", "bytes", pl.Float64),
    Column("intensity", "FLOP per byte", "", pl.Float64),
    Column("count", "calls", "", pl.Int64),
    Column("kernel_us_mean", "time in which any kernel of a call ran, mean over the calls", "us", pl.Float64),
    Column("tflops", "FLOPs over that time", "TFLOP/s", pl.Float64),
    Column("tbps", "bytes over that time", "TB/s", pl.Float64),
    Column("bound", "what limits the op: compute, memory or host link; empty for an unknown GPU", "", pl.String),
    Column("roofline_us", "the least time one call can take on this GPU", "us", pl.Float64),
    Column("percent_of_roofline", "roofline_us over kernel_us_mean", "%", pl.Float64),
    Column("flag", "why percent_of_roofline is not reliable; empty where it is", "", pl.String),
    Column("unit", "the ceiling that was used", "", pl.String),
    Column("ceiling", "whether that ceiling is measured or from the data sheet", "", pl.String),
    Column("total_us", "summed duration of the GPU events of all calls", "us", pl.Float64),
    Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64),
    Column("lost_us", "time above the roofline, all calls together", "us", pl.Float64),
    STEP_TIME,
    Column("kernel_short", "kernel that takes most of the time", "", pl.String),
    Column("arch", "architecture that the kernel was built for, where its name contains it", "", pl.String),
    Column("line", "Python line with most of the time", "", pl.String),
    Column("module", "nn.Module with most of the time", "", pl.String),
    Column("approximate", "why FLOPs or bytes are approximate; empty where they are exact", "", pl.String),
    Column(
        "scores",
        "elements of the stored scores of unfused attention it works on, or copies tensors for; 0 for none",
        "",
        pl.Int64,
    ),
    Column("scores_us", "summed duration of the GPU events of those calls", "us", pl.Float64),
)
SCORES: Final = ("scores", "scores_us")
KEY: Final = Column("key", "number of the op and cost that a row sums up", "", pl.Int64)
TRANSFER: Final = "transfer"
PARAMS = {
    # family: its table, and the columns that its parameters become
    "gemm": ("gemm", ("B", "M", "N", "K", "layout")),
    "attention": (
        "attention",
        (
            "pass",
            "B",
            "Hq",
            "Hkv",
            "Nq",
            "Nkv",
            "D",
            "Dv",
            "mask",
            "requests",
            "queries",
            "keys",
            "window",
            "lengths",
        ),
    ),
    "convolution": ("convolution", ("pass", "N", "Cin", "Cout", "in", "out", "kernel", "groups", "layout")),
    "norm": ("norm", ("pass", "rows", "columns", "elements")),
    TRANSFER: ("transfer", ("way", "memory")),
}
TEXTS: Final = frozenset({"layout", "pass", "mask", "in", "out", "kernel", "way", "memory", "lengths"})
"""Parameters that are words or, like 3x3, several numbers."""
PARAM: Final = re.compile(r"(\w{1,40})=(.*?)(?= \w{1,40}=|$)", re.DOTALL)
"""One parameter of the text; its value may hold blanks."""
MEANINGS = {
    "B": "batch", "M": "rows of the result", "N": "columns of the result", "K": "length of the inner sums",
    "layout": "memory order of the inputs", "pass": "forward or backward", "Hq": "query heads",
    "Hkv": "key and value heads", "Nq": "queries", "Nkv": "keys", "D": "width of a head", "Dv": "width of its values",
    "mask": "causal from a corner, a tensor that is read, or none",
    "Cin": "input channels", "Cout": "output channels", "in": "input size",
    "out": "output size", "kernel": "kernel size", "groups": "groups", "rows": "rows normalised",
    "columns": "elements per row", "elements": "elements",
    "way": "to GPU, to host, on the GPU (its bytes are read and written: twice the size), between GPUs, or memset",
    "memory": "kind of host memory", "requests": "requests of a serving engine in one call",
    "queries": "new tokens of all requests", "keys": "tokens that all requests attend to",
    "window": "keys before its own that a query sees, where the call limits them",
    "lengths": "where lengths of requests come from: the iteration's mark or the call's arguments",
}  # fmt: skip
ATTENTION_FORWARD: Final = "fused attention forward"
ATTENTION_BACKWARD: Final = "fused attention backward"
"""Units of the table `ceilings` for what back-ends of fused attention were measured to reach."""
UNKNOWN_COSTS = "no GPU work with known FLOPs or bytes: the table cost_coverage says why"


def roofline(work: Workspace) -> Table:
    return Table.from_frame("roofline", "one row per op and shapes", COLUMNS, _rows(work).drop("key"), *_notes(work))


def _notes(work: Workspace) -> list[str]:
    unknown = len(work.gpu) and not len(_rows(work))
    why = [quality_note_or(work, ("no_host", "no_shapes", "no_op_shapes"), UNKNOWN_COSTS)] if unknown else []
    return [*why, *_ceiling_notes(work)]


def _ceiling_notes(work: Workspace) -> list[str]:
    notes = []
    if len(work.gpu) and work.hardware is None:
        notes.append("unknown GPU: no roofline; name the GPU (`warplens explain gpus`) or give a GPU file")
    elif work.hardware is not None:
        notes.append(f"ceilings of {work.hardware.name}: {work.hardware.measured or work.hardware.source}")
    return notes


@shared
def _rows(work: Workspace) -> pl.DataFrame:
    """One row per op and cost, with the key that its groups share."""
    costs = costing(work)
    merged = (
        _keyed_groups(work)
        .sort("total_ns", "group", descending=[True, False])
        .group_by("key", maintain_order=True)
        .agg(
            pl.col("count", "total_ns", "union_ns", "step_ns", "scores_ns").sum(),
            pl.col("scores").max(),
            pl.col("op", "kernel", "cost", "group").first(),
        )
    )
    places = places_of(work, costs.event_group, len(costs.groups))
    return _sorted_rows(
        work, [_row(work, costs.costs[merger.cost], merger, places) for merger in records(merged, MergedGroups)]
    )


def _sorted_rows(work: Workspace, rows: list[dict[str, object]]) -> pl.DataFrame:
    return (
        frame_of_rows((*COLUMNS, KEY), rows)
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .sort("total_us", "op", "params", descending=[True, False, False])
    )


def roofline_rows(work: Workspace) -> Ints:
    """For each GPU event its row in the table `roofline`, -1 where its cost is not known."""
    groups = _keyed_groups(work)
    key_of_group = np.full(len(costing(work).groups), NONE, np.int64)
    key_of_group[groups["group"].to_numpy()] = groups["key"].to_numpy()
    return rows_of_groups(key_of_group[costing(work).event_group], _rows(work)["key"].to_numpy())


@shared
def _keyed_groups(work: Workspace) -> pl.DataFrame:
    """The groups that have a cost. Calls of one op with the same cost share a key, whatever else differs."""
    costs = costing(work).costs
    numbers: dict[tuple[int, int, Cost], int] = {}
    groups = _with_scores(work, costing(work).groups).filter(pl.col("cost") >= 0)
    keys = [
        numbers.setdefault((op, own, costs[cost]), len(numbers))
        for op, own, cost in groups.select("op", "own", "cost").iter_rows()
    ]
    return groups.with_columns(pl.Series("key", keys, dtype=pl.Int64))


def _with_scores(work: Workspace, groups: pl.DataFrame) -> pl.DataFrame:
    """The groups with the elements of the scores they work on, and the time of the events that do."""
    scores, group = score_elements(work), costing(work).event_group
    duration = np.where(scores > 0, work.gpu["dur_ns"].to_numpy(), 0)
    elements = np.zeros(len(groups), np.int64)
    np.maximum.at(elements, group, scores)
    times = np.bincount(group, weights=duration, minlength=len(groups)).astype(np.int64)
    return groups.with_columns(pl.Series("scores", elements), pl.Series("scores_ns", times))


class Transfers(NamedTuple):
    """All copies and memsets that record their bytes, also those of ops that have a cost of their own."""

    rows: pl.DataFrame
    event_row: Ints
    """For each GPU event its row, -1 for none."""


@shared
def transfers(work: Workspace) -> Transfers:
    """One row per op and kind of copy; each copy and each memset counts as a call."""
    costs, sizes, gpu = costing(work), recorded_bytes(work), work.gpu
    events = np.flatnonzero(sizes)
    duration, step, name = (gpu[column].to_numpy()[events] for column in ("dur_ns", "step", "name"))
    op = costs.groups["op"].to_numpy()[costs.event_group[events]]
    names = len(work.trace.names)
    kinds, group = np.unique((op + 1) * names + name, return_inverse=True)
    weights = (None, duration, np.where(step >= 0, duration, 0), sizes[events])
    sums = np.stack([np.bincount(group, weight, len(kinds)) for weight in weights]).astype(np.int64)
    event_group = np.full(len(gpu), NONE, np.int64)
    event_group[events] = group
    places = places_of(work, event_group, len(kinds))
    rows = []
    for number, (kind, sum_of_kind) in enumerate(zip(kinds.tolist(), sums.T.tolist(), strict=True)):
        count, total_ns, step_ns, moved = sum_of_kind
        op_code, kernel = kind // names - 1, kind % names
        merger = MergedGroups(number, count, total_ns, total_ns, step_ns, 0, 0, op_code, kernel, NONE, number)
        if (cost := copy_cost(work.trace.names[kernel], moved / count)) is not None:
            rows.append(_row(work, cost, merger, places))
    frame = _sorted_rows(work, rows)
    return Transfers(frame, rows_of_groups(event_group, frame["key"].to_numpy()))


class MergedGroups(msgspec.Struct, frozen=True):
    """Groups of calls of one op with the same cost, added up; the names and the cost are those of the longest."""

    key: int
    count: int
    total_ns: int
    union_ns: int
    step_ns: int
    scores_ns: int
    scores: int
    op: int
    kernel: int
    cost: int
    group: int

    @property
    def mean_us(self) -> float:
        """Time in which any kernel of a call ran."""
        return self.union_ns / self.count / 1e3


def _row(work: Workspace, cost: Cost, merger: MergedGroups, places: Places) -> dict[str, object]:
    return {
        **_measured_part(work, cost, merger),
        **_limit_part(work, cost, merger),
        "line": places.lines[merger.group],
        "module": places.modules[merger.group],
    }


def _measured_part(work: Workspace, cost: Cost, merger: MergedGroups) -> dict[str, object]:
    mean_us = merger.mean_us
    return {
        "op": work.trace.names[merger.op] if merger.op >= 0 else NO_LAUNCH,
        "family": cost.family,
        "params": cost.params_text,
        "dtype": cost.dtype,
        "flop": float(cost.flop),
        "bytes": float(cost.bytes),
        "intensity": round(cost.intensity, 6),
        "count": merger.count,
        "kernel_us_mean": mean_us,
        "tflops": _tflops(cost, mean_us),
        "tbps": cost.bytes / mean_us / 1e6 if mean_us else 0.0,
        "total_us": merger.total_ns / 1e3,
        "step_us": merger.step_ns / 1e3,
        "kernel_short": work.short_names[merger.kernel],
        "arch": work.kernel_classes[merger.kernel].arch,
        "approximate": cost.approximate,
        "scores": merger.scores,
        "scores_us": merger.scores_ns / 1e3,
        "key": merger.key,
    }


def _limit_part(work: Workspace, cost: Cost, merger: MergedGroups) -> dict[str, object]:
    """What the GPU allows; empty texts and nulls where its ceilings are not known."""
    gpu, mean_us = work.hardware, merger.mean_us
    limit = limit_of(cost, gpu, kernel_dtype(work, merger.kernel), _tflops(cost, mean_us)) if gpu else None
    if not gpu or not limit or not mean_us:
        return dict.fromkeys(("bound", "flag", "unit", "ceiling"), "")
    return {
        "bound": limit.bound,
        "unit": limit.unit,
        "ceiling": "measured" if limit.measured else "data sheet",
        "roofline_us": limit.roofline_us,
        "percent_of_roofline": 100 * limit.roofline_us / mean_us,
        "lost_us": max(0.0, mean_us - limit.roofline_us) * merger.count,
        "flag": flag_of(limit, cost, gpu, mean_us),
    }


def _tflops(cost: Cost, mean_us: float) -> float:
    return cost.flop / mean_us / 1e6 if mean_us else 0.0


ROOFLINE_SET = (
    "family", "flop", "bytes", "tflops", "tbps", "bound", "roofline_us", "percent_of_roofline", "flag",
)  # fmt: skip
"""The columns that the table `op_shapes` takes over."""


def roofline_by_inputs(work: Workspace) -> pl.DataFrame:
    """`ROOFLINE_SET` by op and spec, for ops that launch the costed kernels themselves.

    Calls with the same inputs whose costs differ, as those of attention over requests of other lengths, have none.
    """
    rows = _rows(work).select("key", "op", *ROOFLINE_SET)
    groups = _keyed_groups(work).filter((pl.col("spec") >= 0) & (pl.col("own") < 0))
    groups = groups.unique(["op", "spec", "key"]).filter(pl.len().over("op", "spec") == 1)
    return groups.select(pl.col("spec").cast(pl.Int32), "key").join(rows, on="key", how="inner").drop("key")


def ceilings(work: Workspace) -> Table:
    gpu = work.hardware
    rows: list[tuple[str, str, str, str, float, str, bool, str, float | None, float | None]] = []
    if gpu is not None:
        bandwidth = gpu.bandwidth_tbps()
        about = (gpu.name, gpu.architecture)
        rows.append((*about, "memory", "", bandwidth.value, "TB/s", bandwidth.measured, "", None, None))
        if gpu.host_link_gbps:
            rows.append((*about, "host link", "", gpu.host_link_gbps / 1e3, "TB/s", False, "", None, None))
        for unit in UNITS:
            peaks = [(dtype, gpu.peak_tflops(unit, dtype)) for dtype in sorted(gpu.datasheet.of(unit))]
            rows += [
                (*about, unit, dtype, peak.value, "TFLOP/s", peak.measured, "", None, None)
                for dtype, peak in peaks
                if peak
            ]
        for fused in gpu.fused_attention:
            for unit, rates in ((ATTENTION_FORWARD, fused.forward), (ATTENTION_BACKWARD, fused.backward)):
                rows += [
                    (*about, unit, dtype, rate, "TFLOP/s", True, fused.backend, width, fused.half_length)
                    for dtype in fused.dtypes
                    for width, rate in zip(fused.widths, rates, strict=True)
                ]
    columns = (
        Column("gpu", "name of the GPU in the hardware table", "", pl.String),
        Column("architecture", "its compute architecture", "", pl.String),
        Column("unit", "matrix or vector units, memory, the host link, or a pass of fused attention", "", pl.String),
        Column("dtype", "number type", "", pl.String),
        Column(
            "value",
            "peak rate: measured where known, otherwise the dense figure of the data sheet",
            "",
            pl.Float64,
        ),
        Column("per", "unit of the value", "", pl.String),
        Column("measured", "whether the value is measured; otherwise it is from the data sheet", "", pl.Boolean),
        Column("backend", "of fused attention: which library runs it", "", pl.String),
        Column("width", "of fused attention: width of a head", "", pl.Float64),
        Column("half_length", "of fused attention: length of sequences that reach half of the value", "", pl.Float64),
    )
    return Table.from_rows("ceilings", "one row per limit of this trace's GPU", columns, rows, *_ceiling_notes(work))


def cost_coverage(work: Workspace) -> Table:
    frame = (
        costing(work)
        .groups.group_by("reason")
        .agg(pl.col("count").sum(), (pl.col("total_ns").sum() / 1e3).alias("total_us"), pl.col("op", "total_ns"))
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .sort("total_us", "reason", descending=[True, False])
    )
    ops = [_top_ops(work, codes, times) for codes, times in frame.select("op", "total_ns").iter_rows()]
    meanings = REASONS | {NO_SHAPES: REASONS[NO_SHAPES] + torch_hint(work, " (record with record_shapes=True)")}
    frame = frame.with_columns(
        pl.col("reason").replace_strict(meanings, default="").alias("meaning"), pl.Series("ops", ops, dtype=pl.String)
    )
    columns = (
        Column("reason", f"'{COSTED}', or why GPU work has no cost", "", pl.String),
        Column("count", "calls", "", pl.Int64),
        Column("total_us", "their GPU time", "us", pl.Float64),
        Column("percent", "share of all GPU time", "%", pl.Float64),
        Column("meaning", "what that means", "", pl.String),
        Column("ops", "the ops with most of that time", "", pl.String),
    )
    return Table.from_frame("cost_coverage", "one row per reason why GPU work has a cost or none", columns, frame)


def _top_ops(work: Workspace, codes: list[int], times: list[int]) -> str:
    sums: dict[int, int] = {}
    for code, time in zip(codes, times, strict=True):
        sums[code] = sums.get(code, 0) + time
    top = sorted(sums, key=lambda code: (-sums[code], code))[:5]
    return ", ".join(work.trace.names[code] if code >= 0 else NO_LAUNCH for code in top)


def params_of(text: str) -> dict[str, str]:
    """The parameters of a row by name.

    >>> params_of("way=to GPU memory=pageable")
    {'way': 'to GPU', 'memory': 'pageable'}
    """
    return dict(PARAM.findall(text))


def family_table(family: str) -> Callable[[Workspace], Table]:
    """The analysis that gives one family's rows of the roofline with its parameters as columns."""
    name, params = PARAMS[family]

    def analysis(work: Workspace) -> Table:
        of_family = pl.col("family") == family
        frame = transfers(work).rows if family == TRANSFER else _rows(work).filter(of_family)
        parsed = [params_of(text) for text in frame["params"]]
        texts = [pl.Series(param, [values.get(param) for values in parsed], dtype=pl.String) for param in params]
        frame = frame.with_columns(text if text.name in TEXTS else text.cast(pl.Int64, strict=False) for text in texts)
        columns = [column for column in COLUMNS if column.name not in ("params", "family", *SCORES)]
        columns[1:1] = [
            Column(param, MEANINGS[param], "", pl.String if param in TEXTS else pl.Int64) for param in params
        ]
        row = "op and kind of copy" if family == TRANSFER else family
        return Table.from_frame(name, f"one row per {row}: its sizes and its roofline", columns, frame, *_notes(work))

    analysis.__name__ = name
    return analysis
