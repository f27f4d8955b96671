"""Stragglers that a report names against those planted in simulated jobs.

usage: bench_ranks.py [--faulty 60] [--healthy 100] [--kind slow_gpu] [--seed 0] [--keep DIR]

Makes small jobs with make_ranks, asks `warplens show JOB stragglers --json` of each, and prints per kind of fault how
often its place, cause and first step are named, how near its gain is, and what was named that nobody planted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from make_ranks import JobSpec, make_job
from ranks_sim.compare import Row, Verdict, clock_errors, is_clear, unplanted, verdicts
from ranks_sim.jobs import faulty_jobs, healthy_jobs


@dataclass
class Score:
    """What was found in all jobs."""

    verdicts: dict[str, list[Verdict]] = field(default_factory=lambda: defaultdict(list))
    faulty: int = 0
    with_unplanted: int = 0
    healthy: int = 0
    alarmed: int = 0
    offset_errors_us: list[float] = field(default_factory=list)
    drift_errors_ppm: list[float] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faulty", type=int, default=60)
    parser.add_argument("--healthy", type=int, default=100)
    parser.add_argument("--kind", help="only jobs with this kind of fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where the jobs are kept")
    given = parser.parse_args()
    score = Score()
    for spec, folder in _made(given.faulty, given.healthy, given.kind, given.seed, given.keep):
        _judge(spec, folder, score)
    _print(score)
    return 1 if score.unreadable else 0


def _made(faulty: int, healthy: int, kind: str | None, seed: int, keep: Path | None) -> Iterator[tuple[JobSpec, Path]]:
    specs = [spec for spec in faulty_jobs(faulty, seed) if kind in (None, *(fault.kind for fault in spec.faults))]
    for number, spec in enumerate([*specs, *healthy_jobs(healthy, seed)]):
        with tempfile.TemporaryDirectory() as temporary:
            name = "-".join([f"{number:03d}", *(fault.kind for fault in spec.faults)])
            yield spec, (keep or Path(temporary)) / name


def _judge(spec: JobSpec, folder: Path, score: Score) -> None:
    truth = make_job(folder, spec)
    try:
        stragglers, ranks = _shown(folder, "stragglers"), _shown(folder, "ranks")
    except subprocess.CalledProcessError as error:
        score.unreadable.append(f"{folder.name}: {error.stderr.strip()}")
        return
    errors = clock_errors(truth, ranks)
    if errors is not None:
        score.offset_errors_us.append(errors[0])
        score.drift_errors_ppm.append(errors[1])
    if not any(fault.cause for fault in truth.faults):
        score.healthy += 1
        score.alarmed += any(map(is_clear, stragglers))
        return
    score.faulty += 1
    score.with_unplanted += bool(unplanted(truth, stragglers))
    for verdict in verdicts(truth, stragglers):
        score.verdicts[verdict.kind].append(verdict)
        if not (verdict.is_hit and verdict.is_gain_near):
            print(f"{folder.name}: {verdict}", file=sys.stderr)


def _shown(folder: Path, table: str) -> list[Row]:
    command = [sys.executable, "-m", "warplens", "show", str(folder), table, "--json"]
    rows: list[Row] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return rows


def _print(score: Score) -> None:
    print(
        f"{'planted':16}{'jobs':>5}{'place':>7}{'cause':>7}{'step':>6}{'all':>5}{'gain ±10 %':>12}{'median error':>14}"
    )
    together: list[Verdict] = []
    for kind, found in score.verdicts.items():
        print(_line(kind, found))
        together += found
    if together:
        print(_line("all", together))
    print(f"faulty jobs with another rank named: {score.with_unplanted} of {score.faulty}")
    print(f"healthy jobs with a straggler named: {score.alarmed} of {score.healthy}")
    if score.offset_errors_us:
        print(f"clocks: within {max(score.offset_errors_us):.1f} µs and {max(score.drift_errors_ppm):.1f} ppm")
    for line in score.unreadable:
        print(f"not read: {line}")


def _line(kind: str, found: list[Verdict]) -> str:
    errors = [abs(verdict.gain_error) for verdict in found if verdict.gain_error is not None]
    counts = (
        f"{sum(verdict.is_place_named for verdict in found):7}{sum(verdict.is_cause_named for verdict in found):7}"
        f"{sum(verdict.is_step_named for verdict in found):6}{sum(verdict.is_hit for verdict in found):5}"
        f"{sum(verdict.is_gain_near for verdict in found):12}"
    )
    return f"{kind:16}{len(found):5}{counts}{f'{median(errors):.1%}' if errors else '–':>14}"


if __name__ == "__main__":
    raise SystemExit(main())
