"""A fact of two compilations, and whether the second has it better or worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Shown = float | int | str | None
SAME: Final = "same"
CHANGED: Final = "changed"
IMPROVEMENT: Final = "improvement"
REGRESSION: Final = "regression"


@dataclass(frozen=True)
class FactDifference:
    measure: str
    before: Shown
    after: Shown
    verdict: str


def verdict_of(better: str, before: Shown, after: Shown, tolerance: float = 0.0) -> str:
    """`better` is "lower", "higher" or "" where neither is; a relative change up to the tolerance is none.

    >>> verdict_of("lower", 31, 0), verdict_of("higher", 100.0, 95.0, 0.1), verdict_of("lower", None, 4)
    ('improvement', 'same', 'changed')
    """
    if before == after:
        return SAME
    if not better or not isinstance(before, (int, float)) or not isinstance(after, (int, float)):
        return CHANGED
    if abs(after - before) <= tolerance * max(abs(before), abs(after)):
        return SAME
    return IMPROVEMENT if (after > before) == (better == "higher") else REGRESSION
