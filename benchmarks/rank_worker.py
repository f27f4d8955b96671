"""One rank of gpu_ranks.py: joins the others and runs the named jobs one after another in one process group.

Each job is built, warmed up, timed without a profiler (with the fault and without it, in turns) and recorded. Rank 0
writes JOB.result.json when every rank has written its trace; gpu_ranks.py starts the ranks and watches these files.
"""

from __future__ import annotations

import argparse
import datetime
import faulthandler
import gc
import json
import os
import statistics
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

from rank_jobs import ACTIVE, FIRST, JOBS, SIZES, TINY, WAIT, WARMUP, Fault, Job
from rank_programs import BUILDERS, Place, Trainer

TIMING_S = 4.0
BLOCK = 3
WARM_STEPS = 3
CONNECT_S = 60


class Ranks:
    """The ranks' way to each other besides collectives: a store on the host, which leaves no trace on the GPU."""

    def __init__(self, store: Any, rank: int, world: int) -> None:
        self._store, self.rank, self.world, self._count = store, rank, world, 0

    def all_values(self, value: float) -> list[float]:
        """The value of every rank, on every rank: also a barrier."""
        self._count += 1
        keys = [f"{self._count}/{rank}" for rank in range(self.world)]
        self._store.set(keys[self.rank], repr(value))
        self._store.wait(keys)
        return [float(self._store.get(key)) for key in keys]

    def barrier(self) -> None:
        self.all_values(0)


def sync(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def block_ms(ranks: Ranks, trainer: Trainer, faulty: bool, steps: int) -> float:
    """The time of one step on the rank that needs longest, over steps that all ranks begin together."""
    ranks.barrier()
    started = time.perf_counter()
    for _ in range(steps):
        trainer.step(faulty)
    sync(trainer.place.device)
    return max(ranks.all_values((time.perf_counter() - started) * 1e3)) / steps


def plain_times(ranks: Ranks, trainer: Trainer, limit_s: float) -> dict[str, Any]:
    """Step times without a profiler: with the fault and without it in turns, since a host's speed changes."""
    states = {"without_ms": False} | ({"with_ms": True} if trainer.place.fault.kind != "none" else {})
    first = {state: block_ms(ranks, trainer, faulty, 1) for state, faulty in states.items()}
    number = max(2, min(6, int(limit_s * 1e3 / (BLOCK * sum(first.values())))))
    rounds = [
        {state: round(block_ms(ranks, trainer, faulty, BLOCK), 3) for state, faulty in states.items()}
        for _ in range(number)
    ]
    result: dict[str, Any] = {state: statistics.median(times[state] for times in rounds) for state in states}
    if "with_ms" in states:
        result["gain_ms"] = round(statistics.median(times["with_ms"] - times["without_ms"] for times in rounds), 3)
    return {**result, "steps_per_round": BLOCK, "rounds": rounds}


def record(ranks: Ranks, trainer: Trainer, job: Job, name: str, folder: Path) -> Path:
    """Record one rank of the job; all ranks begin together."""
    ranks.barrier()
    if job.recorder == "warplens":
        return record_bundle(trainer, job, name, folder)
    path = folder / f"{name}.rank{ranks.rank}.json.gz"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if trainer.place.device == "cuda" else [])]
    with profile(
        activities=activities,
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
        record_shapes=True,
        with_stack=job.stacks,
    ) as profiler:
        for number in range(FIRST + ACTIVE):
            trainer.step(job.fault.kind != "none" and number >= job.since)
            profiler.step()
    return path


def record_bundle(trainer: Trainer, job: Job, name: str, folder: Path) -> Path:
    import warplens

    session = warplens.start(
        str(folder / f"{name}.zip"), data="trace", steps=ACTIVE, wait=WAIT, warmup=WARMUP, light_steps=0,
        execution_trace="none", force=True,
    )  # fmt: skip
    for number in range(FIRST + ACTIVE):
        trainer.step(job.fault.kind != "none" and number >= job.since)
        warplens.step()
    sync(trainer.place.device)
    path = warplens.finalize(session)
    assert path is not None
    return path


def run_job(ranks: Ranks, name: str, options: argparse.Namespace) -> dict[str, Any]:
    job = JOBS[name]
    # Fewer ranks than planned prove the code only.
    fault = replace(job.fault, rank=min(job.fault.rank, ranks.world - 1))
    fault = replace(fault, amount=5.0) if options.tiny and fault.kind in ("host", "gpu", "late_data") else fault
    place = Place(ranks.rank, ranks.world, options.device, options.tiny, fault)
    trainer = BUILDERS[job.program](place, (TINY if options.tiny else SIZES)[job.program])
    sync(options.device)
    ranks.barrier()
    if place.has("gpu"):
        trainer.calibrate()
    ranks.barrier()
    for _ in range(WARM_STEPS):
        trainer.step(faulty=False)
    plain = plain_times(ranks, trainer, 0.0 if options.tiny else TIMING_S)
    path = record(ranks, trainer, job, name, options.out)
    sizes = ranks.all_values(path.stat().st_size)
    products = max(ranks.all_values(trainer.products))
    return {**truth_of(job, fault, ranks.world), "plain": plain, "products": int(products), "bytes": int(sum(sizes))}


def truth_of(job: Job, fault: Fault, world: int) -> dict[str, Any]:
    is_planted = fault.kind != "none"
    in_ms = fault.kind in ("host", "gpu", "late_data")
    return {
        "program": job.program,
        "ranks": world,
        "recorder": job.recorder,
        "stacks": job.stacks,
        "fault": fault.kind,
        "rank": fault.rank if is_planted else None,
        "since_step": job.since if is_planted else None,
        "cause": fault.cause,
        "planted_ms": fault.amount if in_ms else None,
        "planted_factor": fault.amount if is_planted and not in_ms else None,
        "recorded_steps": list(range(FIRST, FIRST + ACTIVE)),
    }


def write_whole(path: Path, value: dict[str, Any]) -> None:
    """The reader polls for the file and must not see half of it."""
    part = path.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(path)


def join(options: argparse.Namespace) -> Ranks:
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    limit = datetime.timedelta(seconds=CONNECT_S)
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), world, is_master=rank == 0, timeout=limit)
    if options.device == "cuda":
        torch.cuda.set_device(0)
        torch.zeros(1, device="cuda")
    backend = "nccl" if options.device == "cuda" else "gloo"
    dist.init_process_group(backend, store=dist.PrefixStore("group", store), rank=rank, world_size=world)
    dist.all_reduce(torch.ones(1, device=options.device))
    sync(options.device)
    return Ranks(dist.PrefixStore("ranks", store), rank, world)


def versions(device: str) -> dict[str, Any]:
    found: dict[str, Any] = {"torch": torch.__version__, "python": sys.version.split()[0], "device": device}
    if device == "cuda":
        found |= {"gpu": torch.cuda.get_device_name(0), "nccl": ".".join(map(str, torch.cuda.nccl.version()))}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--start-s", type=float, default=75, help="maximum time until the ranks have met")
    parser.add_argument("--job-s", type=float, default=25, help="maximum time of one job")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    # A rank that waits for ever ends by itself and leaves in its log where it waited.
    faulthandler.dump_traceback_later(options.start_s, exit=True)
    ranks = join(options)
    if ranks.rank == 0:
        write_whole(options.out / "ready.json", versions(options.device))
    for name in options.jobs.split(","):
        faulthandler.dump_traceback_later(options.job_s, exit=True)
        started = time.perf_counter()
        result = run_job(ranks, name, options)
        gc.collect()
        ranks.barrier()
        if ranks.rank == 0:
            seconds = round(time.perf_counter() - started, 2)
            write_whole(options.out / f"{name}.result.json", {**result, "seconds": seconds, "status": "ok"})
    ranks.barrier()
    faulthandler.cancel_dump_traceback_later()
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))
    raise SystemExit(main())
