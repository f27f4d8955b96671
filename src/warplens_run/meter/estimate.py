"""Means of a few measurements, and how far off they may be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

STUDENT_95: Final = (
    # two-sided 95 %, by degrees of freedom from 1 on
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def student_95(freedom: int) -> float:
    """Student's t; beyond the table a line in 1/freedom that is right to three digits.

    >>> student_95(4), round(student_95(60), 2), round(student_95(10**6), 2)
    (2.776, 2.0, 1.96)
    """
    if freedom < 1:
        return math.inf
    return STUDENT_95[freedom - 1] if freedom <= len(STUDENT_95) else 1.96 + 2.42 / freedom


def mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and half the width of its 95 % interval.

    >>> mean_interval([9.0, 10.0, 11.0])[0], round(mean_interval([9.0, 10.0, 11.0])[1], 3)
    (10.0, 2.484)
    >>> mean_interval([5.0])
    (5.0, inf)
    """
    count = len(values)
    if count == 0:
        return math.nan, math.inf
    mean = math.fsum(values) / count
    if count == 1:
        return mean, math.inf
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return mean, student_95(count - 1) * math.sqrt(variance / count)
