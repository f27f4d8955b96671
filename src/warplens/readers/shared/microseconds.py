"""Float microseconds, as trace-event JSON has them → integer nanoseconds; the one place where they are rounded."""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from warplens.model.times import MAX_NS
from warplens.model.trace import Bools, Ints

LIMIT_US: Final = MAX_NS / 1000


class Nanoseconds(msgspec.Struct, frozen=True):
    ns: Ints
    is_known: Bools | None
    """False where the file has no number; None where it has one everywhere."""


def to_ns(microseconds: npt.NDArray[np.float64]) -> Nanoseconds:
    """To the ns up to 4e12 µs, beyond that to what a float still distinguishes; impossible times become `MAX_NS`.

    The whole µs never pass through a product, which would round them once more.
    """
    # NaN and infinity make this false as well.
    if np.abs(microseconds).max(initial=0.0) < LIMIT_US:
        return Nanoseconds(_rounded(microseconds), None)
    is_known = ~np.isnan(microseconds)
    return Nanoseconds(_rounded(np.clip(np.where(is_known, microseconds, 0), -LIMIT_US, LIMIT_US)), is_known)


def _rounded(microseconds: npt.NDArray[np.float64]) -> Ints:
    whole = np.floor(microseconds)
    part = np.rint((microseconds - whole) * 1000)
    return whole.astype(np.int64) * 1000 + part.astype(np.int64)


def ns_of(microseconds: float) -> int | None:
    """The same of one time; None for NaN.

    >>> ns_of(1.2345), ns_of(math.nan), ns_of(-math.inf)
    (1234, None, -4000000000000000000)
    """
    if math.isnan(microseconds):
        return None
    if abs(microseconds) >= LIMIT_US:
        return MAX_NS if microseconds > 0 else -MAX_NS
    whole = math.floor(microseconds)
    return whole * 1000 + round((microseconds - whole) * 1000)
