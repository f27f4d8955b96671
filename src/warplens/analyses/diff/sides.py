"""Two traces side by side: which of their GPU work is compared, and what a time is divided by.

Times are per step where both traces have steps in which a GPU worked: the mean over these steps, of the work they
launched. Otherwise they are of the whole trace. Every row is of the same steps as the total: rows of other steps would
contradict it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE
from warplens.model.trace import Bools, Ints

LEFT_OUT_PERCENT = 1.0
"""Work outside all steps is mentioned from this share of the GPU time on."""


@dataclass(frozen=True)
class Side:
    """One of the two traces; `steps` are those in which a GPU worked, none for the whole trace."""

    work: Workspace
    label: str
    steps: tuple[int, ...] = ()
    is_picked: bool = False
    """These steps of the trace are compared and no others."""

    @property
    def runs(self) -> int:
        """What sums are divided by."""
        return max(1, len(self.complete_steps))

    @property
    def complete_steps(self) -> tuple[int, ...]:
        """The steps whose length on the GPU is known: the last one has no next one to end it.

        It lacks the idle time before that (8.5 instead of 25 ms where a data loader stalls), so that it is left out
        wherever two others remain, of times and of work alike.
        """
        if self.is_picked or not len(self.work.gpu):
            return self.steps
        return self.steps[:-1] if len(self.steps) > 2 else self.steps

    @cached_property
    def chosen(self) -> Bools:
        """Which GPU events are compared."""
        if not self.steps:
            return np.ones(len(self.work.gpu), bool)
        return np.isin(self.work.gpu["step"].to_numpy(), self.complete_steps)

    @cached_property
    def events(self) -> pl.DataFrame:
        """The GPU events that are compared; `step` is one and the same for a whole trace."""
        return self.in_steps(self.work.gpu.filter(pl.Series(self.chosen)))

    @cached_property
    def host_steps(self) -> tuple[int, ...]:
        """The steps whose host ops are compared: these, and those in which no GPU worked."""
        if self.is_picked or not self.steps:
            return self.complete_steps
        without_gpu = [int(step) for step in self.work.trace.steps["step"] if step not in self.steps]
        return (*self.complete_steps, *without_gpu)

    @cached_property
    def host_rows(self) -> Ints:
        """The host's op calls that are compared."""
        trace = self.work.trace
        rows = np.flatnonzero(trace.ints("kind") == CODE["op"])
        return rows[np.isin(trace.ints("step")[rows], self.host_steps)] if self.steps else rows

    def in_steps(self, frame: pl.DataFrame) -> pl.DataFrame:
        return frame if self.steps else frame.with_columns(pl.lit(0, pl.Int32).alias("step"))

    @property
    def percent_left_out(self) -> float:
        """Share of the GPU time that belongs to no step and is not compared."""
        if self.is_picked:
            return 0.0
        whole, gpu = self.work.gpu_total_ns, self.work.gpu
        in_steps = gpu.filter(pl.col("step").is_in(list(self.steps))) if self.steps else gpu
        return 100 * (1 - float(in_steps["dur_ns"].sum()) / whole) if whole else 0.0


@dataclass(frozen=True)
class Pair:
    """What is compared with what."""

    a: Side
    b: Side

    @property
    def per_step(self) -> bool:
        return bool(self.a.steps)

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b

    @cached_property
    def notes(self) -> tuple[str, ...]:
        """What every table of this pair has to say about its times."""
        return (self.basis, *(_left_out(side) for side in self.sides if side.percent_left_out >= LEFT_OUT_PERCENT))

    @property
    def basis(self) -> str:
        if self.a.is_picked:
            return f"times are of {steps_text(self.a.steps)} (A) and {steps_text(self.b.steps)} (B){self._has_last}"
        if self.per_step:
            return f"times are per step: means over {self.a.runs} (A) and {self.b.runs} (B) steps{self._without_last}"
        counts = [len(gpu_steps(side.work)) for side in self.sides]
        if any(counts) and not all(counts):
            missing = "B" if counts[0] else "A"
            return f"times are of the whole traces, because {missing} has no steps with GPU work"
        return "times are of the whole traces"

    @property
    def host_basis(self) -> str:
        """The same for times of the host."""
        added = [len(side.host_steps) > len(side.complete_steps) for side in self.sides]
        if not any(added):
            return self.basis
        counts = [len(side.host_steps) for side in self.sides]
        return f"times are per step: means over {counts[0]} (A) and {counts[1]} (B) steps, also those without GPU work"

    @property
    def _has_last(self) -> str:
        last = gpu_steps(self.a.work)[-1:]
        cut = [side.label for side in self.sides if last and last[0] in side.steps]
        return f"; no next step ends the last one, in {cut[0]}: idle time after it is not counted" if cut else ""

    @property
    def _without_last(self) -> str:
        cut = [side.label for side in self.sides if len(side.complete_steps) < len(side.steps)]
        return f", without the last step of {' and '.join(cut)}: no further step marks its end" if cut else ""


def pair(a: Workspace, b: Workspace, *, whole: bool = False) -> Pair:
    """The two traces, per step where both have steps, unless `whole` asks for all of them."""
    steps = (gpu_steps(a), gpu_steps(b))
    if whole or not all(steps):
        steps = ((), ())
    return Pair(Side(a, "A", steps[0]), Side(b, "B", steps[1]))


def pair_of_steps(work: Workspace, a: tuple[int, ...], b: tuple[int, ...]) -> Pair:
    """Some steps of a trace against others of it."""
    return Pair(Side(work, "A", a, is_picked=True), Side(work, "B", b, is_picked=True))


def steps_text(steps: tuple[int, ...]) -> str:
    """
    >>> steps_text((3,)), steps_text((1, 2, 3)), steps_text((1, 3))
    ('step 3', 'steps 1 to 3 (means)', 'steps 1, 3 (means)')
    """
    if len(steps) == 1:
        return f"step {steps[0]}"
    is_range = len(steps) > 2 and steps == tuple(range(steps[0], steps[-1] + 1))
    return f"steps {f'{steps[0]} to {steps[-1]}' if is_range else ', '.join(map(str, steps))} (means)"


def gpu_steps(work: Workspace) -> tuple[int, ...]:
    """The steps that launched GPU work, in the order of their marks; on the CPU alone, all steps."""
    marked = [int(step) for step in work.trace.steps["step"]]
    if not len(work.gpu):
        return tuple(marked)
    busy = set(work.gpu["step"].unique().to_list())
    return tuple(step for step in marked if step in busy)


def _left_out(side: Side) -> str:
    return f"{side.percent_left_out:.0f} % of {side.label}'s GPU time was launched outside its steps and is left out"
