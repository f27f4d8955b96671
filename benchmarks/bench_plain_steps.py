"""Estimated against measured unprofiled steps: where the truth lies, and how wide the intervals are.

usage: bench_plain_steps.py [--leave-out] DIR...

DIR holds PROGRAM.truth.json files of unprofiled steps in ms, and beside them a trace per way of recording that such a
file names, plain, shapes or stacks: PROGRAM_plain.json.gz or PROGRAM.plain.json.gz (gpu_plain_steps.py makes them).
`before` are rounds in the process before any profiler, `median` is that of all rounds, and the one of a way was timed
right after it. Of the latter two the nearer counts; a step that was never profiled is judged by itself. Prints one
line per trace, and the whole. With --leave-out the profiler's share is fitted to all other programs first (a program is
what stands before the first dot), as `USUAL_SHARE` was to all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import log
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

import warplens
from warplens.analyses.graph.bounds import STEPS_DRIFT, step_bounds
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.recording_cost import USUAL_SHARE, plain_lags
from warplens.analyses.graph.simulating import simulate, step_ns

WAYS = ("plain", "shapes", "stacks")
SHARES = np.arange(0, 1.01, 0.05)
EXPECTED = np.arange(0.4, 0.71, 0.01)
MISSED = 2 / 0.15
"""What a distance outside an interval counts, beside its width: the score is least for intervals that hold 85 %."""
HOST_BOUND = 0.85


class Recording(NamedTuple):
    name: str
    program: str
    truths: tuple[float, float]
    never_ms: float
    recorded_ms: float
    fast_host_ms: float
    steps_ms: tuple[float, ...]
    """With each of `SHARES`."""

    def step_ms(self, share: float) -> float:
        return float(np.interp(share, SHARES, self.steps_ms))

    @property
    def is_host_bound(self) -> bool:
        return self.fast_host_ms < HOST_BOUND * self.recorded_ms

    def off(self, step_ms: float) -> float:
        """What an estimate is off by from the nearer truth."""
        return min((step_ms / truth - 1 for truth in self.truths), key=abs)

    @property
    def interval(self) -> tuple[float, float]:
        return (1 - STEPS_DRIFT) * self.step_ms(USUAL_SHARE.high), (1 + STEPS_DRIFT) * self.step_ms(USUAL_SHARE.low)

    @property
    def score(self) -> tuple[float, bool]:
        low, high = self.interval
        missed, truth = min((max(low - truth, truth - high, 0.0), truth) for truth in self.truths)
        return (high - low + MISSED * missed) / truth, missed == 0

    @property
    def holds_never(self) -> bool:
        low, high = self.interval
        return low <= self.never_ms <= high


def recordings(folder: Path) -> list[Recording]:
    read = []
    for path in sorted(folder.glob("*.truth.json")):
        truth, name = json.loads(path.read_text()), path.name.removesuffix(".truth.json")
        for way in WAYS:
            trace = next((each for each in folder.glob(f"{name}[._]{way}.json.gz") if way in truth), None)
            profile = warplens.open(trace, cache=False) if trace else None
            if not isinstance(profile, warplens.Profile) or profile.plain_step is None:
                continue
            graph, bounds = graph_of(profile.workspace), step_bounds(profile.workspace)
            steps = [step_ns(graph, simulate(graph, lag_ns=plain_lags(graph, share))) / 1e6 for share in SHARES]
            truths, never_ms = (truth[way], truth["median"]), median(truth["before"])
            times = bounds.recorded_ms, bounds.fast_host_ms, tuple(steps)
            read.append(Recording(f"{name} {way}", name.split(".")[0], truths, never_ms, *times))
    return read


def fitted(known: Sequence[Recording]) -> float:
    """The share that does best where the host decides."""
    host = [each for each in known if each.is_host_bound]
    return float(min(EXPECTED, key=lambda share: sum(log(1 + abs(each.off(each.step_ms(share)))) for each in host)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leave-out", action="store_true", help="fit the share to the other programs first")
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    options = parser.parse_args()
    known = [each for folder in options.folders for each in recordings(folder)]
    rows = []
    for program in sorted({each.program for each in known}):
        share = fitted([each for each in known if each.program != program]) if options.leave_out else USUAL_SHARE.share
        for each in (each for each in known if each.program == program):
            (low, high), step = each.interval, each.step_ms(share)
            rows.append((each, (high - low) / step, *each.score, each.off(step), step / each.never_ms - 1))
            after, usual = each.truths
            print(f"{each.name:44} recorded {each.recorded_ms:7.2f}  estimated {step:7.2f} [{low:.2f}, {high:.2f}]  "
                  f"before {each.never_ms:.2f}, right after {after:.2f}, median {usual:.2f}"
                  f"{'' if rows[-1][3] else '  outside'}  share {share:.2f}")  # fmt: skip
    host, gpu = ([row for row in rows if row[0].is_host_bound == is_host] for is_host in (True, False))
    for kind, chosen in (("all", rows), ("host decides", host), ("GPU decides", gpu)):
        if chosen:
            each, widths, scores, inside, off, never = zip(*chosen, strict=True)
            print(f"{kind}: {sum(inside)} of {len(chosen)} inside, median width {np.median(widths):.2f}, "
                  f"score {np.mean(scores):.2f}, median |error| {np.median(np.abs(off)):.3f}, "
                  f"{sum(abs(value) <= 0.2 for value in off)} within 20 %, {sum(value > 0 for value in off)} too long; "
                  f"never profiled: {sum(one.holds_never for one in each)} inside, "
                  f"median |error| {np.median(np.abs(never)):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
