"""Evidence from rows of the tables: what they are, their figures, and the row itself as the target."""

from __future__ import annotations

from collections.abc import Iterable

from warplens.advice.figures import TraceFigures
from warplens.advice.rows import KernelRow, OpRow
from warplens.model.finding import Evidence


def op_evidence(figures: TraceFigures, op: OpRow, gain_us: float, detail: str = "") -> Evidence:
    return Evidence(
        f"{op.op} {op.params}",
        detail=detail or _rate(op),
        count=op.count,
        time_ms=figures.row_ms(op),
        gain_ms=figures.per_step_ms(gain_us, op),
        place=op.place,
        targets=(op.target,),
    )


def _rate(op: OpRow) -> str:
    rate = f"{op.tflops:.0f} TFLOP/s" if op.flop and op.bound != "memory" else f"{op.tbps:.2f} TB/s"
    share = f", {op.percent_of_roofline:.0f} % of the limit" if op.percent_of_roofline is not None else ""
    return f"{op.dtype} {rate}{share}: {op.kernel_short}".lstrip()


def kernel_evidence(figures: TraceFigures, kernel: KernelRow, *, is_gain: bool = False) -> Evidence:
    """`is_gain` where all of its time would be won."""
    time_ms = figures.row_ms(kernel)
    return Evidence(
        kernel.kernel_short,
        detail=kernel.op,
        count=kernel.count,
        time_ms=time_ms,
        gain_ms=time_ms if is_gain else 0.0,
        place=kernel.op,
        targets=(kernel.target,),
    )


def summed(rows: Iterable[Evidence]) -> float:
    return sum(row.gain_ms for row in rows)
