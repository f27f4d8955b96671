"""JSON of rocprof before version 3 (`rocprof --hip-trace`, `--sys-trace`): trace events with arguments of their own.

Reads: kernels and copies by their nanoseconds, devices and streams, HIP calls, roctx ranges, and the flows that join a
call with the work it started. Ignores: HSA calls (what HIP calls inside), barriers. A file that is not whole is left to
the reader of trace events, which reads what there is of it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from typing import Final

import msgspec

from warplens.model.builder import TraceBuilder
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace

Text = str | int | float | None
"""Numbers are texts in some versions."""
COPY: Final = re.compile(r"Copy(Host|Device|Peer)To(Host|Device|Peer)")
IGNORED: Final = ("CPU HSA API", "GPU Barriers")
RANGES: Final = "Markers"
HOST: Final = "CPU"


class Args(msgspec.Struct):
    label: Text = msgspec.field(default=None, name="name")
    begin: Text = msgspec.field(default=None, name="BeginNs")
    end: Text = msgspec.field(default=None, name="EndNs")
    device: Text = msgspec.field(default=None, name="dev-id")
    stream: Text = msgspec.field(default=None, name="stream-id")
    queue: Text = msgspec.field(default=None, name="queue-id")


class Event(msgspec.Struct):
    ph: str = ""
    name: str = ""
    pid: Text = None
    tid: Text = None
    ts: Text = None
    id: Text = None
    args: Args = msgspec.field(default_factory=Args)


class Content(msgspec.Struct):
    events: list[Event] = msgspec.field(name="traceEvents")


Place = tuple[str, str]
"""A process and a thread of the file."""


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    try:
        events = msgspec.json.decode(text, type=Content).events
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        events = []
    adder = _Adder(events)
    adder.add_all()
    if not len(adder.builder):
        from warplens.readers.kineto.reader import read as read_events

        return read_events(text, meta, notes)
    return adder.builder.build(msgspec.structs.replace(meta, format="rocprof", events_in_file=len(events)), notes)


class _Adder:
    """Adds the events of a file to a builder."""

    def __init__(self, events: list[Event]) -> None:
        self.builder = TraceBuilder()
        self._timed = [event for event in events if event.ph == "X"]
        self._labels = {str(event.pid): str(event.args.label) for event in events if event.name == "process_name"}
        self._begun: dict[Place, list[tuple[int, int]]] = defaultdict(list)
        """Of each thread, when its calls begin and end, in microseconds."""
        for event in self._timed:
            if event.args.device is None:
                self._begun[_place(event)].append((_micro(event.args.begin), _micro(event.args.end)))
        for calls in self._begun.values():
            calls.sort()
        self._flows = self._by_place(events)

    def _by_place(self, events: list[Event]) -> dict[tuple[Place, int], int]:
        """The number of the flow that begins in a call or ends at an event, by its place and beginning."""
        flows: dict[tuple[Place, int], int] = {}
        for event in events:
            number, moment = _number(event.id) + 1, _number(event.ts)  # 0 would be none
            if event.ph == "t":
                flows[_place(event), moment] = number
            elif event.ph == "s":  # recorded in the middle of the call
                calls = self._begun[_place(event)]
                at = bisect_right(calls, (moment, moment)) - 1
                if at >= 0 and moment <= calls[at][1]:
                    flows[_place(event), calls[at][0]] = number
        return flows

    def add_all(self) -> None:
        for event in self._timed:
            label = self._labels.get(str(event.pid), "")
            if not label.startswith(IGNORED):
                self._add(event, label)

    def _add(self, event: Event, label: str) -> None:
        args, kind, name = event.args, "runtime", event.name
        if args.device is not None:
            copy = COPY.fullmatch(name)
            kind, name = ("memcpy", f"Memcpy {copy[1]} -> {copy[2]}") if copy else ("kernel", name)
        elif label.startswith(RANGES):
            kind = "annotation"
        begin, end = _number(args.begin), _number(args.end)
        is_timed = begin != NONE and end != NONE
        on_gpu = args.device is not None
        stream = _number(args.stream if args.stream is not None else args.queue)
        self.builder.add(
            kind,
            name,
            begin if begin != NONE else None,
            end - begin if is_timed else None,
            lane=self.builder.lanes[HOST, str(event.tid)],  # ranges are callers of what their thread launches
            device=max(0, _number(args.device)) if on_gpu else NONE,
            stream=max(0, stream) if on_gpu else NONE,
            correlation=self._flows.get((_place(event), _micro(args.begin)), NONE),
        )


def _place(event: Event) -> Place:
    return str(event.pid), str(event.tid)


def _number(value: Text) -> int:
    """A whole number, also one that is written as a text; -1 where there is none."""
    if isinstance(value, str):
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else NONE
    return int(value) if value is not None and 0 <= value < 2**63 else NONE


def _micro(value: Text) -> int:
    number = _number(value)
    return number // 1000 if number >= 0 else NONE
