"""What an atomic orders between programs, by its `sem`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any


@dataclass(frozen=True)
class Orders:
    """A release orders what its program did before, an acquire what it does from then on; a relaxed one nothing."""

    releases: bool
    acquires: bool


NO_ORDER = Orders(releases=False, acquires=False)


@lru_cache(maxsize=16)
def orders_of(semantic: Any) -> Orders:
    """From Triton's own value, which is slow to print.

    >>> orders_of("MEM_SEMANTIC.ACQUIRE"), orders_of("MEM_SEMANTIC.RELAXED") is NO_ORDER
    (Orders(releases=False, acquires=True), True)
    """
    name = str(semantic)
    orders = Orders("RELEASE" in name, "ACQUIRE" in name)
    return orders if orders.releases or orders.acquires else NO_ORDER
