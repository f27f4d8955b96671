"""Rules on work that a program need not ask for: gradients of whole tables, loops and passes that one call would do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from warplens.advice.evidence import op_evidence, summed
from warplens.advice.figures import TraceFigures
from warplens.advice.rows import OpRow, RepeatedRow
from warplens.advice.thresholds import THRESHOLDS
from warplens.analyses.work.repeated_calls import CELL, PASS
from warplens.model.edits import ReplaceWork, ScaleWork
from warplens.model.finding import Evidence, Finding
from warplens_run.base.units import plural

WHOLE_TABLE: Final = ("pointwise", "fill", "copy", "reduction")
"""Families of ops that an optimizer of one tensor after the other runs on a table and its gradient."""
LAUNCHES_OF_LIBRARY: Final = 4
"""Of a recurrent layer over a whole sequence, forward and backward, without what one launch makes on the GPU."""


def dense_embedding_gradients(figures: TraceFigures) -> Iterator[Finding]:
    """Gradients of whole tables of which a step touches few rows, and the optimizer's passes over them.

    A table as large as a product's gradient may be that product's weight too (tied), whose gradient is dense.
    """
    weights = {op.size("M") * op.size("N") for op in figures.ops if op.family == "gemm" and op.size("B") == 1}
    tables = [op for op in figures.ops if _is_sparse_table(op) and _elements(op) not in weights]
    if not tables:
        return
    saved: dict[int, tuple[OpRow, float]] = {}
    for op in figures.ops:
        if op.family == "optimizer" and op.size("elements"):
            per_pass = sum(_untouched(table) * _elements(table) * table.count for table in tables) / op.count
            saved[op.row] = (op, min(1.0, per_pass / op.size("elements")))
        elif op.family in WHOLE_TABLE:
            shares = [_untouched(table) for table in tables if _elements(table) == op.size("elements")]
            if shares:
                saved[op.row] = (op, min(shares))
    rows = [op_evidence(figures, op, share * op.total_us) for op, share in saved.values()]
    rows.sort(key=lambda row: -row.gain_ms)
    number = sum(table.count for table in tables) / max(1, figures.steps)
    touched = max(1 - _untouched(table) for table in tables)
    largest = max(tables, key=_elements)
    yield figures.finding(
        "WL214",
        title=f"gradients of whole embedding tables: a step touches at most {100 * touched:.1f} % of their rows",
        gain_ms=summed(rows),
        bound=True,
        place=tables[0].place,
        evidence=f"{number:,.0f} tables{figures.per_step_text}, the largest of {largest.size('table'):,} rows; "
        f"{figures.total_ms(op for op, _ in saved.values()):.2f} ms to fill and update all of them",
        rows=rows[:8],
        edits=(ScaleWork(op.work, 1 - share) for op, share in saved.values()),
    )


def _is_sparse_table(op: OpRow) -> bool:
    is_gradient = op.op.partition(".")[0].endswith("embedding_dense_backward")
    return is_gradient and 100 * (1 - _untouched(op)) <= THRESHOLDS.touched_rows_percent


def _untouched(table: OpRow) -> float:
    """The least share of its rows that no index of a call names."""
    return max(0.0, 1 - table.size("indices") / max(1, table.size("table")))


def _elements(table: OpRow) -> int:
    return table.size("elements") // max(1, table.size("indices")) * table.size("table")


def cells_in_a_loop(figures: TraceFigures) -> Iterator[Finding]:
    """Cells of recurrent networks, called from Python for each element of a sequence."""
    for row in figures.rows(RepeatedRow):
        if row.kind == CELL:
            yield _repeated(
                figures,
                "WL215",
                row,
                title=f"{row.calls:,.0f} calls of {row.what}{figures.per_step_text}, one after the other",
                launches=LAUNCHES_OF_LIBRARY,
            )


def equal_passes(figures: TraceFigures) -> Iterator[Finding]:
    """Passes of the same weights over inputs of equal shapes, whose results meet afterwards."""
    for row in figures.rows(RepeatedRow):
        if row.kind == PASS:
            yield _repeated(
                figures,
                "WL216",
                row,
                title=f"{row.what} runs more than once on inputs of equal shapes: one batch would do",
                launches=1,
                bound=True,
            )


def _repeated(
    figures: TraceFigures, code: str, row: RepeatedRow, *, title: str, launches: int, bound: bool = False
) -> Finding:
    gain_ms = figures.per_step_ms(row.total_us - row.kept_us, row)
    place = row.line or row.module or row.what
    per_step = row.count / max(1, figures.steps)
    evidence = Evidence(
        row.what, count=row.count, time_ms=figures.row_ms(row), gain_ms=gain_ms, place=place, targets=(row.target,)
    )
    return figures.finding(
        code,
        title=title,
        gain_ms=gain_ms,
        bound=bound,
        place=place,
        evidence=f"{plural(round(per_step), 'launch', 'launches')}{figures.per_step_text} that one call would not "
        f"need, {figures.row_ms(row):.2f} ms of GPU time",
        rows=(evidence,),
        edits=(ReplaceWork(row.work, row.kept_us / row.total_us if row.total_us else 0.0, launches),),
    )
