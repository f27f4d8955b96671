"""Capture bundles of runs with one planted performance fault, and what the repair truly gains.

usage: gpu_bundles.py --out DIR [--only a,b] [--device cuda|cpu] [--tiny] [--light-steps 3] [--budget-s 480]

Every pair of fault_pairs.py runs in a process of its own: both variants are timed without a profiler, in turns, since a
host's speed changes within minutes; then the faulty one (of healthy runs the only one) is recorded by `warplens.start`
with plain steps before and after, a light pass and stacks. DIR gets a bundle PAIR.zip each and truth.json, which
`bench_faults.py --traces DIR` compares with the findings.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WAIT, WARMUP = 12, 1
ROUNDS = 5
AFTER = 14
"""Steps that run on after the recorded ones, for the light pass and the plain steps."""


def record(run: Any, step: Any, active: int, path: Path, light_steps: int) -> None:
    import warplens
    from gpu_run import warm

    warm(run, step)
    session = warplens.start(
        str(path), data="trace", stacks=True, steps=active, wait=WAIT, warmup=WARMUP, light_steps=light_steps,
        execution_trace="none", force=True,
    )  # fmt: skip
    for _ in range(WAIT + WARMUP + active + light_steps + AFTER):
        step()
        warplens.step()
    run.sync()
    warplens.finalize(session)


def one_pair(options: argparse.Namespace) -> dict[str, Any]:
    """Times and records one pair in this process."""
    from fault_pairs import PAIRS
    from gpu_run import Run, attempt

    run, pair = Run(options.device, options.tiny), PAIRS[options.pair]
    path = options.out / f"{options.pair}.zip"

    def measured() -> dict[str, Any]:
        steps = {variant: pair.build(run, variant == "after") for variant in pair.variants}
        result = in_turns(run, steps, pair.stat)
        record(run, steps[pair.variants[0]], pair.active, path, options.light_steps)
        return result

    result, status = attempt(run, measured)
    return {"description": pair.description, "stat": pair.stat, "status": status, **(result or {})}


def in_turns(run: Any, steps: dict[str, Any], stat: str) -> dict[str, Any]:
    """The median step of each variant, and of the difference, over rounds in which they take turns."""
    from gpu_faults import measure

    rounds = [{variant: measure(run, step, stat)["ms"] for variant, step in steps.items()} for _ in range(ROUNDS)]
    result: dict[str, Any] = {"rounds": rounds}
    for variant in steps:
        result[f"{variant}_ms"] = statistics.median(times[variant] for times in rounds)
    if len(steps) == 2:
        result["gain_ms"] = statistics.median(times["before"] - times["after"] for times in rounds)
        result["gain_pct"] = 100 * result["gain_ms"] / result["before_ms"]
    return result


def all_pairs(options: argparse.Namespace) -> dict[str, Any]:
    from fault_pairs import PAIRS
    from gpu_run import Run, versions

    started = time.perf_counter()
    truth: dict[str, Any] = {**versions(Run(options.device, options.tiny)), "pairs": {}}
    for name in options.only.split(",") if options.only else PAIRS:
        if time.perf_counter() - started > options.budget_s:
            truth["pairs"][name] = {"status": "skipped: time budget"}
            continue
        answer = options.out / f"{name}.json"
        command = [sys.executable, __file__, *sys.argv[1:], "--pair", name]
        status = subprocess.run(command, check=False).returncode
        truth["pairs"][name] = json.loads(answer.read_text()) if answer.exists() else {"status": f"exit {status}"}
        answer.unlink(missing_ok=True)
        (options.out / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False))
        print(f"{time.perf_counter() - started:6.1f} s  {name}: {truth['pairs'][name]['status']}", flush=True)
    return truth


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="pairs, separated by commas")
    parser.add_argument("--pair", default="", help="one pair, in this process")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    parser.add_argument("--light-steps", type=int, default=3)
    parser.add_argument("--budget-s", type=float, default=480)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.pair:
        (options.out / f"{options.pair}.json").write_text(json.dumps(one_pair(options), ensure_ascii=False))
        return 0
    from gpu_faults import print_table

    truth = all_pairs(options)
    print_table(truth)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    raise SystemExit(main())
