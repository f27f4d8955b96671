"""Estimated against measured unprofiled steps: where the truth lies, and how wide the intervals are.

usage: bench_plain_steps.py [--leave-out] DIR...

DIR holds PROGRAM.truth.json files of unprofiled steps in ms, and beside them a trace per way of recording that such a
file names, plain, shapes or stacks: PROGRAM_plain.json.gz or PROGRAM.plain.json.gz. `median` is that of rounds before
and after all recordings; the one of a way was timed right after it. The nearer of both counts. Prints one line per
trace, and the whole. With --leave-out the cost of a record is fitted to all other programs first (a program is what
stands before the first dot), as `PER_NESTED_OP` was to all.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import NamedTuple

import numpy as np

import warplens
from warplens.analyses.graph.bounds import STEPS_DRIFT, step_bounds
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.host_gauge import nested_op_ns, pauses
from warplens.analyses.graph.recording_cost import PER_NESTED_OP, plain_lags
from warplens.analyses.graph.simulating import simulate, step_ns

WAYS = ("plain", "shapes", "stacks")
RATIOS = np.arange(0.8, 8.05, 0.1)
EXPECTED, LOW, HIGH = np.arange(1.4, 2.8, 0.05), np.arange(0.9, 1.75, 0.1), np.arange(2.0, 3.3, 0.1)
INSIDE = 0.85
"""Of the recordings that it is fitted to, an interval has to contain this share."""
MISSED = 2 / 0.15
"""What a distance outside an interval counts, beside its width: the score is least for intervals that hold 85 %."""
HOST_BOUND = 0.85


class Recording(NamedTuple):
    name: str
    program: str
    truths: tuple[float, float]
    recorded_ms: float
    fast_host_ms: float
    pauses: float
    steps_ms: tuple[float, ...]
    """With each of `RATIOS`; with pauses once."""

    def step_ms(self, ratio: float) -> float:
        return float(np.interp(ratio, RATIOS, self.steps_ms))

    @property
    def is_host_bound(self) -> bool:
        return self.fast_host_ms < HOST_BOUND * self.recorded_ms

    def off(self, step_ms: float) -> float:
        """What an estimate is off by from the nearer truth."""
        return min((step_ms / truth - 1 for truth in self.truths), key=abs)

    def interval(self, ratios: Sequence[float]) -> tuple[float, float]:
        _, low, high = ratios
        return (1 - STEPS_DRIFT) * self.step_ms(high * self.pauses), (1 + STEPS_DRIFT) * self.step_ms(low)

    def score(self, ratios: Sequence[float]) -> tuple[float, bool]:
        low, high = self.interval(ratios)
        missed, truth = min((max(low - truth, truth - high, 0.0), truth) for truth in self.truths)
        return (high - low + MISSED * missed) / truth, missed == 0


def recordings(folder: Path) -> list[Recording]:
    read = []
    for path in sorted(folder.glob("*.truth.json")):
        truth, name = json.loads(path.read_text()), path.name.removesuffix(".truth.json")
        for way in WAYS:
            trace = next((each for each in folder.glob(f"{name}[._]{way}.json.gz") if way in truth), None)
            profile = warplens.open(trace, cache=False) if trace else None
            if not isinstance(profile, warplens.Profile) or profile.plain_step is None:
                continue
            work, graph, bounds = profile.workspace, graph_of(profile.workspace), step_bounds(profile.workspace)
            unit_ns, paused = nested_op_ns(work.trace) * pauses(work.trace), pauses(work.trace)
            steps = [step_ns(graph, simulate(graph, lag_ns=plain_lags(graph, unit_ns * ratio))) for ratio in RATIOS]
            truths = (truth[way], truth["median"])
            times = bounds.recorded_ms, bounds.fast_host_ms, paused, tuple(ns / 1e6 for ns in steps)
            read.append(Recording(f"{name} {way}", name.split(".")[0], truths, *times))
    return read


def fitted(known: Sequence[Recording]) -> tuple[float, float, float]:
    """The ratios that do best: the expected one for both truths where the host decides, the others by score."""
    pairs = [(each, truth) for each in known if each.is_host_bound for truth in each.truths]
    expected = min(EXPECTED, key=lambda ratio: sum(abs(log(each.step_ms(ratio) / truth)) for each, truth in pairs))

    def mean_score(low: float, high: float) -> float:
        scores = [each.score((expected, low, high)) for each in known]
        enough = sum(is_inside for _, is_inside in scores) >= INSIDE * len(scores)
        return sum(score for score, _ in scores) / len(scores) if enough else float("inf")

    low, high = min(((low, high) for low in LOW for high in HIGH), key=lambda pair: mean_score(*pair))
    return float(expected), float(low), float(high)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--leave-out", action="store_true", help="fit the cost to the other programs first")
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR")
    options = parser.parse_args()
    known = [each for folder in options.folders for each in recordings(folder)]
    rows = []
    for program in sorted({each.program for each in known}):
        ratios = PER_NESTED_OP
        if options.leave_out:
            ratios = fitted([each for each in known if each.program != program])
            print(f"without {program}: {' '.join(f'{ratio:.2f}' for ratio in ratios)}")
        for each in (each for each in known if each.program == program):
            (low, high), step = each.interval(ratios), each.step_ms(ratios[0])
            rows.append((each, (high - low) / step, *each.score(ratios), each.off(step)))
            after, median = each.truths
            print(f"{each.name:34} recorded {each.recorded_ms:7.2f}  estimated {step:7.2f} [{low:.2f}, {high:.2f}]  "
                  f"measured {after:.2f}, {median:.2f}{'' if rows[-1][3] else '  outside'}")  # fmt: skip
    host, gpu = ([row for row in rows if row[0].is_host_bound == is_host] for is_host in (True, False))
    for kind, chosen in (("all", rows), ("host decides", host), ("GPU decides", gpu)):
        if chosen:
            _, widths, scores, inside, off = zip(*chosen, strict=True)
            print(f"{kind}: {sum(inside)} of {len(chosen)} inside, median width {np.median(widths):.2f}, "
                  f"score {np.mean(scores):.2f}, median |error| {np.median(np.abs(off)):.3f}, "
                  f"{sum(abs(each) <= 0.2 for each in off)} within 20 %, "
                  f"{sum(each > 0 for each in off)} too long")  # fmt: skip


if __name__ == "__main__":
    main()
