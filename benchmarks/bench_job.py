"""Cost of the report of a job, against reports of its ranks one by one and against the peers, in one run.

usage: bench_job.py [--trace FILE] [--ranks 8] [--repeat 2] [--peers-python PYTHON] [--simulated 16,64,256]

Measures CPU seconds (user + system, children included), wall seconds and the peak memory of the largest process of
  (a) warplens report rankN.json.gz -o out/    for each of the ranks, one after the other, cold
  (b) warplens report job/ -o out/             cold: empty cache, which it fills
  (c) the same again                           from the cache
  (d) HTA: load, temporal and kernel breakdown, stragglers     where importable
  (e) TraceLens: its multi-rank collective report              where importable
on copies of one trace that differ in their rank's number, and (b), (c) on simulated jobs of more and more ranks, whose
collectives are matched. Each runs --repeat times; the least CPU counts. The peers run once.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench_load import BIG_TRACE, ROOT, Cost, elsewhere, environment, generated_trace, importable, least, run

HTA = """
import sys
from hta.trace_analysis import TraceAnalysis
files = {int(name.split("rank")[-1].split(".")[0]): name for name in sys.argv[2:]}
analysis = TraceAnalysis(trace_files=files, trace_dir=sys.argv[1])
analysis.get_temporal_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
try:
    analysis.get_potential_stragglers()
except Exception as error:
    print("stragglers:", error, file=sys.stderr)
"""
TRACELENS = """
import sys, tempfile, os
from TraceLens.Reporting.generate_multi_rank_collective_report_pytorch import (
    generate_collective_report)
generate_collective_report(trace_dir=sys.argv[1], world_size=len(sys.argv) - 2, output_csvs_dir=tempfile.mkdtemp())
"""
RANKS_PER_TENSOR_GROUP = 4


def copies(trace: Path, ranks: int, folder: Path) -> Path:
    """A job of copies of one trace, each with its own rank."""
    folder.mkdir()
    text = gzip.decompress(trace.read_bytes())
    opened = text.index(b"{") + 1
    for rank in range(ranks):
        facts = {"backend": "nccl", "rank": rank, "world_size": ranks, "pg_count": 0, "pg_config": []}
        head = b'"distributedInfo": ' + json.dumps(facts).encode() + b","
        packed = gzip.compress(text[:opened] + head + text[opened:], 1)
        (folder / f"rank{rank}.json.gz").write_bytes(packed)
    return folder


def simulated(ranks: int, folder: Path) -> Path:
    """A job of tensor, pipeline and data parallel ranks with one slow GPU."""
    from make_ranks import Fault, Grid, JobSpec, make_job

    grid = Grid(tp=RANKS_PER_TENSOR_GROUP, pp=2, dp=max(1, ranks // (2 * RANKS_PER_TENSOR_GROUP)))
    make_job(folder, JobSpec(grid=grid, faults=(Fault.parse("slow_gpu:rank=5,since=2"),)))
    (folder / "truth.json").unlink()
    return folder


def report(path: Path, work: Path, *, cold: bool) -> Cost:
    cache, out = work / "cache", work / "out"
    if cold:
        shutil.rmtree(cache, ignore_errors=True)
    shutil.rmtree(out, ignore_errors=True)
    return run([sys.executable, "-m", "warplens", "report", str(path), "-o", f"{out}/"], environment(cache))


def together(costs: list[Cost]) -> Cost:
    """Of processes one after the other."""
    sums = [sum(getattr(cost, name) for cost in costs) for name in ("cpu_s", "wall_s")]
    return Cost(sums[0], sums[1], max(cost.peak_mb for cost in costs))


def measure(job: Path, repeat: int, peers_python: str, work: Path) -> dict[str, Cost]:
    files = sorted(job.glob("rank*.json.gz"))
    runs: dict[str, list[Cost]] = {}
    for _ in range(repeat):
        singles = [report(file, work, cold=True) for file in files]
        runs.setdefault("a single reports", []).append(together(singles))
        runs.setdefault("b job, cold", []).append(report(job, work, cold=True))
        runs.setdefault("c job, again", []).append(report(job, work, cold=False))
    given = [str(job), *map(str, files)]
    for name, module, code in (("d HTA", "hta", HTA), ("e TraceLens", "TraceLens.Reporting", TRACELENS)):
        if importable(peers_python, module):
            runs[name] = [run([peers_python, "-c", code, *given], environment(work / "cache"))]
    return {name: least(costs) for name, costs in runs.items()}


def growth(sizes: list[int], repeat: int, work: Path) -> dict[str, Cost]:
    costs = {}
    for ranks in sizes:
        job = elsewhere(simulated, ranks, work / f"simulated{ranks}")
        cold = [report(job, work, cold=True) for _ in range(repeat)]
        costs[f"{ranks} simulated ranks, cold"] = least(cold)
        costs[f"{ranks} simulated ranks, again"] = least([report(job, work, cold=False) for _ in range(repeat)])
        shutil.rmtree(job)
    return costs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=BIG_TRACE)
    parser.add_argument("--ranks", type=int, default=8, help="copies of the trace; 0: none")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter in which HTA and TraceLens live")
    parser.add_argument("--simulated", default="", help="sizes of simulated jobs, such as 16,64,256")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    print(f"Python {platform.python_version()} on {platform.machine()}, {ROOT.name}")
    costs: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        if args.ranks:
            trace = args.trace if args.trace.exists() else elsewhere(generated_trace, work)
            job = elsewhere(copies, trace, args.ranks, work / "job")
            costs |= measure(job, args.repeat, args.peers_python, work)
            shutil.rmtree(job)
        costs |= growth([int(size) for size in args.simulated.split(",") if size], args.repeat, work)
    for name, cost in costs.items():
        print(f"{name:28} {cost.cpu_s:8.2f} s CPU {cost.wall_s:8.2f} s wall {cost.peak_mb:7.0f} MB")
    if args.ranks:
        whole = costs["b job, cold"].cpu_s
        print(f"(b)/(a) {whole / costs['a single reports'].cpu_s:.3f} in CPU (bar 1.15)")
        for name in costs.keys() & {"d HTA", "e TraceLens"}:
            print(f"(b) is 1/{costs[name].cpu_s / whole:.1f} of {name[2:]} (bar 1/8)")
    if args.json:
        args.json.write_text(json.dumps({name: asdict(cost) for name, cost in costs.items()}, indent=1))


if __name__ == "__main__":
    main()
