"""Frozen dataclasses from and to JSON, with the place of whatever is wrong.

Plans and results are read on hosts that have nothing but Python and PyTorch, and people edit them by hand: each value
is checked against its field's type, unknown keys and missing ones are named, and nothing is ever evaluated.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import types
import typing
import zlib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar, Union

from warplens_run.base import bounded
from warplens_run.base.errors import FormatError
from warplens_run.base.files import write_whole

T = TypeVar("T")
SPECIAL_FLOATS: Final = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""JSON has no words for these; they are written as strings."""
MAX_BYTES: Final = 1 << 30
MAX_COUNT: Final = 1 << 53
"""Of calls, also of all together: above it a float cannot distinguish two counts."""
GZIP: Final = b"\x1f\x8b"


def decode(kind: type[T], value: Any, where: str = "") -> T:
    """A value of that type, or a `FormatError` that names the place.

    >>> decode(tuple[int, ...], [1, 2])
    (1, 2)
    >>> decode(tuple[int, ...], [1, "2"], "shape")
    Traceback (most recent call last):
    warplens_run.base.errors.FormatError: shape[1]: not a whole number: '2'
    """
    try:
        record: T = _decode(kind, value, where)
    except RecursionError:
        raise FormatError("nested too deep", where=where) from None
    return record


def _decode(kind: Any, value: Any, where: str) -> Any:
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, where)
    origin = typing.get_origin(kind)
    if origin in (Union, types.UnionType):
        if value is None and type(None) in typing.get_args(kind):
            return None
        choices = [choice for choice in typing.get_args(kind) if choice is not type(None)]
        return _decode(choices[0], value, where) if len(choices) == 1 else _decode_scalar(choices, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise FormatError(f"not a list: {_short(value)}", where=where)
        item = typing.get_args(kind)[0]
        return tuple(_decode(item, part, f"{where}[{number}]") for number, part in enumerate(value))
    if origin is dict:
        if not isinstance(value, dict):
            raise FormatError(f"not an object: {_short(value)}", where=where)
        item = typing.get_args(kind)[1]
        return {name: _decode(item, part, f"{where}.{name}") for name, part in value.items()}
    return _decode_scalar([kind], value, where)


def _decode_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise FormatError(f"not an object: {_short(value)}", where=where)
    fields = _fields(kind)
    unknown = next((name for name in value if name not in fields), None)
    if unknown is not None:
        raise FormatError(f"unknown key {_short(unknown)}", where=where)
    missing = next((name for name, (_, required) in fields.items() if required and name not in value), None)
    if missing is not None:
        raise FormatError(f"{missing!r} is missing", where=where)
    return kind(**{name: _decode(fields[name][0], part, f"{where}.{name}" if where else name)
                   for name, part in value.items()})  # fmt: skip


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """The type of each field, and whether it must be given."""
    hints = typing.get_type_hints(kind)
    none = dataclasses.MISSING
    return {
        field.name: (hints[field.name], field.default is none and field.default_factory is none)
        for field in dataclasses.fields(kind)
    }


SCALARS: Final[dict[Any, tuple[str, Callable[[Any], bool]]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", lambda value: (isinstance(value, (int, float)) and not isinstance(value, bool))
            or (isinstance(value, str) and value in SPECIAL_FLOATS)),
    str: ("a text", lambda value: isinstance(value, str)),
}  # fmt: skip


def _decode_scalar(kinds: list[Any], value: Any, where: str) -> Any:
    for kind in kinds:
        _, fits = SCALARS[kind]
        if fits(value):
            if isinstance(value, int) and not -bounded.INT64 <= value < bounded.INT64:
                raise FormatError("a number beyond 64 bits", where=where)
            return _float(value) if kind is float else value
    if int in kinds and isinstance(value, float) and abs(value) >= bounded.INT64:  # as such JSON is decoded
        raise FormatError("a number beyond 64 bits", where=where)
    words = " or ".join(SCALARS[kind][0] for kind in kinds)
    raise FormatError(f"not {words}: {_short(value)}", where=where)


def _float(value: Any) -> float:
    return SPECIAL_FLOATS[value] if isinstance(value, str) else float(value)  # bounded: checked by its type


def encode(value: Any) -> Any:
    """What `json.dumps` takes; fields that have their default are left out.

    >>> encode((1, float("inf")))
    [1, 'inf']
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: encode(part)
            for field in dataclasses.fields(value)
            if not _is_default(field, part := getattr(value, field.name))
        }
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if isinstance(value, dict):
        return {str(name): encode(part) for name, part in value.items()}
    if isinstance(value, float) and not math.isfinite(value):
        return next(name for name, part in SPECIAL_FLOATS.items() if part == value or name == "nan")
    return value


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    return type(value) is type(field.default) and bool(value == field.default)


def load_json(path: Path) -> Any:
    """The JSON in a file, or one clear error."""
    try:
        if path.is_char_device() or path.is_block_device():  # some of them never end
            raise FormatError("not a file", where=str(path))
        with path.open("rb") as file:
            is_packed = file.peek(len(GZIP)).startswith(GZIP)
            content = (gzip.GzipFile(fileobj=file) if is_packed else file).read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise FormatError("larger than any plan or result", where=str(path))
        return bounded.decoded(content)
    except OSError as error:
        raise FormatError(error.strerror or "cannot be read", where=str(path)) from error
    except (ValueError, RecursionError, EOFError, zlib.error) as error:
        raise FormatError(f"not JSON ({error})", where=str(path)) from error


def save_json(path: Path, value: Any, *, force: bool = True) -> None:
    """Written whole or not at all."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    # The name of a trace's file may hold bytes that are not UTF-8.
    write_whole(path, text.encode("utf-8", "replace"), force=force)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
