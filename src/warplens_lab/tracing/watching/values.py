"""Numbers from the bits the interpreter keeps: it holds bfloat16 and float8 as unsigned integers."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.records import Array

SMALL_FLOATS: Final = {
    # name as Triton or PyTorch writes it: exponent bits, mantissa bits, bias, NaN/infinity rule
    "float8_e5m2": (5, 2, 15, "ieee"),
    "fp8e5": (5, 2, 15, "ieee"),
    "float8_e4m3fn": (4, 3, 7, "all ones"),
    "fp8e4nv": (4, 3, 7, "all ones"),
    "float8_e5m2fnuz": (5, 2, 16, "negative zero"),
    "fp8e5b16": (5, 2, 16, "negative zero"),
    "float8_e4m3fnuz": (4, 3, 8, "negative zero"),
    "fp8e4b8": (4, 3, 8, "negative zero"),
    "fp8e4b15": (4, 3, 15, "none"),
}
BFLOAT: Final = ("bfloat16", "bf16")


def decoded(bits: Array, dtype: str) -> Array:
    """The numbers that an array of the given type holds.

    >>> decoded(np.array([0x3F80, 0xC000], np.uint16), "bfloat16").tolist()
    [1.0, -2.0]
    >>> decoded(np.array([0x38, 0x7F], np.uint8), "float8_e4m3fn").tolist()
    [1.0, nan]
    """
    if dtype in BFLOAT and bits.dtype == np.uint16:
        return float_of_bfloat(bits.astype(np.uint16))
    if dtype in SMALL_FLOATS and bits.dtype.itemsize == 1:
        table: Array = _small_float_table(*SMALL_FLOATS[dtype])[bits.view(np.uint8)]
        return table
    return bits


def float_of_bfloat(bits: npt.NDArray[np.uint16]) -> npt.NDArray[np.float32]:
    wide = bits.astype(np.uint32)
    wide <<= np.uint32(16)
    return wide.view(np.float32)


def bfloat_of_float(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint16]:
    """Rounded to the nearest, ties to even, as GPUs do; NaN stays NaN."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + (np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1)))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    halves: npt.NDArray[np.uint16] = np.where(np.isnan(values), quiet, rounded).astype(np.uint16)
    return halves


def _small_float_table(exponent_bits: int, mantissa_bits: int, bias: int, rule: str) -> npt.NDArray[np.float32]:
    """The value of each of the 256 bytes."""
    code = np.arange(256)
    sign = np.where(code >> 7, -1.0, 1.0)
    exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    mantissa = (code & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    value = sign * np.where(exponent, (1 + mantissa) * 2.0 ** (exponent - bias), mantissa * 2.0 ** (1 - bias))
    top = exponent == (1 << exponent_bits) - 1
    if rule == "ieee":
        value = np.where(top, np.where(mantissa == 0, sign * np.inf, np.nan), value)
    elif rule == "all ones":
        value = np.where((code & 0x7F) == 0x7F, np.nan, value)
    elif rule == "negative zero":
        value = np.where(code == 0x80, np.nan, value)
    return value.astype(np.float32)
