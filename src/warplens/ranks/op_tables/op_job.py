"""`OpJob`: the op table of a job with its graph, its ideal durations and its what-ifs, each computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import polars as pl

from warplens.model.job_ops import JobOps
from warplens.ranks.op_tables.dependencies import COMMUNICATION, COMPUTE, TRANSFERS, op_graph
from warplens.ranks.op_tables.simulation import Floats, OpGraph
from warplens.ranks.op_tables.what_if import CaseResult, Mask, Scope, WhatIf, what_if

SLOWEST_PERCENT: Final = 3
"""Of the workers: as many as M_W is about, and at least one."""
MOST_WORKERS: Final = 8
"""Workers whose own gain is simulated: those with the largest scores."""
SHOWN_TYPES: Final = {name: f"{name.partition('-')[0]}-pp-comm" for name in TRANSFERS}
"""A send and its receive are one transfer."""


@dataclass(frozen=True)
class OpJob:
    """What the tables of an op table share."""

    job: JobOps

    @cached_property
    def graph(self) -> OpGraph:
        return op_graph(self.job)

    @cached_property
    def ideal_ns(self) -> Floats:
        """Computation at the mean of its type over workers and steps, transfers at the median."""
        durations = self.job.ops.select("op_type", duration=pl.Series(self.graph.duration_ns))
        duration = pl.col("duration")
        ideal = pl.when(pl.col("op_type").is_in(COMMUNICATION)).then(duration.median()).otherwise(duration.mean())
        return durations.select(ideal.over("op_type"))["duration"].to_numpy()

    @cached_property
    def even_ns(self) -> Floats:
        """Every op at the mean of its type on its worker: as slow as the worker is, but with even data."""
        durations = self.job.ops.select("op_type", "rank", duration=pl.Series(self.graph.duration_ns))
        return durations.select(pl.col("duration").mean().over("op_type", "rank"))["duration"].to_numpy()

    @cached_property
    def parts(self) -> WhatIf:
        """The what-ifs of all but workers, the largest slowdown of each kind first."""
        ops = self.job.ops
        types = ops["op_type"].replace(SHOWN_TYPES)
        scopes = [
            *(Scope("S_type", name, _mask(types == name)) for name in sorted(types.unique())),
            *(Scope("S_rank", f"dp {dp}", _mask(ops["dp_rank"] == dp)) for dp in sorted(ops["dp_rank"].unique())),
            *(Scope("S_stage", f"stage {stage}", _mask(ops["stage"] == stage)) for stage in self.stages),
            Scope("S_transfer", "all communication", _mask(ops["op_type"].is_in(COMMUNICATION))),
            Scope("S_data", "all computation", _mask(ops["op_type"].is_in(COMPUTE)), self.even_ns),
        ]
        answer = what_if(self.graph, self.ideal_ns, scopes)
        kinds = list(dict.fromkeys(scope.what for scope in scopes))
        ordered = sorted(answer.results, key=lambda result: (kinds.index(result.scope.what), -result.alone_ns))
        return WhatIf(answer.recorded_ns, answer.step_ns, answer.ideal_ns, tuple(ordered))

    @property
    def stages(self) -> list[int]:
        return sorted(self.job.ops["stage"].unique())

    def _slowdowns(self, what: str) -> dict[str, float]:
        return {
            result.scope.name: self.parts.slowdown_of(result)
            for result in self.parts.results
            if result.scope.what == what
        }

    @cached_property
    def scores(self) -> pl.DataFrame:
        """Each worker with the lesser of the slowdowns of its data-parallel rank and its stage, the largest first."""
        workers = self.job.ops.select("rank", "dp_rank", "stage").unique("rank", maintain_order=True)
        of_rank, of_stage = self._slowdowns("S_rank"), self._slowdowns("S_stage")
        scores = [min(of_rank[f"dp {dp}"], of_stage[f"stage {stage}"]) for _, dp, stage in workers.iter_rows()]
        score = pl.Series("score", scores, pl.Float64)
        return workers.with_columns(score).sort("score", "rank", descending=[True, False])

    @cached_property
    def slowest_ranks(self) -> list[int]:
        """The 3 % of workers with the largest scores, rounded up."""
        count = -(-len(self.scores) * SLOWEST_PERCENT // 100)
        return self.scores["rank"].head(count).to_list()

    @cached_property
    def suspects(self) -> WhatIf:
        """The what-ifs of the slowest workers, one by one and together (M_W), and of the last stage (M_S)."""
        return what_if(self.graph, self.ideal_ns, self._suspected())

    def _suspected(self) -> list[Scope]:
        ops, ranks = self.job.ops, self.slowest_ranks
        if not ranks:
            return []
        name = ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
        single = self.scores["rank"].head(MOST_WORKERS).to_list()
        workers = [Scope("S_worker", f"rank {rank}", _mask(ops["rank"] == rank)) for rank in single]
        slowest = Scope("M_W", name, _mask(ops["rank"].is_in(ranks)))
        last = self.stages[-1]
        stage = [Scope("M_S", f"stage {last}", _mask(ops["stage"] == last))] if len(self.stages) > 1 else []
        return [*workers, slowest, *stage]

    @cached_property
    def what_if(self) -> WhatIf:
        """All of them."""
        parts = self.parts
        results = (*parts.results, *self.suspects.results)
        return WhatIf(parts.recorded_ns, parts.step_ns, parts.ideal_ns, results)

    def result(self, what: str) -> CaseResult | None:
        """The first of a kind: the largest slowdown."""
        return next((result for result in self.what_if.results if result.scope.what == what), None)


def _mask(values: pl.Series) -> Mask:
    return values.to_numpy()
