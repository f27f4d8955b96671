"""The trace of one phase: only the iterations that prefill, or decode, or do both.

The time of the others is cut out, so that idle time is that of the phase: an event later than a cut moves earlier by
its length. No GPU event that is kept loses time; what the host did for the phase while the GPU worked for another one
is shortened with the cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.serving.iterations import find_iterations, iteration_windows
from warplens.analyses.serving.served import Served
from warplens.analyses.serving.spans import Span
from warplens.model.intervals import Union, covered_until, subtract, union
from warplens.model.kinds import CODE, NESTED, NONE
from warplens.model.quality import Note
from warplens.model.subset import subset, with_references
from warplens.model.trace import Bools, Ints, Trace
from warplens.passes.climb import climb
from warplens_run.base.errors import UsageError
from warplens_run.base.units import listed, plural


class OnePhase(NamedTuple):
    trace: Trace
    served: Served
    """Its iterations, numbered anew."""


def one_phase(trace: Trace, phase: str) -> OnePhase:
    """The part of a trace that belongs to the iterations of a phase."""
    served = find_iterations(trace)
    if served is None:
        hint = "it needs marks of vLLM, SGLang, ATOM or TensorRT-LLM, or a loop that generates text"
        raise UsageError(f"--phase {phase}: no iterations of a served model in this trace", hint=hint)
    chosen = np.array([span.mark.phase == phase for span in served.spans])
    if not chosen.any():
        there = listed(sorted({span.mark.phase for span in served.spans}))
        raise UsageError(f"no iteration of this trace is {phase}", hint=f"there are: {there}")
    own_events = np.isin(served.event_iteration, np.flatnonzero(chosen))
    cuts = _cuts(trace, served, chosen, own_events)
    keep = with_references(trace, _own_rows(trace, served, chosen, own_events, cuts))
    kept_gpu = keep[trace.gpu_rows]
    part = _without_time(_with_kept_steps(subset(trace, keep), trace, keep), cuts)
    note = Note("one_phase", detail=_text(trace, phase, chosen, kept_gpu))
    part = replace(part, quality=part.quality.with_notes(note))
    return OnePhase(part, _renumbered(served, chosen, kept_gpu, cuts))


def _cuts(trace: Trace, served: Served, chosen: Bools, own_events: Bools) -> Union:
    """The time of other iterations on the GPU, less what kept events take of it."""
    start = trace.ints("start_ns")[trace.gpu_rows]
    end = start + trace.ints("dur_ns")[trace.gpu_rows]
    times = iteration_windows(served, start, end)
    others = ~chosen & times.has_gpu
    return subtract(union(times.start_ns[others], times.end_ns[others]), union(start[own_events], end[own_events]))


def _own_rows(trace: Trace, served: Served, chosen: Bools, own_events: Bools, cuts: Union) -> Bools:
    """Host events that start in a chosen iteration, its GPU events, and what streams record outside of the cuts."""
    keep = np.zeros(len(trace), bool)
    keep[trace.gpu_rows[own_events]] = True
    untimed = np.zeros(len(trace), bool)
    untimed[trace.frames["id"].to_numpy()] = True
    rows = np.flatnonzero(trace.is_kind(*NESTED) & ~untimed)
    iteration = served.iteration_at(trace, trace.ints("lane")[rows], trace.ints("start_ns")[rows])
    keep[rows[(iteration >= 0) & chosen[np.maximum(iteration, 0)]]] = True
    # Ops of a captured graph are below its launch; other callers without times are kept with what they call.
    frames = np.flatnonzero(untimed)
    above = climb(frames, trace.ints("parent"), ~untimed)
    keep[frames[(above >= 0) & keep[np.maximum(above, 0)]]] = True
    gpu_start = trace.ints("start_ns")[trace.gpu_rows[own_events]]
    begin, stop = gpu_start.min(initial=0), gpu_start.max(initial=0)
    rest = np.flatnonzero(np.isin(trace.ints("kind"), [CODE[kind] for kind in ("sync", "gpu_annotation", "counter")]))
    moment = trace.ints("start_ns")[rest]
    cut = covered_until(cuts, moment + 1) > covered_until(cuts, moment)
    keep[rest[~cut & (moment >= begin) & (moment <= stop)]] = True
    return keep


def _with_kept_steps(part: Trace, whole: Trace, keep: Bools) -> Trace:
    """Steps that something is left of; records of memory from the time of kept host events are not told apart."""
    numbers = np.unique(whole.ints("step")[keep])
    return replace(part, steps=whole.steps.filter(pl.col("step").is_in(numbers[numbers >= 0].tolist())))


def _without_time(trace: Trace, cuts: Union) -> Trace:
    def moved(moments: Ints) -> Ints:
        later: Ints = moments - covered_until(cuts, moments)
        return later

    start = trace.ints("start_ns").astype(np.int64)
    begin = moved(start)
    steps = trace.steps.with_columns(
        pl.Series(name, moved(trace.steps[name].to_numpy()), dtype=pl.Int64) for name in ("start_ns", "end_ns")
    )
    memory = trace.memory.with_columns(
        pl.Series("start_ns", moved(trace.memory["start_ns"].to_numpy()), dtype=pl.Int64)
    )
    timed = trace.with_columns(start_ns=begin, dur_ns=moved(start + trace.ints("dur_ns")) - begin)
    # Samples are of all phases.
    return replace(
        timed, steps=steps, memory=memory, counters=trace.counters.clear(), plain_windows=trace.plain_windows.clear()
    )


def _renumbered(served: Served, chosen: Bools, kept_gpu: Bools, cuts: Union) -> Served:
    number = np.append(np.where(chosen, np.cumsum(chosen) - 1, NONE), NONE)

    def moved(spans: Sequence[Span]) -> list[Span]:
        edges = np.array([(span.start_ns, span.end_ns) for span in spans], np.int64).reshape(-1, 2)
        edges -= covered_until(cuts, edges.ravel()).reshape(-1, 2)
        return [
            msgspec.structs.replace(span, start_ns=begin, end_ns=end)
            for span, (begin, end) in zip(spans, edges.tolist(), strict=True)
        ]

    kept = [(span, int(number[place])) for span, place in served.marks if chosen[place]]
    marks = tuple(zip(moved([span for span, _ in kept]), (place for _, place in kept), strict=True))
    spans = tuple(moved([span for span, is_chosen in zip(served.spans, chosen.tolist(), strict=True) if is_chosen]))
    event_iteration = number[served.event_iteration[kept_gpu]]
    return msgspec.structs.replace(served, spans=spans, marks=marks, event_iteration=event_iteration)


def _text(trace: Trace, phase: str, chosen: Bools, kept_gpu: Bools) -> str:
    duration = trace.ints("dur_ns")[trace.gpu_rows]
    left_out = 100 * float(duration[~kept_gpu].sum()) / max(1.0, float(duration.sum()))
    events = plural(int((~kept_gpu).sum()), "GPU event")
    return f"{phase}, {int(chosen.sum()):,} of {len(chosen):,}; omitted: {events} ({left_out:.1f} % of GPU time)"
