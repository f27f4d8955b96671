"""Profiles of runs with one planted performance fault, of the same runs repaired, and what the repair truly gains.

usage: gpu_faults.py --out DIR [--only a,b] [--device cuda|cpu] [--tiny] [--budget-s 480] [--tar]

Every pair builds one training or inference step twice: before (with the fault) and after (repaired). All steps are
timed first and profiled later, each from a fresh build, because a profiler that has run once can slow later launches.
DIR gets PAIR.before.json.gz, PAIR.after.json.gz and truth.json; with --tar all of them go into faults.tar, and into
faults.2.tar and so on where one would pass 15 MiB. The healthy runs have no fault and only an after.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tarfile
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from fault_pairs import PAIRS, Pair
from gpu_run import CYCLE, Run, Step, attempt, versions, warm

TIMED_STEPS = 4 * CYCLE
WAIT, WARMUP = 1, 2
PART_BYTES = 15 * 2**20


def measure(run: Run, step: Step, stat: str) -> dict[str, Any]:
    """Step times from marks on the device, with no sync between steps that the run itself does not make."""
    warm(run, step)
    if run.cuda:
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    marks = [run.mark()]
    for _ in range(TIMED_STEPS):
        step()
        marks.append(run.mark())
    run.sync()
    wall_ms = (time.perf_counter() - started) * 1e3 / TIMED_STEPS
    times = [run.between_ms(a, b) for a, b in itertools.pairwise(marks)]
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    found = {"median": statistics.median(times), "mean": statistics.fmean(times), "p10": tenths[0], "p90": tenths[-1]}
    result: dict[str, Any] = {"ms": found[stat], **{f"{key}_ms": value for key, value in found.items()}}
    result |= {"wall_mean_ms": wall_ms, "steps": TIMED_STEPS}
    result["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30 if run.cuda else 0.0
    return {key: round(value, 4) for key, value in result.items()}


def record(run: Run, step: Step, active: int, path: Path) -> int:
    """Profile the step into path. The sync before the active steps keeps earlier steps' kernels out of the trace."""
    warm(run, step)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if run.cuda else [])
    with profile(
        activities=activities,
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=active, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
        record_shapes=True,
        with_stack=True,
    ) as prof:
        for index in range(WAIT + WARMUP + active):
            step()
            if index == WAIT + WARMUP - 1:
                run.sync()
            prof.step()
    return path.stat().st_size


def measure_pair(run: Run, pair: Pair) -> dict[str, Any]:
    result: dict[str, Any] = {"description": pair.description, "stat": pair.stat, "status": "ok", "trace_bytes": {}}
    for variant in pair.variants:
        found, status = attempt(run, lambda v=variant: measure(run, pair.build(run, v == "after"), pair.stat))
        if found is None:
            return result | {"status": f"{status} ({variant})" if status.startswith("error") else status}
        result[variant] = found
        result[f"{variant}_ms"] = found["ms"]
    if not pair.healthy:
        result["gain_ms"] = round(result["before_ms"] - result["after_ms"], 4)
        result["gain_pct"] = round(100 * result["gain_ms"] / result["before_ms"], 2)
    return result


def record_pair(run: Run, name: str, result: dict[str, Any], folder: Path) -> None:
    pair = PAIRS[name]
    for variant in pair.variants:
        path = folder / f"{name}.{variant}.json.gz"
        size, status = attempt(
            run, lambda v=variant, p=path: record(run, pair.build(run, v == "after"), pair.active, p)
        )
        if size is None:
            result["status"] = f"{status} (trace {variant})"
        else:
            result["trace_bytes"][variant] = size


def run_pairs(run: Run, names: list[str], folder: Path, budget_s: float) -> dict[str, Any]:
    """All timings, then all traces. Timing may use 60 % of the budget; truth.json is kept up to date throughout."""
    started = time.perf_counter()
    truth: dict[str, Any] = {**versions(run), "pairs": {}}

    def note(text: str) -> None:
        (folder / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False))
        print(f"{time.perf_counter() - started:6.1f} s  {text}", flush=True)

    for name in names:
        if time.perf_counter() - started > 0.6 * budget_s:
            truth["pairs"][name] = {"description": PAIRS[name].description, "status": "skipped: time budget"}
        else:
            truth["pairs"][name] = measure_pair(run, PAIRS[name])
        note(f"timed {name}: {truth['pairs'][name]['status']}")
    for name, result in truth["pairs"].items():
        if result["status"] != "ok":
            continue
        if time.perf_counter() - started > budget_s:
            result["status"] = "timed; trace skipped: time budget"
        else:
            record_pair(run, name, result, folder)
        note(f"traced {name}: {result['status']}")
    return truth


def print_table(truth: dict[str, Any]) -> None:
    print(f"\n{'pair':24}{'before ms':>11}{'after ms':>11}{'gain ms':>10}{'gain %':>8}{'kB':>8}  status")
    for name, result in truth["pairs"].items():
        cells = [result.get(key) for key in ("before_ms", "after_ms", "gain_ms", "gain_pct")]
        shown = ["–" if value is None else f"{value:.2f}" for value in cells]
        size = sum(result.get("trace_bytes", {}).values()) / 1e3
        print(f"{name:24}{shown[0]:>11}{shown[1]:>11}{shown[2]:>10}{shown[3]:>8}{size:8.0f}  {result['status']}")


def pack(folder: Path) -> list[Path]:
    """Move the traces and truth.json into as few plain tars as the size limit of one allows."""
    parts: list[Path] = []
    for path in [folder / "truth.json", *sorted(folder.glob("*.json.gz"))]:
        room = parts and parts[-1].stat().st_size + path.stat().st_size + 4096 < PART_BYTES
        if not room:
            parts.append(folder / (f"faults.{len(parts) + 1}.tar" if parts else "faults.tar"))
            parts[-1].unlink(missing_ok=True)
        with tarfile.open(parts[-1], "a") as tar:
            tar.add(path, arcname=path.name)
        path.unlink()
    return parts


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="pairs, separated by commas")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    parser.add_argument("--budget-s", type=float, default=480)
    parser.add_argument("--tar", action="store_true")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name]
    unknown = sorted(set(names) - set(PAIRS))
    if unknown:
        parser.error(f"unknown pairs: {', '.join(unknown)}; there are {', '.join(PAIRS)}")
    options.names = names or list(PAIRS)
    return options


def main() -> int:
    options = parse()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options.device, options.tiny)
    truth = run_pairs(run, options.names, options.out, options.budget_s)
    parts = pack(options.out) if options.tar else []
    print_table(truth)
    for part in parts:
        print(f"{part.name}: {part.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
