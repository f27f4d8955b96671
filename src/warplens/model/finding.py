"""`Finding`: something worth changing, with evidence, a place and an estimate of the gain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass

import polars as pl

from warplens.model.table import Column, Table
from warplens.model.targets import Target
from warplens.units import format_ms


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
    """`bound` is true where the gain is an upper bound: what would be won if the cause vanished.

    `rows` are the evidence, and `targets` the data that the finding as a whole is about, the most telling first.
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
    rows: tuple[Evidence, ...] = ()
    targets: tuple[Target, ...] = ()

    def __repr__(self) -> str:
        """One line: the code, the title and the gain; the evidence would fill screens."""
        gain = f" ({'≤ ' * self.bound}{format_ms(self.gain_ms)})" if self.gain_ms else ""
        return f"<Finding {self.code}: {self.title}{gain}>"


COLUMNS = (
    Column("code", "stable code; `warplens explain CODE` describes it", "", pl.String),
    Column("title", "what was found", "", pl.String),
    Column("gain_ms", "estimated gain per step, or of the whole trace where no steps are marked", "ms", pl.Float64),
    Column("gain_percent", "the same as a share of the GPU's total time", "%", pl.Float64),
    Column("bound", "the gain is an upper bound", "", pl.Boolean),
    Column("place", "where: op, kernel, file:line or module", "", pl.String),
    Column("evidence", "the figures behind it", "", pl.String),
    Column("advice", "what to do", "", pl.String),
    Column("proof", "measured result, where an experiment was run", "", pl.String),
)
EVIDENCE_COLUMNS = (
    Column("finding", "row of the finding in the table findings, from 1", "", pl.Int64),
    Column("code", "its code", "", pl.String),
    Column("what", "op, kernel, gap or step", "", pl.String),
    Column("detail", "its sizes or figures", "", pl.String),
    Column("count", "how often it occurs in the trace", "", pl.Int64),
    Column("time_ms", "its time per step, or in the whole trace where no steps are marked", "ms", pl.Float64),
    Column("gain_ms", "its part of the gain", "ms", pl.Float64),
    Column("place", "where: file:line, module or op", "", pl.String),
)


def ranked(findings: Iterable[Finding]) -> list[Finding]:
    """Largest gain first."""
    return sorted(findings, key=lambda finding: (-finding.gain_ms, finding.code, finding.place))


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
