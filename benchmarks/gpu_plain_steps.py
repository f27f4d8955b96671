"""Programs recorded by torch.profiler, and the same steps without it, for estimates of unprofiled steps.

usage: gpu_plain_steps.py --out DIR [--only a,b] [--orders plain+shapes+stacks,shapes,…] [--busy N] [--tiny]

Each program runs in a process of its own for each order of recordings: rounds of steps that no profiler has touched,
then each recording of three steps followed by a round, then rounds after all. DIR gets NAME.ORDER.truth.json and
NAME.ORDER_WAY.json.gz each, as bench_plain_steps.py reads them. `--busy N` leaves the process two cores and runs N
busy ones on them. On a CPU, `--tiny` proves the code and measures nothing.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, schedule

from gpu_run import Run
from plain_step_programs import PROGRAMS

WAYS: dict[str, dict[str, bool]] = {
    "plain": {},
    "shapes": {"record_shapes": True},
    "stacks": {"record_shapes": True, "with_stack": True},
}
ORDERS = "plain+shapes+stacks,shapes,stacks"
ROUND_S, WARM_STEPS, RECORDED = 0.5, 8, 3
ROUNDS_BEFORE, ROUNDS_AFTER = 3, 2
CHILD_S = 100


def timed_ms(run: Run, step: Callable[[], Any]) -> float:
    """A step's mean time over half a second; the first two do not count."""
    for _ in range(2):
        step()
    run.sync()
    begin, count = time.perf_counter(), 0
    while time.perf_counter() - begin < ROUND_S or count < 4:
        step()
        count += 1
    run.sync()
    return (time.perf_counter() - begin) / count * 1e3


def recorded(run: Run, step: Callable[[], Any], way: str, path: Path) -> None:
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if run.cuda else [])]
    steps = schedule(wait=0, warmup=1, active=RECORDED, repeat=1)
    with profile(
        activities=activities,
        schedule=steps,
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        **WAYS[way],
    ) as profiler:
        for number in range(RECORDED + 1):
            step()
            if number == RECORDED:
                run.sync()
            profiler.step()


def measured(run: Run, name: str, order: str, label: str, out: Path) -> None:
    torch.manual_seed(0)
    step = PROGRAMS[name](run)
    for _ in range(WARM_STEPS):
        step()
    stem = f"{name}.{label}"
    truth: dict[str, Any] = {"before": [timed_ms(run, step) for _ in range(ROUNDS_BEFORE)]}
    for way in order.split("+"):
        recorded(run, step, way, out / f"{stem}_{way}.json")
        truth[way] = timed_ms(run, step)
    truth["after"] = [timed_ms(run, step) for _ in range(ROUNDS_AFTER)]
    truth["median"] = statistics.median([*truth["before"], *truth["after"]])
    (out / f"{stem}.truth.json").write_text(json.dumps(truth))
    shown = {key: value if isinstance(value, list) else [value] for key, value in truth.items()}
    print(stem, {key: [round(ms, 2) for ms in value] for key, value in shown.items()}, flush=True)


def child(run: Run, name: str, order: str, label: str, out: Path, cores: set[int]) -> None:
    if cores:
        os.sched_setaffinity(0, cores)
        torch.set_num_threads(len(cores))
    measured(run, name, order, label, out)
    sys.stdout.flush()
    os._exit(0)  # a program's own threads and contexts need no orderly end


def pack(folder: Path) -> None:
    for path in [each for way in WAYS for each in folder.glob(f"*_{way}.json")]:
        with path.open("rb") as source, gzip.open(f"{path}.gz", "wb", 6) as packed:
            shutil.copyfileobj(source, packed)
        path.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--orders", default=ORDERS)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options.device, options.tiny)
    cores = {0, 1} if options.busy else set()
    busy = [
        subprocess.Popen(["taskset", "-c", "0,1", sys.executable, "-c", "while True: sum(range(9999))"])
        for _ in range(options.busy)
    ]
    # Forked before CUDA begins: libraries are imported once, and no program finds what another left behind.
    forked = multiprocessing.get_context("fork")
    try:
        for order in options.orders.split(","):
            for name in options.only.split(",") if options.only else PROGRAMS:
                label = f"{order.replace('+', '-')}{f'.busy{options.busy}' if options.busy else ''}"
                process = forked.Process(target=child, args=(run, name, order, label, options.out, cores))
                process.start()
                process.join(CHILD_S)
                if process.is_alive():
                    print(name, order, "took too long", flush=True)
                    process.kill()
                pack(options.out)
    finally:
        for each in busy:
            each.kill()


if __name__ == "__main__":
    main()
