"""Values of a plan as C++: numbers, words of closed lists, and texts with every odd letter escaped.

A plan is data from elsewhere. What stands here is all that ever goes from one into source code.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

from warplens_run.formats.records import SPECIAL_FLOATS

PLAIN: Final = re.compile(rb"[A-Za-z0-9_ .:-]")
INT64: Final = 1 << 63
DTYPES: Final = {
    "bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
    "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64", "float16": "Half", "bfloat16": "BFloat16",
    "float32": "Float", "float64": "Double", "complex32": "ComplexHalf", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble", "float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2",
    "float8_e4m3fnuz": "Float8_e4m3fnuz", "float8_e5m2fnuz": "Float8_e5m2fnuz", "float8_e8m0fnu": "Float8_e8m0fnu",
    "float4_e2m1fn_x2": "Float4_e2m1fn_x2",
}  # fmt: skip
LAYOUTS: Final = {
    "strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc",
    "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc", "jagged": "Jagged",
}  # fmt: skip
MEMORY_FORMATS: Final = {
    "contiguous_format": "Contiguous", "preserve_format": "Preserve", "channels_last": "ChannelsLast",
    "channels_last_3d": "ChannelsLast3d",
}  # fmt: skip


class NotWritten(Exception):  # noqa: N818 - no error: such a unit is called by name instead
    """A value that is not written out."""


def text(value: Any) -> str:
    """
    >>> print(text('tanh'), text('a"; int x = 1; //'))
    "tanh" "a\\042\\073 int x \\075 1\\073 \\057\\057"
    """
    if not isinstance(value, str):
        raise NotWritten("not a text")
    try:
        encoded = value.encode()
    except UnicodeEncodeError as error:
        raise NotWritten("not a text that can be written") from error
    letters = (encoded[position : position + 1] for position in range(len(encoded)))
    # Three octal digits end by themselves, whatever follows.
    return '"' + "".join(byte.decode() if PLAIN.fullmatch(byte) else f"\\{byte[0]:03o}" for byte in letters) + '"'


def integer(value: Any) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or not -INT64 < value < INT64:
        raise NotWritten("not a whole number")
    return str(value)


def boolean(value: Any) -> str:
    if not isinstance(value, bool):
        raise NotWritten("not true or false")
    return "true" if value else "false"


def real(value: Any) -> str:
    """
    >>> real(1), real(1e-05), real("-inf")
    ('1.0', '1e-05', '-std::numeric_limits<double>::infinity()')
    """
    if isinstance(value, str) and value in SPECIAL_FLOATS:
        value = SPECIAL_FLOATS[value]
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise NotWritten("not a number")
    try:
        number = float(value)
    except OverflowError as error:
        raise NotWritten("not a number") from error
    if math.isfinite(number):
        return repr(number)
    sign = "-" if number < 0 else ""
    return f"{sign}std::numeric_limits<double>::{'quiet_NaN' if math.isnan(number) else 'infinity'}()"


def scalar(kind: str, value: Any) -> str:
    if kind == "complex" and isinstance(value, (list, tuple)) and len(value) == 2:
        return f"at::Scalar(c10::complex<double>({real(value[0])}, {real(value[1])}))"
    write = {"int": integer, "float": real, "bool": boolean}.get(kind)
    if write is None:
        raise NotWritten(f"no number: {kind}")
    return f"at::Scalar({write(value)})"


def named(value: Any, words: dict[str, str], enumeration: str) -> str:
    word = value.removeprefix("torch.") if isinstance(value, str) else ""
    if word not in words:
        raise NotWritten(f"no {enumeration}")
    return f"at::{enumeration}::{words[word]}"


def device(value: Any) -> str:
    """Which GPU is the runner's choice."""
    kind = value.partition(":")[0] if isinstance(value, str) else ""
    expression = {"cuda": "device", "cpu": "at::Device(at::kCPU)", "meta": "at::Device(at::kMeta)"}.get(kind)
    if expression is None:
        raise NotWritten("no device")
    return expression
