"""Trace-event JSON → typed events, fast where the text is sound and patient where it is not.

Reads the object form (`{"traceEvents": [...], …}`) and the bare list. The array is decoded in pieces of a few
megabytes cut between two events, so that memory stays bounded; a piece that does not decode (a cut inside a
string, NaN, a damaged place) is read again event by event. Format: the "Trace Event Format" document of
Chromium, with the fields that PyTorch's Kineto adds under `args`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, cast

import msgspec
from msgspec import Raw, Struct, field

PIECE_BYTES = 1 << 17
"""Small pieces reuse the same memory, still in the cache: pieces of 1 MB cost 40 % more CPU."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PADDING = b"\0 \t\r\n"
WINDOW_BYTES = 8 << 20
CUT = re.compile(rb"\}\s*,\s*\{")
ARRAY_START = re.compile(rb'"traceEvents"\s*:\s*\[')
NEXT_EVENT = re.compile(r"\}\s*,\s*\{")
SEPARATORS = re.compile(r"[\s,\0\]]*")
LAST_EVENT = re.compile(r'\}\s*\](?=\s*(?:,\s*"|\}\s*\Z))')
END_OF_ARRAY = re.compile(r'\]\s*(?:,\s*"|\}|\0*\Z)')
MISSING = math.nan
NO_RAW = Raw()


class Args(Struct, gc=False):
    """The fields of `args` that some table needs. Raw ones are interned as text and parsed once."""

    # In the order in which profilers write them: a key is first looked for after the one before it.
    external_id: int = field(name="External id", default=-1)
    sequence: int = field(name="Sequence number", default=-1)
    forward_thread: int = field(name="Fwd thread id", default=-1)
    concrete_inputs: Raw = field(name="Concrete Inputs", default=NO_RAW)
    input_types: Raw = field(name="Input type", default=NO_RAW)
    input_strides: Raw = field(name="Input Strides", default=NO_RAW)
    input_dims: Raw = field(name="Input Dims", default=NO_RAW)
    device: int = -1
    stream: int = -1
    correlation: int = -1
    registers: int = field(name="registers per thread", default=-1)
    shared_memory: int = field(name="shared memory", default=-1)
    grid: Raw = NO_RAW
    block: Raw = NO_RAW
    occupancy: float = field(name="est. achieved occupancy %", default=-1.0)
    bytes: int = -1
    collective: str | None = field(name="Collective name", default=None)
    dtype: str | None = None
    in_elements: int = field(name="In msg nelems", default=-1)
    out_elements: int = field(name="Out msg nelems", default=-1)
    group_size: int = field(name="Group size", default=-1)
    group: str | int | None = field(name="Process Group Name", default=None)
    ranks: str | list[Any] | None = field(name="Process Group Ranks", default=None)
    memory_bytes: int = field(name="Bytes", default=0)
    memory_allocated: int = field(name="Total Allocated", default=-1)
    memory_reserved: int = field(name="Total Reserved", default=-1)
    memory_device: int = field(name="Device Id", default=-1)
    memory_device_type: int = field(name="Device Type", default=-1)
    label: str | int | float | None = field(name="name", default=None)


class Event(Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = MISSING
    dur: float = MISSING
    id: int | str | None = None
    args: Args | None = None


class Header(Struct):
    """What stands beside `traceEvents`; anything else is ignored."""

    schemaVersion: Any = None  # noqa: N815 - the file's own spelling
    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    displayTimeUnit: Any = None  # noqa: N815
    with_stack: Any = None
    record_shapes: Any = None
    profile_memory: Any = None
    cuda_runtime_version: Any = None
    cuda_driver_version: Any = None
    hip_runtime_version: Any = None
    hip_driver_version: Any = None
    traceName: Any = None  # noqa: N815


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
PHASES = ("X", "B", "E", "M", "s", "t", "f", "i", "I", "C")
CATEGORIES = (
    *("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy"),
    *("gpu_memset", "gpu_user_annotation", "cuda_sync", "overhead", "Trace", "ac2g", "fwdbwd", "cpu_instant_event"),
)
UsualEvent = msgspec.defstruct(
    "UsualEvent",
    [
        (known.name, {"ph": Literal[PHASES], "cat": Literal[CATEGORIES]}.get(known.name, known.type), known.default)
        for known in msgspec.structs.fields(Event)
    ],
    gc=False,
    module=__name__,
)
"""An `Event` of a current profiler: phases and categories from a list cost no new string each, 4 % of reading."""

DECODERS = tuple(msgspec.json.Decoder(list[kind], strict=False) for kind in (UsualEvent, Event))  # type: ignore[valid-type]
EVENT_DECODER = msgspec.json.Decoder(Event, strict=False)
HEADER_DECODER = msgspec.json.Decoder(Header, strict=False)


class EventReader:
    """Iterates over the events of a text, piece by piece; `damage` counts what could not be read."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.header = Header()
        self.damage: Counter[str] = Counter()
        self.end_of_array = -1
        start = self._find_array()
        self.is_trace = start >= 0
        self.start = start

    def _find_array(self) -> int:
        """Where the first event may stand, or -1 when this is no trace."""
        first = re.match(rb"(?:\xef\xbb\xbf)?\s*([\[{])", self.text)
        if first is None:
            return -1
        if first.group(1) == b"[":
            return first.end()
        found = ARRAY_START.search(self.text)
        return found.end() if found else -1

    def pieces(self, begin: int | None = None) -> Iterator[list[Event]]:
        """The events from the start, or from a place between two events, to the array's end."""
        position = self.start if begin is None else begin
        view = memoryview(self.text)
        while position >= 0:
            cut = CUT.search(self.text, position + PIECE_BYTES)
            if cut is None:
                yield from self._last_piece(position)
                break
            events = _decode(view[position : cut.start() + 1])
            if events is None:
                events, position = self._read_slowly(position, cut.start() + 1)
            else:
                position = cut.end() - 1
            yield events

    def pieces_until(self, end: re.Match[bytes]) -> Iterator[list[Event] | None]:
        """The events up to a cut; None where a piece does not decode at once."""
        position = self.start
        view = memoryview(self.text)
        while position < end.start():
            cut = CUT.search(self.text, position + PIECE_BYTES, end.end()) or end
            yield _decode(view[position : cut.start() + 1])
            position = cut.end() - 1

    def _last_piece(self, position: int) -> Iterator[list[Event]]:
        """The piece that holds the array's end, which only decoding can tell from a bracket inside it."""
        for closing in _closings(self.text, position):
            events = _decode(memoryview(self.text)[position:closing])
            if events is not None:
                self.end_of_array = closing
                yield events
                return
        while position >= 0:
            events, position = self._read_slowly(position, position + WINDOW_BYTES)
            yield events

    def _read_slowly(self, position: int, until: int) -> tuple[list[Event], int]:
        """Events from `position` to at least `until`, and where to go on (-1 at the array's end)."""
        events: list[Event] = []
        window = min(len(self.text), until + WINDOW_BYTES)
        while True:
            # Surrogates stand for bytes that are not UTF-8, so that positions survive the round trip.
            text = self.text[position:window].decode(errors="surrogateescape")
            scan = SlowScan(text, self.damage)
            events.extend(scan.run(until - position, final=window == len(self.text)))
            position += len(text[: scan.position].encode(errors="surrogateescape"))
            if not (scan.wants_more and window < len(self.text)):
                break
            window = min(len(self.text), window + 8 * WINDOW_BYTES)
        if scan.closed:
            self.end_of_array = position
        return events, -1 if scan.closed or scan.exhausted or position >= len(self.text) else position

    def finish(self) -> None:
        """Read what stands around the array, once its end is known."""
        head = self.text[: self.start].removeprefix(BYTE_ORDER_MARK).lstrip()
        tail = self.text[self.end_of_array :].strip(PADDING) if self.end_of_array >= 0 else b""
        tail = tail.removeprefix(b"]").lstrip(PADDING)
        if head.startswith(b"["):  # a bare list: it has no header, and may well end without its bracket
            self.damage["damaged"] += bool(tail)
            return
        if self.end_of_array < 0:
            self.damage["truncated"] += 1
            tail = b"}"
        self.header, damage = _decode_header(head + b"]" + tail)
        if damage:
            self.damage[damage] += 1
            self.header, _ = _decode_header(head + b"]}")


def _decode(piece: memoryview) -> list[Event] | None:
    text = b"".join((b"[", piece, b"]"))
    for decoder in DECODERS:
        try:
            return cast(list[Event], decoder.decode(text))
        except msgspec.ValidationError:
            continue
        except UNREADABLE:
            return None
    return None


def _decode_header(text: bytes) -> tuple[Header, str]:
    """The header, and what kind of damage keeps it from being whole, if any."""
    try:
        return HEADER_DECODER.decode(text), ""
    except UNREADABLE:
        lenient = text.decode(errors="replace")
    try:  # the standard library takes NaN
        return msgspec.convert(json.loads(lenient, strict=False), Header, strict=False), ""
    except (ValueError, RecursionError) as error:
        return Header(), "truncated" if _is_cut(error) else "header"


def _closings(text: bytes, position: int, tries: int = 4) -> list[int]:
    """Likely ends of the event array after `position`, best first."""
    tail = text[position:]
    likely = [match.start() + 1 for match in re.finditer(rb'\}\s*\]\s*(?:,\s*"|\}|$)', tail)]
    if not likely:
        likely = [match.start() for match in re.finditer(rb"\]", tail[:4096])][:1]
    chosen = likely[-1:] + likely[:tries]
    return [position + place for place in dict.fromkeys(chosen)]


class SlowScan:
    """Reads events one by one with the standard library (which takes NaN) and steps over damage."""

    def __init__(self, text: str, damage: Counter[str]) -> None:
        self.text = text
        self.damage = damage
        self.position = 0
        self.closed = False
        self.exhausted = False
        self.wants_more = False

    def run(self, until: int, *, final: bool) -> list[Event]:
        # Not strict: a bare newline or escape character inside a name does not make the event unreadable.
        decoder = json.JSONDecoder(strict=False)
        events: list[Event] = []
        self._skip_separators()
        while self.position < min(until, len(self.text)) and not self.closed:
            start = self.position
            try:
                value, self.position = decoder.raw_decode(self.text, start)
            except (ValueError, RecursionError) as error:
                if not self._recover(start, error, final):
                    break
            else:
                self._keep(value, self.text[start : self.position], events)
            self._skip_separators()
        return events

    def _skip_separators(self) -> None:
        """On to the next entry. A bracket closes the array only where the text behind it can follow one."""
        match = SEPARATORS.match(self.text, self.position)
        end = match.end() if match else self.position
        bracket = self.text.rfind("]", self.position, end)
        self.closed = bracket >= 0 and END_OF_ARRAY.match(self.text, bracket) is not None
        self.position = bracket if self.closed else end
        if bracket >= 0 and not self.closed:
            self.damage["damaged"] += 1

    def _recover(self, start: int, error: Exception, final: bool) -> bool:
        """Step to the next event after a damaged one; False where the rest of the text has none."""
        goes_on = self.text[start] == "{" and _is_cut(error)
        following = -1 if goes_on else self._next_event(start)
        if following < 0 and not final:
            self.wants_more = True
            return False
        if following < 0:
            self.damage["truncated"] += 1
            self.exhausted = True
            return False
        self.damage["damaged"] += 1
        self.position = following
        return True

    def _next_event(self, start: int) -> int:
        """Where the next event, or else the array's end, may stand; -1 where neither is to be seen."""
        if self.text[start] != "{":
            return self.text.find("{", start)
        following = NEXT_EVENT.search(self.text, start + 1) or LAST_EVENT.search(self.text, start + 1)
        return following.end() - 1 if following else -1

    def _keep(self, value: Any, text: str, events: list[Event]) -> None:
        if not isinstance(value, dict):
            self.damage["not_events"] += 1
            return
        try:  # most events of a damaged piece are whole, and shall read the same as everywhere
            events.append(EVENT_DECODER.decode(text.encode(errors="surrogateescape")))
        except (UnicodeEncodeError, *UNREADABLE):
            event, lost = _salvage(self._clean(value))
            events.append(event)
            self.damage["bad_args"] += lost

    def _clean(self, value: dict[str, Any]) -> dict[str, Any]:
        """The same event with bytes that are not text replaced, and without fields nested beyond reading."""
        try:
            text = json.dumps(value, ensure_ascii=False)
        except RecursionError:
            shallow = {key: field for key, field in value.items() if not isinstance(field, (dict, list))}
            return self._clean({**shallow, "args": TOO_DEEP})
        try:
            text.encode()
        except UnicodeEncodeError:
            self.damage["bad_text"] += 1
            cleaned: dict[str, Any] = json.loads(text.encode(errors="replace"))
            return cleaned
        return value


NAMES_AND_IDS = ("name", "pid", "tid", "id")
TOO_DEEP = "(nested too deep)"
PART_OF_TOKEN = re.compile(r"[\w.+-]*\Z")


def _is_cut(error: Exception) -> bool:
    """Whether all was well up to the end of the text: then the entry goes on beyond it."""
    if not isinstance(error, json.JSONDecodeError) or error.msg.startswith("Extra data"):
        return False
    return error.msg.startswith("Unterminated string") or PART_OF_TOKEN.match(error.doc, error.pos) is not None


def _salvage(value: dict[str, Any]) -> tuple[Event, bool]:
    """An event with the fields that make sense, and whether any did not; those keep their defaults."""
    event, args = Event(), value.get("args")
    lost = _assign_known(event, value)
    if isinstance(args, dict):
        event.args = Args()
        lost += _assign_known(event.args, args)
    return event, bool(lost) or not isinstance(args, dict | None)


@lru_cache
def _fields(struct: type[Struct]) -> dict[str, tuple[str, Any]]:
    """Attribute and type by the name in the file."""
    return {info.encode_name: (info.name, info.type) for info in msgspec.structs.fields(struct) if info.name != "args"}


def _assign_known(target: Struct, values: dict[str, Any]) -> int:
    """Set what fits; returns how many fields did not."""
    known = _fields(type(target))
    return sum(not _assign(target, *known[name], value) for name, value in values.items() if name in known)


def _assign(target: Struct, attribute: str, kind: Any, value: Any) -> bool:
    if kind is Raw:
        setattr(target, attribute, Raw(json.dumps(value).encode()))
        return True
    # A name or a thread id may be a number of the wrong type: as text it still tells events apart.
    as_text = attribute in NAMES_AND_IDS and isinstance(value, (int, float))
    for candidate in (value, str(value)) if as_text else (value,):
        try:
            setattr(target, attribute, msgspec.convert(candidate, kind, strict=False))
        except (msgspec.ValidationError, RecursionError, OverflowError):
            continue
        return True
    return False
