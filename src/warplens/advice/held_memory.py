"""Rules on memory: who holds the peak, and what of it could go. Gains are bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import ClassVar, Final

import msgspec
import polars as pl

from warplens.advice.held_explanations import ADVICE, BF16_STATE, EXPLANATIONS, THRESHOLDS
from warplens.advice.rows import TableRow, numbered
from warplens.analyses.work.places import pattern_of
from warplens.model.finding import Evidence, Finding, ranked
from warplens.model.records import records
from warplens.model.rule import RuleSet
from warplens.model.table import Table
from warplens_run.base.units import format_bytes, format_ms, plural

TABLES: Final = ("memory_peak", "memory_timeline", "allocations", "fragmentation", "memory_failures")
OF_A_TRACE: Final = ("modules", "steps")
PASSING: Final = ("temporary", "activations", "unknown")
CONTAINERS: Final = ("Sequential", "ModuleList", "ModuleDict")
"""Modules that only hold others."""
REPEATED: Final = "_*"
"""What ends a module that several instances of are one place."""
NODE: Final = re.compile(r"Backward\d*$")
MOST_ROWS: Final = 6
USUAL_SEGMENT_BYTES: Final = 20 << 20
"""What PyTorch's allocator reserves for blocks of 1 to 10 MiB."""
NO_ACTIVATIONS: Final = 0.02
"""Of the most that there are: a loss and the like remain."""


class HolderRow(TableRow, frozen=True):
    table: ClassVar[str] = "memory_peak"
    device: str
    category: str
    name: str
    module: str
    line: str
    op: str
    count: int
    bytes: int
    percent: float
    largest_bytes: int
    saves_bytes: int | None
    is_loss: bool

    @property
    def place(self) -> str:
        return self.name or self.line or self.module or self.op or self.category

    @property
    def is_of_a_node(self) -> bool:
        """Made by a node of the backward pass, where nobody can change it."""
        return NODE.search(self.op) is not None and not (self.line or self.module)

    def evidence(self, gain: int = 0) -> Evidence:
        gained = f", {format_bytes(gain)} less without" if gain else ""
        op = "" if self.op == self.place else self.op
        detail = f"{format_bytes(self.bytes)}{gained}; {op}".rstrip("; ")
        return Evidence(
            f"{self.category}: {self.place}", detail=detail, count=self.count, place=self.place, targets=(self.target,)
        )


class PoolRow(TableRow, frozen=True):
    table: ClassVar[str] = "fragmentation"
    device: str
    moment: str
    pool: str
    segments: int
    reserved_bytes: int
    used_bytes: int
    cache_bytes: int
    lost_bytes: int
    largest_free_bytes: int
    is_expandable: bool

    @property
    def is_ordinary(self) -> bool:
        """One segment of the usual size, which a pool of any program has and fills in part; or pages of an expandable
        segment, of which only the rest of a page is not given back."""
        return self.is_expandable or (self.segments == 1 and self.reserved_bytes <= USUAL_SEGMENT_BYTES)

    @property
    def detail(self) -> str:
        """The largest free piece can be a segment without any block, which is not lost."""
        lost = f"{format_bytes(self.lost_bytes)} of {format_bytes(self.reserved_bytes)} free between blocks"
        unused = f", {format_bytes(self.cache_bytes)} in unused segments" if self.cache_bytes else ""
        return f"{lost}{unused}; largest free piece {format_bytes(self.largest_free_bytes)}"


class FailureRow(TableRow, frozen=True):
    table: ClassVar[str] = "memory_failures"
    device: str
    requested_bytes: int
    reserved_free_bytes: int
    cause: str


class MemoryFigures(msgspec.Struct, frozen=True, dict=True):
    """The tables on memory, and what the rules ask of them: of the device with the largest peak."""

    tables: Mapping[str, Table]

    @cached_property
    def peaks(self) -> pl.DataFrame:
        return self.tables["memory_timeline"].frame.filter("is_peak").sort("allocated_bytes", descending=True)

    @property
    def device(self) -> str:
        return str(self.peaks["device"][0])

    @property
    def peak_bytes(self) -> int:
        return int(self.peaks["allocated_bytes"][0])

    @cached_property
    def holders(self) -> list[HolderRow]:
        frame = numbered(self.tables["memory_peak"].frame).filter(pl.col("device") == self.device)
        return records(frame, HolderRow)

    @cached_property
    def timeline(self) -> pl.DataFrame:
        return self.tables["memory_timeline"].frame.filter(pl.col("device") == self.device)

    @cached_property
    def fragmented_failure(self) -> FailureRow | None:
        """The last allocation that failed although enough was free."""
        frame = numbered(self.tables["memory_failures"].frame)
        rows = records(frame.filter((pl.col("device") == self.device) & (pl.col("cause") == "fragmented")), FailureRow)
        return rows[-1] if rows else None

    def gain_without(self, categories: Iterable[str], share: float = 1.0) -> int:
        """How much lower the peak is without a share of all that these categories hold, whenever they do: no change to
        a part of it wins more, since another moment is the peak then."""
        names = [f"{category.replace(' ', '_')}_bytes" for category in categories]
        removed = share * self.timeline.select(pl.sum_horizontal(names)).to_series().to_numpy()
        return int(self.peak_bytes - (self.timeline["allocated_bytes"].to_numpy() - removed).max())

    def percent(self, size: int) -> float:
        return 100 * size / self.peak_bytes if self.peak_bytes else 0.0

    def of_peak(self, size: int) -> str:
        return f"{format_bytes(size)} of {format_bytes(self.peak_bytes)} at the peak ({self.percent(size):.0f} %)"

    @cached_property
    def forward_of_places(self) -> dict[str, tuple[int, float]]:
        """By module without its instances' numbers: how many there are, and the forward GPU time of all per step, with
        what is inside; empty without a trace."""
        modules, steps = self.tables.get("modules"), self.tables.get("steps")
        if modules is None or steps is None:
            return {}
        count = max(1, len(steps.frame))
        places: dict[str, tuple[int, float]] = {}
        for module, us in modules.frame.select("module", "subtree_forward_us").iter_rows():
            number, ms = places.get(pattern_of(module), (0, 0.0))
            places[pattern_of(module)] = number + 1, ms + us / 1e3 / count
        return places


def activations(figures: MemoryFigures) -> Iterator[Finding]:
    """One finding per repeated module, else per line."""
    groups: dict[str, list[HolderRow]] = {}
    for row in figures.holders:
        if row.category == "activations" and not row.is_loss:
            groups.setdefault(_repeated_module(figures, row.module) or row.line or row.op, []).append(row)
    for place, rows in groups.items():
        held = sum(row.bytes for row in rows)
        if not place or figures.percent(held) < THRESHOLDS.activations_percent:
            continue
        instances, cost_ms = _instances(figures, place)
        # What is recomputed is there for a while: one instance, or where these are not known one tensor.
        gain = held - (held // instances if instances > 1 else max(row.largest_bytes for row in rows))
        gain = min(gain, figures.gain_without(["activations"]))
        if len(rows) == 1 and rows[0].saves_bytes is not None:
            gain = min(gain, rows[0].saves_bytes)
        if figures.percent(gain) < THRESHOLDS.least_gain_percent:
            continue
        cost = f"; recomputing costs {format_ms(cost_ms)} of GPU time a step" if cost_ms else ""
        several = f" in {instances} instances" if instances > 1 else ""
        yield _finding(
            "WL501",
            title=f"activations of {place.rpartition('/')[2]} are kept for the backward pass",
            gain_bytes=gain,
            bound=True,
            place=place,
            evidence=f"{figures.of_peak(held)}{several}{cost}",
            rows=[row.evidence() for row in rows[:MOST_ROWS]],
        )


def _repeated_module(figures: MemoryFigures, module: str) -> str:
    """The outermost module around that there are several of; the module itself where there is none."""
    parts = module.split("/")
    for number, part in enumerate(parts):
        outer = "/".join(parts[: number + 1])
        if part.endswith(REPEATED) and not part.startswith(CONTAINERS) and _instances(figures, outer)[0] != 1:
            return outer
    return module


def _instances(figures: MemoryFigures, place: str) -> tuple[int, float]:
    """How many modules a place stands for, and what their forward passes take of a step; 0 where that is not known."""
    return figures.forward_of_places.get(place, (0, 0.0))


def loss(figures: MemoryFigures) -> Iterator[Finding]:
    rows = [row for row in figures.holders if row.is_loss and row.category in PASSING]
    held = sum(row.bytes for row in rows)
    if figures.percent(held) < THRESHOLDS.loss_percent:
        return
    yield _finding(
        "WL502",
        title="the loss holds the logits",
        gain_bytes=min(held, figures.gain_without({row.category for row in rows})),
        bound=True,
        place=rows[0].place,
        evidence=figures.of_peak(held),
        rows=[row.evidence() for row in rows[:MOST_ROWS]],
    )


def kept_gradients(figures: MemoryFigures) -> Iterator[Finding]:
    frame = figures.timeline
    gradients, held = frame["gradients_bytes"].to_numpy(), frame["activations_bytes"].to_numpy()
    most = int(gradients.max(initial=0))
    if figures.percent(most) < THRESHOLDS.gradients_percent or not held.max(initial=0):
        return
    after = int((gradients >= 0.9 * most).argmax())  # gradients are complete: a later forward pass is of the next step
    moment = after + int(held[after:].argmax())
    kept = int(gradients[moment])
    if held[moment] < 0.5 * held.max() or kept < 0.5 * most or figures.percent(kept) < THRESHOLDS.gradients_percent:
        return
    # Where no activations are left, gradients of this step are: at the end of backward and in the optimizer's step.
    needed = frame.filter(pl.Series(held < NO_ACTIVATIONS * held.max()))["allocated_bytes"].to_numpy()
    kept = min(kept, figures.peak_bytes - int(needed.max(initial=0)))
    if figures.percent(kept) < THRESHOLDS.least_gain_percent:
        return
    rows = [row for row in figures.holders if row.category == "gradients"]
    yield _finding(
        "WL503",
        title="gradients of the step before are held during the forward pass",
        gain_bytes=min(kept, sum(row.bytes for row in rows)) or kept,
        bound=True,
        place="zero_grad",
        evidence=f"{format_bytes(kept)} of gradients while {format_bytes(int(held[moment]))} of activations are held",
        rows=[row.evidence() for row in rows[:MOST_ROWS]],
    )


def optimizer_state(figures: MemoryFigures) -> Iterator[Finding]:
    rows = [row for row in figures.holders if row.category == "optimizer state"]
    held = sum(row.bytes for row in rows)
    if figures.percent(held) < THRESHOLDS.state_percent:
        return
    parameters = sum(row.bytes for row in figures.holders if row.category == "parameters")
    ratio = f", {held / parameters:.1f} × the parameters" if parameters else ""
    yield _finding(
        "WL504",
        title="the optimizer's state is a large part of the peak",
        gain_bytes=min(int(held * (1 - BF16_STATE)), figures.gain_without(["optimizer state"], 1 - BF16_STATE)),
        place="Optimizer.step",
        evidence=f"{figures.of_peak(held)} in {plural(sum(row.count for row in rows), 'tensor')}{ratio}",
        rows=[row.evidence() for row in rows[:MOST_ROWS]],
    )


def fragmentation(figures: MemoryFigures) -> Iterator[Finding]:
    frame = numbered(figures.tables["fragmentation"].frame)
    frame = frame.filter((pl.col("device") == figures.device) & (pl.col("moment") == "peak"))
    pools = records(frame.sort("lost_bytes", descending=True), PoolRow)
    if pools and all(pool.is_expandable for pool in pools):  # what the advice is for is done
        return
    lost = sum(pool.lost_bytes for pool in pools if not pool.is_ordinary)
    reserved = sum(pool.reserved_bytes for pool in pools)
    gain, why = lost, f"{format_bytes(lost)} of {format_bytes(reserved)} reserved at the peak"
    failure = figures.fragmented_failure
    if failure is not None:  # then any amount matters
        gain = failure.reserved_free_bytes
        why = f"{format_bytes(failure.requested_bytes)} could not be had with {format_bytes(gain)} free in pieces"
    elif not lost or 100 * lost / reserved < THRESHOLDS.lost_percent:
        return
    else:
        why = f"{why} ({100 * lost / reserved:.0f} %)"
    rows = [
        Evidence(
            f"{pool.pool} blocks",
            detail=pool.detail,
            count=pool.segments,
            place=pool.pool,
            targets=(pool.target,),
        )
        for pool in pools[:MOST_ROWS]
    ]
    yield _finding(
        "WL505",
        title="memory is lost to fragmentation",
        gain_bytes=gain,
        bound=True,
        place=f"{pools[0].pool} blocks of {figures.device}" if pools else figures.device,
        evidence=why,
        rows=rows,
    )


def one_tensor(figures: MemoryFigures) -> Iterator[Finding]:
    single = [
        row
        for row in figures.holders
        if row.count == 1
        and row.category in PASSING
        and row.category != "activations"
        and not row.is_loss
        and not row.is_of_a_node
        and row.saves_bytes is not None
    ]
    row = max(single, key=lambda each: each.saves_bytes or 0, default=None)
    if row is None or figures.percent(row.saves_bytes or 0) < THRESHOLDS.tensor_percent:
        return
    gain = row.saves_bytes or 0
    without = format_bytes(figures.peak_bytes - gain)
    yield _finding(
        "WL506",
        title=f"one tensor of {format_bytes(row.largest_bytes)} makes the peak",
        gain_bytes=gain,
        place=row.place,
        evidence=f"{figures.of_peak(row.largest_bytes)}; without it the peak is {without}",
        rows=[row.evidence(gain)],
    )


def _finding(
    code: str,
    *,
    title: str,
    gain_bytes: int,
    place: str,
    evidence: str,
    rows: Sequence[Evidence],
    bound: bool = False,
) -> Finding:
    return Finding(
        code=code,
        title=title,
        gain_bytes=gain_bytes,
        bound=bound,
        place=place,
        evidence=evidence,
        advice=ADVICE[code],
        rows=tuple(rows),
        targets=rows[0].targets if rows else (),
    )


MEMORY_RULES: Final = RuleSet(
    {
        "WL501": activations,
        "WL502": loss,
        "WL503": kept_gradients,
        "WL504": optimizer_state,
        "WL505": fragmentation,
        "WL506": one_tensor,
    },
    EXPLANATIONS,
    THRESHOLDS,
)


def needed_tables(names: Sequence[str]) -> tuple[str, ...]:
    """The tables that the rules read; none where memory is not recorded."""
    return tuple(name for name in (*TABLES, *OF_A_TRACE) if name in names) if TABLES[0] in names else ()


def find_in_memory(tables: Mapping[str, Table]) -> list[Finding]:
    """What memory could go, the most first."""
    figures = MemoryFigures(tables)
    if not tables or not len(figures.peaks) or not figures.peak_bytes:
        return []
    return ranked(finding for rule in MEMORY_RULES for finding in rule.check(figures))


def of_snapshot(finding: Finding) -> Finding:
    """One on memory that nothing shows to be that of the trace beside it."""
    return replace(finding, evidence=f"{finding.evidence}; of the snapshot, which nothing ties to this trace")
