"""Rows of the tables that rules read, as records: each has its number in the table, so that a finding can point at it.

A record names only the columns that some rule asks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import ClassVar, TypeVar

import msgspec
import polars as pl

from warplens.analyses.roofline.tables import params_of
from warplens.model.edits import ScaleWork, WorkOfRows
from warplens.model.targets import RowTarget

ROW = "row"
"""The column of a frame that numbers the rows of its table."""


class TableRow(msgspec.Struct, frozen=True):
    table: ClassVar[str] = ""
    row: int

    @property
    def target(self) -> RowTarget:
        return RowTarget(self.table, self.row)

    @property
    def work(self) -> WorkOfRows:
        """The GPU events of this row."""
        return WorkOfRows(self.table, (self.row,))


class TimedRow(TableRow, frozen=True):
    """GPU time over the whole trace, and the part of it that belongs to steps."""

    count: int
    total_us: float
    step_us: float

    def saving(self, gain_us: float) -> ScaleWork:
        """The edit that takes this much of the row's time away."""
        return ScaleWork(self.work, 1 - gain_us / self.total_us if self.total_us else 1.0)


class KernelRow(TimedRow, frozen=True):
    table: ClassVar[str] = "kernels"
    op: str
    kernel_short: str


class ShortKernelRow(KernelRow, frozen=True):
    table: ClassVar[str] = "short_kernels"


class LaunchRow(TimedRow, frozen=True):
    table: ClassVar[str] = "launches"
    op: str
    kernel_short: str
    line: str
    blocks: int
    waves: float
    blocks_per_multiprocessor: int
    limited_by: str
    unused_percent: float
    alone_us: float

    @property
    def unused_us(self) -> float:
        """Below one wave, kernels of other streams run beside this one: only time without any is unused."""
        return (self.alone_us if self.waves <= 1 else self.total_us) * self.unused_percent / 100


class CollectiveRow(TimedRow, frozen=True):
    table: ClassVar[str] = "comm"
    collective: str
    group: str
    message_bytes: int | None
    exposed_us: float
    algbw_gbps: float | None


class ChainRow(TimedRow, frozen=True):
    table: ClassVar[str] = "chains"
    ops: str
    length: int
    elements: int
    bytes: float
    saved_bytes: float
    saved_us: float
    cast_us: float


class RepeatedRow(TimedRow, frozen=True):
    table: ClassVar[str] = "repeated_calls"
    kind: str
    what: str
    calls: float
    kept_us: float
    line: str
    module: str


class PhaseRow(TimedRow, frozen=True):
    table: ClassVar[str] = "phases"
    phase: str
    percent: float
    span_us: float | None
    ops: str


class CategoryRow(TableRow, frozen=True):
    table: ClassVar[str] = "kernel_categories"
    kernel_category: str
    count: int
    percent: float


class StepRow(TableRow, frozen=True):
    table: ClassVar[str] = "steps"
    step: int
    name: str
    start_ms: float
    host_ms: float
    gpu_ms: float
    idle_ms: float


class QualityRow(TableRow, frozen=True):
    table: ClassVar[str] = "quality"
    code: str
    count: int
    message: str


class OpRow(TimedRow, frozen=True, dict=True):
    """An op with known FLOPs and bytes; without a known GPU it has no limit."""

    table: ClassVar[str] = "roofline"
    op: str
    family: str
    params: str
    dtype: str
    flop: float
    bytes: float
    kernel_us_mean: float
    tflops: float
    tbps: float
    bound: str
    roofline_us: float | None
    percent_of_roofline: float | None
    unit: str
    ceiling: str
    lost_us: float | None
    kernel_short: str
    arch: str
    line: str
    module: str
    approximate: str
    scores: int
    scores_us: float

    @cached_property
    def named_params(self) -> Mapping[str, str]:
        return params_of(self.params)

    def param(self, name: str) -> str:
        """A parameter by name; empty where this family has none of that name."""
        return self.named_params.get(name, "")

    def size(self, name: str) -> int:
        """A parameter that is a number; 0 where this family has none of that name."""
        return int(self.named_params.get(name, 0))

    @property
    def place(self) -> str:
        """A line of the user's, else the module, else the op."""
        return self.line or self.module or self.op

    @property
    def scores_share(self) -> float:
        """The share of its time that is part of unfused attention."""
        return self.scores_us / self.total_us if self.total_us else 0.0

    @property
    def is_on_scores(self) -> bool:
        """Whether most of it is part of unfused attention, which is WL204's."""
        return self.scores_share > 0.5

    @property
    def limit_us(self) -> float:
        """The least time of one call on this GPU; 0 where that is not known."""
        return self.roofline_us or 0.0

    def is_below(self, percent: float) -> bool:
        """Whether it is known to run at less than this share of its limit."""
        return self.percent_of_roofline is not None and self.percent_of_roofline < percent


RowT = TypeVar("RowT", bound=TableRow)


def numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """A table's frame with the numbers of its rows, which filters and sorts keep."""
    return frame.with_row_index(ROW)
