"""Changes that a person describes by patterns, and what they would win."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from functools import cache
from math import inf
from typing import Final

import numpy as np
from msgspec.structs import replace

from warplens.analyses.graph.editing import Members
from warplens.analyses.page.members import members_of
from warplens.analyses.workspace import Workspace
from warplens.model.arrays import places_by_value
from warplens.model.edits import ScaleHost, ScaleWork, StepChange, WorkOfRows
from warplens.model.finding import Finding
from warplens.model.table import Table
from warplens.model.trace import Ints
from warplens_run.base.errors import UsageError

Tables = Callable[[str], Table]
"""A profile's tables by name."""
ALL: Final = "all"
SELECTORS: Final = {
    # what a pattern is about: the table whose rows have it, its columns, and whether the host's time belongs to it
    "kernel": ("kernels", ("kernel", "kernel_short"), False),
    "category": ("kernel_categories", ("kernel_category",), False),
    "op": ("ops", ("op",), True),
    "module": ("modules", ("module",), True),
    "phase": ("phases", ("phase",), True),
}


def scaling(tables: Tables, pattern: str, factor: float) -> StepChange:
    """`kernel=*gemm*` scaled by a factor: GPU time of kernels and categories; also the host's of ops and the like."""
    what, _, glob = pattern.partition("=")
    if what not in SELECTORS or not glob:
        raise UsageError(f"not a valid selection: {pattern!r}", hint=f"one of {', '.join(SELECTORS)}, = and a pattern")
    _require_factor(factor)
    table, columns, with_host = SELECTORS[what]
    names = tables(table).frame.select(columns).iter_rows()
    glob = glob.lower()
    rows = tuple(row for row, texts in enumerate(names) if any(fnmatchcase(text.lower(), glob) for text in texts))
    if not rows:
        raise UsageError(f"no {what} matches {glob!r}", hint=f"warplens show lists them: table {table}")
    return StepChange(f"{pattern} × {factor:g}", (ScaleWork(WorkOfRows(table, rows), factor, with_host),))


def host_scaling(factor: float) -> StepChange:
    """All of the host's time scaled by a factor."""
    _require_factor(factor)
    return StepChange(f"host × {factor:g}", (ScaleHost(factor),))


def fixes(findings: Sequence[Finding], codes: Sequence[str]) -> list[StepChange]:
    """What those of the findings with these codes propose, one change per finding; `all` of them."""
    from warplens.advice.gains import change_of

    proposed = [finding for finding in findings if finding.edits]
    names = list(dict.fromkeys(finding.code for finding in proposed))
    for code in codes:
        if code not in (*names, ALL):
            listed = f"findings with one: {', '.join(names)}" if names else "no finding of this trace has one"
            raise UsageError(f"no finding {code} with a change that can be simulated", hint=listed)
    changes = [(change_of(finding), finding.place) for finding in proposed if ALL in codes or finding.code in codes]
    count = Counter(change.name for change, _ in changes)
    return [
        replace(change, name=f"{change.name} ({place})") if count[change.name] > 1 else change
        for change, place in changes
    ]


def _require_factor(factor: float) -> None:
    if not 0 <= factor < inf:
        raise UsageError(f"not a valid factor: {factor:g}", hint="0 for no time at all, 0.5 for half of it")


def members(work: Workspace, tables: Tables) -> Members:
    """The events of the trace that belong to some rows of a table."""
    ids = work.gpu["id"].to_numpy()

    @cache
    def events_by_row(table: str) -> dict[int, Ints]:
        return places_by_value(members_of(work, tables(table)).astype(np.int64))

    def events(chosen_rows: WorkOfRows) -> Ints:
        of_rows = events_by_row(chosen_rows.table)
        chosen = [of_rows[row] for row in dict.fromkeys(chosen_rows.rows) if row in of_rows]
        return np.sort(ids[np.concatenate([np.zeros(0, np.int64), *chosen])])

    return events
