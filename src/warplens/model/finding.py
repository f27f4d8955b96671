"""`Finding`: something worth changing, with evidence, a place and an estimate of the gain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from warplens.model.table import Column, Table, table


@dataclass(frozen=True)
class Evidence:
    """One row behind a finding: an op, a kernel, a gap; times are per step where steps are known."""

    what: str
    detail: str = ""
    count: int = 0
    time_ms: float = 0.0
    gain_ms: float = 0.0
    place: str = ""


@dataclass(frozen=True)
class Finding:
    """`bound` is true where the gain is an upper bound: what would be won if the cause vanished."""

    code: str
    title: str
    gain_ms: float
    gain_percent: float
    bound: bool
    place: str
    evidence: str
    advice: str
    proof: str = ""
    rows: tuple[Evidence, ...] = ()


COLUMNS = (
    Column("code", "stable code; `warplens explain CODE` tells more"),
    Column("title", "what was found"),
    Column("gain_ms", "estimated gain per step, or of the whole trace where no steps are marked", "ms"),
    Column("gain_percent", "the same as a share of the GPU's total time", "%"),
    Column("bound", "the gain is an upper bound"),
    Column("place", "where: op, kernel, file:line or module"),
    Column("evidence", "the figures behind it"),
    Column("advice", "what to do"),
    Column("proof", "measured result, where an experiment was run"),
)
SCHEMA = {
    "code": pl.String,
    "title": pl.String,
    "gain_ms": pl.Float64,
    "gain_percent": pl.Float64,
    "bound": pl.Boolean,
    "place": pl.String,
    "evidence": pl.String,
    "advice": pl.String,
    "proof": pl.String,
}


EVIDENCE_COLUMNS = (
    Column("finding", "place of the finding in the table findings, from 1"),
    Column("code", "its code"),
    Column("what", "op, kernel, gap or step"),
    Column("detail", "its sizes or figures"),
    Column("count", "how often it occurs in the trace"),
    Column("time_ms", "its time per step, or in the whole trace where no steps are marked", "ms"),
    Column("gain_ms", "its part of the gain", "ms"),
    Column("place", "where: file:line, module or op"),
)
EVIDENCE_SCHEMA = {
    "finding": pl.Int64,
    "code": pl.String,
    "what": pl.String,
    "detail": pl.String,
    "count": pl.Int64,
    "time_ms": pl.Float64,
    "gain_ms": pl.Float64,
    "place": pl.String,
}


def ranked(found: Iterable[Finding]) -> list[Finding]:
    """Largest gain first."""
    return sorted(found, key=lambda finding: (-finding.gain_ms, finding.code, finding.place))


def findings_table(found: Iterable[Finding]) -> Table:
    rows = [tuple(getattr(finding, name) for name in SCHEMA) for finding in ranked(found)]
    return table("findings", "one row per finding", COLUMNS, pl.DataFrame(rows, SCHEMA, orient="row"))


def evidence_table(found: Iterable[Finding]) -> Table:
    """The rows behind the findings, in their order."""
    rows = [
        (number, finding.code, row.what, row.detail, row.count, row.time_ms, row.gain_ms, row.place)
        for number, finding in enumerate(ranked(found), start=1)
        for row in finding.rows
    ]
    frame = pl.DataFrame(rows, EVIDENCE_SCHEMA, orient="row")
    return table("evidence", "one row per thing behind a finding", EVIDENCE_COLUMNS, frame)
