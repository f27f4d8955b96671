"""What a register holds in each lane of each warp of a block, as far as it can be known without running the kernel.

A value is a sum of unknowns that are the same in all lanes of a warp (a kernel's arguments, the number of the block, a
loop's counter) and a known number per lane. Overflow is not followed through unknowns.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
LANES: Final = 32
UNIFORM: Final = ""
EDGE: Final = "edge"
"""Differs between neighbours in one warp of the grid at most: a comparison of a rising index with a bound."""
THREAD: Final = "lanes"
DATA: Final = "data"
REASONS: Final = (UNIFORM, EDGE, THREAD, DATA)
"""Why lanes differ, the weakest first."""
Terms = tuple[tuple[str, int], ...]
_FAR: Final = 1 << 20
"""Keeps apart what two strides are multiplied by: more than any number of a thread."""


@dataclass(frozen=True, eq=False)
class Value:
    terms: Terms = ()
    lanes: Ints | None = None
    """Warps × lanes; None where lanes differ in an unknown way."""
    reason: str = UNIFORM
    """Why they do."""
    sources: frozenset[str] = field(default_factory=frozenset)
    """The kernel's parameters that it is computed from."""
    apart: Ints | None = None
    """Where lanes are not known because they are times an unknown, such as a stride: what is times it, lane by lane."""
    offsets: Ints | None = None
    """What is added to that, lane by lane."""

    @property
    def known(self) -> Ints:
        if self.lanes is None:
            raise ValueError("the lanes are not known")
        return self.lanes

    @property
    def is_known(self) -> bool:
        return self.lanes is not None

    @property
    def is_concrete(self) -> bool:
        """Nothing of it is unknown."""
        return self.lanes is not None and not self.terms

    @property
    def is_uniform(self) -> bool:
        return self.lanes is not None and bool((self.lanes == self.lanes[:, :1]).all())

    @property
    def difference(self) -> str:
        """Why lanes of a warp differ; "" where they do not."""
        if self.lanes is None:
            return self.reason
        return UNIFORM if self.is_uniform else THREAD

    @property
    def constant(self) -> int | None:
        """The number that it is in all lanes of all warps."""
        if not self.is_concrete:
            return None
        first = int(self.known[0, 0])
        return first if bool((self.known == first).all()) else None

    def key(self) -> tuple[Terms, bytes]:
        if self.lanes is not None:
            return self.terms, self.lanes.tobytes()
        parts = (part.tobytes() for part in (self.apart, self.offsets) if part is not None)
        return self.terms, b"".join((self.reason.encode(), *parts))

    def divided_by(self, number: int) -> bool:
        """Whether all its unknowns are multiples."""
        return all(factor % number == 0 for _, factor in self.terms)

    def steps(self) -> Ints:
        """Distance of each lane from the first of its warp."""
        return self.known - self.known[:, :1]


def worst(reasons: Iterable[str]) -> str:
    """
    >>> worst(["edge", "data", ""])
    'data'
    """
    return max(reasons, key=REASONS.index, default=UNIFORM)


def varying(reason: str, sources: frozenset[str] = frozenset()) -> Value:
    return Value(reason=reason, sources=sources)


def strided(lanes: Ints, sources: frozenset[str]) -> Value:
    """Lanes times an unknown that they share."""
    return Value(reason=THREAD, sources=sources, apart=lanes, offsets=np.zeros_like(lanes))


def added_strided(a: Value, b: Value, factor: int = 1) -> Value | None:
    """a + factor · b where one of them or both are strided, and the other is known."""
    parts = [(value, count) for value, count in ((a, 1), (b, factor)) if value.apart is not None]
    if not parts or not all(value.is_known or value.apart is not None for value in (a, b)):
        return None
    # Two strides: lanes are near each other only where both agree.
    apart = sum(value.apart * _FAR**at for at, (value, _) in enumerate(parts) if value.apart is not None)
    near = [value.offsets if value.apart is not None else value.known for value in (a, b)]
    offsets = sum(part * count for part, count in zip(near, (1, factor), strict=True) if part is not None)
    return Value(reason=THREAD, sources=a.sources | b.sources, apart=np.asarray(apart), offsets=np.asarray(offsets))


def added(a: Value, b: Value, factor: int = 1) -> Value:
    """a + factor · b, of values whose lanes are known."""
    terms = dict(a.terms)
    for name, count in b.terms:
        terms[name] = terms.get(name, 0) + factor * count
    return Value(_sorted(terms), a.known + factor * b.known, sources=a.sources | b.sources)


def scaled(a: Value, factor: int) -> Value:
    terms = {name: factor * count for name, count in a.terms}
    return Value(_sorted(terms), a.known * factor, sources=a.sources)


def with_lanes(a: Value, lanes: Ints, terms: Terms | None = None) -> Value:
    return Value(a.terms if terms is None else terms, lanes, sources=a.sources)


def _sorted(terms: dict[str, int]) -> Terms:
    return tuple(sorted((name, count) for name, count in terms.items() if count))
