"""How much shorter a job's step would be if its slow parts were like the others.

A *scope* is a part of the ops: an op type, a data-parallel rank, a stage, some workers. Two cases are simulated for
each: only this scope as recorded and all else ideal, for the slowdown that it causes alone; and all as recorded but
this scope ideal, for what mending it would win. Launch delays are 0 in all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from warplens.model.table import Column, Table
from warplens.ranks.op_tables.simulation import Floats, OpGraph

Mask: TypeAlias = npt.NDArray[np.bool_]
NS_PER_MS: Final = 1e6
LEAST_SHARE: Final = 1e-6
"""A gain of the whole job below this share of its step is noise of the floats."""

COLUMNS: Final = (
    Column(
        "what",
        "S: all of the job; S_type, S_rank, S_stage: one op type, data-parallel rank or pipeline stage; S_transfer: "
        "all communication; S_data: what makes a computation longer than others of its worker; S_worker: one of the "
        "slowest workers; M_W: the slowest 3 % of workers; M_S: the last stage",
        "",
        pl.String,
    ),
    Column("scope", "the op type, ranks or stage that is meant", "", pl.String),
    Column("slowdown", "the step with only this scope as recorded / the ideal step", "", pl.Float64),
    Column("step_ms", "time of a step if this scope were ideal and all else as recorded", "ms", pl.Float64),
    Column("gain_ms", "what a step would be shorter by then", "ms", pl.Float64),
    Column("explained", "gain_ms / gain of the whole job; null where the job has no gain", "", pl.Float64),
)


@dataclass(frozen=True)
class Scope:
    """A part of a job's ops."""

    what: str
    name: str
    ops: Mask
    even_ns: Floats | None = None
    """Where only the unevenness of the ops is meant: the durations of all ops that are even in this sense."""

    def alone(self, recorded_ns: Floats, ideal_ns: Floats) -> Floats:
        """The durations with only this scope as recorded."""
        if self.even_ns is None:
            return np.where(self.ops, recorded_ns, ideal_ns)
        uneven = np.divide(recorded_ns, self.even_ns, out=np.ones_like(ideal_ns), where=self.even_ns > 0)
        return np.where(self.ops, ideal_ns * uneven, ideal_ns)

    def without(self, recorded_ns: Floats, ideal_ns: Floats) -> Floats:
        """The durations with all but this scope as recorded."""
        return np.where(self.ops, ideal_ns if self.even_ns is None else self.even_ns, recorded_ns)


@dataclass(frozen=True)
class CaseResult:
    """A scope with the mean steps of its two cases."""

    scope: Scope
    alone_ns: float
    """Only this scope as recorded."""
    without_ns: float
    """All but this scope as recorded."""


@dataclass(frozen=True)
class WhatIf:
    """The mean steps of a job, as simulated without launch delays, in the ideal, and for each scope."""

    recorded_ns: float
    step_ns: float
    ideal_ns: float
    results: tuple[CaseResult, ...] = ()

    @property
    def slowdown(self) -> float:
        """S."""
        return self.step_ns / self.ideal_ns if self.ideal_ns else 1.0

    def slowdown_of(self, result: CaseResult) -> float:
        return result.alone_ns / self.ideal_ns if self.ideal_ns else 1.0

    def gain_ns(self, result: CaseResult) -> float:
        return self.step_ns - result.without_ns

    @property
    def is_slowed(self) -> bool:
        """Whether the ideal step is shorter at all."""
        return self.step_ns - self.ideal_ns > LEAST_SHARE * self.ideal_ns

    def explained(self, result: CaseResult) -> float | None:
        """The share of the job's slowdown that ends with this scope's; None where the job has none."""
        return self.gain_ns(result) / (self.step_ns - self.ideal_ns) if self.is_slowed else None


def what_if(graph: OpGraph, ideal_ns: Floats, scopes: Sequence[Scope]) -> WhatIf:
    """`ideal_ns` are the durations of the ops where no part of the job is slower than the others."""
    recorded = graph.duration_ns

    def durations(case: int) -> Floats:
        if case < 2:
            return recorded if case == 0 else ideal_ns
        scope = scopes[case // 2 - 1]
        return scope.without(recorded, ideal_ns) if case % 2 else scope.alone(recorded, ideal_ns)

    means = graph.mean_steps_ns(2 + 2 * len(scopes), durations).tolist()
    results = [CaseResult(*case) for case in zip(scopes, means[2::2], means[3::2], strict=True)]
    recorded_step = float(graph.recorded_ns.mean()) if len(graph) else 0.0
    return WhatIf(recorded_step, means[0], means[1], tuple(results))


def what_if_table(answer: WhatIf, *notes: str) -> Table:
    whole = answer.step_ns - answer.ideal_ns
    rows = [
        (
            "S",
            "all",
            answer.slowdown,
            answer.ideal_ns / NS_PER_MS,
            whole / NS_PER_MS,
            1.0 if answer.is_slowed else None,
        ),
        *(
            (
                result.scope.what,
                result.scope.name,
                answer.slowdown_of(result),
                result.without_ns / NS_PER_MS,
                answer.gain_ns(result) / NS_PER_MS,
                answer.explained(result),
            )
            for result in answer.results
        ),
    ]
    meaning = "one row per part of the job: how much it slows the step down, and what mending it would win"
    return Table.from_rows("job_what_if", meaning, COLUMNS, rows, *notes)
