"""What tracing a kernel costs over Triton's plain interpreter: counting and recording, in one run.

    python benchmarks/bench_kernel_trace.py [--rounds 5] [-o result.json]

Needs Triton and PyTorch, no GPU. The kinds take turns in every round, each is timed in CPU seconds of this process,
and the ratio is of the medians. The bars are 1.3 for counting and 2.5 for recording.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported: its own functions are decorated then

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

import torch  # noqa: E402

from kernels import flash_attention, histogram, matmul, matmul_unmasked, softmax, vector_add  # noqa: E402
from warplens_lab.tracing.watching.session import trace  # noqa: E402

BARS = {"count": 1.3, "record": 2.5}
KINDS: dict[str, Callable[[], Any]] = {
    "plain": nullcontext,
    "count": lambda: trace("count"),
    "record": lambda: trace("record"),
}


def workloads() -> dict[str, Callable[[], Any]]:
    square = matmul.inputs(256, 256, 256)
    half = matmul_unmasked.inputs(256, 256, 256)
    rows = softmax.inputs(128, 1000)
    vectors = vector_add.inputs(100_000)
    heads = flash_attention.inputs(2, 96, 32)
    bins = histogram.inputs(50_000)
    return {
        "matmul 256³, 32×32 tiles, masks": lambda: matmul.launch(*square, block=32),
        "matmul 256³, 64×64 tiles, fp16": lambda: matmul_unmasked.launch(*half, block=64),
        "softmax 128×1000": lambda: softmax.launch(*rows),
        "vector add, 391 programs": lambda: vector_add.launch(*vectors, block=256),
        "flash attention 2×96×32": lambda: flash_attention.launch(*heads, causal=True),
        "histogram, 196 programs": lambda: histogram.launch(*bins, block=256),
    }


def measured(work: Callable[[], Any], rounds: int) -> dict[str, float]:
    """Median CPU seconds of each kind."""
    seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for number in range(rounds + 1):
        for kind, context in KINDS.items():
            began = time.process_time()
            with context():
                work()
            if number:  # the first round warms up
                seconds[kind].append(time.process_time() - began)
    return {kind: statistics.median(times) for kind, times in seconds.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, dict[str, float]] = {}
    print(f"{'workload':36}{'plain s':>9}{'count':>8}{'record':>8}")
    for name, work in workloads().items():
        times = measured(work, options.rounds)
        ratios = {kind: times[kind] / times["plain"] for kind in BARS}
        results[name] = {"plain_s": times["plain"], **{f"{kind}_ratio": ratio for kind, ratio in ratios.items()}}
        print(f"{name:36}{times['plain']:9.3f}{ratios['count']:8.2f}{ratios['record']:8.2f}", flush=True)
    if options.output:
        options.output.write_text(json.dumps(results, indent=1))
    over = [
        f"{name}: {kind}" for name, row in results.items() for kind, bar in BARS.items() if row[f"{kind}_ratio"] > bar
    ]
    print("within the bars" if not over else f"over the bar: {', '.join(over)}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
