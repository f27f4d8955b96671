"""An encoder of protobuf messages, for files made by hand."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    data = b""
    while value >= 128:
        data += bytes((value & 127 | 128,))
        value >>= 7
    return data + bytes((value,))


def encode(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    data = b""
    for number, value in fields:
        if isinstance(value, int):
            data += varint(number << 3) + varint(value)
        elif isinstance(value, float):
            data += varint(number << 3 | 1) + struct.pack("<d", value)
        else:
            text = value.encode() if isinstance(value, str) else value
            data += varint(number << 3 | 2) + varint(len(text)) + text
    return data
