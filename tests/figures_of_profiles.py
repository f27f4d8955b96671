"""The figures of a profile under the names that TraceLens' references have, and what else TraceLens may have counted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Final

import polars as pl

import warplens
from tracelens_references import Figure, call_key
from warplens.model.kinds import CODE

MEASURES: Final = {
    "computation_time": "computation", "exposed_comm_time": "exposed_communication", "busy_time": "busy",
    "exposed_memcpy_time": "exposed_memcpy", "idle_time": "idle", "total_time": "total",
    "total_comm_time": "communication", "total_memcpy_time": "memcpy",
}  # fmt: skip
NO_LAUNCH: Final = "(no launch recorded)"
NUMBER_AT_END: Final = re.compile(r"(sglang_profiler::\w+?)_\d+")
ARGUMENTS: Final = ("input_dims", "input_types", "input_strides", "concrete_inputs")
COSTS: Final = ("flop", "bytes")

Interval = tuple[int, int]
Figures = dict[Figure, float]


def covered(intervals: list[Interval]) -> int:
    """The length of their union."""
    length, reached = 0, -1
    for start, end in sorted(intervals):
        length += max(0, end - max(start, reached))
        reached = max(reached, end)
    return length


def summed(intervals: list[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def named(op: str) -> str:
    """SGLang's profiler numbers its calls, and TraceLens removes the number."""
    numbered = NUMBER_AT_END.fullmatch(op)
    return numbered[1] if numbered else op


def united(figures: Iterator[tuple[Figure, float]]) -> Figures:
    """Rows of equal keys as one; a call's cost is the same in all."""
    found: Figures = {}
    for figure, value in figures:
        if figure not in found or figure.column in COSTS:
            found[figure] = value
        elif figure.column.endswith(("_min", "_max")):
            found[figure] = (min if figure.column.endswith("_min") else max)(found[figure], value)
        else:
            found[figure] += value
    return found


class OwnFigures:
    """Those of the tables, and variants: without some events, by the union of a call's events, of ops further inside."""

    def __init__(self, profile: warplens.Profile) -> None:
        self.profile = profile
        self.trace = profile.trace
        self.events = profile.gpu_events()

    @cached_property
    def of_tables(self) -> Figures:
        return united(self._of_tables())

    def _of_tables(self) -> Iterator[tuple[Figure, float]]:
        yield from self._timeline()
        yield from self._kernels()
        shapes = self.profile.table("op_shapes").frame
        launching = dict(shapes.group_by("op").agg(pl.col("count").sum()).rows())
        for row in self.profile.table("ops").to_dicts():
            # TraceLens counts only calls that launch something themselves.
            yield Figure("ops", named(row["op"]), "count"), launching.get(row["op"], row["count"])
            yield Figure("ops", named(row["op"]), "kernel_us"), row["kernel_us"]
            yield Figure("ops", named(row["op"]), "subtree_kernel_us"), row["subtree_kernel_us"]
        for row in shapes.to_dicts():
            key = call_key(named(row["op"]), (row[name] for name in ARGUMENTS))
            for column in ("count", "kernel_us", "kernel_us_min", "kernel_us_max", *COSTS):
                if row[column] is not None:
                    yield Figure("op_shapes", key, column), row[column]

    def _timeline(self) -> Iterator[tuple[Figure, float]]:
        rows = self.profile.table("timeline").to_dicts()
        whole = "all" if any(row["device"] == "all" for row in rows) else rows[0]["device"]
        names = {measure: name for name, measure in MEASURES.items()}
        for row in rows:
            device = "" if row["device"] == whole else f" of GPU {row['device']}"
            yield Figure("timeline", names[row["measure"]] + device, "time_ms"), row["time_ms"]

    def _kernels(self) -> Iterator[tuple[Figure, float]]:
        has_ops = bool(self.trace.is_kind("op").any())
        times = self.events.group_by("op", "kernel").agg(pl.len().alias("count"), pl.col("dur_ns").sum() / 1000)
        for op, kernel, count, total_us in times.rows():
            key = f"{named(op) if has_ops and op != NO_LAUNCH else ''}|{kernel}"
            yield Figure("kernels", key, "count"), count
            yield Figure("kernels", key, "total_us"), total_us

    @cached_property
    def of_linked_work(self) -> Figures:
        return self._counted_anew(self.events.filter(pl.col("launch") >= 0), summed)

    @cached_property
    def without_memsets(self) -> Figures:
        return self._counted_anew(self.events.filter(pl.col("kind") != CODE["memset"]), summed)

    @cached_property
    def by_union(self) -> Figures:
        return self._counted_anew(self.events, covered)

    def _counted_anew(self, events: pl.DataFrame, of_call: Callable[[list[Interval]], int]) -> Figures:
        """The timeline and the times of ops from GPU events, not through the tables."""
        found = {Figure("timeline", name, "time_ms"): ms for name, ms in measured(events).items()}
        calls: dict[int, list[Interval]] = {}
        for row, start, duration in events.select("op_row", "start_ns", "dur_ns").rows():
            calls.setdefault(row, []).append((start, start + duration))
        times = {row: of_call(intervals) / 1000 for row, intervals in calls.items() if row >= 0}
        return found | united(self._times(times))

    def _times(self, times: dict[int, float]) -> Iterator[tuple[Figure, float]]:
        for row, us in times.items():
            op = named(self._op_names[row])
            yield Figure("ops", op, "kernel_us"), us
            for column in ("kernel_us", "kernel_us_min", "kernel_us_max"):
                yield Figure("op_shapes", self.key_of(row), column), us
            for call in (row, *self._ops_around(row)):
                if call in times:  # TraceLens has no subtree of a call that launches nothing itself
                    yield Figure("ops", named(self._op_names[call]), "subtree_kernel_us"), us

    @cached_property
    def costs_inside(self) -> dict[Figure, set[float]]:
        """For ops around those that are costed, what one call has inside: each cost, and all together."""
        per_call: dict[tuple[int, str], list[float]] = {}
        for row in self.events["op_row"].unique().to_list():
            for column in COSTS if row >= 0 else ():
                cost = self.of_tables.get(Figure("op_shapes", self.key_of(row), column))
                for outer in self._ops_around(row) if cost is not None else ():
                    per_call.setdefault((outer, column), []).append(cost)
        found: dict[Figure, set[float]] = {}
        for (outer, column), costs in per_call.items():
            found.setdefault(Figure("op_shapes", self.key_of(outer), column), set()).update((*costs, sum(costs)))
        return found

    def _ops_around(self, row: int) -> Iterator[int]:
        while (row := self._parents[row]) >= 0:
            if self._is_op[row]:
                yield row

    def key_of(self, row: int) -> str:
        if row not in self._keys:
            spec = self._specs[row]
            arguments = self.trace.specs.row(spec) if spec >= 0 else ("",) * len(ARGUMENTS)
            self._keys[row] = call_key(named(self._op_names[row]), arguments)
        return self._keys[row]

    @cached_property
    def _keys(self) -> dict[int, str]:
        return {}

    @cached_property
    def _op_names(self) -> list[str]:
        return self.trace.named_events()["name"].to_list()

    @cached_property
    def _parents(self) -> list[int]:
        return self.trace.events["parent"].to_list()

    @cached_property
    def _specs(self) -> list[int]:
        return self.trace.events["spec"].to_list()

    @cached_property
    def _is_op(self) -> list[bool]:
        flags: list[bool] = self.trace.is_kind("op").tolist()
        return flags


def measured(events: pl.DataFrame) -> dict[str, float]:
    """The measures of the timeline in ms, by TraceLens' names."""
    parts: dict[str, list[Interval]] = {"communication": [], "memcpy": [], "computation": []}
    for start, duration, kind, category in events.select("start_ns", "dur_ns", "kind", "kernel_category").rows():
        part = "communication" if category == "Communication" else "memcpy" if kind == CODE["memcpy"] else "computation"
        parts[part].append((start, start + duration))
    everything = [interval for own in parts.values() for interval in own]
    busy, messages = covered(everything), [*parts["computation"], *parts["communication"]]
    total = max(end for _, end in everything) - min(start for start, _ in everything)
    union = {name: covered(own) for name, own in parts.items()}
    found = {
        **union,
        "exposed_communication": covered(messages) - union["computation"],
        "exposed_memcpy": busy - covered(messages),
        "busy": busy,
        "idle": total - busy,
        "total": total,
    }
    return {name: found[measure] / 1e6 for name, measure in MEASURES.items()}
