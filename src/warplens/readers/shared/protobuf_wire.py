"""Protocol-buffer messages without a schema: field numbers and raw values, whatever state the bytes are in.

A message that goes wrong yields the fields before that position, and `Damage` says so. A file that ends early
leaves its last messages cut; a cut message still yields its whole fields, so what is intact is read at any
depth. Most messages are small and in order: `fields_of` reads those at once, in a third of the time.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5
NUMBERED: Final = (VARINT, BYTES)
"""Wire types that begin with a varint: the value itself, or how many bytes it has."""
FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}
LAST_SHIFT: Final = 63
"""A varint has ten bytes at most, of seven bits each."""

Fields = list[tuple[int, int | bytes]]


@dataclass
class Damage:
    truncated: bool = False
    places: int = 0
    """Messages abandoned before their end; those that the end of the file cut are not among them."""


@dataclass(frozen=True)
class Message:
    """The bytes of one message; `is_cut` where the file ends before the message does."""

    view: memoryview
    is_cut: bool = False

    def fields(self, damage: Damage, partial: Collection[int] = ()) -> Iterator[tuple[int, int | Message]]:
        """Each field's number and value, an unsigned integer or a `Message` (texts too); fixed-size ones as bytes.

        A field that reaches beyond the end is left out, unless `partial` has its number: then what is there of it
        comes as a cut message.
        """
        view, end, position = self.view, len(self.view), 0
        while position < end:
            tag, position = _varint(view, position)
            wire = tag & 7
            if position > end or tag < 8 or wire not in (VARINT, FIXED64, BYTES, FIXED32):
                return self._stopped(damage, ran_out=position > end)
            if wire == VARINT:
                value, position = _varint(view, position)
                if position > end:
                    return self._stopped(damage, ran_out=True)
                yield tag >> 3, value
                continue
            size = 8 if wire == FIXED64 else 4
            if wire == BYTES:
                size, position = _varint(view, position)
            if position + size > end:
                self._stopped(damage, ran_out=True)
                if position <= end and wire == BYTES and tag >> 3 in partial:
                    yield tag >> 3, Message(view[position:], is_cut=True)
                return None
            yield tag >> 3, Message(view[position : position + size])
            position += size
        return None

    def _stopped(self, damage: Damage, *, ran_out: bool) -> None:
        if self.is_cut and ran_out:
            damage.truncated = True
        else:
            damage.places += 1

    def text(self) -> str:
        return str(self.view, "utf-8", "replace")


def fields_of(data: bytes, damage: Damage) -> Fields:
    """The fields of a message in memory: numbers as unsigned integers, all others as bytes."""
    fields = _sound_fields(data)
    return raw_fields(Message(memoryview(data)), damage) if fields is None else fields


def raw_fields(message: Message, damage: Damage) -> Fields:
    """The same of a message that may be cut or damaged: what comes before that position."""
    if not message.is_cut:
        fields = _sound_fields(bytes(message.view))
        if fields is not None:
            return fields
    return [
        (number, value if isinstance(value, int) else bytes(value.view)) for number, value in message.fields(damage)
    ]


def text_of(value: int | bytes) -> str:
    """The text of a field; none where the field holds a number."""
    return "" if isinstance(value, int) else value.decode("utf-8", "replace")


def varints(value: int | bytes) -> list[int]:
    """The numbers of a repeated field, packed into one or written one by one."""
    if isinstance(value, int):
        return [value]
    numbers, position = [], 0
    try:
        while position < len(value):
            number, position = _long_varint(value, position)
            numbers.append(number)
    except IndexError:
        pass
    return numbers


def double_of(data: bytes) -> float:
    """The value of a fixed-size field of eight bytes; NaN for any other."""
    return float(struct.unpack("<d", data)[0]) if len(data) == 8 else float("nan")


def whole_file(text: bytes) -> Message:
    """A file as a message. Nothing says how long it should be, so where its last field runs out, it was cut."""
    return Message(memoryview(text), is_cut=True)


def signed(value: int) -> int:
    """An int64 field's value: its varint holds two's complement."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(view: memoryview, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it; beyond the end where it has none."""
    value = shift = 0
    end = len(view)
    while position < end:
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift > LAST_SHIFT:
            break
    return 0, end + 1


def _sound_fields(data: bytes) -> Fields | None:
    """The fields of a message in order; None where it is not."""
    fields: Fields = []
    add = fields.append
    position, end = 0, len(data)
    try:
        while position < end:
            tag = data[position]
            position += 1
            if tag >= 0x80:
                tag, position = _long_varint(data, position - 1)
            if tag < 8:
                return None
            wire = tag & 7
            if wire in NUMBERED:
                value = data[position]
                position += 1
                if value >= 0x80:
                    value, position = _long_varint(data, position - 1)
                if wire == VARINT:
                    add((tag >> 3, value))
                    continue
            elif wire in FIXED_SIZES:
                value = FIXED_SIZES[wire]
            else:
                return None
            add((tag >> 3, data[position : position + value]))
            position += value
    except IndexError:
        return None
    return fields if position == end else None


def _long_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position` and the position after it; an IndexError where it has none."""
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
        if shift > LAST_SHIFT:
            raise IndexError(position)
