"""The unified table: every op that does GPU work once, at the level where its cost is known, and what it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import numpy as np

from warplens.compat.calls import Calls
from warplens.compat.frame import Aggregate, Frame
from warplens.compat.launchers import DETAILS, NUMBERED, RECOMPUTED, SUMMARIES, statistics
from warplens.compat.metrics import Arch, Metrics, figures, has_own_model, kernels_of, metrics_of
from warplens.compat.names import (
    CATEGORY,
    CUMULATIVE,
    INPUTS,
    KERNEL_TIME,
    OVERLAP,
    PERCENT,
    PLACES,
    SHEET_OF,
    op_category,
)
from warplens.compat.overlaps import overlaps
from warplens.model.trace import Ints

WRAPPER: Final = "autograd::engine::evaluate_function: "
"""How the ops begin in which PyTorch's engine runs the backward function of one forward op."""
CALLERS: Final = ("nn.Module", "::", "/")
"""What the names of callers contain that a call stack has: modules, ops and Python's frames."""
LEVELS: Final = 5
"""How far above a backward op its wrapper may be."""
STATIC: Final = ("GFLOPS", "Data Moved (MB)", "FLOPS/Byte", "Compute Spec", "Roofline Bound")
VARYING: Final = ("TB/s", "TFLOPS/s", KERNEL_TIME)


class Entry(NamedTuple):
    """One row of the table: a call, or a kernel that is inside no such call, under the name of its launch."""

    row: int
    events: Ints
    kernel: str = ""
    forward: int = -1
    """The forward op whose model gives the cost of this backward op; -1 for none."""


class Collector:
    """Finds the calls, from the outermost inwards: a call with a model ends the way, else the call that launches."""

    def __init__(self, calls: Calls, *, include_nccl: bool) -> None:
        self.calls = calls
        self.include_nccl = include_nccl
        ops = calls.subtree.rows[calls.is_op[calls.subtree.rows]]
        enclosing = calls.work.enclosing_op
        self.inner: dict[int, list[int]] = {}
        ops = ops[np.argsort(calls.trace.ints("start_ns")[ops], kind="stable")]
        for row, outer in zip(ops.tolist(), enclosing[ops].tolist(), strict=True):
            self.inner.setdefault(outer, []).append(row)
        self.with_models: set[int] = set()
        for row in ops.tolist():
            outer = int(enclosing[row]) if has_own_model(calls, row) else -1
            while outer >= 0 and outer not in self.with_models:
                self.with_models.add(outer)
                outer = int(enclosing[outer])
        self.leaves = set(np.unique(calls.op).tolist())

    def entries(self) -> list[Entry]:
        entries = list(self._calls())
        taken = np.zeros(len(self.calls.gpu), bool)
        for entry in entries:
            taken[entry.events] = True
        rest = ~taken & self.calls.is_linked & (self.include_nccl | ~self.calls.is_communication)
        parent = np.where(self.calls.op >= 0, self.calls.op, self.calls.launch)
        for event in np.flatnonzero(rest).tolist():
            entries.append(Entry(int(parent[event]), np.array([event]), self.calls.kernel[event]))
        return entries

    def _calls(self) -> Iterator[Entry]:
        calls, waiting = self.calls, self.inner.get(-1, [])[::-1]
        while waiting:
            row = waiting.pop()
            events = calls.subtree.of(row)
            forward = -1 if has_own_model(calls, row) else self._forward_of_only_backward(row)
            if has_own_model(calls, row) or (forward >= 0 and row not in self.with_models):
                yield Entry(row, events, forward=forward)
            elif row in self.leaves and row not in self.with_models:
                if self.include_nccl or not calls.is_communication[events].any():
                    yield Entry(row, events)
            else:
                waiting.extend(self.inner.get(row, [])[::-1])

    def _forward_of_only_backward(self, row: int) -> int:
        """The forward op with a model of which this call is the whole backward pass; -1 for none."""
        calls, wrapper = self.calls, row
        for _ in range(LEVELS):
            wrapper = int(calls.work.enclosing_op[wrapper])
            if wrapper < 0:
                return -1
            if calls.name(wrapper).startswith(WRAPPER):
                break
        forward = int(calls.trace.ints("forward")[wrapper])
        if forward < 0 or not calls.name(wrapper).startswith(WRAPPER):
            return -1
        sheet = SHEET_OF.get(calls.name(forward))
        if sheet is None or not sheet.backward or self._named_inside(wrapper) != 1:
            return -1
        return forward if metrics_of(calls, forward, True) is not None else -1

    def _named_inside(self, wrapper: int) -> int:
        """How many calls of the wrapper's function are inside it."""
        name = self.calls.name(wrapper).removeprefix(WRAPPER)
        count, waiting = 0, list(self.inner.get(wrapper, ()))
        while waiting:
            row = waiting.pop()
            count += self.calls.name(row) == name
            waiting.extend(self.inner.get(row, ()))
        return count


def unified(
    calls: Calls,
    *,
    rows: Sequence[int] | None = None,
    include_args: bool = True,
    include_perf_metrics: bool = True,
    include_kernel_details: bool = True,
    include_nccl: bool = False,
    include_call_stack: bool = False,
    arch: Arch | None = None,
    detect_recompute: bool = False,
) -> Frame:
    """A row per call, or for the calls of `rows` only."""
    entries = Collector(calls, include_nccl=include_nccl).entries()
    if rows is not None:
        by_row = {entry.row: entry for entry in entries if not entry.kernel}
        entries = [by_row.get(row) or Entry(row, calls.subtree.of(row)) for row in rows]
    table = []
    for number, entry in enumerate(entries):
        metrics = metrics_of(calls, *((entry.forward, True) if entry.forward >= 0 else (entry.row, False)))
        has_model = not entry.kernel and (entry.forward >= 0 or has_own_model(calls, entry.row))
        table.append(
            _entry_row(calls, entry, len(calls.trace) + number)
            | ({RECOMPUTED: bool(calls.recomputed[entry.row])} if detect_recompute else {})
            | (calls.inputs(entry.row).named() if include_args else {})
            | {"duration_us": int(calls.trace.ints("dur_ns")[entry.row]) / 1000, "has_perf_model": has_model}
            | (_costs(calls, entry, metrics if has_model else None, arch) if include_perf_metrics else {})
            | ({DETAILS: _details(calls, entry, include_call_stack)} if include_kernel_details else {})
        )
    frame = Frame.of_rows(table)
    ahead = [
        "name", CATEGORY, "UID", "pid", "tid", *PLACES, "External id", *OVERLAP, *INPUTS, "duration_us",
        "has_perf_model", RECOMPUTED, "GFLOPS", KERNEL_TIME, "TFLOPS/s", "Data Moved (MB)", "FLOPS/Byte", "TB/s",
        "Compute Spec", "Roofline Time (µs)", "Roofline Bound", "Pct Roofline", "perf_params", DETAILS,
    ]  # fmt: skip
    return frame.only(ahead)


def _entry_row(calls: Calls, entry: Entry, number: int) -> dict[str, Any]:
    """What the call is; a kernel on its own has a number beyond those of the trace's events."""
    name = calls.name(entry.row)
    if entry.kernel:
        name = f"{name}->{entry.kernel} (Synthetic Op)"
    own = calls.direct.of(entry.row)
    category = op_category(name, calls.kernel[int(own[0])] if len(own) else "")
    if entry.forward >= 0:
        category = SHEET_OF[calls.name(entry.forward)].backward
    return {
        "name": name,
        CATEGORY: category,
        "UID": number if entry.kernel else entry.row,
        **calls.numbers(entry.row),
        **calls.place(entry.row),
        "External id": calls.external_id(entry.row),
        **overlaps(calls).of(entry.events),
    }


def _details(calls: Calls, entry: Entry, with_stacks: bool) -> list[dict[str, Any]] | None:
    """The kernels of a call; each with what is around it, from the outside in, where that is wanted."""
    details = kernels_of(calls, entry.events)
    if with_stacks:
        for it, event in zip(details, entry.events.tolist(), strict=True):
            around = int(calls.op[event]) if calls.op[event] >= 0 else int(calls.launch[event])
            stack = calls.call_stack(around, CALLERS)[::-1]
            it["call_stack"] = [NUMBERED.sub("", name) for name in stack]
    return details or None


def call_stack(details: list[dict[str, Any]] | None) -> str:
    """The callers of a call's kernels: those that all have in common, then the rest of each."""
    chains = list(dict.fromkeys((*it.get("call_stack", ()), it["name"]) for it in details or ()))
    if not chains:
        return "Not found"
    if len(chains) == 1:
        return str(list(chains[0]))
    shared = next(at for at, names in enumerate(zip_longest(*chains)) if len(set(names)) > 1)
    return str([*chains[0][:shared], *(list(chain[shared:]) for chain in chains)])


def _costs(calls: Calls, entry: Entry, metrics: Metrics | None, arch: Arch | None) -> dict[str, Any]:
    if metrics is None:
        return {KERNEL_TIME: calls.busy_us(entry.events), "perf_params": None}
    return figures(metrics, arch) | {"perf_params": metrics.params or None}


def summarize(
    frame: Frame,
    agg_metrics: Sequence[Aggregate] = ("mean", "std"),
    *,
    include_pct: bool = True,
    include_call_stack: bool = False,
    include_overlapping_kernels: bool = False,
) -> Frame:
    """The calls by name, arguments and thread, those with most time first."""
    if not frame.height:
        return Frame()
    keys = ["name", *(OVERLAP[:1] if include_overlapping_kernels else ()), CATEGORY, *PLACES, *INPUTS, RECOMPUTED]
    keys = [key for key in keys if key in frame]
    chosen: dict[str, Sequence[Aggregate]] = {"UID": ["first", "count"], "duration_us": ["sum", *agg_metrics]}
    chosen |= {name: ["first"] for name in STATIC}
    chosen |= dict.fromkeys(VARYING[:2], agg_metrics)
    chosen |= {"Roofline Time (µs)": ["first"], "Pct Roofline": agg_metrics, KERNEL_TIME: [*agg_metrics, "sum"]}
    chosen[DETAILS] = [statistics(agg_metrics)]
    if include_overlapping_kernels:
        chosen |= {OVERLAP[1]: [statistics(agg_metrics)], OVERLAP[2]: agg_metrics}
    chosen |= {"perf_params": ["first"], "has_perf_model": ["first"]}
    grouped = frame.grouped(keys, {name: how for name, how in chosen.items() if name in frame}, as_text=True)
    if include_call_stack and DETAILS in frame:
        groups = frame.groups(keys, as_text=True)
        grouped["call_stack_full"] = [call_stack(frame[DETAILS][rows[0]]) for rows in groups]
    renamed = {
        "UID_first": "ex_UID", "UID_count": "operation_count", "duration_us_sum": "total_duration_us",
        "duration_us_mean": "mean_duration_us", "duration_us_std": "std_duration_us",
        **{f"{name}_first": name for name in (*STATIC, "perf_params", "has_perf_model")},
    }  # fmt: skip
    grouped = grouped.renamed(renamed | SUMMARIES)
    if f"{KERNEL_TIME}_sum" in grouped:
        grouped = grouped.sorted_by(f"{KERNEL_TIME}_sum", "ex_UID")
        grouped = grouped.with_shares(f"{KERNEL_TIME}_sum", PERCENT, CUMULATIVE) if include_pct else grouped
    ahead = [
        *keys, "ex_UID", "operation_count", "total_duration_us", "mean_duration_us", "std_duration_us", *STATIC,
        *(f"{name}_{how}" for name in VARYING for how in ("mean", "std", "sum")),
    ]  # fmt: skip
    return grouped.only(dict.fromkeys([*ahead, *grouped]))
