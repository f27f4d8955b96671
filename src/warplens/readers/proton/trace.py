"""Traces of Proton, Triton's profiler (`proton.start(data="trace")`), with the callers that it records.

Reads two kinds of file. Of whole kernels (third_party/proton/csrc/lib/Data/Dump): kernels with their call stacks,
scopes with their times and metrics, and launches where newer releases record them. Of regions inside kernels, from the
instrumentation backend (…/TraceDataIO/TraceWriter.cpp): each region of each warp, which is never GPU time, and the
arrows from warp to warp. Ignores: colours and sort hints. Times are µs in both, whatever `displayTimeUnit` says.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import msgspec

from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace
from warplens.readers.proton.events import read_events
from warplens.readers.proton.kernels import KernelEvents
from warplens.readers.proton.regions import RegionEvents, is_region
from warplens.readers.shared.event_damage import damage_notes
from warplens.readers.shared.gc_pause import gc_paused
from warplens_run.base.errors import FormatError

EXPORT: Final = "record one with Triton: proton.start('name', data='trace'), …, proton.finalize()"


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    """The trace of a Proton file; `notes` are what unwrapping it had to say."""
    with gc_paused():
        events, damage = read_events(text)
        timed = [event for event in events if event.ph == "X"]
        if not timed:
            why = "damaged before its first complete event" if damage else "without timed events"
            raise FormatError(f"a Proton trace {why}", where=meta.source, hint=EXPORT)
        has_regions = any(is_region(event) for event in timed)
        content = RegionEvents(events) if has_regions else KernelEvents(events)
    content.builder.damage["not_events"] += damage["not_events"]
    meta = msgspec.structs.replace(
        meta,
        format=content.format,
        facts=content.facts,
        events_in_file=len(events),
        phases=dict(Counter(event.ph for event in events)),
    )
    trace = content.builder.build(meta, [*notes, *content.notes, *damage_notes(damage, notes)])
    if len(trace) == 0:
        raise FormatError("no event has a usable time", where=meta.source, hint=EXPORT)
    return trace
