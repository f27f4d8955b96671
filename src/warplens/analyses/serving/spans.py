"""Where the marks of iterations are: one span per forward pass and thread, nested marks of one pass made one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from warplens.model.iteration_marks import NOTHING, IterationMark, Phase, RequestSums, parse_mark
from warplens.model.trace import Ints, Trace

PLAIN: Final = re.compile(r"(prefill|decode)(?:[ _#:-]{0,2}[0-9]{1,9})?", re.IGNORECASE)
"""Scopes that programs write by hand. `decode` alone is also what data loaders do: a `prefill` has to be there."""
OWN_WORDS: Final = "annotation"


class Span(msgspec.Struct, frozen=True):
    """A marked stretch of a host thread."""

    mark: IterationMark
    name: str
    lane: int
    start_ns: int
    end_ns: int
    engine_written: bool = True
    """Written by an engine, with what it holds; otherwise by hand."""


def marked_spans(trace: Trace) -> list[Span]:
    """The outermost marks of each thread, by thread and start; empty where there are none."""
    rows = _annotations(trace)
    codes = trace.ints("name")[rows]
    marks = {code: parse_mark(trace.names[code]) for code in np.unique(codes).tolist()}
    found = {code: mark for code, mark in marks.items() if mark is not None}
    if found:
        return _merged(_spans(trace, rows, codes, found, engine_written=True))
    plain = {code: mark for code in marks if (mark := _plain_mark(trace.names[code])) is not None}
    if {mark.phase for mark in plain.values()} == {"prefill", "decode"}:
        return _merged(_spans(trace, rows, codes, plain, engine_written=False))
    return []


def _annotations(trace: Trace) -> Ints:
    """Rows of annotations that were recorded as such: callers of captured graphs took no time of this run."""
    rows = trace.rows_of("annotation")
    return rows[~np.isin(rows, trace.frames["id"].to_numpy())] if len(trace.frames) else rows


def _plain_mark(name: str) -> IterationMark | None:
    match = PLAIN.fullmatch(name) if len(name) < 40 else None
    if match is None:
        return None
    is_prefill = match[1].lower() == "prefill"
    phase: Phase = "prefill" if is_prefill else "decode"
    context, generation = (RequestSums(), NOTHING) if is_prefill else (NOTHING, RequestSums())
    return IterationMark(OWN_WORDS, phase, None, context, generation)


def _spans(
    trace: Trace, rows: Ints, codes: Ints, marks: dict[int, IterationMark], *, engine_written: bool
) -> list[Span]:
    chosen = rows[np.isin(codes, list(marks))]
    start, lane = trace.ints("start_ns")[chosen], trace.ints("lane")[chosen]
    end, name = start + trace.ints("dur_ns")[chosen], trace.ints("name")[chosen]
    order = np.lexsort((-end, start, lane))
    columns = (values[order].tolist() for values in (name, lane, start, end))
    return [
        Span(marks[code], trace.names[code], number, begin, stop, engine_written)
        for code, number, begin, stop in zip(*columns, strict=True)
    ]


def _merged(spans: Sequence[Span]) -> list[Span]:
    """Marks inside marks describe one pass; drafts of speculative decoding belong to the pass that verifies them."""
    merged: list[Span] = []
    drafts: list[Span] = []
    for span in spans:
        last = merged[-1] if merged and merged[-1].lane == span.lane else None
        if drafts and drafts[-1].lane != span.lane:
            merged += _alone(drafts)
            drafts = []
        if last is not None and span.end_ns <= last.end_ns:
            merged[-1] = _with_inner(last, span)
        elif span.mark.is_draft and span.mark.mode.startswith("DRAFT_EXTEND") and last is not None and not drafts:
            merged[-1] = replace(last, end_ns=max(last.end_ns, span.end_ns))
        elif span.mark.is_draft:
            drafts.append(span)
        else:
            begin = drafts[0].start_ns if drafts and span.mark.phase == "decode" else span.start_ns
            merged += _alone(drafts) if drafts and span.mark.phase != "decode" else []
            merged.append(replace(span, start_ns=begin))
            drafts = []
    return merged + _alone(drafts)


def _alone(drafts: Sequence[Span]) -> list[Span]:
    """Drafts that nothing verifies: one span."""
    return [replace(drafts[0], end_ns=max(span.end_ns for span in drafts))] if drafts else []


def _with_inner(outer: Span, inner: Span) -> Span:
    """The pass of the outer mark with the counts of the one that says more; the engine itself marks innermost."""
    better = inner.mark if inner.mark.details > outer.mark.details else outer.mark
    return replace(outer, mark=replace(better, engine=inner.mark.engine, mode=inner.mark.mode or outer.mark.mode))
