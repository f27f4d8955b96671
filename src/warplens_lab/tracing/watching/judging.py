"""Which errors of outputs are worth a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from warplens_lab.tracing.records import Fault, NumberError
from warplens_lab.tracing.watching.remedies import REORDER, WIDEN
from warplens_lab.tracing.watching.wide_memory import FLOAT_KINDS

MOST_MANTISSA_BITS_OF_NARROW: Final = 10
MOST_ULPS_NARROW: Final = 0.75
"""Rounding once, at the store, is at most a half; the median of a sum in fp32 that is rounded to fp16 is a quarter."""
MOST_ULPS: Final = 64.0
"""Six bits of fp32: long sums, exp and division in fp32 stay below."""


def lost_bits(rows: Sequence[NumberError], lines: Sequence[int], *, narrow: bool) -> Iterator[Fault]:
    for row in rows:
        bits = FLOAT_KINDS[row.judged_dtype].mantissa_bits
        most = MOST_ULPS_NARROW if bits <= MOST_MANTISSA_BITS_OF_NARROW else MOST_ULPS
        if row.judged_ulps <= most or row.site < 0:
            continue
        message = (
            f"{row.tensor}: the median error is {row.judged_ulps:.3g} ulps of {row.judged_dtype}; the largest, "
            f"{row.largest_ulps:.3g} of {row.dtype}, is at {list(row.place)}: {row.value:.6g}, in fp64 "
            f"{row.shadow:.6g}. {row.growth_percent:.0f} % of the error comes in at line {lines[row.site]}"
        )
        yield Fault(
            "lost_bits", row.site, "compute", row.tensor, (0, 0, 0), -1, (), message, row.elements, 0,
            place=row.place, remedy=WIDEN if narrow else REORDER,
        )  # fmt: skip
