"""Floating types of eight bits: the value of each code, and the code nearest to a value.

The interpreter loses the carry of a rounded mantissa, so that 1.98 becomes 1.0. Here a value goes to the nearest code,
a tie to the even one, and what is too large to the largest, as NVIDIA's conversions do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8]
FloatArray = npt.NDArray[np.float64]
SIGN: Final = 0x80


@dataclass(frozen=True)
class FloatFormat:
    """A sign, then an exponent, then a mantissa; above `largest` are the codes of infinity and NaN."""

    mantissa_bits: int
    bias: int
    largest: int
    """The code of the largest finite value."""
    infinity: int | None
    no_number: int
    has_negative_zero: bool = True


FORMATS: Final = {
    "fp8e5": FloatFormat(2, 15, 0x7B, 0x7C, 0x7F),
    "fp8e4nv": FloatFormat(3, 7, 0x7E, None, 0x7F),
    "fp8e5b16": FloatFormat(2, 16, 0x7F, None, SIGN, has_negative_zero=False),
    "fp8e4b8": FloatFormat(3, 8, 0x7F, None, SIGN, has_negative_zero=False),
}
"""By Triton's names."""


def values_of(codes: Codes, name: str) -> FloatArray:
    """
    >>> values_of(np.array([0x3C, 0xC0, 0x01], np.uint8), "fp8e5").tolist()
    [1.0, -2.0, 1.52587890625e-05]
    """
    values: FloatArray = _table(name)[codes]
    return values


def codes_of(values: npt.NDArray[Any], name: str, *, toward_zero: bool = False) -> Codes:
    """
    >>> codes = codes_of(np.array([1.98, 1.0625, 1e9, -0.0]), "fp8e4nv")
    >>> values_of(codes, "fp8e4nv").tolist()
    [2.0, 1.0, 448.0, -0.0]
    """
    form = FORMATS[name]
    with np.errstate(invalid="ignore"):
        wide = values.astype(np.float64)
    sizes, finite = np.abs(wide), _table(name)[: form.largest + 1]
    if toward_zero:
        indexes = np.searchsorted(finite, sizes, side="right") - 1
    else:
        middles = (finite[1:] + finite[:-1]) / 2
        indexes = np.searchsorted(middles, sizes, side="left")
        is_tie = sizes == middles[np.minimum(indexes, len(middles) - 1)]
        indexes += is_tie & (indexes % 2 == 1)
    indexes = np.minimum(indexes, form.largest)
    signed = np.signbit(wide) & (form.has_negative_zero | (indexes > 0))
    codes = indexes.astype(np.uint8) | np.where(signed, SIGN, 0).astype(np.uint8)
    result: Codes = np.where(np.isnan(wide), np.uint8(form.no_number), codes)
    return result


@lru_cache(maxsize=len(FORMATS))
def _table(name: str) -> FloatArray:
    form = FORMATS[name]
    codes = np.arange(SIGN)
    exponents, mantissas = codes >> form.mantissa_bits, codes & ((1 << form.mantissa_bits) - 1)
    whole = np.where(exponents > 0, 1 << form.mantissa_bits, 0) + mantissas
    positive = np.ldexp(whole.astype(np.float64), np.maximum(exponents, 1) - form.bias - form.mantissa_bits)
    positive[form.largest + 1 :] = np.nan
    if form.infinity is not None:
        positive[form.infinity] = np.inf
    table: FloatArray = np.concatenate([positive, -positive])
    if not form.has_negative_zero:
        table[form.no_number] = np.nan
    table.setflags(write=False)
    return table
