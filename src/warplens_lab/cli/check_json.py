"""What `kernel check --json` prints: one object per compilation, with its facts and its suggestions."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from warplens_lab.checking.checks import CheckResult, KernelCheck, suggestions_table
from warplens_lab.checking.measured_tables import kernel_measured

OF_THE_CHECK = ("kernel", "target", "config")
"""Columns of the suggestions that the object around them has."""


def checks_json(checks: Sequence[KernelCheck]) -> bytes:
    return msgspec.json.encode([_check(check) for check in checks])


def _check(check: KernelCheck) -> dict[str, object]:
    """The facts as `-o facts.json` writes them; `measured` is null without a profile."""
    facts = check.facts
    measured = kernel_measured([check]).to_dicts() if check.measured is not None else []
    suggestions = suggestions_table(CheckResult((check,))).to_dicts()
    return {
        "kernel": facts.kernel,
        "target": facts.target,
        "config": facts.config,
        "launches": check.launches,
        "grids": check.grids,
        "facts": facts,
        "measured": measured[0] if measured else None,
        "suggestions": [_without(row, OF_THE_CHECK) for row in suggestions],
    }


def _without(row: dict[str, object], names: Sequence[str]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in names}
