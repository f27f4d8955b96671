"""Times of single calls, repeated until the median is as sure as was asked for."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warplens_run.formats.replay_result import RunKernel
from warplens_run.replay import kernels
from warplens_run.replay.graphs import OpCall
from warplens_run.replay.inputs import Inputs
from warplens_run.replay.options import RunOptions
from warplens_run.replay.same import Launched
from warplens_run.replay.statistics import median, more_repeats

WARM_UPS: Final = 3
FIRST_REPEATS: Final = 50
"""Starting the profiler costs more than so many short calls."""
SHORT_CALL_NS: Final = 1e6
MAX_ROUNDS: Final = 6
TIME_SHARE: Final = 0.25
"""No new round begins after this share of the time that a unit may take."""

Sample = Callable[[int], list[float]]


def repeated(sample: Sample, options: RunOptions, first: int) -> list[float]:
    """Samples, in rounds, until they are as precise as asked or as many as allowed."""
    end = time.monotonic() + options.unit_timeout * TIME_SHARE
    samples = sample(min(first, options.max_repeats))
    for _ in range(MAX_ROUNDS):
        more = more_repeats(samples, options.precision, options.max_repeats) if samples else 0
        if more == 0 or time.monotonic() > end:
            break
        samples += sample(more)
    return samples


def host_sample(call: OpCall, inputs: Inputs, options: RunOptions) -> Sample:
    """Times of calls on the CPU; fewer than asked for where one takes seconds."""
    end = time.monotonic() + options.unit_timeout * TIME_SHARE

    def sample(count: int) -> list[float]:
        samples: list[float] = []
        while len(samples) < count and not (samples and time.monotonic() > end):
            inputs.reset()
            start = time.perf_counter_ns()
            call()
            samples.append(float(time.perf_counter_ns() - start))
        return samples

    return sample


@dataclass
class ProfiledCalls:
    """Calls under the profiler, each by itself, with what it launched."""

    call: OpCall
    inputs: Inputs
    prepare: OpCall
    folder: Path
    usual: tuple[Launched, ...] = ()
    """What most calls of the first round launched."""
    unusual: int = 0

    def __post_init__(self) -> None:
        self._rows: list[tuple[Launched, ...]] = []

    def sample(self, count: int) -> list[float]:
        launches = list(kernels.record(lambda mark: self._run(count, mark), self.folder).values())
        if not self._rows and launches:
            usual = Counter(map(_identity, launches)).most_common(1)[0][0]
            self.usual = next(row for row in launches if _identity(row) == usual)
        rows = [row for row in launches if _identity(row) == _identity(self.usual)]
        self.unusual += len(launches) - len(rows)
        self._rows += rows
        return [sum(piece.ns for piece in row) for row in rows] if self.usual else []

    def kernels(self) -> tuple[RunKernel, ...]:
        return tuple(
            RunKernel(piece.name, piece.kind, median([row[number].ns for row in self._rows]), piece.grid, piece.block)
            for number, piece in enumerate(self.usual)
        )

    def _run(self, count: int, mark: Callable[[int], AbstractContextManager[Any]]) -> None:
        for number in range(count):
            self.inputs.reset()
            self.prepare()
            with mark(number):
                self.call()


def first_repeats(traced_ns: float, options: RunOptions) -> int:
    return max(options.min_repeats, FIRST_REPEATS) if traced_ns < SHORT_CALL_NS else options.min_repeats


def _identity(row: Sequence[Launched]) -> tuple[object, ...]:
    return tuple(piece.identity for piece in row)
