"""A graph of the ops of all workers, and its times with other durations.

An op starts when all ops that it depends on have ended, plus its delay. Ops of one group (a collective, a send and its
receive) wait for each other: each ends its own duration after the last of them has started. So the duration of an op in
a group is its transfer, without the wait for the others. With the recorded durations and delays every op is where it
was recorded; a what-if is the same graph with other durations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from warplens.errors import WarplensError

Ints: TypeAlias = npt.NDArray[np.int64]
Floats: TypeAlias = npt.NDArray[np.float64]
CLOCK_ERROR_NS: Final = 10e6
"""Clocks of hosts differ: a transfer that ends before its last member started is kept up to this, and else is 0."""
CELLS_AT_ONCE: Final = 4_000_000
"""Ops × cases that are simulated together: more take more memory (about 30 bytes each), fewer take longer."""


@dataclass(frozen=True)
class OpGraph:
    """Ops as numbers from 0: each with its step, its group and its recorded times since some moment of its step.

    `before` and `after` are the ends of each dependency. Ops that are in no group have a group number of their own.
    """

    step: Ints
    group: Ints
    start_ns: Floats
    end_ns: Floats
    before: Ints
    after: Ints

    def __len__(self) -> int:
        return len(self.step)

    @cached_property
    def met_ns(self) -> Floats:
        """When the last op of its group started."""
        return _largest(self.start_ns, self.group)[self.group]

    @cached_property
    def duration_ns(self) -> Floats:
        """From the moment all of the group have started to the end of the op."""
        transfer = self.end_ns - self.met_ns
        return np.where(transfer <= -CLOCK_ERROR_NS, 0.0, transfer)

    @cached_property
    def delay_ns(self) -> Floats:
        """What an op started later than its dependencies allow: work of the host that is not recorded."""
        first = _smallest(self.start_ns, self.step_numbers)[self.step_numbers]
        ready = np.full(len(self), -np.inf)
        np.maximum.at(ready, self.after, self.end_ns[self.before])
        return self.start_ns - np.where(np.isinf(ready), first, ready)

    @cached_property
    def steps(self) -> Ints:
        """The distinct steps."""
        return np.unique(self.step)

    @cached_property
    def step_numbers(self) -> Ints:
        """Per op the place of its step among `steps`."""
        return np.searchsorted(self.steps, self.step)

    @cached_property
    def recorded_ns(self) -> Floats:
        """Per step its time from the first start to the last end."""
        numbers = self.step_numbers
        return _largest(self.end_ns, numbers) - _smallest(self.start_ns, numbers)

    @cached_property
    def levels(self) -> tuple[_Level, ...]:
        return tuple(_levels(self))

    def ends(self, duration_ns: Floats, delay_ns: Floats | None = None) -> Floats:
        """When each op ends after the start of its step; durations are ops × cases, and so is the answer."""
        ends = np.zeros((len(self) + 1, duration_ns.shape[1]))  # the last row is the start of the step
        for level in self.levels:
            starts = np.maximum.reduceat(ends[level.before], level.first_before, axis=0)
            if delay_ns is not None:
                starts += delay_ns[level.ops, None]
            met = np.maximum.reduceat(starts, level.first_member, axis=0)
            ends[level.ops] = np.repeat(met, level.members, axis=0) + duration_ns[level.ops]
        return ends[:-1]

    def step_ns(self, duration_ns: Floats, delay_ns: Floats | None = None) -> Floats:
        """The time of each step (steps × cases)."""
        if not len(self):
            return np.zeros((0, duration_ns.shape[1]))
        order = np.argsort(self.step_numbers, kind="stable")
        firsts = np.searchsorted(self.step_numbers[order], np.arange(len(self.steps)))
        return np.maximum.reduceat(self.ends(duration_ns, delay_ns)[order], firsts, axis=0)

    def mean_steps_ns(self, cases: int, duration_of: Callable[[int], Floats]) -> Floats:
        """The mean step of each case, a few of them at a time; `duration_of` gives the durations of a case."""
        at_once = max(1, CELLS_AT_ONCE // max(1, len(self)))
        means = [
            self.step_ns(np.stack([duration_of(case) for case in range(first, min(first + at_once, cases))], axis=1))
            for first in range(0, cases, at_once)
        ]
        return np.concatenate([steps.mean(axis=0) if len(steps) else np.zeros(steps.shape[1]) for steps in means])


class _Level(NamedTuple):
    """Ops whose dependencies are all in earlier levels; those of one group stand together."""

    ops: Ints
    before: Ints
    """What they depend on, op after op."""
    first_before: Ints
    first_member: Ints
    members: Ints
    """Per group: where it begins in `ops`, and how many ops it has."""


def _levels(graph: OpGraph) -> Iterator[_Level]:
    if not len(graph):
        return
    level_of_op = _group_levels(graph)[graph.group]
    order = np.lexsort((graph.group, level_of_op))
    # An op without dependencies depends on the start of its step, so that every op has one.
    alone = np.setdiff1d(np.arange(len(graph)), graph.after)
    before = np.concatenate([graph.before, np.full(len(alone), len(graph))])
    place = np.empty(len(graph), np.int64)
    place[order] = np.arange(len(graph))
    places = place[np.concatenate([graph.after, alone])]
    sorted_edges = np.argsort(places, kind="stable")
    before, places = before[sorted_edges], places[sorted_edges]
    bounds = np.flatnonzero(np.diff(level_of_op[order], prepend=-1, append=-1))
    for first, last in pairwise(bounds.tolist()):
        edges = slice(*np.searchsorted(places, (first, last)))
        ops = order[first:last]
        first_member = np.flatnonzero(np.diff(graph.group[ops], prepend=-1))
        yield _Level(
            ops,
            before[edges],
            np.flatnonzero(np.diff(places[edges], prepend=-1)),
            first_member,
            np.diff(first_member, append=len(ops)),
        )


def _group_levels(graph: OpGraph) -> Ints:
    """Per group the length of the longest chain of groups before it."""
    count = int(graph.group.max()) + 1
    before, after = graph.group[graph.before], graph.group[graph.after]
    order = np.argsort(before, kind="stable")
    before, after = before[order], after[order]
    firsts = np.searchsorted(before, np.arange(count + 1))
    waiting = np.bincount(after, minlength=count)
    level = np.full(count, -1)
    ready = np.flatnonzero(waiting == 0)
    for depth in range(count):
        if not len(ready):
            break
        level[ready] = depth
        reached = after[_ranges(firsts[ready], firsts[ready + 1])]
        waiting -= np.bincount(reached, minlength=count)
        ready = np.unique(reached[waiting[reached] == 0])
    if np.any(level < 0):
        raise WarplensError("the ops wait for each other in a circle, and cannot be simulated")
    return level


def _ranges(firsts: Ints, lasts: Ints) -> Ints:
    """The numbers from each first up to, not including, its last."""
    lengths = lasts - firsts
    offsets = np.repeat(firsts - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return offsets + np.arange(int(lengths.sum()))


def _largest(values: Floats, number: Ints) -> Floats:
    """Per number the largest of its values."""
    largest = np.full(int(number.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(largest, number, values)
    return largest


def _smallest(values: Floats, number: Ints) -> Floats:
    return -_largest(-values, number)
