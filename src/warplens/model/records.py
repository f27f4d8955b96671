"""Rows of a frame as typed records: which columns code reads, and as what, is declared and checked."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar

import msgspec
import polars as pl

Record = TypeVar("Record")
PLAIN_TYPES: Final[Mapping[Any, Any]] = {
    "int": int, "int | None": int | None, "float": float, "float | None": float | None,
    "str": str, "str | None": str | None, "bool": bool, "bool | None": bool | None,
}  # fmt: skip
"""By how they are written."""


class _Field(msgspec.Struct, frozen=True):
    name: str
    kind: Any
    """The type without None; `Any` and `object` fit every column."""
    optional: bool


def records(frame: pl.DataFrame, kind: type[Record]) -> list[Record]:
    """The rows of a frame as records: NamedTuples, dataclasses or msgspec structs whose fields are its columns.

    >>> class Size(typing.NamedTuple):
    ...     tensor: str
    ...     size_bytes: int
    >>> records(pl.DataFrame({"size_bytes": [4], "tensor": ["bias"], "device": [0]}), Size)
    [Size(tensor='bias', size_bytes=4)]
    """
    fields = _fields(kind)  # type: ignore[arg-type]  # mypy does not see that a class is hashable
    columns = {column.name: column for column in frame.get_columns()}
    for field in fields:
        _check(field, columns, kind.__name__)
    # Column by column: `select` costs more than reading a small table.
    return list(map(kind, *(columns[field.name].to_list() for field in fields)))


@cache
def _fields(kind: type[Any]) -> tuple[_Field, ...]:
    is_dataclass = dataclasses.is_dataclass(kind)
    if issubclass(kind, msgspec.Struct):
        names: Sequence[str] = kind.__struct_fields__
    else:
        names = [field.name for field in dataclasses.fields(kind)] if is_dataclass else kind._fields
    hints = _hints(kind, names)
    return tuple(_field(name, hints[name]) for name in names)


def _hints(kind: type[Any], names: Sequence[str]) -> Mapping[str, Any]:
    """The types of the fields. Those of most records are plain, and to look them up in their modules takes 4 ms."""
    own = vars(kind).get("__annotations__", {})
    written = {name: getattr(hint, "__forward_arg__", hint) for name, hint in own.items()}
    if all(written.get(name) in PLAIN_TYPES for name in names):
        return {name: PLAIN_TYPES[written[name]] for name in names}
    return typing.get_type_hints(kind)


def _field(name: str, hint: Any) -> _Field:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return _Field(name, typing.get_origin(hint) or hint, hint is Any or hint is object)
    kinds = [kind for kind in typing.get_args(hint) if kind is not types.NoneType]
    if len(kinds) != 1:
        raise TypeError(f"field {name}: {hint} is not the type of a column")
    return _Field(name, typing.get_origin(kinds[0]) or kinds[0], True)


def _check(field: _Field, columns: Mapping[str, pl.Series], record: str) -> None:
    if field.name not in columns:
        raise ValueError(f"{record}.{field.name}: no such column; there are {', '.join(columns)}")
    dtype = columns[field.name].dtype
    if field.kind not in (Any, object, dtype.to_python()):
        raise TypeError(f"{record}.{field.name}: declared {field.kind.__name__}, the column is {dtype}")
    if not field.optional and columns[field.name].null_count():
        raise TypeError(f"{record}.{field.name}: the column has nulls, but the field does not allow None")
