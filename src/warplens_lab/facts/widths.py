"""How many bits one thread moves to or from global memory with one instruction."""

from __future__ import annotations

import re
from typing import Final

_PTX_ACCESS = re.compile(r"(ld|st|atom|red)\.(?:\w+\.)*?global((?:[.:\w])*)")
_PTX_VECTOR = re.compile(r"\.v(\d)")
_PTX_ELEMENT = re.compile(r"\.[bufs](8|16|32|64|128)\b")
_PTX_COPY = re.compile(r"cp\.async\.c[ag]\.")
_PTX_COPY_SIZE = re.compile(r",\s*(0x[0-9a-f]+|\d+)\s*[,;]")
_AMD_ACCESS = re.compile(r"(?:global|buffer|flat)_(load|store|atomic)_(\w+)")
_AMD_BITS: Final = (
    (r"dword|b32", 32),
    (r"\w*short|short|d16|b16|u16|i16", 16),
    (r"\w*byte|b8|u8|i8", 8),
)
KINDS: Final = {"ld": "load", "st": "store", "atom": "atomic", "red": "atomic"}


def ptx_access(name: str, operands: str) -> tuple[str, int] | None:
    """Kind and bits of a PTX instruction; None if it touches no global memory.

    >>> ptx_access("ld.global.v4.b32", ""), ptx_access("st.global.b16", "")
    (('load', 128), ('store', 16))
    >>> ptx_access("cp.async.cg.shared.global", "[ %r1 + 0 ], [ %rd1 + 0 ], 0x10, %r2;")
    ('load', 128)
    """
    if _PTX_COPY.match(name):
        size = _PTX_COPY_SIZE.search(operands)
        return ("load", int(size[1], 0) * 8) if size else None
    match = _PTX_ACCESS.match(name)
    if match is None:
        return None
    element = _PTX_ELEMENT.search(name)
    vector = _PTX_VECTOR.search(name)
    if element is None:
        packed = re.search(r"\.(bf16x2|f16x2|bf16|f16)\b", name)
        bits = {"bf16x2": 32, "f16x2": 32}.get(packed[1], 16) if packed else 0
    else:
        bits = int(element[1])
    return KINDS[match[1]], bits * (int(vector[1]) if vector else 1)


def amd_access(name: str) -> tuple[str, int] | None:
    """
    >>> amd_access("buffer_load_dwordx4"), amd_access("global_store_short_d16_hi"), amd_access("global_load_ubyte")
    (('load', 128), ('store', 16), ('load', 8))
    """
    match = _AMD_ACCESS.match(name)
    if match is None:
        return None
    kind, rest = match[1], match[2]
    if kind == "atomic":
        return kind, 64 if rest.endswith(("x2", "f64")) else 32
    wide = re.match(r"(?:lds_)?dwordx(\d)", rest)
    if wide:
        return kind, 32 * int(wide[1])
    for pattern, bits in _AMD_BITS:
        if re.match(pattern, rest):
            return kind, bits
    return kind, 0
