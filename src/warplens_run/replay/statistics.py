"""Medians and how sure they are, without assuming what the samples look like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from warplens_run.formats.replay_result import Time

NORMAL_95: Final = 1.959964


def quantile(ordered: Sequence[float], share: float) -> float:
    """Between neighbours in proportion.

    >>> quantile([1.0, 2.0, 4.0], 0.5), quantile([1.0, 2.0, 4.0], 0.75)
    (2.0, 3.0)
    """
    position = share * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(samples: Sequence[float]) -> float:
    return quantile(sorted(samples), 0.5)


def relative_error(samples: Sequence[float]) -> float:
    """Half the width of the median's 95 % interval, as a share of it. The interval is between the two samples whose
    ranks are √n standard deviations of a coin toss from the middle, whatever the distribution.

    >>> relative_error([10.0] * 30)
    0.0
    >>> relative_error([1.0, 2.0])
    inf
    """
    count = len(samples)
    if count < 6:  # the interval would reach beyond the smallest and the largest sample
        return math.inf
    ordered = sorted(samples)
    reach = NORMAL_95 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach) - 1)
    middle = quantile(ordered, 0.5)
    return (ordered[high] - ordered[low]) / 2 / middle if middle > 0 else math.inf


def summarise(samples: Sequence[float], timer: str) -> Time:
    ordered = sorted(samples)
    return Time(
        median_ns=quantile(ordered, 0.5),
        p10_ns=quantile(ordered, 0.1),
        p90_ns=quantile(ordered, 0.9),
        mean_ns=math.fsum(ordered) / len(ordered),
        min_ns=ordered[0],
        repeats=len(ordered),
        relative_error=relative_error(ordered),
        timer=timer,
    )


def more_repeats(samples: Sequence[float], precision: float, most: int) -> int:
    """How many more samples the precision asks for; the interval narrows with the root of their number.

    >>> more_repeats([1.0] * 20, 0.02, 200), more_repeats([1.0] * 20, 0.02, 20)
    (0, 0)
    """
    error = relative_error(samples)
    if error <= precision or len(samples) >= most:
        return 0
    repeats = len(samples) * (error / precision) ** 2 * 1.1 if math.isfinite(error) else most
    return max(1, min(most, math.ceil(min(repeats, most))) - len(samples))
