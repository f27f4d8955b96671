"""Steps: from marks of the program, of a serving engine's passes or of generations, else from what repeats."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.model.iteration_marks import GenerationMark, parse_generation, parse_mark
from warplens.model.kinds import NESTED, NONE
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Bools, Ints, Trace
from warplens_run.base.units import format_ms, plural

PROFILER_STEP = re.compile(r"ProfilerStep#([0-9]{1,10})")
OPTIMIZER_STEP = re.compile(r"Optimizer\.step#")
NOT_STEPS = re.compile(
    r"## Call CompiledFxGraph|Optimizer\.|nccl:|Torch-Compiled|enumerate\(|ProfilerStep|.*Parallel\."
)
"""Annotations that frameworks add by themselves; they repeat, but not once per step."""
LEAST_SHARE = 0.01
"""Of the host's time: what marks together take less than is next to nothing."""
MIN_COVER = 0.5
"""A repeating annotation counts as the step only if it covers at least half of its thread's time."""


class Marks(NamedTuple):
    numbers: list[int]
    names: list[str]
    start: Ints
    end: Ints
    origin: str
    repeated: int = 0
    """Later marks with the number of an earlier one."""


def mark_steps(trace: Trace) -> Trace:
    generations = _generations(trace)
    if generations is not None:
        trace = trace.with_columns(_generations_note(generations))
    marks, left_out = _profiler_steps(trace), 0
    if marks is not None:
        is_step = _are_steps(trace, marks)
        left_out = len(is_step) - int(is_step.sum())
        marks = _chosen(marks, is_step) if is_step.any() else None
    if left_out:
        trace = trace.with_columns(Note("short_steps", left_out))
    # Steps that the program marks, else the passes of a served model: a step may be a whole answer of many passes.
    marks = marks or _served_passes(trace) or generations or _repeating_annotation(trace) or _optimizer_steps(trace)
    if marks is None:
        # One pass of a served model is no step, but whoever serves it does not call prof.step() either.
        return trace if left_out or _is_served(trace) else trace.with_columns(Note("no_steps"))
    end = _ends(marks)
    frame = pl.DataFrame(
        {"step": marks.numbers, "name": marks.names, "start_ns": marks.start, "end_ns": end},
        schema=SIDE_FRAMES["steps"],
    )
    notes = [Note("steps_guessed", detail=marks.origin)] if marks.origin else []
    if marks.repeated:
        notes.append(Note("repeated_steps", marks.repeated))
    position = _positions(trace, marks.start, end)
    step = np.where(position >= 0, np.array(marks.numbers)[np.maximum(position, 0)], NONE)
    return replace(trace.with_columns(*notes, step=step), steps=frame)


def _ends(marks: Marks) -> Ints:
    """Steps of several threads could overlap; a later one never starts before the earlier one ends."""
    ends: Ints = np.minimum(marks.end, np.append(marks.start[1:], marks.end[-1]))
    return ends


def _are_steps(trace: Trace, marks: Marks) -> Bools:
    """Which marks are steps: not those that hold no GPU work and take next to no time of the run. None is where all
    take next to no time of the run, and what they launch does too or is the lesser part of the GPU's work."""
    end, gpu = _ends(marks), trace.gpu_rows
    length = end - marks.start
    host = trace.rows_of(*NESTED)
    begun = trace.ints("start_ns")[host]
    little_ns = LEAST_SHARE * float((begun + trace.ints("dur_ns")[host]).max() - begun.min())
    position, duration = _positions(trace, marks.start, end)[gpu], trace.ints("dur_ns")[gpu]
    inside = position >= 0
    count = np.bincount(position[inside], minlength=len(length))
    held_ns = duration[inside].sum()
    is_little = length.sum() < little_ns and (held_ns < little_ns or 2 * held_ns < duration.sum())
    if is_little:
        return np.zeros(len(length), bool)
    is_empty: Bools = count == 0
    return ~is_empty if length[is_empty].sum() < little_ns else np.ones(len(length), bool)


def _chosen(marks: Marks, chosen: Bools) -> Marks:
    at = np.flatnonzero(chosen).tolist()
    return marks._replace(
        numbers=[marks.numbers[index] for index in at],
        names=[marks.names[index] for index in at],
        start=marks.start[chosen],
        end=marks.end[chosen],
    )


def _positions(trace: Trace, start: Ints, end: Ints) -> Ints:
    """Which mark each event belongs to, -1 for none: a host event to the one it starts in, GPU work to the one that
    launched it, if that is recorded, and an annotation of a GPU to that of the first work in it."""
    begun = trace.ints("start_ns")
    moment = begun.copy()
    gpu = trace.gpu_rows
    cause = np.where(trace.ints("launch")[gpu] >= 0, trace.ints("launch")[gpu], trace.ints("op")[gpu])
    moment[gpu] = np.where(cause >= 0, begun[np.maximum(cause, 0)], NONE)
    if len(marks := trace.rows_of("gpu_annotation")):
        first = _first_work(trace, marks)
        moment[marks] = np.where(first >= 0, moment[first], NONE)
    position = np.searchsorted(start, moment, side="right") - 1
    return np.where(moment < end[np.maximum(position, 0)], position, NONE)


def _first_work(trace: Trace, marks: Ints) -> Ints:
    """The first GPU event that starts inside each annotation, on its stream where it is on one, -1 for none."""
    start, lane = trace.ints("start_ns"), trace.ints("lane")
    gpu = trace.gpu_rows[np.argsort(start[trace.gpu_rows], kind="stable")]
    places = trace.lanes.select("process", "thread").rows()
    lane_of = {place: number for number, place in enumerate(places)}
    first = np.full(len(marks), NONE, np.int64)
    for mark_lane in np.unique(lane[marks]).tolist():
        process, thread = places[mark_lane]
        stream = lane_of.get((f"GPU {process}", f"stream {thread}"))
        work = gpu if stream is None else gpu[lane[gpu] == stream]
        own = np.flatnonzero(lane[marks] == mark_lane)
        next_work = np.append(work, NONE)[np.searchsorted(start[work], start[marks[own]])]
        end = start[marks[own]] + trace.ints("dur_ns")[marks[own]]
        first[own] = np.where(start[next_work] <= end, next_work, NONE)
    return first


def _annotations(trace: Trace) -> tuple[Ints, list[str]]:
    rows = trace.rows_of("annotation")
    rows = rows[np.argsort(trace.ints("start_ns")[rows], kind="stable")]
    names = trace.ints("name")[rows]
    return rows, [trace.names[name] for name in names.tolist()]


def _marks(trace: Trace, rows: Ints, numbers: list[int], names: list[str], origin: str) -> Marks:
    start = trace.ints("start_ns")[rows]
    return Marks(numbers, names, start, start + trace.ints("dur_ns")[rows], origin)


def _generations(trace: Trace) -> Marks | None:
    """Generations that a diffusion model's engine marks: one is enough, as it says itself what it is."""
    rows, names = _annotations(trace)
    chosen = [index for index, name in enumerate(names) if parse_generation(name) is not None]
    if not chosen:
        return None
    return _marks(trace, rows[chosen], list(range(len(chosen))), [names[index] for index in chosen], "")


def _generations_note(marks: Marks) -> Note:
    mark = parse_generation(marks.names[0]) or GenerationMark("")
    images = f"{plural(mark.images, 'image')} of " if mark.images else ""
    median_ns = float(np.median(marks.end - marks.start))
    rate = f", {mark.images / median_ns * 1e9:.3g} images/s" if mark.images and median_ns else ""
    detail = f"{images}{mark.size} in {format_ms(median_ns / 1e6)} as recorded{rate}"
    return Note("generations", len(marks.names), detail)


def _is_served(trace: Trace) -> bool:
    return any(parse_mark(name) is not None for name in set(_annotations(trace)[1]))


def _served_passes(trace: Trace) -> Marks | None:
    """Passes that an engine marks, of the thread that marks most; what follows a pass up to the next is its own."""
    rows, names = _annotations(trace)
    marks = {name: parse_mark(name) for name in set(names)}
    lanes: dict[int, list[int]] = {}
    for index, name in enumerate(names):
        mark = marks[name]
        if mark is not None and not mark.is_draft:
            lanes.setdefault(int(trace.ints("lane")[rows[index]]), []).append(index)
    chosen: list[int] = []
    reached = NONE
    end = (trace.ints("start_ns") + trace.ints("dur_ns"))[rows]
    for index in max(lanes.values(), key=len, default=[]):
        if end[index] > reached:  # a mark inside a mark is of the same pass
            chosen.append(index)
            reached = end[index]
    if len(chosen) < 2:
        return None
    found = _marks(trace, rows[chosen], list(range(len(chosen))), [names[index] for index in chosen], "")
    return found._replace(end=np.append(found.start[1:], found.end[-1]))


def _profiler_steps(trace: Trace) -> Marks | None:
    rows, names = _annotations(trace)
    first_marks: dict[int, int] = {}
    repeated = 0
    end = (trace.ints("start_ns") + trace.ints("dur_ns"))[rows]
    for index, name in enumerate(names):
        match = PROFILER_STEP.fullmatch(name)
        if match and int(match[1]) < 2**31:
            first = first_marks.setdefault(int(match[1]), index)
            repeated += int(trace.ints("start_ns")[rows[index]] >= end[first] > 0 and first != index)
    if not first_marks:
        return None
    chosen = list(first_marks.values())
    marks = _marks(trace, rows[chosen], list(first_marks), [names[index] for index in chosen], "")
    return marks._replace(repeated=repeated)


def _repeating_annotation(trace: Trace) -> Marks | None:
    """The annotation (numbers in its name aside) that repeats on one thread and covers most of its time."""
    rows, names = _annotations(trace)
    groups: dict[tuple[int, str], list[int]] = {}
    for index, name in enumerate(names):
        if not NOT_STEPS.match(name):
            lane = int(trace.ints("lane")[rows[index]])
            groups.setdefault((lane, re.sub(r"\d+", "#", name)), []).append(index)
    best: tuple[float, list[int]] = (MIN_COVER, [])
    for (lane, _), members in groups.items():
        cover = _cover(trace, rows[members], lane)
        if len(members) > 1 and cover >= best[0]:
            best = (cover, members)
    if not best[1]:
        return None
    chosen = best[1]
    origin = f"the annotation {names[chosen[0]]!r}"
    numbers = list(range(len(chosen)))
    return _marks(trace, rows[chosen], numbers, [names[index] for index in chosen], origin)


def _cover(trace: Trace, rows: Ints, lane: int) -> float:
    """Share of the thread's time under these annotations; 0 where they overlap each other."""
    start = trace.ints("start_ns")[rows]
    end = start + trace.ints("dur_ns")[rows]
    if (start[1:] < end[:-1]).any():
        return 0.0
    on_lane = np.flatnonzero(trace.ints("lane") == lane)
    first = trace.ints("start_ns")[on_lane]
    span = (first + trace.ints("dur_ns")[on_lane]).max() - first.min()
    return float((end - start).sum() / max(1, span))


def _optimizer_steps(trace: Trace) -> Marks | None:
    """Training without marks: a step ends where the optimizer's step ends."""
    rows, names = _annotations(trace)
    chosen = [index for index, name in enumerate(names) if OPTIMIZER_STEP.match(name)]
    if len(chosen) < 2 or len({names[index] for index in chosen}) > 1:
        return None
    host = trace.ints("start_ns")[trace.rows_of(*NESTED)]
    marks = _marks(trace, rows[chosen], list(range(len(chosen))), [names[index] for index in chosen], "")
    start = np.append(host.min(), marks.end[:-1])
    return marks._replace(start=start, origin=f"the ends of {names[chosen[0]]!r}")
