"""Figures that several rules read off the tables, named once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, NamedTuple

import msgspec
import polars as pl

from warplens.advice.rows import CategoryRow, OpRow, PhaseRow, QualityRow, RowT, TimedRow, numbered
from warplens.advice.thresholds import THRESHOLDS
from warplens.advice.wording import words
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.host_code import HostCode
from warplens.analyses.missing_data import TORCH
from warplens.analyses.roofline.tables import ATTENTION_BACKWARD, ATTENTION_FORWARD
from warplens.hardware import FusedAttention
from warplens.model.answer import Part
from warplens.model.edits import Edit
from warplens.model.finding import Evidence, Finding
from warplens.model.idle_causes import DEPENDENCY, KIND_OF_CAUSE, LAUNCHING, largest_cause
from warplens.model.records import records
from warplens.model.table import Table
from warplens.model.targets import Target
from warplens.model.time_base import TimeBase, time_base, whole_trace

TAKING_TURNS = "GPUs taking turns"
LITTLE: Final = 0.01
"""Of the step: what the profiler cost less is not told apart."""
FEW_ON_PURPOSE = ("Communication", "Memory Ops")
"""Kernels that use few blocks on purpose."""
is_underfilled = (
    (pl.col("waves") <= 1)
    & (pl.col("unused_percent") >= THRESHOLDS.few_blocks_percent)
    & (pl.col("mean_us") >= THRESHOLDS.least_tail_us)
    & ~pl.col("kernel_category").is_in(FEW_ON_PURPOSE)
)
GAP_COLUMNS: Final = (
    "device", "start_ms", "gap_us", "cause", "host_frame", "host_op", "host_activity", "after", "after_op", "step",
    "phase", "between_steps", "in_graph", "host_us", "launch_us", "dependency_us", "host_cause",
)  # fmt: skip
"""The columns that the rules read; the gaps of a large trace are many."""


class IdleCause(msgspec.Struct, frozen=True):
    """A cause of idleness over all GPUs."""

    cause: str
    count: int
    percent_of_idle: float


class Ceiling(NamedTuple):
    """The most that a unit of the GPU does, and whether that was measured; 0 where it is not known."""

    value: float = 0.0
    measured: bool = False


class GapsByKind(msgspec.Struct, frozen=True):
    """Parts of gaps by the rule that they belong to: data, sync, setup, launch, graph, other. One before a graph launch
    is the graph rule's, whatever the host did.

    `cause` and `gap_us` are those of the part, `gap_cause` is the gap's own.
    """

    none: pl.DataFrame
    by_kind: Mapping[tuple[Any, ...], pl.DataFrame]

    def of(self, kind: str) -> pl.DataFrame:
        return self.by_kind.get((kind,), self.none)


def gaps_by_kind(gaps: pl.DataFrame) -> GapsByKind:
    frame = _parts(gaps)
    causes = pl.col("cause").replace_strict(KIND_OF_CAUSE, default="other")
    is_graph = pl.col("in_graph") & (causes != "other")
    frame = frame.with_columns(pl.when(is_graph).then(pl.lit("graph")).otherwise(causes).alias("kind"))
    return GapsByKind(frame.clear(), frame.partition_by("kind", as_dict=True))


def _parts(gaps: pl.DataFrame) -> pl.DataFrame:
    """Of each gap the part until its event could begin, which the host or the launch causes, and the rest.

    A launch belongs to what delayed it, unless it takes longer than that. A gap without a recorded launch stays whole.
    """
    until_possible, rest = pl.col("host_us") + pl.col("launch_us"), pl.col("dependency_us")
    is_launch, is_split = pl.col("launch_us") > pl.col("host_us"), pl.col("host_us").is_not_null()
    cause = pl.when(is_launch).then(pl.lit(LAUNCHING)).when(is_split).then("host_cause").otherwise("cause")
    gaps = gaps.with_columns(pl.col("cause").alias("gap_cause"))
    first = gaps.filter(until_possible.fill_null(pl.col("gap_us")) > 0)
    second = gaps.filter(rest > 0)
    return pl.concat([
        first.with_columns(cause.alias("cause"), until_possible.fill_null(pl.col("gap_us")).alias("gap_us")),
        second.with_columns(
            pl.lit(DEPENDENCY).alias("cause"), rest.alias("gap_us"), pl.col("start_ms") + until_possible / 1e3
        ),
    ])  # fmt: skip


Check = Callable[["TraceFigures"], Iterator[Finding]]


class TraceFigures(msgspec.Struct, frozen=True, dict=True):
    """The tables of a trace and what the rules ask of them."""

    tables: Mapping[str, Table]
    format: str = TORCH
    bounds: StepBounds | None = None
    """What limits the step, from its graph; None where it cannot be simulated."""
    host_code: HostCode | None = None
    """What of the step is host code that launches nothing; None where it is not recorded, or cannot be simulated."""
    parts: Callable[[], Sequence[Part]] = tuple
    """Where one step goes."""
    _findings: dict[Check, tuple[Finding, ...]] = msgspec.field(default_factory=dict)

    def findings_of(self, check: Check) -> tuple[Finding, ...]:
        """What a rule finds; checked once, since some rules leave to others what those count."""
        if check not in self._findings:
            self._findings[check] = tuple(check(self))
        return self._findings[check]

    def finding(
        self,
        code: str,
        *,
        title: str,
        place: str,
        evidence: str,
        gain_ms: float = 0.0,
        gpu_gain_ms: float | None = None,
        bound: bool = False,
        advice: str = "",
        rows: Iterable[Evidence] = (),
        targets: tuple[Target, ...] | None = None,
        edits: Iterable[Edit] = (),
        slow_steps: Iterable[int] = (),
    ) -> Finding:
        """A finding with its share of the time; by default it points at what its first row points at.

        The gain is what tables alone say; where the step can be simulated with the `edits`, that replaces it. By
        default all of it is GPU time.
        """
        listed = tuple(rows)
        return Finding(
            code=code,
            title=title,
            gain_ms=gain_ms,
            gain_percent=self.share_of_time(gain_ms),
            gain_low_ms=0.0 if bound else gain_ms,
            gain_high_ms=gain_ms,
            gpu_gain_ms=gain_ms if gpu_gain_ms is None else gpu_gain_ms,
            bound=bound,
            place=place,
            evidence=evidence,
            advice=advice or self.advice(code),
            rows=listed,
            targets=targets if targets is not None else listed[0].targets if listed else (),
            edits=tuple(edits),
            slow_steps=tuple(slow_steps),
        )

    def advice(self, topic: str, **figures: str) -> str:
        """What to do about a finding, in words that fit the profile; `figures` are filled in."""
        return words(topic, self.format).format(**figures)

    def frame(self, name: str) -> pl.DataFrame:
        return self.tables[name].frame

    def numbered(self, name: str) -> pl.DataFrame:
        """A table's frame with the numbers of its rows."""
        return numbered(self.frame(name))

    def rows(self, kind: type[RowT]) -> list[RowT]:
        """All rows of the table that this record is of."""
        return records(self.numbered(kind.table), kind)

    @cached_property
    def measures(self) -> dict[str, float]:
        return whole_trace(self.tables["timeline"])

    @property
    def has_gpu(self) -> bool:
        return self.measures.get("total", 0.0) > 0

    @cached_property
    def base(self) -> TimeBase:
        """What every share of the time is a share of."""
        return time_base(self.tables["steps"], self.tables["timeline"])

    def percent(self, measure: str) -> float:
        """A measure's share of a step, else of the whole."""
        return self.base.percent(self.gain_ms(measure))

    @cached_property
    def steps(self) -> int:
        """Steps in which the GPU worked; 0 where gains are of the whole trace."""
        frame = self.frame("steps")
        return len(frame) if float(frame["gpu_ms"].sum()) > 0 else 0

    @property
    def has_steps(self) -> bool:
        return self.steps > 0

    @property
    def per_step_text(self) -> str:
        """What a count is of, where that is a step."""
        return " per step" if self.has_steps else ""

    @property
    def recorded_text(self) -> str:
        """Said of times of the host and of gaps, where the step without the profiler is another one."""
        bounds = self.bounds
        is_plain = bounds is None or abs(bounds.recorded_ms - bounds.plain_ms) <= LITTLE * bounds.plain_ms
        return "" if is_plain else ", as recorded"

    @cached_property
    def first_step(self) -> int:
        """Number of the first step in which the GPU worked."""
        return int(self.frame("steps").filter(pl.col("count") > 0)["step"][0])

    @property
    def whole_ms(self) -> float:
        """What a gain is a share of: the mean step on the GPU, else the GPU's total time."""
        return self.base.whole_ms

    def per_step_ms(self, microseconds: float, row: TimedRow) -> float:
        """GPU time of a row of the whole trace as time per step: the row says which part of it belongs to steps."""
        if not self.has_steps:
            return microseconds / 1e3
        share = row.step_us / row.total_us if row.total_us else 0.0
        return microseconds / 1e3 * share / self.steps

    def row_ms(self, row: TimedRow) -> float:
        """The time of a row, per step where steps are known."""
        return self.per_step_ms(row.total_us, row)

    def total_ms(self, rows: Iterable[TimedRow]) -> float:
        """The time of some rows, per step where steps are known."""
        return sum(self.row_ms(row) for row in rows)

    def gain_ms(self, measure: str) -> float:
        """What would be won if this measure were 0: per step its mean over the steps, else the whole."""
        return self.base.measures_ms[measure]

    @cached_property
    def gaps(self) -> GapsByKind:
        return gaps_by_kind(self.frame("gaps").select(GAP_COLUMNS))

    @cached_property
    def gaps_outside_optimizer(self) -> GapsByKind:
        return gaps_by_kind(self.frame("gaps").select(GAP_COLUMNS).filter(pl.col("phase") != "optimizer"))

    def gap_gain_ms(self, gaps: pl.DataFrame) -> float:
        """The same for some of the gaps; never more than all idle time, nor than the whole step.

        Of n steps a trace holds n − 1 gaps between two of them; the gap before the first step belongs to none.
        """
        length = gaps["gap_us"].to_numpy() / 1e3 * self.idle_together
        if not self.has_steps:
            return min(float(length.sum()), self.measures["idle"])
        step, joint = gaps["step"].to_numpy(), gaps["between_steps"].to_numpy()
        within = float(length[(step >= 0) & ~joint].sum())
        between = float(length[(step >= 0) & joint & (step != self.first_step)].sum())
        joints = max(1, self.steps - 1)
        # Of two steps only one wait for the next is recorded, but both count for the mean.
        idle = self.gain_ms("idle") * (self.steps / joints if self.steps == 2 else 1)
        return min(within / self.steps + between / joints, idle, self.whole_ms)

    @cached_property
    def idle_us(self) -> float:
        """Idle time of all GPUs, added up."""
        return float(self.frame("idle")["total_us"].sum())

    @cached_property
    def idle_together(self) -> float:
        """What a ms of one GPU's gaps wins at most: of several GPUs each has gaps of its own, and time only goes by for
        all of them at once, so that their gaps together win no more than the time in which all are idle."""
        idle_ms = self.idle_us / 1e3
        several = self.frame("idle")["device"].n_unique() > 1
        return min(1.0, self.measures["idle"] / idle_ms) if several and idle_ms else 1.0

    def share_of_time(self, gain_ms: float) -> float:
        """A gain as percent of a step, else of the whole."""
        return min(100.0, self.base.percent(gain_ms))

    @cached_property
    def idle_causes(self) -> list[IdleCause]:
        """Causes of idleness over all GPUs, largest first, with their share of the idle time."""
        frame = self.frame("idle").group_by("cause").agg(pl.col("total_us", "count").sum())
        whole = max(float(frame["total_us"].sum()), 1e-9)
        frame = frame.with_columns((100 * pl.col("total_us") / whole).alias("percent_of_idle"))
        ordered = frame.sort("total_us", "cause", descending=[True, False])
        return [IdleCause(*values) for values in ordered.select("cause", "count", "percent_of_idle").iter_rows()]

    @cached_property
    def passes(self) -> pl.DataFrame | None:
        """The iterations with GPU work and the numbers of their rows; None where no model is served."""
        table = self.tables.get("iterations")
        return None if table is None else numbered(table.frame).filter(pl.col("count") > 0)

    @property
    def main_idle_cause(self) -> str:
        """What most of the idle time is due to; GPUs that take turns can all be idle without a gap of their own."""
        return largest_cause((idle.cause, idle.percent_of_idle) for idle in self.idle_causes) or TAKING_TURNS

    @cached_property
    def categories(self) -> list[CategoryRow]:
        return self.rows(CategoryRow)

    @cached_property
    def launches(self) -> int:
        return sum(category.count for category in self.categories)

    @cached_property
    def notes(self) -> list[QualityRow]:
        return self.rows(QualityRow)

    @cached_property
    def phases(self) -> dict[str, PhaseRow]:
        return {phase.phase: phase for phase in self.rows(PhaseRow)}

    @cached_property
    def note_codes(self) -> set[str]:
        return {note.code for note in self.notes}

    @property
    def has_launches(self) -> bool:
        """Whether the trace records when the host launched work."""
        return not self.note_codes & {"no_host", "callers_only"}

    @cached_property
    def ceilings(self) -> dict[tuple[str, str], Ceiling]:
        """By unit and dtype; empty for an unknown GPU."""
        rows = self.frame("ceilings").filter(pl.col("backend") == "")
        rows_of_units = rows.select("unit", "dtype", *Ceiling._fields).iter_rows()
        return {(unit, dtype): Ceiling(value, measured) for unit, dtype, value, measured in rows_of_units}

    @cached_property
    def fused_attention(self) -> list[FusedAttention]:
        """What back-ends of fused attention reach on this GPU; none where that was not measured."""
        columns = ("unit", "dtype", "backend", "width", "value", "half_length")
        frame = self.frame("ceilings").filter(pl.col("backend") != "").select(columns)
        found = []
        for (backend, dtype), rows in frame.group_by("backend", "dtype", maintain_order=True):
            forward, backward = (rows.filter(unit=unit) for unit in (ATTENTION_FORWARD, ATTENTION_BACKWARD))
            found.append(
                FusedAttention(
                    backend=str(backend),
                    dtypes=(str(dtype),),
                    widths=tuple(forward["width"]),
                    forward=tuple(forward["value"]),
                    backward=tuple(backward["value"]),
                    half_length=float(forward["half_length"][0]),
                )
            )
        return found

    def ceiling(self, unit: str, dtype: str = "") -> Ceiling:
        return self.ceilings.get((unit, dtype), Ceiling())

    @property
    def architecture(self) -> str:
        frame = self.frame("ceilings")
        return str(frame["architecture"][0]) if len(frame) else ""

    @cached_property
    def ops(self) -> list[OpRow]:
        """The rows of the roofline."""
        return self.rows(OpRow)

    @cached_property
    def score_sizes(self) -> set[int]:
        """Sizes of the score matrices that unfused attention stores."""
        return {op.scores for op in self.ops if op.scores and op.family == "gemm"}

    @cached_property
    def underfilled_ops(self) -> set[str]:
        """Ops most of whose time is in kernels with too few blocks for the GPU."""
        frame = self.frame("launches").with_columns(pl.col("total_us").sum().over("op").alias("op_us"))
        sums = frame.filter(is_underfilled).group_by("op").agg(pl.col("total_us").sum(), pl.col("op_us").first())
        return set(sums.filter(2 * pl.col("total_us") > pl.col("op_us"))["op"].to_list())

    @cached_property
    def chain_lines(self) -> set[str]:
        """Lines with chains of elementwise ops that are worth fusing."""
        long = (pl.col("length") >= THRESHOLDS.chain_length) & (3 * pl.col("casts") < pl.col("length"))
        frame = self.frame("chains").filter(long)
        return set(frame.filter(pl.col("line") != "")["line"].to_list())

    def reachable_tflops(self, dtype: str) -> float:
        """What a well-made matrix kernel reaches on this GPU; 0 where there is no such unit."""
        value, measured = self.ceiling("matrix", dtype)
        return value * reachable_share(measured)

    @property
    def reachable_tbps(self) -> float:
        value, measured = self.ceiling("memory")
        return value * (1.0 if measured else THRESHOLDS.reachable_bandwidth)


def reachable_share(measured: bool) -> float:
    return THRESHOLDS.reachable_of_measured if measured else THRESHOLDS.reachable_of_datasheet
