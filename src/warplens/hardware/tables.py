"""TOML tables to `Gpu`s: every key known, every number positive and finite, every complaint with its place."""

from __future__ import annotations

import re
import reprlib
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

from warplens.hardware.gpus import DTYPES, UNITS, FusedAttention, Gpu, Rates
from warplens_run.base.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TomlTable = Mapping[str, object]
"""A table of a TOML file, whose values are not checked yet."""

_TEXTS = ("name", "vendor", "architecture", "source")
_LISTS = ("match", "aliases")
_WHOLE_NUMBERS = ("multiprocessors", "max_threads_per_multiprocessor")
_NUMBERS = ("memory_gb", "l2_mb", "infinity_cache_mb", "host_link_gbps")
_RATES = ("bandwidth_tbps", *UNITS)
_ATTENTION = ("backend", "dtypes", "widths", "forward", "backward", "half_length")
_KNOWN = (*_TEXTS, *_LISTS, *_WHOLE_NUMBERS, *_NUMBERS, *_RATES, "max_achievable", "fused_attention")
_REQUIRED = ("name", "bandwidth_tbps")


class Fields(NamedTuple):
    """One TOML table and the file it is from; an absent key reads as its type's empty value."""

    table: TomlTable
    where: str
    path: str = ""

    def allow(self, *keys: str) -> None:
        for key in self.table:
            if key not in keys:
                raise UsageError(f"{self.where}: unknown key {self.path + key!r}", hint="known: " + ", ".join(keys))

    def text(self, key: str) -> str:
        value = self.table.get(key, "")
        if not isinstance(value, str) or (key in self.table and not value.strip()):
            raise self._wrong(key, "a text")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise self._wrong(key, "a list of texts")
        return tuple(value)

    def number(self, key: str) -> float:
        value = self.table.get(key)
        if value is None:
            return 0.0
        if not _is_positive(value):
            raise self._wrong(key, "a positive number")
        return float(value)

    def numbers(self, key: str) -> tuple[float, ...]:
        values = self.table.get(key, [])
        if not isinstance(values, list) or not values or not all(map(_is_positive, values)):
            raise self._wrong(key, "a list of positive numbers")
        return tuple(map(float, values))

    def whole_number(self, key: str) -> int:
        number = self.number(key)
        if number != int(number):
            raise self._wrong(key, "a whole number")
        return int(number)

    def inside(self, key: str) -> Fields:
        value = self.table.get(key, {})
        if not isinstance(value, Mapping):
            raise self._wrong(key, "a table")
        return Fields(value, self.where, f"{self.path}{key}.")

    def tables(self, key: str) -> tuple[Fields, ...]:
        values = self.table.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, Mapping) for value in values):
            raise self._wrong(key, "a list of tables")
        return tuple(Fields(value, self.where, f"{self.path}{key}[{n}].") for n, value in enumerate(values))

    def _wrong(self, key: str, expected: str) -> UsageError:
        return UsageError(f"{self.where}: {self.path}{key} is {expected}, not {reprlib.repr(self.table.get(key))}")


def _is_positive(value: object) -> TypeGuard[float]:
    # True counts as an int in Python; the upper bound keeps out inf, nan and whole numbers too long for a float.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max


def parse_toml(content: str, where: str) -> TomlTable:
    try:
        table: TomlTable = tomllib.loads(content)
    except (ValueError, RecursionError) as error:  # more than TOMLDecodeError: a number of 5,000 digits is a ValueError
        raise UsageError(f"{where}: not a TOML file: {error}") from error
    return table


def gpu_from_table(table: TomlTable, where: str, *, is_packaged: bool = False) -> Gpu:
    """One GPU, checked; `where` names the file and, if it has several, the entry.

    The patterns of the packaged file are checked by a test: compiling them takes 8 ms each time a trace is opened.
    """
    fields = Fields(table, where)
    fields.allow(*_KNOWN)
    for key in _REQUIRED:
        if key not in table:
            raise UsageError(f"{where}: {key} is missing", hint='or build on a known GPU: base = "H100 SXM"')
    measured = fields.inside("max_achievable")
    measured.allow(*_RATES, "measured")
    achievable = _rates(measured)
    return Gpu(
        name=fields.text("name"),
        vendor=fields.text("vendor"),
        architecture=fields.text("architecture"),
        source=fields.text("source"),
        multiprocessors=fields.whole_number("multiprocessors"),
        max_threads_per_multiprocessor=fields.whole_number("max_threads_per_multiprocessor"),
        memory_gb=fields.number("memory_gb"),
        l2_mb=fields.number("l2_mb"),
        infinity_cache_mb=fields.number("infinity_cache_mb"),
        host_link_gbps=fields.number("host_link_gbps"),
        match=fields.texts("match") if is_packaged else _patterns(fields),
        aliases=fields.texts("aliases"),
        datasheet=_rates(fields),
        achievable=achievable,
        measured=measured.text("measured") if achievable != Rates() else "",
        fused_attention=tuple(map(_fused_attention, fields.tables("fused_attention"))),
    )


def _fused_attention(fields: Fields) -> FusedAttention:
    fields.allow(*_ATTENTION)
    found = FusedAttention(
        backend=fields.text("backend"),
        dtypes=fields.texts("dtypes"),
        widths=fields.numbers("widths"),
        forward=fields.numbers("forward"),
        backward=fields.numbers("backward"),
        half_length=fields.number("half_length"),
    )
    if not len(found.widths) == len(found.forward) == len(found.backward) or sorted(found.widths) != list(found.widths):
        message = f"{fields.where}: {fields.path}widths rise, and each has a rate forward and backward"
        raise UsageError(message)
    return found


def _rates(fields: Fields) -> Rates:
    by_unit = {unit: fields.inside(unit) for unit in UNITS}
    for rates in by_unit.values():
        rates.allow(*DTYPES)
    return Rates(
        bandwidth_tbps=fields.number("bandwidth_tbps"),
        **{unit: {dtype: rates.number(dtype) for dtype in rates.table} for unit, rates in by_unit.items()},
    )


def _patterns(fields: Fields) -> tuple[str, ...]:
    patterns = fields.texts("match")
    for pattern in patterns:
        try:
            re.compile(pattern, re.IGNORECASE)
        except (re.error, RecursionError, OverflowError) as error:
            message = f"{fields.where}: match {pattern!r} is not a regular expression: {error}"
            raise UsageError(message) from error
    return patterns


def builtin_tables(device: str = "") -> dict[str, TomlTable]:
    """The tables shipped with the package, by the GPU's name; with `device`, only those it could be.

    Every device name contains the first word of the GPU's. Parsing two tables instead of all saves 8 ms each time a
    trace is opened.
    """
    content = Path(__file__).with_name("gpus.toml").read_text("utf-8")
    entries = content.split("[[gpu]]")[1:]
    chosen = [entry for entry in entries if _first_word(entry) in device.lower()] if device else entries
    tables = parse_toml("".join(f"[[gpu]]{entry}" for entry in chosen), "gpus.toml").get("gpu", [])
    assert isinstance(tables, list)
    return {table["name"]: table for table in tables}


def _first_word(entry: str) -> str:
    name = re.search(r'^name = "(\S+?)[ "]', entry, re.MULTILINE)
    return name[1].lower() if name else ""


def gpus_alike(device: str) -> tuple[Gpu, ...]:
    """The known GPUs that a device of this name could be."""
    return _gpus(builtin_tables(device)) if device else ()


@lru_cache(maxsize=1)
def all_gpus() -> tuple[Gpu, ...]:
    """Every known GPU, in the order of the file: by vendor, oldest first."""
    return _gpus(builtin_tables())


def _gpus(tables: Mapping[str, TomlTable]) -> tuple[Gpu, ...]:
    return tuple(gpu_from_table(table, f"gpus.toml, {name}", is_packaged=True) for name, table in tables.items())
