"""Trace-event JSON → typed events, fast where the text is sound and patient where it is not.

Reads the object form (`{"traceEvents": [...], …}`) and the bare list. The array is decoded in small pieces
cut between two events, so that memory stays bounded; a piece that does not decode (a cut inside a
string, NaN, a damaged place) is read again event by event.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import cast

import msgspec

from warplens.readers.kineto.records import DECODERS, HEADER_DECODER, UNREADABLE, KinetoEvent, KinetoHeader
from warplens.readers.kineto.slow_scan import SlowScan
from warplens.readers.shared.json_value import is_cut
from warplens.readers.shared.stored_file import text_start
from warplens_run.base import bounded

PIECE_BYTES = 1 << 17
"""Small pieces reuse the same memory, still in the cache: pieces of 1 MB cost 40 % more CPU."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
PADDING = b"\0 \t\r\n"
WINDOW_BYTES = 8 << 20
CUT = re.compile(rb"\}\s*,\s*\{")
ARRAY_START = re.compile(rb'"traceEvents"\s*:\s*\[')
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\Z)|[\[\]{}]', re.DOTALL)
"""A string, also one without an end, or a bracket: what the depth of a place depends on."""
CLOSING = re.compile(rb"[\0\s]*\]")
DEPTH_OF_EVENTS = 2
DEEPER = {b"[": 1, b"{": 1, b"]": -1, b"}": -1}


class EventReader:
    """Iterates over the events of a text, piece by piece; `damage` counts what could not be read."""

    def __init__(self, text: bytes, start: int | None = None) -> None:
        """`start`: where the first event stands, where that is known."""
        self.text = text
        self.header = KinetoHeader()
        self.damage: Counter[str] = Counter()
        self.end_of_array = -1
        self.start = array_start(text) if start is None else start
        self.is_trace = self.start >= 0

    def pieces(self) -> Iterator[list[KinetoEvent]]:
        """The events from the start to the array's end."""
        position = self.start
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

    def _last_piece(self, position: int) -> Iterator[list[KinetoEvent]]:
        """The piece that holds the array's end, which only decoding can distinguish from a bracket inside it."""
        for closing in closings(self.text, position):
            events = _decode(memoryview(self.text)[position:closing])
            if events is not None:
                self.end_of_array = closing
                yield events
                return
        while position >= 0:
            events, position = self._read_slowly(position, position + WINDOW_BYTES)
            yield events

    def _read_slowly(self, position: int, until: int) -> tuple[list[KinetoEvent], int]:
        """Events from `position` to at least `until`, and where to go on (-1 at the array's end)."""
        events: list[KinetoEvent] = []
        window = min(len(self.text), until + WINDOW_BYTES)
        while True:
            # Surrogates stand for bytes that are not UTF-8, so that positions survive the round trip.
            text = self.text[position:window].decode(errors="surrogateescape")
            scan = SlowScan(text, self.damage)
            reach = len(self.text[position:until].decode(errors="surrogateescape"))  # it counts in characters
            events.extend(scan.run(reach, final=window == len(self.text)))
            position += len(text[: scan.position].encode(errors="surrogateescape"))
            if not (scan.wants_more and window < len(self.text)):
                break
            window = min(len(self.text), window + 8 * WINDOW_BYTES)
        if scan.closed:
            self.end_of_array = position
        return events, -1 if scan.closed or scan.exhausted or position >= len(self.text) else position

    def finish(self) -> None:
        """Read what stands around the array, once its end is known."""
        tail = self.text[self.end_of_array :] if self.end_of_array >= 0 else None
        self.header = read_header(self.text[: self.start], tail, self.damage)

    def later_array(self) -> LaterArray | None:
        """The array of the last `traceEvents`, where the file has more than one.

        JSON's readers take the last value of a key. Rare, so the text is searched for the key before its brackets are
        counted.
        """
        if self.end_of_array < 0 or not ARRAY_START.search(self.text, self.end_of_array):
            return None
        depth = _depth(self.text[: self.start]) - 1
        start, passed, own, closing = -1, 0, 0, CLOSING.match(self.text, self.end_of_array)
        for token in TOKEN.finditer(self.text, closing.end() if closing else self.end_of_array):
            if depth == 1 and (array := ARRAY_START.match(self.text, token.start())):
                start, passed, own = array.end(), passed + own, 0
            own += depth == DEPTH_OF_EVENTS and token[0] == b"{" and start >= 0
            depth += DEEPER.get(token[0], 0)
            if depth <= 0:  # what follows is not of this object
                break
        return LaterArray(start, passed) if start >= 0 else None


class LaterArray(msgspec.Struct, frozen=True):
    start: int
    """Where its first event stands."""
    passed: int
    """Events of arrays between the first and this one."""


def _depth(text: bytes) -> int:
    """How many brackets are open at a text's end."""
    return sum(DEEPER.get(token[0], 0) for token in TOKEN.finditer(text))


def array_start(text: bytes) -> int:
    """Where the first event may stand, or -1 when this is not a trace."""
    first = text_start(text)
    if text.startswith(b"[", first):
        return first + 1
    array = ARRAY_START.search(text, first) if text.startswith(b"{", first) else None
    return array.end() if array else -1


def read_header(head: bytes, tail: bytes | None, damage: Counter[str]) -> KinetoHeader:
    """What stands around the array: the text up to its first event, and from its end on (None where that is lost)."""
    head = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    rest = (tail or b"").strip(PADDING).removeprefix(b"]").lstrip(PADDING)
    if head.startswith(b"["):  # a bare list: it has no header, and may well end without its bracket
        damage["damaged"] += bool(rest)
        return KinetoHeader()
    if tail is None:
        damage["truncated"] += 1
        rest = b"}"
    header, code = _decode_header(head + b"]" + rest)
    if code:
        damage[code] += 1
        header, _ = _decode_header(head + b"]}")
    return header


def _decode(piece: memoryview) -> list[KinetoEvent] | None:
    text = b"".join((b"[", piece, b"]"))
    for decoder in DECODERS:
        try:
            return cast(list[KinetoEvent], decoder.decode(text))
        except msgspec.ValidationError:
            continue
        except UNREADABLE:
            return None
    from warplens.readers.kineto import stream_handles

    try:
        return stream_handles.decode(text)
    except UNREADABLE:
        return None


def _decode_header(text: bytes) -> tuple[KinetoHeader, str]:
    """The header, and what kind of damage keeps it from being whole, if any."""
    try:
        return HEADER_DECODER.decode(text), ""
    except UNREADABLE:
        lenient = text.decode(errors="replace")
    try:  # the standard library takes NaN
        return msgspec.convert(bounded.decoded(lenient), KinetoHeader, strict=False), ""
    except (ValueError, RecursionError) as error:
        return KinetoHeader(), "truncated" if is_cut(error) else "header"


def closings(text: bytes, position: int, tries: int = 4) -> list[int]:
    """Likely ends of the event array after `position`, best first."""
    tail = text[position:]
    likely = [match.start() + 1 for match in re.finditer(rb'\}\s*\]\s*(?:,\s*"|\}|$)', tail)]
    if not likely:
        likely = [match.start() for match in re.finditer(rb"\]", tail[:4096])][:1]
    chosen = likely[-1:] + likely[:tries]
    return [position + offset for offset in dict.fromkeys(chosen)]
