"""The tiles at the head of a page: an overview in words. What the trace does not give has no tile."""

from __future__ import annotations

from collections.abc import Iterator

from warplens.model.overview import Overview
from warplens.outputs.html.records import Tile
from warplens.units import format_ms

COMPLETE_PERCENT = 99.0
"""From this share of the GPU time on, costs count as known for all of it."""

LEAST_SAVING = 0.001
"""Of the step: less is what the simulation rounds away."""


def tiles(overview: Overview) -> list[Tile]:
    return [*_times(overview), *_bounds(overview), *_rates(overview)]


def gains_base(overview: Overview) -> str:
    """What percentages of gains are shares of."""
    if not overview.gains_of_ms:
        return ""
    whole = _whole(overview).lower()
    state = "without the profiler, simulated" if overview.gains_are_simulated else "as recorded"
    return f"Gains in % are shares of the {whole} {state}: {format_ms(overview.gains_of_ms)}."


def _whole(overview: Overview) -> str:
    return "Step" if overview.is_step else "Whole trace"


def _times(overview: Overview) -> Iterator[Tile]:
    if overview.recorded_ms is None or overview.busy_percent is None:
        return
    whole, recorded, busy = _whole(overview), format_ms(overview.recorded_ms), f"{overview.busy_percent:.1f} %"
    meaning = "share of the time in which the GPU works"
    if overview.plain_ms is None or overview.plain_busy_percent is None:
        yield Tile(whole, recorded, "as recorded", "from one step to the next, with the profiler's own cost", "steps")
        yield Tile("GPU busy", busy, "as recorded", meaning, "timeline")
        return
    yield Tile(
        f"{whole} without profiler",
        format_ms(overview.plain_ms),
        f"{recorded} recorded",
        "simulated without what recording costs the host",
        "bounds",
    )
    yield Tile("GPU busy", busy, f"{overview.plain_busy_percent:.1f} % without profiler", meaning, "timeline")


def _bounds(overview: Overview) -> Iterator[Tile]:
    cases = (
        ("If the GPU took no time", overview.fast_gpu_ms, "a faster GPU saves no more: the host is left"),
        ("If the host took no time", overview.fast_host_ms, "a faster host saves no more: the GPU is left"),
    )
    for label, time_ms, meaning in cases:
        if time_ms is not None and overview.plain_ms is not None:
            yield Tile(label, format_ms(time_ms), _saving(overview.plain_ms, time_ms), meaning, "bounds")


def _saving(plain_ms: float, time_ms: float) -> str:
    saved_ms = plain_ms - time_ms
    return f"saves {format_ms(saved_ms)}" if saved_ms >= LEAST_SAVING * plain_ms else "saves nothing"


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
        f"{overview.model_tflop:.3g} of {overview.peak_tflops * time_ms / 1e3:.3g} TFLOP",
        "model FLOPs utilisation: the operations that ops ask for, of those that the data sheet's peak "
        f"({overview.peak_of}, {overview.peak_tflops:.4g} TFLOP/s) allows in the {run} time{costed}",
        "roofline",
    )
