"""Families of kernel names: where a trace has very many, they are numbered, and one of a family stands for all."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Final

from warplens import native_library

MANY_NAMES: Final = 20_000
"""A program has hundreds of kernels, a compiler that numbers them thousands."""
NUMBERS: Final = r"(^|[^A-Za-z\d])\d+|\d{6,}"
"""Not those that belong to a word (bf16, sm90, x64), unless they are longer than any of these."""


def families_of(names: Sequence[str]) -> Sequence[str]:
    """For each name its family: the name itself, or, of very many names, the name without its numbers.

    >>> families_of(["triton_poi_fused_7"])
    ['triton_poi_fused_7']
    >>> without_numbers(["triton_poi_fused_7", "gemm_bf16_128x64_sm90", "run123456"])
    ['triton_poi_fused_#', 'gemm_bf16_#x64_sm90', 'run#']
    """
    return names if len(names) <= MANY_NAMES else without_numbers(names)


def without_numbers(names: Sequence[str]) -> list[str]:
    families = _natively(names)
    if families is None:
        import polars as pl  # of which a rule needs nothing

        families = pl.Series(names, dtype=pl.String).str.replace_all(NUMBERS, "${1}#").to_list()
    one_each: dict[str, str] = {}
    return [one_each.setdefault(family, family) for family in families]


def _natively(names: Sequence[str]) -> list[str] | None:
    """By the native library, a tenth of the time; None without it, or where a name has other letters or lines."""
    library, lines = native_library.library(), "\n".join(names)
    if library is None or not lines.isascii() or lines.count("\n") != len(names) - 1:
        return None
    text = lines.encode()
    families = ctypes.create_string_buffer(len(text))
    size = library.wl_without_numbers(text, len(text), families)
    return families.raw[:size].decode().split("\n")
