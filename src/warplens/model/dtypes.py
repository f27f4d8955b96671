"""Names of element types: PyTorch's profiler has one spelling, other writers of traces have several."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_PREFIXES: Final = ("c10::", "at::", "torch.")
_OF_C10: Final = (
    "BFloat16", "Half", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz", "Float8_e8m0fnu",
    "Float4_e2m1fn_x2", "complex<float>", "complex<double>", "complex<c10::Half>", "qint8", "quint8", "qint32",
)  # fmt: skip
_OF_CPP: Final = (
    "float", "double", "bool", "char", "signed char", "unsigned char", "short", "short int", "unsigned short",
    "short unsigned int", "int", "unsigned int", "long", "long int", "long long", "unsigned long", "long unsigned int",
)  # fmt: skip
_OF_PYTHON: Final = {
    "float16": "c10::Half", "float32": "float", "float64": "double", "int8": "signed char", "int16": "short int",
    "int32": "int", "int64": "long int", "uint8": "unsigned char", "byte": "unsigned char", "uint16": "unsigned short",
    "uint32": "unsigned int", "uint64": "unsigned long", "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip
_SPELLINGS: Final = {
    **{name.lower(): f"c10::{name}" for name in _OF_C10},
    **{name: name for name in _OF_CPP},
    **_OF_PYTHON,
}


@lru_cache
def profiler_spelling(name: str) -> str:
    """An element type as PyTorch's profiler spells it, whatever the case and the prefix; other texts as they are.

    >>> [profiler_spelling(name) for name in ("c10::bfloat16", "torch.float8_e4m3fn", "Float", "Scalar")]
    ['c10::BFloat16', 'c10::Float8_e4m3fn', 'float', 'Scalar']
    """
    word = name.lower()
    for prefix in _PREFIXES:
        word = word.removeprefix(prefix)
    return _SPELLINGS.get(word, name)
