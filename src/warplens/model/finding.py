"""`Finding`: something worth changing, with evidence, a place and an estimate of the gain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Final, Protocol

import polars as pl

from warplens.model.answer import NO_GAIN, AnsweredFinding
from warplens.model.clock import MEASURED, Clock
from warplens.model.edits import Edit
from warplens.model.table import Column, Table
from warplens.model.targets import Target
from warplens_run.base.units import format_bytes, format_ms, format_short_ms

SPREAD: Final = 0.2
"""A rule's estimate of the time that a change saves is off by about this share; more than a bound is not saved.
Simulated gains of real jobs with planted faults were off by up to 11 %, those of hot experts by more."""
LEAST_STEP_PERCENT: Final = 1.0
"""A smaller part of a step is within the spread from one step to the next."""


class HasGains(Protocol):
    """A finding, or a row of the table `findings`."""

    @property
    def gain_ms(self) -> float: ...
    @property
    def gain_percent(self) -> float: ...
    @property
    def gpu_gain_ms(self) -> float: ...


def is_only_gpu_time(finding: HasGains) -> bool:
    """Whether the step hardly waits for the GPU time that a finding saves."""
    return finding.gain_percent < LEAST_STEP_PERCENT and finding.gain_ms < finding.gpu_gain_ms / 2


@dataclass(frozen=True)
class Evidence:
    """One row behind a finding: an op, a kernel, a gap; times are per step where steps are known.

    `targets` are the data that it is about, the most telling first.
    """

    what: str
    _: KW_ONLY
    detail: str = ""
    count: int = 0
    time_ms: float = 0.0
    gain_ms: float = 0.0
    place: str = ""
    targets: tuple[Target, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """`bound` is true where the gain is an upper bound: what would be won at most if the cause vanished.

    Where the time of a step without the profiler is known, `gain_ms` is time of that step, found by simulating it with
    the change (`edits`), between `gain_low_ms` and `gain_high_ms`; else it is time of the GPU. `gpu_gain_ms` is the GPU
    time that the change saves, which shortens the step only where the step waits for it.
    Where an experiment was run, `proof` says in words what was measured, and `proved_gain_ms` is the gain of the step
    with the measured times, between `proved_gain_low_ms` and `proved_gain_high_ms`. `rows` are the evidence, and
    `targets` the data that the finding as a whole is about, the most telling first.
    """

    code: str
    title: str
    gain_ms: float = 0.0
    gain_percent: float = 0.0
    bound: bool = False
    place: str = ""
    evidence: str
    advice: str
    proof: str = ""
    gain_low_ms: float = 0.0
    gain_high_ms: float = 0.0
    gpu_gain_ms: float = 0.0
    proved_gain_ms: float | None = None
    proved_gain_low_ms: float | None = None
    proved_gain_high_ms: float | None = None
    proved_gpu_ms_before: float | None = None
    proved_gpu_ms_after: float | None = None
    proved_joules_before: float | None = None
    proved_joules_after: float | None = None
    largest_difference: float | None = None
    proved_on: str = ""
    rows: tuple[Evidence, ...] = ()
    targets: tuple[Target, ...] = ()
    edits: tuple[Edit, ...] = ()
    expected_ms: float | None = None
    """Of a bound: the gain at the expected cost of recording, which decides the order and stands nowhere."""
    gain_bytes: int = 0
    """GPU memory that the change frees at the peak, for findings on memory; `gain_ms` is 0 for those."""
    slow_steps: tuple[int, ...] = ()
    """Steps whose time beyond that of the others is the gain: no change of the usual step describes it."""

    @property
    def known_gain_ms(self) -> float:
        """The measured gain, else the estimated one."""
        return self.gain_ms if self.proved_gain_ms is None else self.proved_gain_ms

    @property
    def saved_joules(self) -> float:
        """Measured, per step; 0 where it was not."""
        if self.proved_joules_before is None or self.proved_joules_after is None:
            return 0.0
        return self.proved_joules_before - self.proved_joules_after

    @property
    def saves_only_gpu_time(self) -> bool:
        """Whether the step hardly waits for the GPU time that is saved: good for energy, and for a faster host."""
        return is_only_gpu_time(self)

    def __repr__(self) -> str:
        """One line: the code, the title and the gain; the evidence would fill screens."""
        gain = gain_text(self)
        return f"<Finding {self.code}: {self.title}{f' · {gain}' if gain else ''}>"


COLUMNS = (
    Column("code", "stable code; `warplens explain CODE` describes it", "", pl.String),
    Column("title", "what was found", "", pl.String),
    Column(
        "gain_ms",
        "expected gain per step, or of the whole trace where no steps are marked, between gain_low_ms and gain_high_ms",
        "ms",
        pl.Float64,
    ),
    Column("gain_percent", "the same as a share of the step", "%", pl.Float64),
    Column("bound", "gain_high_ms is an upper bound, and the gain may be anything below it", "", pl.Boolean),
    Column("place", "where: op, kernel, file:line or module", "", pl.String),
    Column("evidence", "the figures behind it", "", pl.String),
    Column("advice", "what to do", "", pl.String),
    Column("proof", "measured result, where an experiment was run", "", pl.String),
    Column("gain_low_ms", "the least that is expected to be won", "ms", pl.Float64),
    Column("gain_high_ms", "the most that is expected to be won", "ms", pl.Float64),
    Column("gpu_gain_ms", "GPU time saved per step, whether or not the step waits for it", "ms", pl.Float64),
    Column("proved_gain_ms", "gain of the step, simulated with the measured GPU times", "ms", pl.Float64),
    Column("proved_gain_low_ms", "the least that proved_gain_ms may be", "ms", pl.Float64),
    Column("proved_gain_high_ms", "the most", "ms", pl.Float64),
    Column("proved_gpu_ms_before", "measured GPU time per step of what the change is about", "ms", pl.Float64),
    Column("proved_gpu_ms_after", "measured GPU time per step after the change", "ms", pl.Float64),
    Column("proved_joules_before", "measured energy per step before the change", "J", pl.Float64),
    Column("proved_joules_after", "measured energy per step after the change", "J", pl.Float64),
    Column("largest_difference", "of the outputs after the change, over the largest output", "", pl.Float64),
    Column("proved_on", "the GPU that it was measured on", "", pl.String),
    Column("gain_bytes", "GPU memory freed at the peak, for findings on memory; 0 for others", "bytes", pl.Int64),
)
EVIDENCE_COLUMNS = (
    Column("finding", "row of the finding in the table findings, from 1", "", pl.Int64),
    Column("code", "its code", "", pl.String),
    Column("what", "op, kernel, gap or step", "", pl.String),
    Column("detail", "its sizes or figures", "", pl.String),
    Column("count", "how often it occurs in the trace", "", pl.Int64),
    Column("time_ms", "its time per step, or in the whole trace where no steps are marked", "ms", pl.Float64),
    Column("gain_ms", "its part of what the rule expects to save, before a step is simulated", "ms", pl.Float64),
    Column("place", "where: file:line, module or op", "", pl.String),
)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Largest gain first, measured else expected: a bound of much that may be little leads no list.

    The step's time comes before the GPU's, and time before memory.
    """
    return sorted(
        findings,
        key=lambda finding: (
            -_ranking_ms(finding),
            -finding.gpu_gain_ms,
            -finding.gain_bytes,
            finding.code,
            finding.place,
        ),
    )


def _ranking_ms(finding: Finding) -> float:
    is_proved = finding.proved_gain_ms is not None
    return finding.known_gain_ms if is_proved or finding.expected_ms is None else finding.expected_ms


def findings_table(findings: Iterable[Finding]) -> Table:
    return Table.from_rows("findings", "one row per finding", COLUMNS, ranked(findings))


def evidence_table(findings: Iterable[Finding]) -> Table:
    """The rows behind the findings, in their order."""
    rows = [
        (number, finding.code, row.what, row.detail, row.count, row.time_ms, row.gain_ms, row.place)
        for number, finding in enumerate(ranked(findings), start=1)
        for row in finding.rows
    ]
    return Table.from_rows("evidence", "one row per piece of evidence", EVIDENCE_COLUMNS, rows)


def finding_targets(findings: Iterable[Finding]) -> list[tuple[Target, ...]]:
    """What each row of the table `findings` points at."""
    return [finding.targets for finding in ranked(findings)]


def evidence_targets(findings: Iterable[Finding]) -> list[tuple[Target, ...]]:
    """What each row of the table `evidence` points at."""
    return [row.targets for finding in ranked(findings) for row in finding.rows]


def answered(finding: Finding, clock: Clock | None, certainty: str) -> AnsweredFinding:
    """A finding as the Answer has it."""
    proved = finding.proved_gain_ms is not None
    gain = gain_text(finding, clock)
    return AnsweredFinding(
        code=finding.code,
        title=finding.title,
        gain=gain,
        place=finding.place,
        advice=finding.advice,
        certainty=MEASURED if proved else certainty,
        gain_ms=finding.gain_ms,
        low_ms=finding.gain_low_ms if gain and not finding.bound else None,
        high_ms=upper_ms(finding) if gain else None,
        is_upper_bound=finding.bound,
        proof=_proof(finding),
    )


def gain_text(finding: Finding, clock: Clock | None = None) -> str:
    """`12.6 ms (10.1 to 15.1)`, `≤ 9.4 ms`, `no gain in step time (GPU-side 5.7 ms)`; empty without a gain."""
    if is_only_gpu_time(finding):
        return f"{NO_GAIN} (GPU-side {format_ms(finding.gpu_gain_ms)})"
    if finding.gain_ms <= 0:
        return f"{'≤ ' * finding.bound}{format_bytes(finding.gain_bytes)} of memory" if finding.gain_bytes else ""
    whole = clock.step_ms if clock else finding.gain_ms
    if finding.bound or not finding.gain_high_ms:
        return f"≤ {format_short_ms(upper_ms(finding), whole)}"
    return _interval(finding.gain_ms, finding.gain_low_ms, finding.gain_high_ms, whole)


def _interval(gain_ms: float, low_ms: float, high_ms: float, like_ms: float) -> str:
    """`12.6 ms (10.1 to 15.1)`."""
    gain, low, high = (format_short_ms(ms, like_ms) for ms in (gain_ms, low_ms, high_ms))
    return f"{gain} ({low.rpartition(' ')[0] or low} to {high.rpartition(' ')[0] or high})"


def upper_ms(finding: Finding) -> float:
    """The most that it may win: of a bound the bound itself, at the slowest host that fits."""
    return max(finding.gain_ms, finding.gain_high_ms)


def _proof(finding: Finding) -> str:
    if finding.proved_gain_ms is None:
        return ""
    won = proved_gain_text(finding) if finding.proved_gain_ms > 0 else "does not help"
    return f"proved on {finding.proved_on}: {won}"


def proved_gain_text(finding: Finding) -> str:
    """`12.4 ms (11.0 to 13.8)`; the measured saving alone where no step could be simulated with it."""
    gain_ms, low_ms, high_ms = finding.proved_gain_ms, finding.proved_gain_low_ms, finding.proved_gain_high_ms
    if gain_ms is None:
        return ""
    return format_ms(gain_ms) if low_ms is None or high_ms is None else _interval(gain_ms, low_ms, high_ms, gain_ms)
