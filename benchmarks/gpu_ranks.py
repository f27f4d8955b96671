"""Traces of training jobs over several ranks on one GPU, each with one planted fault or none, and what is true of them.

usage: gpu_ranks.py --out DIR [--only a,b] [--device cuda|cpu] [--tiny] [--ranks N] [--budget-s 240] [--tar]

All ranks run on one GPU, which NCCL permits where each names another host; it then talks over sockets, and the GPU is
time-sliced between the processes. Jobs of as many ranks run one after another in one set of processes. A job that
fails or exceeds its time ends that set; the jobs after it run in a new one. DIR gets a trace (or capture bundle) per
rank and job, and truth.json: fault, rank, first step, cause, and the step time with and without the fault; failures.txt
has the output of the ranks of a failed job. With --tar the traces go into ranks.1.tar, ranks.2.tar and so on, none
above 15 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import tarfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

JOB_S = 25.0
START_S = 75.0
"""Python, PyTorch, a CUDA context and NCCL's first communicator, on every rank."""
END_S = 10.0
SPARE_S = 2.0
"""After a job's time the ranks end themselves, which shows where they waited; this much later they are ended."""
PART_BYTES = 15_000_000
TAR_RECORD = 10_240
SHOWN_LINES, KEPT_LINES = 6, 200


@dataclass
class Launch:
    """One set of processes, a rank each, and how far they are."""

    processes: list[subprocess.Popen[bytes]]
    logs: list[Path]
    pending: list[str]
    deadline: float
    is_ready: bool = False

    def failed_rank(self) -> int | None:
        codes = [process.poll() for process in self.processes]
        return next((rank for rank, code in enumerate(codes) if code), None)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment(rank: int, world: int, port: int) -> dict[str, str]:
    return {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "NCCL_HOSTID": f"host{rank}",
        "NCCL_SOCKET_IFNAME": "lo",
        "NCCL_IB_DISABLE": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
    }


def start(options: argparse.Namespace, names: list[str], world: int, deadline: float) -> Launch:
    (options.out / "ready.json").unlink(missing_ok=True)
    worker = Path(__file__).with_name("rank_worker.py")
    command = [sys.executable, str(worker), "--out", str(options.out), "--jobs", ",".join(names)]
    command += ["--device", options.device, "--job-s", str(options.job_s), "--start-s", str(START_S)]
    command += ["--tiny"] if options.tiny else []
    port, processes = free_port(), []
    logs = [options.out / f"rank{rank}.log" for rank in range(world)]
    for rank, log in enumerate(logs):
        with log.open("wb") as out:
            processes.append(start_rank(command, environment(rank, world, port), out))
    return Launch(processes, logs, list(names), min(deadline, time.monotonic() + START_S + SPARE_S))


def start_rank(command: list[str], variables: dict[str, str], out: IO[bytes]) -> subprocess.Popen[bytes]:
    # A process group of its own: what the rank starts ends with it.
    return subprocess.Popen(command, env=variables, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)


def stop(launch: Launch) -> None:
    for process in launch.processes:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def take_result(launch: Launch, options: argparse.Namespace, truth: dict[str, Any], deadline: float) -> bool:
    """Note that the ranks are ready, or the next job's result; False where there is nothing new."""
    limit = min(deadline, time.monotonic() + options.job_s + SPARE_S)
    if not launch.is_ready:
        ready = options.out / "ready.json"
        if not ready.exists():
            return False
        truth |= json.loads(ready.read_text())
        ready.unlink()
        launch.is_ready, launch.deadline = True, limit
        return True
    path = options.out / f"{launch.pending[0]}.result.json"
    if not path.exists():
        return False
    truth["jobs"][launch.pending.pop(0)] = result = json.loads(path.read_text())
    path.unlink()
    launch.deadline = limit
    write_truth(options.out, truth)
    print(f"{path.name.partition('.')[0]}: {result['seconds']} s", flush=True)
    return True


def watch(launch: Launch, options: argparse.Namespace, truth: dict[str, Any], deadline: float) -> str:
    """Take results until all are there ("") or something is wrong (what)."""
    while launch.pending:
        failed = launch.failed_rank()
        if take_result(launch, options, truth, deadline):
            continue
        if failed is not None:
            return f"rank {failed} ended with {launch.processes[failed].returncode}"
        if time.monotonic() > launch.deadline:
            return "time limit" if time.monotonic() < deadline else "time budget"
        time.sleep(0.05)
    return ""


def show_logs(launch: Launch, title: str, failures: Path) -> None:
    """Print the last lines of each rank's output, and keep more of them in a file."""
    print(title, flush=True)
    with failures.open("a") as kept:
        kept.write(f"{title}\n")
        for rank, log in enumerate(launch.logs):
            lines = [f"  rank {rank}: {line[:300]}" for line in log.read_text(errors="replace").strip().splitlines()]
            print("\n".join(lines[-SHOWN_LINES:]), flush=True)
            kept.write("\n".join([*lines[-KEPT_LINES:], ""]))


def run_set(options: argparse.Namespace, names: list[str], world: int, truth: dict[str, Any], deadline: float) -> None:
    """Run jobs of as many ranks; after a failure the rest goes on in new processes."""
    pending = list(names)
    while pending and time.monotonic() < deadline:
        launch = start(options, pending, world, deadline)
        try:
            problem = watch(launch, options, truth, deadline)
            if not problem:
                with suppress(subprocess.TimeoutExpired):
                    launch.processes[0].wait(END_S)
        finally:
            stop(launch)
        pending = launch.pending
        if not problem:
            break
        show_logs(launch, f"{pending[0]}: {problem}", options.out / "failures.txt")
        # Ranks that do not find each other will not for the next job either.
        ended = [pending.pop(0)] if launch.is_ready else [pending.pop(0) for _ in list(pending)]
        truth["jobs"] |= {name: {"ranks": world, "status": f"failed: {problem}"} for name in ended}
    truth["jobs"] |= {name: {"ranks": world, "status": "skipped: time budget"} for name in pending}


def run_all(options: argparse.Namespace, ranks_of: dict[str, int]) -> dict[str, Any]:
    truth: dict[str, Any] = {"jobs": {}}
    deadline = time.monotonic() + options.budget_s
    for world in sorted(set(ranks_of.values()), reverse=True):
        run_set(options, [name for name, ranks in ranks_of.items() if ranks == world], world, truth, deadline)
        write_truth(options.out, truth)
    for log in options.out.glob("rank*.log"):
        log.unlink()
    return truth


def write_truth(folder: Path, truth: dict[str, Any]) -> None:
    for name, job in truth["jobs"].items():
        job["files"] = [path.name for path in traces(folder, name)]
    (folder / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False))


def traces(folder: Path, name: str) -> list[Path]:
    return sorted([*folder.glob(f"{name}.rank*.json.gz"), *folder.glob(f"{name}-rank*.zip")])


def pack(folder: Path, names: list[str]) -> list[Path]:
    """Move the traces into as few plain tars as their size permits; the ranks of a job stay together."""
    parts: list[Path] = []
    for name in names:
        paths = traces(folder, name)
        size = sum(path.stat().st_size + 1024 for path in paths) + TAR_RECORD
        if not parts or parts[-1].stat().st_size + size > PART_BYTES:
            parts.append(folder / f"ranks.{len(parts) + 1}.tar")
            parts[-1].unlink(missing_ok=True)
        with tarfile.open(parts[-1], "a", format=tarfile.GNU_FORMAT) as tar:
            for path in paths:
                tar.add(path, arcname=f"{name}/{path.name}")
                path.unlink()
    return parts


def print_table(truth: dict[str, Any]) -> None:
    print(f"\n{'job':20}{'ranks':>6}{'s':>7}{'MB':>7}{'with ms':>10}{'without':>10}{'gain':>9}  status")
    for name, job in truth["jobs"].items():
        plain = job.get("plain", {})
        numbers = [job.get("seconds"), job["bytes"] / 1e6 if "bytes" in job else None]
        numbers += [plain.get(key) for key in ("with_ms", "without_ms", "gain_ms")]
        shown = ["–" if number is None else f"{number:.2f}" for number in numbers]
        print(f"{name:20}{job['ranks']:>6}{shown[0]:>7}{shown[1]:>7}{shown[2]:>10}{shown[3]:>10}{shown[4]:>9}"
              f"  {job['status']}")  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="jobs, separated by commas")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    parser.add_argument("--ranks", type=int, default=0, help="number of ranks in place of each job's own")
    parser.add_argument("--job-s", type=float, default=JOB_S, help="maximum time of one job")
    parser.add_argument("--budget-s", type=float, default=240, help="maximum time of all jobs")
    parser.add_argument("--tar", action="store_true", help="pack the traces")
    return parser.parse_args()


def main() -> int:
    options = parse()
    from rank_jobs import JOBS

    names = options.only.split(",") if options.only else list(JOBS)
    unknown = sorted(set(names) - set(JOBS))
    if unknown:
        raise SystemExit(f"unknown jobs: {', '.join(unknown)}; there are {', '.join(JOBS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    truth = run_all(options, {name: options.ranks or JOBS[name].ranks for name in names})
    print_table(truth)
    for part in pack(options.out, names) if options.tar else []:
        print(f"{part.name}: {part.stat().st_size / 1e6:.1f} MB")
    return 0 if all(job["status"] == "ok" for job in truth["jobs"].values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
