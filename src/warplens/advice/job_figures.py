"""`JobFigures`: the tables of a job of many ranks, as its rules read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import polars as pl

from warplens.advice.rows import RowT, TableRow, numbered
from warplens.advice.wording import words
from warplens.analyses.missing_data import TORCH
from warplens.model.finding import Evidence, Finding
from warplens.model.records import records
from warplens.model.table import Table
from warplens.model.targets import RowTarget
from warplens.ranks.step_parts import TRANSFER
from warplens_run.base.units import ranges

JobCheck = Callable[["JobFigures"], Iterator[Finding]]
GainOfHiding = Callable[[float], float]
"""In ms: what the job's step would win if computation hid all transfers of messages below a size."""


class StragglerRow(TableRow, frozen=True):
    table: ClassVar[str] = "stragglers"
    rank: int
    group: str
    since_step: int
    cause: str
    excess_ms: float
    gain_ms: float
    gain_low_ms: float
    gain_high_ms: float
    lost_ms: float
    explained_percent: float
    place: str
    confidence: str
    note: str


class WaitRow(TableRow, frozen=True):
    table: ClassVar[str] = "waits"
    rank: int
    for_rank: int
    count: int
    wait_ms_per_step: float


class RankRow(TableRow, frozen=True):
    table: ClassVar[str] = "ranks"
    rank: int
    gpu: str
    host: str


class StageRow(TableRow, frozen=True):
    table: ClassVar[str] = "pipeline"
    stage: int
    ranks: str
    compute_ms: float
    receive_wait_ms: float


class ExposedRow(TableRow, frozen=True):
    table: ClassVar[str] = "exposed_by_module"
    module: str
    kind: str
    count: float
    exposed_ms: float
    wait_ms: float

    @property
    def transfer_ms(self) -> float:
        """What of it is surely not a wait for other ranks."""
        return self.exposed_ms - self.wait_ms


class PartRow(TableRow, frozen=True):
    table: ClassVar[str] = "breakdown"
    rank: int
    cause: str
    time_ms: float


class KindRow(TableRow, frozen=True):
    table: ClassVar[str] = "collective_kinds"
    kind: str
    message_bytes: int | None
    group_size: int
    count: int
    transfer_us: float
    exposed_ms: float
    algbw_gbps: float | None


NEEDED_JOB_TABLES = (
    *("stragglers", "waits", "ranks", "pipeline", "all_to_all", "exposed_by_module", "collective_kinds", "breakdown"),
)


@dataclass(frozen=True)
class JobFigures:
    """The tables of a job, how long its step takes, each of the recorded ones, and what hiding transfers would win."""

    tables: Mapping[str, Table]
    step_ms: Mapping[int, float]
    """By number."""
    clock_ms: float
    """The job's step, which all gains are of."""
    gain_of_hiding: GainOfHiding
    shown_rank: int
    """The rank whose step the answer divides into parts."""
    format: str = TORCH

    def rows(self, kind: type[RowT]) -> list[RowT]:
        return records(numbered(self.tables[kind.table].frame), kind)

    @cached_property
    def stragglers(self) -> list[StragglerRow]:
        return self.rows(StragglerRow)

    def steps_since(self, step: int) -> int:
        """How many steps were recorded from this one on."""
        return sum(number >= step for number in self.step_ms)

    def share(self, gain_ms: float) -> float:
        """A gain as percent of the job's step."""
        return min(100.0, 100 * gain_ms / self.clock_ms)

    @cached_property
    def shown_transfer_ms(self) -> float:
        """The transfers among the parts of that step."""
        rows = self.rows(PartRow)
        return sum(row.time_ms for row in rows if row.rank == self.shown_rank and row.cause == TRANSFER)

    def advice(self, topic: str) -> str:
        return words(topic, self.format)

    @cached_property
    def received_ratio(self) -> dict[int, float]:
        """Of each rank: bytes that all-to-alls bring it, over the mean of all ranks."""
        sums = self.tables["all_to_all"].frame.group_by("to_rank").agg(pl.col("sent_bytes").sum())
        average = float(sums["sent_bytes"].mean() or 0.0)  # type: ignore[arg-type]
        return {rank: size / average for rank, size in sums.iter_rows()} if average else {}

    def waiting_for(self, rank: int, most: int = 3) -> Iterable[Evidence]:
        """Who waits for a rank longest."""
        rows = [row for row in self.rows(WaitRow) if row.for_rank == rank][:most]
        return [
            Evidence(
                f"rank {row.rank} waits for rank {rank}",
                detail="in collectives that it comes last to",
                count=row.count,
                time_ms=row.wait_ms_per_step,
                targets=(row.target,),
            )
            for row in rows
        ]

    @cached_property
    def _machines(self) -> dict[str, str]:
        """Machines of several ranks: their ranks, as `stragglers` lists them → the name."""
        by_host: dict[str, list[int]] = {}
        for row in self.rows(RankRow):
            by_host.setdefault(row.host, []).append(row.rank)
        return {f"ranks {ranges(own)}": host for host, own in by_host.items() if host and len(own) > 1}

    def named(self, straggler: StragglerRow) -> str:
        """Its ranks; and the machine, where they are all of its ranks."""
        machine = self._machines.get(straggler.group)
        return f"{straggler.group} (all of {machine})" if machine else straggler.group

    def targets_of(self, straggler: StragglerRow) -> tuple[RowTarget, ...]:
        """Its row among the stragglers, and its rank's."""
        ranks = (row.target for row in self.rows(RankRow) if row.rank == straggler.rank)
        return straggler.target, *ranks
