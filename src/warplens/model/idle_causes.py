"""Causes of idleness: their names, and which of them belong together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

UNKNOWN: Final = "unknown"
SHORT_GAPS: Final = "short gaps"
LAUNCHING: Final = "launch call"
DEPENDENCY: Final = "dependency"
KIND_OF_CAUSE: Final = {
    "data loading": "data",
    "host sync": "sync",
    "memory allocation": "setup",
    "kernel loading": "setup",
    "host busy": "launch",
    LAUNCHING: "launch",
}
"""Causes that have one remedy, and one rule that counts them; the others stand for themselves."""


def largest_cause(times: Iterable[tuple[str, float]]) -> str:
    """Of causes with their times, the largest one of those that are the largest together; empty for none.

    >>> largest_cause([("host sync", 40), ("host busy", 35), ("launch call", 25)])
    'host busy'
    """
    causes = dict(times)
    sums: dict[str, float] = {}
    for cause, time in causes.items():
        kind = KIND_OF_CAUSE.get(cause, cause)
        sums[kind] = sums.get(kind, 0.0) + time
    most = max(sums, key=lambda kind: (sums[kind], kind), default="")
    own = [cause for cause in causes if KIND_OF_CAUSE.get(cause, cause) == most]
    return max(own, key=lambda cause: (causes[cause], cause), default="")
