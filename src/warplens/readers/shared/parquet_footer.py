"""How large a Parquet file is once it is read, by its footer: nothing of the data itself is unpacked.

The footer is a Thrift struct in the compact protocol: FileMetaData of parquet.thrift. Of it only the row groups count:
rows, and the bytes of each column without its compression. Equal values in a row take no bytes there, so rows have to
be counted as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens.errors import FormatError
from warplens.units import format_bytes

MAGIC: Final = b"PAR1"
TAIL_BYTES: Final = 8
"""The length of the footer, and the magic."""
ROW_GROUPS, CHUNKS, GROUP_ROWS, CHUNK_FACTS, CHUNK_BYTES = 4, 1, 3, 3, 6
"""Numbers of the fields that count."""
STOP, TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(13)
LONG_LIST: Final = 15
MOST_BYTES: Final = 4 << 20
"""Of a footer: a table with a thousand columns in a hundred groups of rows has as much."""
DEEPEST: Final = 16
"""Structs in structs; the format has seven."""
VALUE_BYTES: Final = 8
"""What a value takes in memory: numbers do, texts take more."""

Struct = dict[int, object]


@dataclass(frozen=True)
class ParquetSize:
    rows: int
    columns: int
    encoded_bytes: int
    """Without compression."""

    def read_bytes(self, columns: int | None = None) -> int:
        """What it takes in memory, all columns or so many of them."""
        return max(self.encoded_bytes, VALUE_BYTES * self.rows * (self.columns if columns is None else columns))


def parquet_size(path: Path) -> ParquetSize:
    """The size that a file's footer states; raises `FormatError` where the footer is cut or damaged."""
    try:
        groups = _structs(_Compact(_footer(path)).struct().get(ROW_GROUPS))
        chunks = [_structs(group.get(CHUNKS)) for group in groups]
        facts = [_struct(chunk.get(CHUNK_FACTS)) for columns in chunks for chunk in columns]
        return ParquetSize(
            rows=sum(_count(group.get(GROUP_ROWS)) for group in groups),
            columns=max(map(len, chunks), default=0),
            encoded_bytes=sum(_count(fact.get(CHUNK_BYTES)) for fact in facts),
        )
    except (IndexError, ValueError, OSError) as error:
        raise FormatError(f"a Parquet file without a sound footer ({error})", where=str(path)) from error


def _footer(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - TAIL_BYTES))
        tail = file.read(TAIL_BYTES)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or length + TAIL_BYTES > size:
            raise ValueError("it is cut or damaged")
        if length > MOST_BYTES:
            raise ValueError(f"it has {format_bytes(length)}")
        file.seek(size - TAIL_BYTES - length)
        return file.read(length)


def _structs(value: object) -> list[Struct]:
    return [_struct(item) for item in value] if isinstance(value, list) else []


def _struct(value: object) -> Struct:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int:
    """A size that is below zero is a lie, and as good as any amount."""
    return value if isinstance(value, int) and value >= 0 else 1 << 63


class _Compact:
    """Values of Thrift's compact protocol, one after the other. An IndexError where they end too early."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def struct(self, depth: int = 0) -> Struct:
        if depth > DEEPEST:
            raise ValueError("its structs are nested too deep")
        fields: Struct = {}
        number = 0
        while (head := self._byte()) != STOP:
            number = number + (head >> 4) if head >> 4 else self._signed()
            kind = head & 15
            fields[number] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> object:
        if kind in (TRUE, FALSE, BYTE):  # booleans of a struct are in its heads
            return self._byte()
        if kind in (I16, I32, I64):
            return self._signed()
        if kind in (DOUBLE, BINARY):
            return self._skip(8 if kind == DOUBLE else self._unsigned())
        if kind in (LIST, SET):
            return self._list(depth)
        if kind == STRUCT:
            return self.struct(depth + 1)
        raise ValueError(f"a value of the unknown type {kind}")

    def _list(self, depth: int) -> list[object]:
        if depth > DEEPEST:
            raise ValueError("its lists are nested too deep")
        head = self._byte()
        count = self._unsigned() if head >> 4 == LONG_LIST else head >> 4
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("a number that is too large")
        return value | byte << shift

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _skip(self, size: int) -> object:
        """A value that nothing asks for."""
        self._at += size
        if self._at > len(self._content):
            raise IndexError("it ends too early")
        return None
