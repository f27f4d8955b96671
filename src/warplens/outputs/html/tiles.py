"""The tiles at the head of a page: an overview in words. What the trace does not give has no tile."""

from __future__ import annotations

from collections.abc import Iterator

from warplens.model.overview import Overview
from warplens.outputs.document import Document
from warplens.outputs.html.records import Tile
from warplens.outputs.html.table_tiles import job_tiles, serving_rates, serving_tiles, snapshot_tiles
from warplens_run.base.units import format_bytes, format_short_ms

COMPLETE_PERCENT = 99.0
"""From this share of the GPU time on, costs count as known for all of it."""

LEAST_SAVING = 0.001
"""Of the step: less is what the simulation rounds away."""


def page_tiles(document: Document, overview: Overview | None) -> list[Tile]:
    if document.kind == "job":
        return job_tiles(document.tables)
    if document.kind == "paths":
        return list(snapshot_tiles(document.tables))
    if overview is None:
        return []
    times = list(_times(overview))
    if serving := serving_tiles(document.tables):  # their passes stand for the step
        return [*serving, *times[1:], *serving_rates(document.tables), *_memory(overview)]
    return [*times, *_rates(overview), *_memory(overview)]


def gains_base(overview: Overview) -> str:
    """What percentages of gains are shares of."""
    if not overview.gains_of_ms:
        return ""
    whole = _whole(overview).lower()
    state = "without the profiler, simulated" if overview.gains_are_simulated else "as recorded"
    return (
        f"Gains in % are shares of the {whole} {state}: {format_short_ms(overview.gains_of_ms, overview.gains_of_ms)}."
    )


def _whole(overview: Overview) -> str:
    return "Step" if overview.is_step else "Whole trace"


def _times(overview: Overview) -> Iterator[Tile]:
    if overview.recorded_ms is None or overview.busy_percent is None:
        return
    whole, busy = _whole(overview), f"{overview.busy_percent:.1f} %"
    recorded = format_short_ms(overview.recorded_ms, overview.recorded_ms)
    if overview.plain_ms is None:
        yield Tile(whole, recorded, "as recorded", "with the profiler's own cost", "steps")
    else:
        plain, origin = format_short_ms(overview.plain_ms, overview.plain_ms), overview.plain_origin
        meaning_of_plain = f"without what recording costs the host: {origin}"
        yield Tile(f"{whole} without profiler", plain, f"{recorded} recorded", meaning_of_plain, "bounds")
    yield from _bounds(overview)
    share = overview.plain_busy_percent
    note = "as recorded" if share is None else f"{share:.1f} % without profiler"
    yield Tile("GPU busy", busy, note, "share of the recorded time in which the GPU works", "timeline")


def _bounds(overview: Overview) -> Iterator[Tile]:
    plain_ms = overview.plain_ms
    if not overview.bound or plain_ms is None:
        return
    cases = (("GPU", overview.fast_gpu_ms), ("host", overview.fast_host_ms))
    known = [(name, time_ms) for name, time_ms in cases if time_ms is not None]
    savings = [f"{name} {_saving(plain_ms, time_ms)}" for name, time_ms in known]
    meaning = "; ".join(f"if the {name} took no time: {format_short_ms(time_ms, plain_ms)}" for name, time_ms in known)
    yield Tile("Bound", overview.bound, " · ".join(savings), f"what limits the time, simulated; {meaning}", "bounds")


def _saving(plain_ms: float, time_ms: float) -> str:
    saved_ms = plain_ms - time_ms
    return f"≤ {format_short_ms(saved_ms, plain_ms)}" if saved_ms >= LEAST_SAVING * plain_ms else "nothing"


def _rates(overview: Overview) -> Iterator[Tile]:
    if overview.mfu_percent is None or overview.model_tflop is None or overview.peak_tflops is None:
        return
    time_ms = overview.plain_ms or overview.recorded_ms or 0.0
    run = "plain" if overview.plain_ms is not None else "recorded"
    known = overview.costed_percent or 0.0
    costed = "" if known >= COMPLETE_PERCENT else f"; costs are known for {known:.0f} % of the GPU time"
    yield Tile(
        "MFU",
        f"{overview.mfu_percent:.1f} %",
        f"{_amount(overview.model_tflop)} of {_amount(overview.peak_tflops * time_ms / 1e3)} TFLOP",
        "model FLOPs utilisation: the operations that ops ask for, of those that the data sheet's peak "
        f"({overview.peak_of}, {overview.peak_tflops:.4g} TFLOP/s) allows in the {run} time{costed}",
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
