"""Profiles that the tests of pages compare them with: each is opened, and its tables are computed, once."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import warplens

MOST_KEPT = 12
"""Of the 0.2 s and more that each takes; a step of a real model takes some tens of megabytes."""


@lru_cache(MOST_KEPT)
def opened_once(trace: Path) -> Any:
    """For tests that only read it: a profile and its tables never change."""
    return warplens.open(trace, cache=False)
