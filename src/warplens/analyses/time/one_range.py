"""The trace of a range of time: what the host began in it, and the GPU work that this launched, as if it were a step.

A range is two times since the trace's start, or the calls of an annotation, a module or an op: `NAME` for the first,
`NAME#2` for the third, `NAME#0-3` from the first to the end of the fourth.
"""

from __future__ import annotations

import re
from dataclasses import replace
from difflib import get_close_matches
from typing import Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from warplens.model.kinds import CODE, NESTED, NONE
from warplens.model.quality import Note
from warplens.model.subset import subset, with_references
from warplens.model.trace import SIDE_FRAMES, Ints, Trace
from warplens.passes.climb import climb
from warplens_run.base.errors import UsageError
from warplens_run.base.units import format_ms, parse_duration, plural

TIMES: Final = re.compile(r"\s*(\d[^-]*)-\s*(\d[^-]*)")
CALLS: Final = re.compile(r"(?P<name>.*)#(?P<first>\d{1,9})(?:-(?P<last>\d{1,9}))?", re.DOTALL)
HOW: Final = "two times such as 1.2s-1.5s, or a call by its name: NAME, NAME#2 for the third, NAME#0-3"


class _Range(NamedTuple):
    begin_ns: int
    end_ns: int
    name: str = ""
    """Of the annotation, empty for two times."""


def one_range(trace: Trace, text: str) -> Trace:
    """The part of a trace that a range names."""
    chosen = _range(trace, text)
    start = trace.ints("start_ns").astype(np.int64)
    within = (start >= chosen.begin_ns) & (start < chosen.end_ns)
    gpu = trace.gpu_rows
    cause = np.where(trace.ints("launch")[gpu] >= 0, trace.ints("launch")[gpu], trace.ints("op")[gpu])
    if (cause >= 0).any():  # else only the GPU's side is recorded: its events count by their own times
        within[gpu] = (cause >= 0) & within[cause]
    frames = trace.frames["id"].to_numpy()  # they have no times: those are kept that kept events refer to
    untimed = np.zeros(len(trace), bool)
    untimed[frames] = True
    above = climb(frames.astype(np.int64), trace.ints("parent"), ~untimed)
    within[frames] = (above >= 0) & within[above]
    if not within.any():
        raise UsageError(f"nothing begins in the range {text!r}", hint=HOW)
    keep = with_references(trace, within)
    part = _clipped(subset(trace, keep), chosen)
    duration = trace.ints("dur_ns")[gpu]
    percent = 100 * float(duration[~keep[gpu]].sum()) / max(1.0, float(duration.sum()))
    length = format_ms((chosen.end_ns - chosen.begin_ns) / 1e6)
    omitted = plural(int((~keep[gpu]).sum()), "GPU event")
    note = Note("one_range", detail=f"{text} ({length}); omitted: {omitted} ({percent:.1f} % of GPU time)")
    return replace(part, quality=part.quality.with_notes(note))


def _range(trace: Trace, text: str) -> _Range:
    """A call of exactly this name comes before everything else that the text could mean."""
    own, name, first, last = _calls(trace, text), text, 0, 0
    if not len(own) and (times := TIMES.fullmatch(text)):
        begin, end = map(parse_duration, times.groups())
        if begin >= end:
            raise UsageError(f"the range {text!r} ends before it begins", hint=HOW)
        return _Range(begin, end)
    if not len(own) and (match := CALLS.fullmatch(text)):
        name, first = match["name"], int(match["first"])  # bounded: nine digits
        last = int(match["last"] or first)  # bounded: nine digits
        own = _calls(trace, name)
    if not len(own) and name:
        own = _calls(trace, name, is_part=True)
    chosen = own[first : last + 1]
    if not len(own):
        near = get_close_matches(name, sorted(_names(trace, "annotation")), n=1, cutoff=0.3)
        hint = f"did you mean {near[0]!r}?" if near else HOW
        raise UsageError(f"no annotation, module or op {name!r} in this trace", hint=hint)
    if not len(chosen):
        raise UsageError(f"{name!r} has {plural(len(own), 'call')}", hint="the first is #0")
    start, full_name = trace.ints("start_ns")[chosen], trace.names_at(chosen[:1])[0]
    return _Range(int(start.min()), int((start + trace.ints("dur_ns")[chosen]).max()), full_name)


def _calls(trace: Trace, name: str, *, is_part: bool = False) -> Ints:
    """The host's calls of a name by time: annotations, else modules, ops and frames; by part of it only annotations."""
    for kinds in (("annotation",), *((NESTED,) * (not is_part))):
        fitting = {code for own, code in _names(trace, *kinds).items() if (name in own if is_part else name == own)}
        if fitting:
            rows = trace.rows_of(*kinds)
            rows = rows[np.isin(trace.ints("name")[rows], list(fitting))]
            return rows[np.argsort(trace.ints("start_ns")[rows], kind="stable")]
    return np.zeros(0, np.int64)


def _names(trace: Trace, *kinds: str) -> dict[str, int]:
    """The names that events of these kinds have, with their codes."""
    return {trace.names[code]: code for code in np.unique(trace.ints("name")[trace.rows_of(*kinds)]).tolist()}


def _clipped(part: Trace, chosen: _Range) -> Trace:
    """Callers last as long as the range; what only says where GPU work comes from, such as forward ops, takes no time
    in it and is no call of it. Of steps the whole ones are kept; without any the range is one."""
    begin, end = chosen.begin_ns, chosen.end_ns
    host, start = part.is_kind(*NESTED), part.ints("start_ns").astype(np.int64)
    stop = start + part.ints("dur_ns")
    is_context = host & ((stop <= begin) | (start >= end)) & (start != begin)
    start, stop = (np.where(host, np.clip(times, begin, end), times) for times in (start, stop))
    kind = np.where(is_context & part.is_kind("op"), CODE["other"], part.ints("kind"))
    steps = part.steps.filter(pl.col("start_ns") >= begin, pl.col("end_ns") <= end)
    if len(steps):
        step = np.where(np.isin(part.ints("step"), steps["step"].to_numpy()), part.ints("step"), NONE)
    else:
        row = {"step": [0], "name": [chosen.name], "start_ns": [begin], "end_ns": [end]}
        steps, step = pl.DataFrame(row, schema=SIDE_FRAMES["steps"]), np.where(is_context, NONE, 0)
        part = replace(part, meta=msgspec.structs.replace(part.meta, plain_step_ns=None))
    timed = part.with_columns(kind=kind, start_ns=start, dur_ns=stop - start, step=step)
    own = pl.col("start_ns").is_between(begin, end, closed="left")
    return replace(
        timed,
        steps=steps,
        memory=timed.memory.filter(own),
        counters=timed.counters.filter(own),
        plain_windows=timed.plain_windows.clear(),
    )
