"""The tiles at the head of a page: an overview in words. What the trace does not give has no tile."""

from __future__ import annotations

from collections.abc import Iterator

from warplens.model.answer import LEAST_SAVING, Answer
from warplens.model.clock import SOURCES, Clock
from warplens.model.overview import Overview
from warplens.outputs.document import Document
from warplens.outputs.html.records import StepPart, Tile
from warplens.outputs.html.table_tiles import (
    HOST_SIDE,
    gpu_busy,
    job_tiles,
    serving_rates,
    serving_tiles,
    snapshot_tiles,
)
from warplens_run.base.units import format_bytes

COMPLETE_PERCENT = 99.0
"""From this share of the GPU time on, costs count as known for all of it."""


def page_tiles(document: Document, overview: Overview | None) -> list[Tile]:
    if document.kind == "job":
        return job_tiles(document.answer, document.tables)
    if document.kind == "paths":
        return list(snapshot_tiles(document.tables))
    if overview is None or document.answer.clock is None:
        return [] if overview is None else list(_memory(overview))
    times = list(_times(document.answer, document.answer.clock))
    if serving := serving_tiles(document.tables, document.answer.clock):  # their passes stand for the step
        return [*serving, *times[1:], *serving_rates(document.tables), *_memory(overview)]
    return [*times, *_rates(document.answer.clock, overview), *_memory(overview)]


def step_parts(answer: Answer) -> list[StepPart]:
    """The parts of the Answer, the largest first."""
    clock = answer.clock
    if clock is None:
        return []
    return [
        StepPart(
            f"{part.part} · {part.cause}" if part.cause else part.part,
            "" if part.part in HOST_SIDE else part.cause or part.part,
            clock.between(part.low_ms, part.high_ms),
            part.percent,
            part.place,
        )
        for part in answer.largest
    ]


def gains_base(clock: Clock) -> str:
    """What percentages of gains are shares of."""
    return f"Gains are of one {clock.whole}: {clock.text}."


def _times(answer: Answer, clock: Clock) -> Iterator[Tile]:
    sure, recorded = clock.known if clock.is_wide else clock.sure, clock.of_step(clock.recorded_ms)
    note = sure if recorded == clock.of_step(clock.step_ms) else f"{sure} · {recorded} recorded"
    yield Tile(clock.whole.capitalize(), clock.amount, note, SOURCES[clock.source], "step_time")
    if answer.savings and answer.bound:
        savings = " · ".join(f"{saving.of} {_saving(clock, saving.at_most_ms)}" for saving in answer.savings[:2])
        yield Tile("Bound", answer.bound, savings, BOUND, "bounds")
    yield gpu_busy(answer, clock, f"the {clock.whole}")


BOUND = "what limits the step, and what would be saved at most if it took no time, simulated"


def _saving(clock: Clock, saved_ms: float) -> str:
    return f"≤ {clock.of_step(saved_ms)}" if saved_ms >= LEAST_SAVING * clock.step_ms else "nothing"


def _rates(clock: Clock, overview: Overview) -> Iterator[Tile]:
    if overview.mfu_percent is None or overview.model_tflop is None or overview.peak_tflops is None:
        return
    known = overview.costed_percent or 0.0
    costed = "" if known >= COMPLETE_PERCENT else f"; costs are known for {known:.0f} % of the GPU time"
    yield Tile(
        "MFU",
        clock.share(1e3 * overview.model_tflop / overview.peak_tflops),
        f"{_amount(overview.model_tflop)} TFLOP in one {clock.whole}",
        "model FLOPs utilisation: the operations that ops ask for, of those that the data sheet's peak "
        f"({overview.peak_of}, {overview.peak_tflops:.4g} TFLOP/s) allows in one {clock.whole}{costed}",
        "roofline",
    )


def _memory(overview: Overview) -> Iterator[Tile]:
    peak, capacity = overview.memory_peak_bytes, overview.memory_capacity_bytes
    if not peak:
        return
    note = f"{_percent(100 * peak / capacity)} of {format_bytes(capacity)}" if capacity else "on one GPU"
    yield Tile("Memory peak", format_bytes(peak), note, "the most that tensors held on one GPU at once", "memory_peak")


def _amount(value: float) -> str:
    """Three digits at most before the thousands, and never an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"
