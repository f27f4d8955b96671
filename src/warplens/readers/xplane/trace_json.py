"""JAX profiles as JSON (`.trace.json.gz`), which `jax.profiler` writes with the `.xplane.pb` for timeline viewers.

Its processes are the planes and its threads the lines of that file, so they are read as such. What it lacks are the
programs: work inside command buffers has no HLO op here, and nothing has a Python line from the program's metadata.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Final

import msgspec
from msgspec import Struct

from warplens.model.event_records import Lane, ThreadId
from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace
from warplens.readers.proton.events import read_documents
from warplens.readers.shared.event_damage import damage_notes
from warplens.readers.shared.gc_pause import gc_paused
from warplens.readers.shared.protobuf_wire import Damage
from warplens.readers.xplane.planes import STATS, Stats, XEvent, XLine, XPlane
from warplens.readers.xplane.reader import EXPORT, added_planes, built
from warplens_run.base import bounded
from warplens_run.base.errors import FormatError

MAX_MICROSECONDS: Final = 4e15


class XlaEvent(Struct, gc=False):
    ph: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = math.nan
    dur: float = 0.0
    args: dict[str, object] = {}


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    """The trace of such a JSON text; `notes` are what unwrapping it had to say."""
    with gc_paused():
        events, damage = read_documents(text, XlaEvent)
        planes, untimed = _planes(events)
        builder = added_planes(planes, Damage())
    if not len(builder):
        raise FormatError("a JAX trace without a complete timed event", where=meta.source, hint=EXPORT)
    # XLA closes the list with an empty entry, which stands for nothing.
    phases = Counter(event.ph for event in events if event.ph)
    builder.damage.update(not_events=damage["not_events"], out_of_range=untimed)
    meta = msgspec.structs.replace(meta, format="xla_json", events_in_file=phases.total(), phases=dict(phases))
    return built(builder, planes, meta, [*notes, *damage_notes(damage, notes)])


def _planes(events: list[XlaEvent]) -> tuple[list[XPlane], int]:
    """The events as planes and lines, and how many have no usable time."""
    planes: dict[ThreadId, XPlane] = {}
    lines: dict[Lane, XLine] = {}
    untimed = 0
    for event in events:
        if event.ph not in ("X", "M"):
            continue
        plane = planes.setdefault(event.pid, XPlane())
        if event.ph == "M" and event.name == "process_name":
            plane.name = str(event.args.get("name", ""))
            continue
        line = lines.get((event.pid, event.tid))
        if line is None and (event.ph == "X" or event.name == "thread_name"):
            line = lines[event.pid, event.tid] = XLine(id=bounded.whole(event.tid, len(lines), 0))
            plane.lines.append(line)
        if event.ph == "X" and line is not None:
            is_timed = all(math.isfinite(time) and abs(time) < MAX_MICROSECONDS for time in (event.ts, event.dur))
            untimed += not is_timed
            if is_timed:
                times = round(event.ts * 1e6), round(event.dur * 1e6)
                line.events.append(XEvent(event.name, *times, _stats(event.args)))
        elif line is not None and event.name == "thread_name":
            line.name = str(event.args.get("name", ""))
    return list(planes.values()), untimed


def _stats(args: dict[str, object]) -> Stats:
    """The statistics that are used; numbers come as texts here."""
    lowered = ((name.lower(), value) for name, value in args.items())
    return {name: value for name, value in lowered if name in STATS and isinstance(value, (str, int, float))}
