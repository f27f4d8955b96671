"""Cost of a report, side by side with the peers, in one run.

usage: bench_load.py [--trace FILE] [--repeat N] [--scale] [--peers-python PYTHON] [--json FILE]

Measures CPU seconds (user + system, children included), wall seconds and peak memory of
  (a) json.load(gzip.open(f))            in the standard library
  (b) warplens report f -o out/          cold: empty cache, which it fills
  (p) the same                           with the Python reader, where the native one is built
  (c) the same again                     warm
  (d) HTA: load, temporal breakdown, kernel breakdown     where importable (pip install HolisticTraceAnalysis)
  (e) AMD's TraceLens: its PyTorch report                 where importable (not the PyPI package tracelens)
Each runs N times, interleaved; the least CPU counts, because noise only ever adds. With --scale, (b) also runs on
the same trace repeated 2, 4 and 8 times, and on one of a million kernels, each with a name of its own. Without the
trace, one of about that size is generated.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIG_TRACE = ROOT.parent / "shared" / "traces" / "h200" / "big_llama_train_stack.json.gz"
SAMPLE = ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"
GENERATED_EVENTS = 419_000
MANY_NAMES = 1_000_000
SPAN = re.compile(r'"ts": ([\d.]+), "dur": ([\d.]+)')
SHIFTED = re.compile(r'"(ts|correlation|External id|id)": ([\d.]+)')
"""What a copy of an event has otherwise: its time, and numbers by which others name it."""

JSON_LOAD = "import gzip, json, sys; json.load(gzip.open(sys.argv[1]))"
HTA = """
import sys, shutil, tempfile, os
from hta.trace_analysis import TraceAnalysis
folder = tempfile.mkdtemp()
target = os.path.join(folder, os.path.basename(sys.argv[1]))
shutil.copy(sys.argv[1], target)
analysis = TraceAnalysis(trace_files={0: target}, trace_dir=folder)
analysis.get_temporal_breakdown(visualize=False)
analysis.get_gpu_kernel_breakdown(visualize=False)
"""
TRACELENS = """
import sys, tempfile
from TraceLens.Reporting.generate_perf_report_pytorch import generate_perf_report_pytorch
generate_perf_report_pytorch(sys.argv[1], output_csvs_dir=tempfile.mkdtemp())
"""


@dataclass(frozen=True)
class Cost:
    cpu_s: float
    wall_s: float
    peak_mb: float


def run(command: list[str], env: dict[str, str]) -> Cost:
    """One child process, its own children included in the CPU time."""
    start = time.perf_counter()
    child = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = child.stderr.read() if child.stderr else b""
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{command[0]} failed:\n{errors.decode()[-2000:]}")
    unit = 1024 if sys.platform == "darwin" else 1
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / unit / 1000)


def environment(cache: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "WARPLENS_CACHE": str(cache), "PYTHONPATH": str(ROOT / "src")}


def report(trace: Path, work: Path, cache: Path, **switches: str) -> Cost:
    output = work / "out"
    shutil.rmtree(output, ignore_errors=True)
    command = [sys.executable, "-m", "warplens", "report", str(trace), "-o", f"{output}/"]
    return run(command, {**environment(cache), **switches})


def cold(trace: Path, work: Path, **switches: str) -> Cost:
    cache = work / "cache"
    shutil.rmtree(cache, ignore_errors=True)
    return report(trace, work, cache, **switches)


def has_native_reader(work: Path) -> bool:
    command = [sys.executable, "-m", "warplens", "--version"]
    shown = subprocess.run(command, env=environment(work / "cache"), capture_output=True, text=True, check=True)
    return "native" in shown.stdout


def importable(python: str, module: str) -> bool:
    probe = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
    return probe.returncode == 0


def least(costs: list[Cost]) -> Cost:
    return Cost(*(min(getattr(cost, name) for cost in costs) for name in ("cpu_s", "wall_s", "peak_mb")))


def generated_trace(folder: Path) -> Path:
    """A trace of the benchmark's size, the bundled training step repeated, where the real one is absent."""
    with gzip.open(SAMPLE) as stream:
        events = len(json.load(stream)["traceEvents"])
    return repeated(SAMPLE, max(1, round(GENERATED_EVENTS / events)), folder)


def repeated(trace: Path, times: int, folder: Path) -> Path:
    """The trace several times over, each copy later and with ids of its own, laid out and packed as PyTorch does."""
    with gzip.open(trace, "rt") as stream:
        head, key, rest = stream.read().partition('"traceEvents": [')
    end = rest.rindex("]")
    events = rest[:end]
    begins = [float(span[1]) for span in SPAN.finditer(events)]
    ends = [float(span[1]) + float(span[2]) for span in SPAN.finditer(events)]
    ids = 1 + max(int(found[2]) for found in SHIFTED.finditer(events) if found[1] in ("correlation", "External id"))
    shifts = {"ts": round(max(ends) - min(begins)) + 1000, "correlation": ids, "External id": ids, "id": 10_000_000}
    target = folder / f"repeated_{times}.json.gz"
    with gzip.open(target, "wt", 6) as stream:
        stream.write(head + key + events)
        for copy in range(1, times):

            def shifted(match: re.Match[str], copy: int = copy) -> str:
                whole, point, part = match[2].partition(".")
                return f'"{match[1]}": {int(whole) + copy * shifts[match[1]]}{point}{part}'

            stream.write("," + SHIFTED.sub(shifted, events))
        stream.write(rest[end:])
    return target


def many_names(folder: Path) -> Path:
    """A trace of kernels alone, no two of which have the same name."""
    target = folder / "names.json.gz"
    with gzip.open(target, "wt", 1) as stream:
        stream.write('{"schemaVersion": 1, "traceEvents": [\n')
        for number in range(MANY_NAMES):
            event = {
                "ph": "X", "cat": "kernel", "name": f"void user_{number}::kernel<float, {number % 64}>(float*, int)",
                "pid": 0, "tid": 7, "ts": 1000 + 3 * number, "dur": 2.0, "args": {"device": 0, "stream": 7},
            }  # fmt: skip
            stream.write(("," if number else "") + json.dumps(event) + "\n")
        stream.write("]}")
    return target


def uncompressed_mb(trace: Path) -> float:
    with gzip.open(trace) as stream:
        return stream.seek(0, os.SEEK_END) / 1e6


def measure(trace: Path, repeat: int, peers_python: str, work: Path) -> dict[str, Cost]:
    empty = {**os.environ}
    runs: dict[str, list[Cost]] = {}
    has_hta, has_tracelens = importable(peers_python, "hta"), importable(peers_python, "TraceLens.Reporting")
    is_native = has_native_reader(work)
    for _ in range(repeat):
        runs.setdefault("a json.load", []).append(run([sys.executable, "-c", JSON_LOAD, str(trace)], empty))
        if is_native:
            runs.setdefault("p Python reader", []).append(cold(trace, work, WARPLENS_NATIVE="0"))
        runs.setdefault("b warplens cold", []).append(cold(trace, work))
        runs.setdefault("c warplens warm", []).append(report(trace, work, work / "cache"))
    if has_hta:
        runs["d HTA"] = [run([peers_python, "-c", HTA, str(trace)], empty)]
    if has_tracelens:
        runs["e TraceLens"] = [run([peers_python, "-c", TRACELENS, str(trace)], empty)]
    return {name: least(costs) for name, costs in runs.items()}


def second_open(trace: Path, work: Path) -> dict[str, float]:
    """Wall seconds of `warplens.open` the first and the second time, imports aside."""
    shutil.rmtree(work / "cache", ignore_errors=True)
    code = (
        "import sys, time, warplens, warplens.api\n"
        "for _ in range(2):\n"
        "    start = time.perf_counter(); warplens.open(sys.argv[1]); print(time.perf_counter() - start)"
    )
    command = [sys.executable, "-c", code, str(trace)]
    done = subprocess.run(command, env=environment(work / "cache"), capture_output=True, text=True, check=True)
    first, second = map(float, re.findall(r"[\d.]+", done.stdout))
    return {"first_open_s": first, "second_open_s": second, "times_faster": first / second}


def elsewhere(function: Callable[..., Path], *args: object) -> Path:
    """Runs in a process of its own: a child's peak memory counts its parent's, so this process must stay small."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *args).result()


def scaling(trace: Path, work: Path) -> dict[str, Cost]:
    found: dict[str, Cost] = {}
    for times in (1, 2, 4, 8):
        each = elsewhere(repeated, trace, times, work) if times > 1 else trace
        found[f"{times}x"] = least([cold(each, work) for _ in range(2)])
    found[f"{MANY_NAMES:,} names"] = least([cold(elsewhere(many_names, work), work) for _ in range(2)])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trace", type=Path, default=BIG_TRACE)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter in which HTA and TraceLens live")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        trace = args.trace if args.trace.exists() else elsewhere(generated_trace, work)
        size = uncompressed_mb(trace)
        print(f"{trace.name}: {size:.0f} MB of JSON · Python {platform.python_version()} on {platform.machine()}")
        cold(trace, work)  # bytecode and file caches are warm for everyone
        costs = measure(trace, args.repeat, args.peers_python, work)
        base = costs["b warplens cold"].cpu_s
        for name, cost in costs.items():
            ratio = f"(b) is 1/{cost.cpu_s / base:.1f} of it" if name[0] in "ade" else ""
            print(f"{name:18} {cost.cpu_s:7.2f} s CPU {cost.wall_s:7.2f} s wall {cost.peak_mb:7.0f} MB  {ratio}")
        warm = costs["c warplens warm"].cpu_s
        print(f"(b)/(a) {base / costs['a json.load'].cpu_s:.3f} in CPU (bar 0.33)", end="; ")
        print(f"(c)/(a) {warm / costs['a json.load'].cpu_s:.3f} (bar 0.12)", end="; ")
        print(f"peak memory {costs['b warplens cold'].peak_mb:.0f} MB (bar 300)")
        opened = second_open(trace, work)
        print("open: first {first_open_s:.2f} s, second {second_open_s:.3f} s, {times_faster:.0f} x".format(**opened))
        grown = scaling(trace, work) if args.scale else {}
        for name, cost in grown.items():
            print(f"cold at {name}: {cost.cpu_s:.2f} s CPU, {cost.peak_mb:.0f} MB")
    if args.json:
        every = {name: asdict(cost) for name, cost in {**costs, **grown}.items()}
        args.json.write_text(json.dumps({**every, "open": opened}, indent=1))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    main()
