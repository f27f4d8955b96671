"""The frame of kernel launchers and what is summed up of it: a row per call of an op, or launch outside ops.

Summaries take any part of that frame, also one that was filtered in pandas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from warplens.compat.calls import Calls, Inputs
from warplens.compat.frame import Aggregate, Frame, aggregate_of
from warplens.compat.names import (
    CATEGORY,
    CATEGORY_TIMES,
    CUMULATIVE,
    DIRECT,
    INPUTS,
    KERNEL_CATEGORY,
    OVERLAP,
    PERCENT,
    PLACES,
    SUBTREE,
    op_category,
)
from warplens.compat.overlaps import overlaps
from warplens.model.trace import Ints

NUMBERED: Final = re.compile(r"_\d+")
RECOMPUTED: Final = "is_recompute"
DETAILS: Final = "kernel_details"
DETAIL_NAMES: Final = {
    # aggregate: its name in the summary of kernels
    "mean": "mean_duration_us", "median": "median_duration_us", "std": "std_dev_duration_us",
    "min": "min_duration_us", "max": "max_duration_us",
}  # fmt: skip
STATISTICS: Final = "_summarize_kernel_stats"
SUMMARIES: Final = {f"{name}_{STATISTICS}": f"{name}_summary" for name in (DETAILS, OVERLAP[1])}
"""How sheets of launchers call the statistics of kernels; those of costed ops keep the name of the function."""
TRUNCATED: Final = 64


def launchers(
    calls: Calls,
    *,
    id_cols: bool = False,
    include_kernel_details: bool = False,
    include_call_stack: bool = False,
    include_first_occurrence_time: bool = False,
    args_cols: Sequence[str] = INPUTS,
    detect_recompute: bool = False,
    with_categories: bool = False,
) -> Frame:
    """A row per launcher, in the order of their starts."""
    start = calls.trace.ints("start_ns")
    rows = calls.direct.rows[np.argsort(start[calls.direct.rows], kind="stable")].tolist()
    return Frame.of_rows(
        {
            **_times(calls, row),
            **overlaps(calls).of(calls.direct.of(row)),
            **({"ts": start[row] / 1000} if include_first_occurrence_time else {}),
            **_chosen(calls.inputs(row), args_cols),
            **({**calls.numbers(row), "external_id": calls.external_id(row)} if id_cols else {}),
            **(_details(calls, row, include_call_stack) if include_kernel_details else {}),
            **calls.place(row),
            **({RECOMPUTED: bool(calls.recomputed[row])} if detect_recompute else {}),
            **(_categories(calls, calls.direct.of(row)) if with_categories else {}),
        }
        for row in rows
    )


def _chosen(inputs: Inputs, names: Sequence[str]) -> dict[str, Any]:
    """Some of the inputs; TraceLens has a column for any name, also for one that is not recorded."""
    named = inputs.named()
    return {name: named.get(name) for name in names}


def _times(calls: Calls, row: int) -> dict[str, Any]:
    events = calls.direct.of(row)
    return {
        "name": calls.name(row),
        CATEGORY: op_category(calls.name(row), calls.kernel[int(events[0])]),
        "UID": row,
        DIRECT: calls.direct.busy(row),
        SUBTREE: calls.subtree.busy(row),
        "direct_kernel_count": len(events),
    }


def _details(calls: Calls, row: int, with_stack: bool) -> dict[str, Any]:
    details = calls.details(calls.direct.of(row))
    columns: dict[str, Any] = {DETAILS: details, "num_kernels": len(details)}
    if with_stack:
        stack = calls.call_stack(row)
        columns |= {"call_stack": stack, "parent_module": NUMBERED.sub("", (*stack, "NA", "NA")[1])}
    return columns


def _categories(calls: Calls, events: Ints) -> dict[str, Any]:
    """The µs of each kernel category among the kernels of a launcher, and the category with most of them."""
    times: dict[str, float] = {}
    for event in events.tolist():
        category = calls.category[event]
        times[category] = times.get(category, 0.0) + int(calls.dur_ns[event]) / 1000
    return {KERNEL_CATEGORY: max(sorted(times), key=times.__getitem__), CATEGORY_TIMES: times}


def summary(frame: Frame) -> Frame:
    """Launchers by name; where they have kernel categories, each name by category, with the percent of its time."""
    if CATEGORY_TIMES in frame:
        frame = by_kernel_category(frame)
    keys = ["name", *(key for key in (RECOMPUTED, KERNEL_CATEGORY) if key in frame)]
    chosen: dict[str, Sequence[Aggregate]] = {DIRECT: ["sum", "count"], CATEGORY: ["set"], SUBTREE: ["sum"]}
    grouped = _summed(frame, keys, {name: how for name, how in chosen.items() if name in frame})
    if f"{SUBTREE}_sum" in grouped:
        grouped[f"{SUBTREE}_ms"] = [us / 1000 for us in grouped[f"{SUBTREE}_sum"]]
    if KERNEL_CATEGORY in grouped:
        whole: dict[str, float] = {}
        for name, us in zip(grouped["name"], grouped[f"{DIRECT}_sum"], strict=True):
            whole[name] = whole.get(name, 0.0) + us
        grouped["Percent of launcher (%)"] = [
            100 * us / whole[name] if whole[name] else float("nan")
            for name, us in zip(grouped["name"], grouped[f"{DIRECT}_sum"], strict=True)
        ]
    return in_pairs(grouped, ("sum", "ms"))


def by_kernel_category(frame: Frame) -> Frame:
    """The rows of launchers split: one for each category among a launcher's kernels, with the time of those."""
    rows = [
        row | {KERNEL_CATEGORY: category, DIRECT: us}
        for row in frame.only(name for name in frame if name != SUBTREE).rows()
        for category, us in row[CATEGORY_TIMES].items()
    ]
    return Frame.of_rows(rows) if rows else frame


def summary_by_category(frame: Frame) -> Frame:
    """Launchers by the category of their op."""
    return _by_category(frame, (CATEGORY, RECOMPUTED), {})


def summary_by_category_module(frame: Frame) -> Frame:
    """Launchers by the category of their op and the module around them, where the frame has it."""
    return _by_category(frame, (CATEGORY, "parent_module", RECOMPUTED), {"call_stack": ["first"]})


def _by_category(frame: Frame, keys: Sequence[str], more: dict[str, Sequence[Aggregate]]) -> Frame:
    chosen = {name: how for name, how in ({DIRECT: ["sum", "count"]} | more).items() if name in frame}
    grouped = _summed(frame, [key for key in keys if key in frame], chosen)
    return grouped.only(name for name in grouped if name != f"{DIRECT}_sum")


def summary_module(frame: Frame) -> Frame:
    """Launchers by name and the module around them, where the frame has it."""
    keys = [key for key in ("name", "parent_module") if key in frame]
    chosen: dict[str, Sequence[Aggregate]] = {
        DIRECT: ["sum", "count"], CATEGORY: ["set"], SUBTREE: ["sum", "count"], "call_stack": ["first"],
    }  # fmt: skip
    return in_pairs(
        _summed(frame, keys, {name: how for name, how in chosen.items() if name in frame}), ("sum", "count", "ms")
    )


def _summed(frame: Frame, keys: Sequence[str], chosen: Mapping[str, Sequence[Aggregate]]) -> Frame:
    """Groups by their direct time, the longest first, with their share of all of it."""
    if not frame:
        return Frame()
    grouped = frame.grouped(keys, dict(chosen), in_order=True).sorted_by(f"{DIRECT}_sum")
    renamed = {f"{DIRECT}_count": "Count", f"{CATEGORY}_set": "Categories"}
    grouped = grouped.renamed(renamed)
    grouped[f"{DIRECT}_ms"] = [us / 1000 for us in grouped[f"{DIRECT}_sum"]]
    return grouped.with_shares(f"{DIRECT}_ms", PERCENT, CUMULATIVE)


def summary_by_shape(frame: Frame, name: str = "") -> Frame:
    """The launchers of one name by the shapes, types and strides of their inputs."""
    if not frame:
        return Frame()
    part = frame.where([given == name for given in frame["name"]])
    chosen: dict[str, Sequence[Aggregate]] = {
        DIRECT: ["sum", "count", "mean", "std"],
        "direct_kernel_count": ["max", "min"],
    }
    grouped = part.grouped(INPUTS[:3], chosen)
    labels = (
        "Total Kernel Time (µs)", "Count", "Mean Kernel Time (µs)", "Std Kernel Time (µs)", "Max Direct Kernel Count",
        "Min Direct Kernel Count",
    )  # fmt: skip
    grouped = Frame(dict(zip((*INPUTS[:3], *labels), grouped.values(), strict=True))).sorted_by(labels[0])
    grouped["Total Kernel Time (ms)"] = [us / 1000 for us in grouped[labels[0]]]
    return grouped.with_shares("Total Kernel Time (ms)", PERCENT, CUMULATIVE)


def unique_args(
    frame: Frame,
    event_name: str | None = None,
    agg_metrics: Sequence[Aggregate] = ("mean",),
    include_pct: bool = False,
    group_by_num_kernels: bool = False,
    group_by_parent_module: bool = False,
    include_overlapping_kernels: bool = False,
) -> Frame:
    """Launchers by name, arguments and thread."""
    if not frame:
        return Frame()
    if event_name is not None:
        frame = frame.where([name == event_name for name in frame["name"]])
    keys = [
        "name",
        *(OVERLAP[:1] if include_overlapping_kernels else ()),
        CATEGORY,
        *(("parent_module",) if group_by_parent_module else ()),
        *PLACES,
        *INPUTS,
        *(("num_kernels",) if group_by_num_kernels else ()),
        RECOMPUTED,
        KERNEL_CATEGORY,
    ]
    keys = [key for key in keys if key in frame]
    stats = [*agg_metrics, *(() if "sum" in agg_metrics else ("sum",))]
    chosen: dict[str, Sequence[Aggregate]] = {
        DIRECT: stats,
        SUBTREE: stats,
        "UID": ["first", "count"],
        "ts": ["min"],
        "call_stack": ["first"],
        DETAILS: [statistics(agg_metrics)],
    }
    if include_overlapping_kernels:
        chosen |= {OVERLAP[1]: [statistics(agg_metrics)], OVERLAP[2]: agg_metrics}
    grouped = frame.grouped(keys, {name: how for name, how in chosen.items() if name in frame}, as_text=True)
    renamed = {
        "UID_first": "ex_UID",
        "UID_count": "operation_count",
        "ts_min": "first_occurrence_time",
        "call_stack_first": "call_stack",
        **SUMMARIES,
    }
    grouped = grouped.renamed(renamed)
    if "first_occurrence_time" in grouped and grouped.height:
        first = min(grouped["first_occurrence_time"])
        grouped["first_occurrence_time"] = [time - first for time in grouped["first_occurrence_time"]]
    ahead = [*keys, "operation_count", "first_occurrence_time", f"{DIRECT}_mean", f"{SUBTREE}_mean"]
    grouped = grouped.only(dict.fromkeys([*ahead, *grouped])).sorted_by(f"{DIRECT}_sum", "ex_UID")
    grouped = in_pairs(grouped, (*(aggregate_of(stat)[1] for stat in agg_metrics), "sum"))
    return grouped.with_shares(f"{DIRECT}_sum", PERCENT, CUMULATIVE) if include_pct else grouped


def kernel_statistics(lists: Iterable[Any], agg_metrics: Sequence[Aggregate] = ("mean",)) -> list[dict[str, Any]]:
    """The kernels of a call, position by position, with the times of all calls of the group that launch as many."""
    lists = [kernels for kernels in lists if isinstance(kernels, list) and kernels]
    if not lists:
        return []
    columns = zip(*(kernels for kernels in lists if len(kernels) == len(lists[0])), strict=True)
    summaries = []
    for kernels in columns:
        times = np.array([kernel["dur"] for kernel in kernels], float)
        kept = {key: value for key, value in kernels[0].items() if key not in ("dur", "gpu_op_uid", "call_stack")}
        stats = {"count": len(times), "total_duration_us": float(times.sum())}
        stats |= {DETAIL_NAMES[how]: float(getattr(np, how)(times)) for how in agg_metrics if how in DETAIL_NAMES}
        summaries.append(kept | stats)
    return sorted(summaries, key=lambda it: (it["total_duration_us"], it["name"]))


def statistics(agg_metrics: Sequence[Aggregate]) -> Aggregate:
    """`kernel_statistics` as an aggregate of a frame, under the name that TraceLens' columns have of it."""

    def summarized(lists: list[Any]) -> list[dict[str, Any]]:
        return kernel_statistics(lists, agg_metrics)

    summarized.__name__ = STATISTICS
    return summarized


def with_truncated(frame: Frame, source: str, name: str, length: int = TRUNCATED) -> Frame:
    """With a column after `source` in which names of kernels are short enough to be read."""
    if source not in frame:
        return frame
    columns: dict[str, Any] = {}
    for column, values in frame.items():
        columns[column] = values
        if column == source:
            columns[name] = [_truncated(kernels, length) for kernels in values]
    return Frame(columns)


def _truncated(kernels: list[dict[str, Any]] | None, length: int) -> list[dict[str, Any]] | None:
    return [
        {
            "name": it["name"] if len(it["name"]) <= length else it["name"][:length] + "...",
            "stream": it.get("stream"),
            "mean_duration_us": round(it.get("mean_duration_us", 0), 2),
        }
        for it in kernels or ()
    ] or None


def in_pairs(frame: Frame, suffixes: Sequence[str]) -> Frame:
    """Each aggregate of the direct time next to that of the subtree, where the first of them stands."""
    paired = [name for suffix in suffixes for name in (f"{DIRECT}_{suffix}", f"{SUBTREE}_{suffix}") if name in frame]
    names = list(frame)
    first = min((names.index(name) for name in paired), default=0)
    before = [name for name in names[:first] if name not in paired]
    return frame.only([*before, *paired, *(name for name in names[first:] if name not in paired)])
