"""Cost of the report of a job, against reports of its ranks one by one and against the peers, in one run.

usage: bench_job.py [--trace FILE] [--ranks 8] [--repeat 2] [--peers-python PYTHON] [--simulated 16,64,256]

Measures CPU seconds (user + system, children included), wall seconds and the peak memory of the largest process of
  (a) warplens report rankN.json.gz -o out/    for each of the ranks, one after the other, cold
  (b) warplens report job/ -o out/             cold: empty cache, which it fills
  (c) the same again                           from the cache
  (d) HTA: load, temporal and kernel breakdown, stragglers     where importable
  (e) TraceLens: its multi-rank collective report              where importable
  (f) TraceLens: its performance report of each rank           where importable
on copies of one trace that differ in their rank's number and meet in added all-reduces, and (b), (c) on simulated jobs
of more and more ranks, whose collectives are matched. Each runs --repeat times; the least CPU counts. The peers run
once, after our first runs, and which of their parts failed is printed.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import re
import shutil
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from bench_load import BIG_TRACE, ROOT, Cost, elsewhere, environment, generated_trace, importable, least, run

PEER = """
import json, sys, tempfile
folder, notes_file, ranks = sys.argv[1], sys.argv[2], int(sys.argv[3])
notes = {}

def attempt(name, call):
    try:
        found = call()
        notes[name] = "ok" if found is None else f"ok: {found}"
    except Exception as error:
        notes[name] = f"failed: {type(error).__name__}: {error}"[:200]
    json.dump(notes, open(notes_file, "w"))
"""
HTA = (
    PEER
    + """
from hta.trace_analysis import TraceAnalysis
files = {rank: f"{folder}/rank{rank}.json.gz" for rank in range(ranks)}
analysis = TraceAnalysis(trace_files=files, trace_dir=folder)
attempt("temporal breakdown", lambda: analysis.get_temporal_breakdown(visualize=False) is None and "nothing" or None)
attempt("kernel breakdown", lambda: analysis.get_gpu_kernel_breakdown(visualize=False) is None and "nothing" or None)
attempt("stragglers", analysis.get_potential_stragglers)
"""
)
TRACELENS = (
    PEER
    + """
from TraceLens.Reporting.generate_multi_rank_collective_report_pytorch import generate_collective_report

def report():
    sheets = generate_collective_report(
        trace_pattern=f"{folder}/rank*.json.gz", world_size=ranks, output_csvs_dir=tempfile.mkdtemp()
    )
    return ", ".join(f"{len(sheet)} rows of {name}" for name, sheet in sheets.items())

attempt("multi-rank collective report", report)
"""
)
TRACELENS_RANKS = (
    PEER
    + """
from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch

def reports():
    for rank in range(ranks):
        generate_perf_report_pytorch(f"{folder}/rank{rank}.json.gz", output_csvs_dir=tempfile.mkdtemp())

attempt("performance reports", reports)
"""
)
PEERS = (
    ("d HTA", "hta", HTA),
    ("e TraceLens, collectives", "TraceLens.Reporting", TRACELENS),
    ("f TraceLens, each rank", "TraceLens.Reporting", TRACELENS_RANKS),
)
CALLS = 64
"""All-reduces that are added to a copy: the real trace is of one rank and has none, and peers need some."""
TIMES = re.compile(rb'"ts": ?([0-9.]+)')
RANKS_PER_TENSOR_GROUP = 4


def copies(trace: Path, ranks: int, folder: Path) -> Path:
    """A job of copies of one trace, each with its own rank, that meet in all-reduces; a later rank comes later."""
    folder.mkdir()
    text = gzip.decompress(trace.read_bytes())
    opened, events = text.index(b"{") + 1, text.index(b"[", text.index(b'"traceEvents"')) + 1
    moments = [float(match[1]) for match in TIMES.finditer(text)]
    for rank in range(ranks):
        group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": ranks, "ranks": list(range(ranks))}
        facts = {"backend": "nccl", "rank": rank, "world_size": ranks, "pg_count": 1, "pg_config": [group]}
        head = b'"distributedInfo": ' + json.dumps(facts).encode() + b","
        calls = json.dumps(all_reduces(rank, ranks, min(moments), max(moments)))[1:-1].encode() + b","
        whole = b"".join((text[:opened], head, text[opened:events], calls, text[events:]))
        (folder / f"rank{rank}.json.gz").write_bytes(gzip.compress(whole, 1))
    return folder


def all_reduces(rank: int, ranks: int, begin_us: float, end_us: float) -> list[dict[str, object]]:
    """Calls, launches and kernels on a thread and a stream of their own, described as PyTorch 2.11 does."""
    events: list[dict[str, object]] = []
    for number in range(CALLS):
        start, id = begin_us + (number + 0.5) * (end_us - begin_us) / CALLS, 900_000_000 + number
        described = {
            "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20,
            "Group size": ranks, "Process Group Name": "0", "Process Group Description": "default_pg",
            "Process Group Ranks": str(list(range(ranks))), "In split size": "[]", "Out split size": "[]", "Rank": rank,
            "External id": id,
        }  # fmt: skip
        place = {"device": 0, "stream": 99, "correlation": id, "External id": id}
        shape = {"grid": [16, 1, 1], "block": [512, 1, 1], "registers per thread": 96, "shared memory": 0}
        name = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
        late = 20.0 * rank
        events += [
            _event("cpu_op", "record_param_comms", 390, 999, start + late, 20.0, described),
            _event("cuda_runtime", "cudaLaunchKernelExC", 390, 999, start + late + 5, 5.0, {"correlation": id}),
            _event("kernel", name, 0, 99, start + late + 15, 300.0 - late, described | place | shape),
        ]
    return events


def _event(
    category: str, name: str, pid: int, tid: int, start: float, duration: float, args: dict[str, object]
) -> dict[str, object]:
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": round(start, 3), "dur": duration,
            "args": args}  # fmt: skip


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
    """The peers run between our own runs: what else the machine does in the meantime then shows in ours too."""
    files = sorted(job.glob("rank*.json.gz"))
    runs: dict[str, list[Cost]] = {}
    for number in range(repeat):
        runs.setdefault("a single reports", []).append(together([report(file, work, cold=True) for file in files]))
        runs.setdefault("b job, cold", []).append(report(job, work, cold=True))
        runs.setdefault("c job, again", []).append(report(job, work, cold=False))
        for name, module, code in PEERS if number == 0 else ():
            cost = peer(name[2:], peers_python, module, code, job, len(files), work)
            runs |= {} if cost is None else {name: [cost]}
    print("(b) in turn:", ", ".join(f"{cost.cpu_s:.2f}" for cost in runs["b job, cold"]), "s CPU")
    return {name: least(costs) for name, costs in sorted(runs.items())}


def peer(name: str, python: str, module: str, code: str, job: Path, ranks: int, work: Path) -> Cost | None:
    """What a peer takes, and for which of its parts; what it cannot do is printed, not hidden."""
    if not importable(python, module):
        print(f"{name}: not importable by {python}")
        return None
    notes = work / "notes.json"
    notes.unlink(missing_ok=True)
    try:
        cost = run([python, "-c", code, str(job), str(notes), str(ranks)], environment(work / "cache"))
    except SystemExit as error:
        print(f"{name}: cannot read the job: {str(error).strip().splitlines()[-1]}")
        return None
    for part, outcome in json.loads(notes.read_text()).items():
        print(f"{name}: {part}: {outcome}")
    return cost


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
