"""The messages of an `.xplane.pb` file as plain records: planes, their lines, and the events with their statistics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from warplens.readers.shared.protobuf_wire import (
    Damage,
    Message,
    double_of,
    fields_of,
    raw_fields,
    signed,
    text_of,
    whole_file,
)
from warplens_run.base import bounded

GPU_PLANE: Final = re.compile(r"/device:gpu:(\d{1,9})", re.IGNORECASE)
METADATA_PLANE: Final = "/host:metadata"
HLO_PROTO: Final = "hlo proto"
PROGRAM: Final = re.compile(r"(?P<module>.*?)(?:\((?P<number>\d{1,20})\))?", re.DOTALL)
STATS: Final = frozenset(
    (
        "correlation_id",
        "kernel_details",
        "memcpy_details",
        "memset_details",
        "theoretical_occupancy_pct",
        "hlo_op",
        "hlo_module",
        "program_id",
        "name",
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

    @property
    def dur_ns(self) -> int:
        return _rounded(self.duration_ps)


@dataclass
class XLine:
    id: int = 0
    name: str = ""
    timestamp_ns: int = 0
    events: list[XEvent] = field(default_factory=list)

    def start_ns(self, event: XEvent) -> int:
        """When an event of this line starts."""
        return self.timestamp_ns + _rounded(event.offset_ps)


class XlaProgram(NamedTuple):
    """A compiled program: its number, its module's name and its HloProto message."""

    number: int
    module: str
    proto: bytes


@dataclass
class XPlane:
    name: str = ""
    lines: list[XLine] = field(default_factory=list)
    stats: Stats = field(default_factory=dict)
    programs: list[XlaProgram] = field(default_factory=list)

    @property
    def device(self) -> int | None:
        """The number of the GPU that this plane is of."""
        match = GPU_PLANE.search(self.name)
        return int(match[1]) if match else None


class Metadata(NamedTuple):
    """What a plane says once for all its events, by number."""

    texts: dict[int, str]
    """All names of statistics, which are texts that statistics refer to as well."""
    wanted: dict[int, str]
    """The names in lower case (files have both "Memset_details" and "memcpy_details") of those that are used."""
    kinds: dict[int, tuple[str, Stats]]
    """The name of an event, and statistics that hold for each of this name."""
    seen: dict[bytes, tuple[str, Value] | None]
    """Statistics that were decoded already: most of an event's are the same as another's, byte by byte."""


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
        lines: list[Message] = []
        parts: dict[int, list[bytes]] = {4: [], 5: [], 6: []}
        for number, value in message.fields(self.damage, partial=(3,)):
            if isinstance(value, Message):
                if number == 3:
                    lines.append(value)
                elif number == 2:
                    plane.name = value.text()
                elif number in parts:
                    parts[number].append(bytes(value.view))
        texts = dict(self._stat_names(parts[5]))
        lower = {number: name.lower() for number, name in texts.items()}
        metadata = Metadata(texts, {number: name for number, name in lower.items() if name in STATS}, {}, {})
        plane.stats = self._stats(parts[6], Metadata(texts, lower, {}, {}))
        if plane.name == METADATA_PLANE:
            plane.programs = list(self._programs(parts[4], lower))
        if lines:
            metadata.kinds.update(self._event_kinds(parts[4], metadata))
            plane.lines = [self._line(line, metadata) for line in lines]
        return plane

    def _map_entries(self, entries: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
        for entry in entries:
            parts = dict(fields_of(entry, self.damage))
            key, value = parts.get(1, 0), parts.get(2)
            if isinstance(key, int) and isinstance(value, bytes):
                yield key, value

    def _stat_names(self, entries: Iterable[bytes]) -> Iterator[tuple[int, str]]:
        for key, value in self._map_entries(entries):
            yield key, text_of(dict(fields_of(value, self.damage)).get(2, b""))

    def _event_kinds(self, entries: Iterable[bytes], metadata: Metadata) -> Iterator[tuple[int, tuple[str, Stats]]]:
        for key, value in self._map_entries(entries):
            texts, stats = {2: "", 4: ""}, []
            for number, part in fields_of(value, self.damage):
                if number in texts:
                    texts[number] = text_of(part)
                elif number == 5 and isinstance(part, bytes):
                    stats.append(part)
            yield key, (texts[2] or texts[4], self._stats(stats, metadata))

    def _programs(self, entries: Iterable[bytes], names: Mapping[int, str]) -> Iterator[XlaProgram]:
        """The programs of the metadata plane, named "module(number)"; old files say the number nowhere else."""
        for key, value in self._map_entries(entries):
            parts = fields_of(value, self.damage)
            match = PROGRAM.fullmatch(text_of(dict(parts).get(2, b"")))
            number, proto = bounded.whole(match["number"], key) if match and match["number"] else key, b""
            stats = (
                fields_of(part, self.damage)
                for field_number, part in parts
                if field_number == 5 and isinstance(part, bytes)
            )
            for stat in map(dict, stats):
                name, content = names.get(_number(stat.get(1, 0)), ""), stat.get(6, stat.get(5))
                if name == HLO_PROTO and isinstance(content, bytes):
                    proto = content
                elif name == "program_id":
                    number = _number(stat.get(3, stat.get(4, number)))
            if proto:
                yield XlaProgram(number, match["module"] if match else "", proto)

    def _line(self, message: Message, metadata: Metadata) -> XLine:
        line = XLine()
        display_name = ""
        for number, value in raw_fields(message, self.damage):
            if isinstance(value, int):
                if number == 1:
                    line.id = value
                elif number == 3:
                    line.timestamp_ns = signed(value)
            elif number == 4:
                self._event(value, line.events, metadata)
            elif number == 2:
                line.name = text_of(value)
            elif number == 11:
                display_name = text_of(value)
        line.name = line.name or display_name
        return line

    def _event(self, data: bytes, events: list[XEvent], metadata: Metadata) -> None:
        kind = offset = duration = 0
        is_timed = True
        stats = []
        for number, value in fields_of(data, self.damage):
            if isinstance(value, int):
                if number == 1:
                    kind = value
                elif number == 2:
                    offset = signed(value)
                elif number == 3:
                    duration = signed(value)
                elif number == 5:  # how often it occurred, in place of when
                    is_timed = False
            elif number == 4:
                stats.append(value)
        self.events += 1
        self.untimed += not is_timed
        if is_timed:
            name, shared = metadata.kinds.get(kind, ("", {}))
            own = self._stats(stats, metadata) if stats else {}
            events.append(XEvent(name, offset, duration, {**shared, **own} if shared else own))

    def _stats(self, messages: Iterable[bytes], metadata: Metadata) -> Stats:
        stats: Stats = {}
        for data in messages:
            try:
                stat = metadata.seen[data]
            except KeyError:
                stat = metadata.seen[data] = self._stat(data, metadata)
            if stat is not None:
                stats[stat[0]] = stat[1]
        return stats

    def _stat(self, data: bytes, metadata: Metadata) -> tuple[str, Value] | None:
        """A statistic's name and value; none where it is not wanted."""
        name = ""
        stat: tuple[str, Value] | None = None
        for number, value in fields_of(data, self.damage):
            if number == 1:
                name = metadata.wanted.get(_number(value), "")
                if not name:
                    return None
            elif isinstance(value, int):
                if number in (3, 4):
                    stat = name, value if number == 3 else signed(value)
                elif number == 7:
                    stat = name, metadata.texts.get(value, "")
            elif number == 2:
                stat = name, double_of(value)
            elif number == 5:
                stat = name, text_of(value)
        return stat


def _rounded(picoseconds: int) -> int:
    """To whole ns, halves to the even one, as floats are rounded elsewhere."""
    whole, rest = divmod(picoseconds, 1000)
    return whole + (rest > 500 or (rest == 500 and whole & 1))


def _number(value: int | bytes) -> int:
    return value if isinstance(value, int) else 0
