"""`Finding`: something worth changing, with evidence, a place and an estimate of the gain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from warplens.model.table import Column, Table, table


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


def findings_table(found: Iterable[Finding]) -> Table:
    """Findings as a table, largest gain first."""
    ranked = sorted(found, key=lambda finding: (-finding.gain_ms, finding.code))
    rows = [tuple(getattr(finding, name) for name in SCHEMA) for finding in ranked]
    return table("findings", "one row per finding", COLUMNS, pl.DataFrame(rows, SCHEMA, orient="row"))
