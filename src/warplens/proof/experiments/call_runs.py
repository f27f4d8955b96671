"""Calls that follow each other on a stream: the same ones in the same order are one run, however often they occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import polars as pl

from warplens.analyses.units.calls import UnitCalls, unit_calls
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import NONE
from warplens.model.trace import Bools, Ints
from warplens_run.formats.replay_plan import READY, Unit


@dataclass(frozen=True)
class CallRun:
    """Units in the order in which they were called, and how often in a step, or in the trace without steps."""

    units: tuple[Unit, ...]
    calls: float


@dataclass(frozen=True)
class RecordedCalls:
    """All calls of a trace, with the units that they are calls of."""

    work: Workspace
    units: Mapping[int, Unit]
    """By the number that calls know them by."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Texts of the Triton kernels among them."""

    @property
    def calls(self) -> UnitCalls:
        return unit_calls(self.work)

    @property
    def multiprocessors(self) -> int:
        """Of the traced GPU; 0 where it is not known."""
        return next((device.multiprocessors for device in self.work.trace.meta.devices), 0)

    @property
    def per_step(self) -> float:
        return 1 / max(1, self.work.trace.steps.height)

    @property
    def step_ns(self) -> float:
        """Of the unprofiled step where that is known, else from the first to the last GPU work of a recorded one."""
        gpu = self._gpu_in_steps()
        plain_ns = self.work.options.step_ns or self.work.trace.meta.plain_step_ns
        if plain_ns or not gpu.height:
            return float(plain_ns or 0.0)
        start, end = gpu["start_ns"].to_numpy(), (gpu["start_ns"] + gpu["dur_ns"]).to_numpy()
        return float(end.max() - start.min()) * self.per_step

    @property
    def step_gpu_ns(self) -> float:
        """GPU time of a step, of work outside ops too."""
        return max(1.0, float(self._gpu_in_steps()["dur_ns"].sum()) * self.per_step)

    def _gpu_in_steps(self) -> pl.DataFrame:
        gpu = self.work.gpu
        return gpu.filter(gpu["step"] >= 0) if self.work.trace.steps.height else gpu

    @property
    def why_not(self) -> str:
        """The reason for which most GPU time belongs to no unit that can run; empty where all of it does."""
        lost_ns = dict(self.calls.rest.group_by("reason").agg(pl.col("dur_ns").sum()).sort("reason").iter_rows())
        for unit in self.units.values():
            if unit.status != READY:
                lost_ns[unit.reason] = lost_ns.get(unit.reason, 0) + unit.times.total_ns
        return max(lost_ns, key=lambda reason: lost_ns[reason], default="")

    def in_step(self) -> Iterator[tuple[Unit, float]]:
        """All units that can run, with their calls in a step."""
        pieces = self.calls.pieces
        inside = pieces.filter(pieces["step"] >= 0) if self.work.trace.steps.height else pieces
        counts = inside.group_by("unit", maintain_order=True).agg(pl.col("call").n_unique())
        for number, count in counts.iter_rows():
            if self.units[number].status == READY:
                yield self.units[number], count * self.per_step

    def runs(self, chosen: Bools, joined: Collection[str] = ()) -> list[CallRun]:
        """Runs of calls that launch chosen events, and between them of calls of units in the `joined` categories."""
        counts = Counter(tuple(number for number in run) for run in self._unit_numbers(chosen, joined))
        ready = {number for number, unit in self.units.items() if unit.status == READY}
        return [
            CallRun(tuple(self.units[number] for number in run), count * self.per_step)
            for run, count in counts.items()
            if len(run) > 1 and ready.issuperset(run)
        ]

    def followers(self, unit: Unit) -> list[tuple[Unit, float]]:
        """The units whose calls come next on the stream after calls of this one, with how often in a step."""
        first = next(number for number, own in self.units.items() if own is unit)
        trace = self.work.trace
        pieces = self.calls.pieces.filter(pl.col("step") >= 0) if trace.steps.height else self.calls.pieces
        lane = trace.ints("lane")[pieces["id"].to_numpy()]
        order = np.lexsort((pieces["start_ns"].to_numpy(), lane))
        lane, call, number = lane[order], pieces["call"].to_numpy()[order], pieces["unit"].to_numpy()[order]
        is_next = (lane[1:] == lane[:-1]) & (call[1:] != call[:-1]) & (number[:-1] == first)
        counts = Counter(number[1:][is_next].tolist())
        return [(self.units[other], count * self.per_step) for other, count in counts.items()]

    def _unit_numbers(self, chosen: Bools, joined: Collection[str]) -> Iterator[list[int]]:
        pieces = self.calls.pieces
        rows, call, unit = (pieces[name].to_numpy().astype(np.int64) for name in ("id", "call", "unit"))
        trace = self.work.trace
        number = np.full(len(trace), NONE, np.int64)
        calls = np.full(len(trace), NONE, np.int64)
        number[rows], calls[rows] = unit, call
        is_chosen = np.zeros(len(trace), bool)
        is_chosen[np.isin(calls, calls[chosen & (calls != NONE)]) & (calls != NONE)] = True
        allowed = is_chosen | np.isin(number, [at for at, one in self.units.items() if one.category in joined])
        for run in _stretches(self.work, allowed):
            if is_chosen[run].any():
                yield [int(number[key]) for key, _ in _firsts(run, calls)]

    def of_first_whole_step(self) -> list[Unit]:
        """The units of a step in the order of their launches, where they can run; of the whole trace without steps."""
        trace = self.work.trace
        pieces = self.calls.pieces.sort("launched", maintain_order=True)
        if trace.steps.height:
            step = pieces["step"].to_numpy()
            inside = np.unique(step[step >= 0])
            pieces = pieces.filter(pieces["step"] == int(inside[len(inside) // 2])) if len(inside) else pieces.clear()
        firsts = pieces.unique("call", keep="first", maintain_order=True)
        return [self.units[number] for number in firsts["unit"].to_list() if self.units[number].status == READY]


def _stretches(work: Workspace, allowed: Bools) -> Iterator[Ints]:
    """Rows of events that follow each other on a stream within a step, with no other event between them."""
    trace = work.trace
    rows = work.gpu["id"].to_numpy().astype(np.int64)
    lane, step, start = (trace.ints(name)[rows] for name in ("lane", "step", "start_ns"))
    order = np.lexsort((start, lane))
    rows, lane, step = rows[order], lane[order], step[order]
    inside = allowed[rows] & ((step >= 0) | (trace.steps.height == 0))
    breaks = np.flatnonzero((np.diff(lane) != 0) | (np.diff(step) != 0) | (np.diff(inside.astype(np.int8)) != 0)) + 1
    for stretch in np.split(np.arange(len(rows)), breaks):
        if len(stretch) and inside[stretch[0]]:
            yield rows[stretch]


def _firsts(run: Ints, calls: Ints) -> Iterator[tuple[int, int]]:
    """The first event of each call, with the call."""
    for call, rows in groupby(run.tolist(), key=lambda row: int(calls[row])):
        yield next(rows), call
