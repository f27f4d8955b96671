"""The messages of an `.xplane.pb` file as plain records: planes, their lines, and the events with their statistics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from warplens.readers.protobuf_wire import Damage, Message, signed, whole_file

GPU_PLANE: Final = re.compile(r"/device:gpu:(\d{1,9})", re.IGNORECASE)
STATS: Final = frozenset(
    (
        "correlation_id",
        "kernel_details",
        "memcpy_details",
        "memset_details",
        "theoretical_occupancy_pct",
        "hlo_op",
        "step_num",
        "_src",
        "allocator_name",
        "allocation_bytes",
        "bytes_allocated",
        "bytes_reserved",
    )
)
"""The statistics that are used, in lower case; the others are not decoded."""

Value = int | float | str
Stats = dict[str, Value]


class XEvent(NamedTuple):
    name: str
    offset_ps: int
    duration_ps: int
    stats: Stats


@dataclass
class XLine:
    id: int = 0
    name: str = ""
    timestamp_ns: int = 0
    events: list[XEvent] = field(default_factory=list)


@dataclass
class XPlane:
    name: str = ""
    lines: list[XLine] = field(default_factory=list)
    stats: Stats = field(default_factory=dict)

    @property
    def device(self) -> int | None:
        """The number of the GPU that this plane is of."""
        match = GPU_PLANE.search(self.name)
        return int(match[1]) if match else None


class PlaneReader:
    """Planes out of bytes; the numbers are the fields' in xplane.proto."""

    def __init__(self) -> None:
        self.damage = Damage()
        self.events = 0
        self.untimed = 0

    def planes(self, text: bytes) -> list[XPlane]:
        space = whole_file(text).fields(self.damage, partial=(1,))
        return [self._plane(value) for number, value in space if number == 1 and isinstance(value, Message)]

    def _plane(self, message: Message) -> XPlane:
        plane = XPlane()
        lines, event_metadata, stat_metadata, stats = [], [], [], []
        for number, value in message.fields(self.damage, partial=(3,)):
            if not isinstance(value, Message):
                continue
            if number == 2:
                plane.name = value.text()
            elif number == 3:
                lines.append(value)
            elif number == 4:
                event_metadata.append(value)
            elif number == 5:
                stat_metadata.append(value)
            elif number == 6:
                stats.append(value)
        names = dict(self._stat_names(stat_metadata))
        plane.stats = self._stats(stats, names, wanted=None)
        if lines:
            kinds = dict(self._event_kinds(event_metadata, names))
            plane.lines = [self._line(line, kinds, names) for line in lines]
        return plane

    def _map_entries(self, entries: Iterable[Message]) -> Iterator[tuple[int, Message]]:
        for entry in entries:
            parts = dict(entry.fields(self.damage))
            key, value = parts.get(1, 0), parts.get(2)
            if isinstance(key, int) and isinstance(value, Message):
                yield key, value

    def _stat_names(self, entries: Iterable[Message]) -> Iterator[tuple[int, str]]:
        for key, value in self._map_entries(entries):
            name = dict(value.fields(self.damage)).get(2)
            yield key, name.text() if isinstance(name, Message) else ""

    def _event_kinds(
        self, entries: Iterable[Message], names: dict[int, str]
    ) -> Iterator[tuple[int, tuple[str, Stats]]]:
        """What events of one kind share: their name, and statistics that hold for each."""
        for key, value in self._map_entries(entries):
            texts, stats = {2: "", 4: ""}, []
            for number, part in value.fields(self.damage):
                if isinstance(part, Message) and number in texts:
                    texts[number] = part.text()
                elif isinstance(part, Message) and number == 5:
                    stats.append(part)
            yield key, (texts[2] or texts[4], self._stats(stats, names))

    def _line(self, message: Message, kinds: dict[int, tuple[str, Stats]], names: dict[int, str]) -> XLine:
        line = XLine()
        display_name = ""
        for number, value in message.fields(self.damage):
            if isinstance(value, int):
                if number == 1:
                    line.id = value
                elif number == 3:
                    line.timestamp_ns = signed(value)
            elif number == 4:
                self._event(value, line, kinds, names)
            elif number == 2:
                line.name = value.text()
            elif number == 11:
                display_name = value.text()
        line.name = line.name or display_name
        return line

    def _event(self, message: Message, line: XLine, kinds: dict[int, tuple[str, Stats]], names: dict[int, str]) -> None:
        kind = offset = duration = 0
        is_timed = True
        stats = []
        for number, value in message.fields(self.damage):
            if isinstance(value, Message):
                if number == 4:
                    stats.append(value)
            elif number == 1:
                kind = value
            elif number == 2:
                offset = signed(value)
            elif number == 3:
                duration = signed(value)
            elif number == 5:  # how often it occurred, in place of when
                is_timed = False
        self.events += 1
        self.untimed += not is_timed
        if is_timed:
            name, shared = kinds.get(kind, ("", {}))
            own = self._stats(stats, names) if stats else {}
            line.events.append(XEvent(name, offset, duration, {**shared, **own} if shared else own))

    def _stats(
        self, messages: Iterable[Message], names: dict[int, str], wanted: frozenset[str] | None = STATS
    ) -> Stats:
        """Statistics by name in lower case: XLA writes "Memset_details" beside "memcpy_details"."""
        found: Stats = {}
        for message in messages:
            name = ""
            for number, value in message.fields(self.damage):
                if number == 1:
                    name = names.get(value, "").lower() if isinstance(value, int) else ""
                    if wanted is not None and name not in wanted:
                        break
                elif isinstance(value, int):
                    if number in (3, 4):
                        found[name] = value if number == 3 else signed(value)
                    elif number == 7:
                        found[name] = names.get(value, "")
                elif number == 2:
                    found[name] = value.double()
                elif number == 5:
                    found[name] = value.text()
        return found
