"""What a run of tasks takes and gives: items, outcomes, progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

A = TypeVar("A")
R = TypeVar("R")

LEAST_SHARE: Final = 0.02
"""Done before the time that is left is estimated."""


@dataclass(frozen=True)
class Item(Generic[A]):
    """One task's argument, picklable and small: a path, integers, options; never a frame."""

    argument: A
    size_bytes: int = 0
    """Of the input, unpacked (`unpacked_bytes`): it decides the order, the memory and the progress. 0: unknown."""


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """A task's value, or the reason why there is none after the last attempt."""

    value: R | None = None
    reason: str = ""
    hint: str = ""
    is_final: bool = False
    """Whether another attempt would end the same: the file was read, and is not what it should be."""

    @property
    def failed(self) -> bool:
        return bool(self.reason)


@dataclass(frozen=True)
class Progress:
    done: int
    total: int
    share: float
    """Of the work, by size: 0 to 1."""
    elapsed_s: float
    failed: int = 0
    workers: int | None = None
    """Of a cluster: how many there are now; 0 while the first is awaited."""

    @property
    def left_s(self) -> float | None:
        """At the pace so far; None while too little is done to know it."""
        return self.elapsed_s * (1 - self.share) / self.share if self.share >= LEAST_SHARE else None


OnProgress = Callable[[Progress], None]


def no_progress(_progress: Progress) -> None:
    """For callers that show none."""


@dataclass
class Tally:
    """Collects the outcomes of one `map` and reports progress; used by one thread only."""

    items: Sequence[Item[Any]]
    on_progress: OnProgress
    workers: int | None = None
    outcomes: list[Outcome[Any] | None] = field(init=False)
    _began: float = field(init=False, default_factory=time.monotonic)
    _size: int = field(init=False)
    _size_done: int = field(init=False, default=0)
    _done: int = field(init=False, default=0)
    _failed: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.outcomes = [None] * len(self.items)
        self._size = sum(map(_weight, self.items))

    def largest_first(self) -> list[int]:
        return sorted(range(len(self.items)), key=lambda index: -self.items[index].size_bytes)

    def settle(self, index: int, outcome: Outcome[Any]) -> None:
        self.outcomes[index] = outcome
        self._done += 1
        self._failed += outcome.failed
        self._size_done += _weight(self.items[index])
        self.report()

    def report(self) -> None:
        elapsed_s = time.monotonic() - self._began
        share = self._size_done / max(1, self._size)
        self.on_progress(Progress(self._done, len(self.items), share, elapsed_s, self._failed, self.workers))

    def result(self) -> list[Outcome[Any]]:
        return [outcome or Outcome(reason="it was not run") for outcome in self.outcomes]


def _weight(item: Item[Any]) -> int:
    return item.size_bytes + 1
