"""`kernel_run`: the Triton kernels of a recorded run by their GPU time, each with facts, roofline and suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from warplens.model.table import Column, Table
from warplens_lab.comparing.compilations import narrowest_bits

if TYPE_CHECKING:
    from warplens_lab.checking.checks import CheckResult, KernelCheck

COLUMNS: Final = (
    Column("kernel", "its name", "", pl.String),
    Column("total_us", "GPU time of its launches", "us", pl.Float64),
    Column("percent", "share of all GPU time of the run", "%", pl.Float64),
    Column("count", "launches", "", pl.Int64),
    Column("mean_us", "mean duration", "us", pl.Float64),
    Column("percent_of_roofline", "least time that the card needs for its bytes over mean_us; null where the work is "
           "not known, as of matrix products", "%", pl.Float64),
    Column("suggestions", "codes of what could be better, most time at stake first", "", pl.String),
    Column("registers", "registers per thread", "", pl.Int64),
    Column("spill_bytes", "bytes spilled per thread", "bytes", pl.Int64),
    Column("occupancy_percent", "warps that an SM or CU holds, of its slots", "%", pl.Float64),
    Column("limiter", "what keeps it from holding more", "", pl.String),
    Column("matrix_instruction", "the matrix unit's instructions", "", pl.String),
    Column("narrowest_bits", "narrowest access of a tile", "bits", pl.Int64),
    Column("bytes", "bytes that a launch must move", "bytes", pl.Float64),
    Column("tbps", "bytes over the mean duration", "TB/s", pl.Float64),
    Column("config", "constants and options", "", pl.String),
    Column("target", "what it was compiled for", "", pl.String),
    Column("failure", "why it did not compile", "", pl.String),
)  # fmt: skip


def kernel_run(result: CheckResult) -> Table:
    rows = [_row(check) for check in result.checks]
    return Table.from_rows("kernel_run", "one row per compiled kernel of the run", COLUMNS, rows, *result.notes)


def _row(check: KernelCheck) -> dict[str, Any]:
    facts, measured = check.facts, check.measured
    work, limits = (measured.work, measured.reached) if measured else (None, None)
    return {
        "kernel": facts.kernel,
        "total_us": measured.total_us if measured else None,
        "percent": measured.gpu_percent if measured else None,
        "count": measured.count if measured else check.launches,
        "mean_us": measured.mean_us if measured else None,
        "percent_of_roofline": limits.percent if limits else None,
        "suggestions": _codes(check),
        "registers": facts.registers,
        "spill_bytes": facts.spill_bytes,
        "occupancy_percent": facts.occupancy.percent if facts.occupancy else None,
        "limiter": facts.occupancy.limiter if facts.occupancy else None,
        "matrix_instruction": ", ".join(facts.matrix_instructions) or "none",
        "narrowest_bits": narrowest_bits(facts),
        "bytes": work.bytes if work else None,
        "tbps": limits.tbps if limits else None,
        "config": facts.config,
        "target": facts.target,
        "failure": facts.failure or None,
    }


def _codes(check: KernelCheck) -> str:
    stakes: Sequence[float | None] = check.stakes_us
    ordered = sorted(zip(check.suggestions, stakes, strict=True), key=lambda pair: -(pair[1] or 0.0))
    return ", ".join(dict.fromkeys(suggestion.code for suggestion, _ in ordered))
