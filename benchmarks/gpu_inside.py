"""All truth programs for graphs and memory on one GPU, each in its own process with its own time limit.

usage: gpu_inside.py --out DIR [--device cuda|cpu] [--tiny] [--only a,b] [--jobs 4] [--budget-s 140] [--most-mb 38]

DIR gets the bundles of gpu_graphs.py and gpu_memory.py, `truth.json` with everything that was measured, and the
output of each job in `logs`. A job that fails or runs too long does not end the others. The longest job begins first.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
GRAPHS = ("compiled", "gpt_train", "conv_net", "llama_decode", "callables", "piecewise", "two_sizes", "same_file")
MEMORY = ("gpt_adamw", "conv_sgd", "decode_growing")
LIMITS_S = {"compiled": 100.0}
LIMIT_S = 60.0
MB = 1e6


@dataclass(frozen=True)
class Job:
    name: str
    command: tuple[str, ...]
    limit_s: float = LIMIT_S


def jobs() -> list[Job]:
    graphs = [Job(name, ("gpu_graphs.py", name), LIMITS_S.get(name, LIMIT_S)) for name in GRAPHS]
    memory = [Job(name, ("gpu_memory.py", name)) for name in MEMORY]
    plain = [Job(f"{name}.plain", ("gpu_memory.py", name, "--plain")) for name in MEMORY]
    return [*graphs, *memory, *plain]


def run_job(job: Job, options: argparse.Namespace, end: float) -> dict[str, Any]:
    """What a job left, and how it ended."""
    script, *arguments = job.command
    command = [sys.executable, str(HERE / script), *arguments, "--out", str(options.out), "--device", options.device]
    command += ["--tiny"] if options.tiny else []
    log = options.out / "logs" / f"{job.name}.txt"
    began = time.monotonic()
    limit = min(job.limit_s, end - began)
    if limit < 5:
        return {"status": "skipped: no time left", "seconds": 0.0}
    with log.open("wb") as stream:
        try:
            code = subprocess.run(
                command, stdout=stream, stderr=subprocess.STDOUT, timeout=limit, check=False, cwd=HERE
            ).returncode
            ending = f"exit {code}"
        except subprocess.TimeoutExpired:
            ending = f"stopped after {limit:.0f} s"
        except OSError as error:
            ending = str(error)
    answer = options.out / f"{job.name}.json"
    seconds = round(time.monotonic() - began, 1)
    try:
        return {**json.loads(answer.read_text()), "seconds": seconds}
    except (OSError, ValueError):
        return {"status": ending, "seconds": seconds}
    finally:
        answer.unlink(missing_ok=True)


def shrink(folder: Path, most_bytes: float) -> list[str]:
    """Delete the largest files until the folder is small enough; returns their names."""
    for log in (folder / "logs").glob("*.txt"):
        log.write_bytes(log.read_bytes()[-20_000:])
    removed = []
    files = sorted((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    total = sum(path.stat().st_size for path in files)
    while files and total > most_bytes:
        largest = files.pop()
        total -= largest.stat().st_size
        largest.unlink()
        removed.append(largest.name)
    return removed


def versions() -> dict[str, Any]:
    try:
        sys.path.insert(0, str(HERE))
        import torch

        from gpu_run import Run
        from gpu_run import versions as versions_of

        return versions_of(Run("cuda" if torch.cuda.is_available() else "cpu", False))
    except Exception as error:  # noqa: BLE001
        return {"versions": f"{type(error).__name__}: {error}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    parser.add_argument("--only", default="", help="jobs, separated by commas")
    parser.add_argument("--jobs", type=int, default=4, help="processes at a time")
    parser.add_argument("--budget-s", type=float, default=140.0)
    parser.add_argument("--most-mb", type=float, default=38.0)
    options = parser.parse_args()
    options.out = options.out.absolute()
    (options.out / "logs").mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    chosen = [job for job in jobs() if not options.only or job.name in options.only.split(",")]
    truth: dict[str, Any] = {"jobs": {}}

    def work(job: Job) -> None:
        answer = run_job(job, options, began + options.budget_s)
        truth["jobs"][job.name] = answer
        print(f"{time.monotonic() - began:6.1f} s  {job.name:22s} {answer['seconds']:6.1f} s  {answer['status']}",
              flush=True)  # fmt: skip
        (options.out / "truth.json").write_text(json.dumps(truth, indent=1))

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(work, chosen))
    truth |= versions()
    truth["seconds"] = round(time.monotonic() - began, 1)
    truth["removed"] = shrink(options.out, options.most_mb * MB)
    (options.out / "truth.json").write_text(json.dumps(truth, indent=1))
    print_table(options.out, truth)
    return 0


def print_table(folder: Path, truth: dict[str, Any]) -> None:
    for path in sorted(folder.glob("*.zip")):
        print(f"{path.stat().st_size / MB:8.2f} MB  {path.name}")
    for name in MEMORY:
        recorded, plain = (truth["jobs"].get(key, {}).get("end", {}) for key in (name, f"{name}.plain"))
        print(f"{name:16s} max_memory_allocated: recorded {recorded.get('max_memory_allocated')}, plain "
              f"{plain.get('max_memory_allocated')}; reserved {recorded.get('max_memory_reserved')}, "
              f"{plain.get('max_memory_reserved')}")  # fmt: skip
    failed = [name for name, answer in truth["jobs"].items() if answer["status"] != "ok"]
    for name in failed:
        log = folder / "logs" / f"{name}.txt"
        print(f"--- {name}: {truth['jobs'][name]['status']}")
        print(log.read_text(errors="replace")[-1500:] if log.exists() else "")
    print(f"{len(truth['jobs']) - len(failed)} of {len(truth['jobs'])} jobs, {truth['seconds']} s, "
          f"removed: {', '.join(truth['removed']) or 'nothing'}")  # fmt: skip


if __name__ == "__main__":
    raise SystemExit(main())
