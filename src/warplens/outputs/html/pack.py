"""Columns of numbers and texts as one compact block of bytes, and back to a page's script in base64.

An integer column is (optionally) replaced by its differences, folded so that small negative numbers are small too,
and written byte plane by byte plane: all lowest bytes, then all second ones. gzip finds the repetitions. A column of
decimals is an integer column with a scale where that loses nothing, else eight planes of doubles. `web/src/shared/
blocks.ts` is the other half.

Layout of the packed bytes: the header's length in eight digits, the header (JSON), the columns one after another.
"""

from __future__ import annotations

import base64
import zlib
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec.structs import replace

from warplens.outputs.html.records import ColumnSpec, PageHeader

LEVEL = 6
"""On half a million events level 9 costs three times the time for 0.7 % of the size."""
SCALES = (1, 1_000, 1_000_000)
EXACT = 2.0**53
FEW = 1_000
"""Below this many rows a loop costs less than a join."""


class Packer:
    """Collects columns; each `add_*` returns the column's entry for the header."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}
        self._parts: list[bytes] = []
        self._size = 0

    def text(self, value: str) -> int:
        """The number of a text in the header's list."""
        return self.texts.setdefault(value, len(self.texts))

    def add_ints(self, values: npt.NDArray[Any], *, delta: bool = False) -> ColumnSpec:
        numbers = values.astype(np.int64)
        if delta and len(numbers):
            numbers = np.diff(numbers, prepend=np.int64(0))
        folded = ((numbers << 1) ^ (numbers >> 63)).view(np.uint64)
        width = max(1, (int(folded.max(initial=0)).bit_length() + 7) // 8)
        planes = folded.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width]
        return ColumnSpec(self._add(planes), len(numbers), width, delta)

    def add_floats(self, values: npt.NDArray[np.float64]) -> ColumnSpec:
        """NaN stands for "nothing here"."""
        is_finite = np.isfinite(values)
        for scale in SCALES:
            scaled = np.rint(np.where(is_finite, values, 0.0) * scale)
            if np.array_equal((scaled / scale)[is_finite], values[is_finite]) and np.abs(scaled).max(initial=0) < EXACT:
                ordered = bool(len(scaled) > 1 and is_finite.all() and (np.diff(scaled) <= 0).all())
                spec = self.add_ints(scaled.astype(np.int64), delta=ordered)
                return replace(spec, scale=scale, nulls=self._nulls(is_finite))
        planes = values.astype("<f8").view(np.uint8).reshape(-1, 8)
        return ColumnSpec(self._add(planes), len(values), 8, is_float=True)

    def add_difference(self, values: pl.Series, expected: npt.NDArray[np.float64]) -> ColumnSpec | None:
        """Decimals as what they differ by from expected ones, which the page computes; None where that is not exact."""
        numbers = _numbers(values)
        is_finite = np.isfinite(numbers)
        for scale in SCALES:
            scaled = np.rint(np.where(is_finite, numbers, 0.0) * scale)
            if (
                np.array_equal((scaled / scale)[is_finite], numbers[is_finite])
                and np.abs(scaled).max(initial=0) < EXACT
            ):
                differences = np.where(is_finite, scaled - np.floor(expected * scale + 0.5), 0.0)
                return replace(self.add_ints(differences), scale=scale, nulls=self._nulls(is_finite))
        return None

    def add_texts(self, values: pl.Series) -> ColumnSpec:
        if len(values) < FEW:
            listed = [-1 if text is None else self.text(text) for text in values.to_list()]
            return replace(self.add_ints(np.array(listed, np.int64)), is_text=True)
        kinds = values.unique(maintain_order=True)
        codes = [-1 if kind is None else self.text(kind) for kind in kinds.to_list()]
        places = pl.DataFrame({"text": kinds, "code": pl.Series(codes, dtype=pl.Int64)})
        joined = values.to_frame("text").join(places, on="text", how="left", maintain_order="left", nulls_equal=True)
        return replace(self.add_ints(joined["code"].to_numpy()), is_text=True)

    def add_series(self, values: pl.Series) -> ColumnSpec:
        """A table's column, whatever its type."""
        if values.dtype == pl.Boolean:
            return replace(self.add_floats(_numbers(values)), is_bool=True)
        return self.add_floats(_numbers(values)) if values.dtype.is_numeric() else self.add_texts(values)

    def packed(self, header: PageHeader) -> bytes:
        """All of it, compressed, as text that is safe inside a script element."""
        head = msgspec.json.encode(header)
        squeeze = zlib.compressobj(LEVEL, wbits=31)
        content = [f"{len(head):08d}".encode(), head, *self._parts]
        return base64.b64encode(b"".join([*map(squeeze.compress, content), squeeze.flush()]))

    def _nulls(self, is_finite: npt.NDArray[np.bool_]) -> ColumnSpec | None:
        return None if is_finite.all() else self.add_ints(np.flatnonzero(~is_finite), delta=True)

    def _add(self, planes: npt.NDArray[np.uint8]) -> int:
        offset = self._size
        self._parts.append(np.ascontiguousarray(planes.T).tobytes())
        self._size += planes.size
        return offset


def _numbers(values: pl.Series) -> npt.NDArray[np.float64]:
    if values.null_count():
        return np.array([np.nan if value is None else value for value in values.to_list()], np.float64)
    return values.to_numpy().astype(np.float64)
