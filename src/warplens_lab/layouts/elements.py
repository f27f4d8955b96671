"""Types of elements by the names that CUDA C++, PyTorch, Triton and MLIR give them."""

from __future__ import annotations

import re
from typing import Final

from warplens_run.base.errors import UsageError

_BITS: Final = {
    "bool": 8,
    "char": 8,
    "short": 16,
    "int": 32,
    "unsigned": 32,
    "long": 64,
    "half": 16,
    "__half": 16,
    "half_t": 16,
    "bfloat16": 16,
    "__nv_bfloat16": 16,
    "bfloat16_t": 16,
    "tfloat32_t": 32,
    "float": 32,
    "double": 64,
    "complex64": 64,
    "half2": 32,
    "__half2": 32,
    "__nv_bfloat162": 32,
    "size_t": 64,
    "fp8": 8,
    "float8": 8,
    "i1": 8,
}
_SIZED: Final = re.compile(r"(?:u?int|[su]?i|fp|float|f|bf|tf)(\d*)(?:_t)?")
_VECTOR: Final = re.compile(r"(?P<base>u?char|u?short|u?int|u?long|float|double)(?P<count>[234])")
_SCALAR_BITS: Final = {"char": 8, "short": 16, "int": 32, "long": 64, "float": 32, "double": 64}
EXAMPLES: Final = "f32, bf16, float, half, fp8, int8, float4"


def bits_of(name: str) -> int:
    """
    >>> [bits_of(name) for name in ("float", "bf16", "half", "float4", "f8E4M3FN", "uint8_t", "unsigned char")]
    [32, 16, 16, 128, 8, 8, 8]
    """
    bits = _bits(name.strip().removeprefix("cute::").removeprefix("cutlass::"))
    if not bits:
        raise UsageError(f"{name!r} is not a known type of element", hint=f"such as {EXAMPLES}")
    return bits


def is_element(name: str) -> bool:
    return bool(_bits(name))


def _bits(name: str) -> int:
    plain = re.sub(r"\b(?:unsigned|signed|const|volatile)\s+", "", name)
    if plain in _BITS:
        return _BITS[plain]
    if match := _VECTOR.fullmatch(plain):
        return _SCALAR_BITS[match["base"].removeprefix("u") if match["base"] != "uint" else "int"] * int(match["count"])
    if re.fullmatch(r"(?:float_|float8_|f8|fp8).*", plain, re.IGNORECASE):
        return 8
    match = _SIZED.fullmatch(plain)
    size = int(match[1]) if match and match[1] else 0
    return size if size in (4, 8, 16, 32, 64) else 0
