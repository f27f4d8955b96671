"""What `kernel check` says of CUDA C++, against the counters of a GPU.

usage: gpu_cuda_facts.py predict --out FILE           here: needs warplens[cuda], no GPU
       gpu_cuda_facts.py measure FILE --out DIR       on a host with an NVIDIA GPU, nvcc and ncu: needs Python alone

Kernels of samples/kernels/cuda/ and of benchmarks/cuda/ are compiled by nvcc and run once under ncu. Compared are the
registers per thread, the passes that a load of shared memory takes for a warp (1 where no bank conflicts), and whether
branches diverge.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "samples" / "kernels" / "cuda"
ACCESSES = ROOT / "benchmarks" / "cuda" / "shared_accesses.cu"
FLOATS = "(float*)in, (float*)out"
CALLS = {
    "transpose_plain.cu": {"transpose": f"transpose<<<dim3(8, 8), dim3(32, 8)>>>({FLOATS}, 256, 256)"},
    "transpose_padded.cu": {"transpose": f"transpose<<<dim3(8, 8), dim3(32, 8)>>>({FLOATS}, 256, 256)"},
    "filter_divergent.cu": {"filter": f"filter<<<256, 256>>>({FLOATS}, 65536, 64)"},
    "filter_branch_free.cu": {"filter": f"filter<<<256, 256>>>({FLOATS}, 65536, 64)"},
    "producer_consumer.cu": {"scale_tiles": "scale_tiles<<<1, 256>>>((float4*)in, (float4*)out, 16)"},
    "shared_accesses.cu": {
        **{
            name: f"{name}<<<1, 32>>>({FLOATS})"
            for name in (
                "stride_two", "stride_three", "stride_eight", "column_of_sixteen", "column_of_seventeen",
                "exclusive_or", "one_word",
            )
        },
        "column_of_doubles": "column_of_doubles<<<1, 32>>>((double*)in, (double*)out)",
        "column_of_shorts": "column_of_shorts<<<1, 32>>>((short*)in, (short*)out)",
        "rows_of_four": "rows_of_four<<<1, 32>>>((float4*)in, (float4*)out)",
    },
}  # fmt: skip
REGISTERS = "launch__registers_per_thread"
PASSES = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
LOADS = "smsp__inst_executed_op_shared_ld.sum"
DIVERGENT = "smsp__sass_branch_targets_threads_divergent.sum"
MAIN = """#include "{file}"
int main() {{
    void *in, *out;
    cudaMalloc(&in, 1 << 22);
    cudaMalloc(&out, 1 << 22);
    cudaMemset(in, 0, 1 << 22);
    {calls}
    return cudaDeviceSynchronize() != cudaSuccess;
}}
"""


def predict(out: Path) -> None:
    """What Warplens says, one record per kernel."""
    records = []
    for file, calls in CALLS.items():
        path = SAMPLES / file if (SAMPLES / file).is_file() else ACCESSES
        for kernel in calls:
            target = f"{path}::{kernel}"
            (facts,) = _table(target, "kernel_facts")
            loads = [row for row in _table(target, "kernel_layouts") if row["kind"] == "load"]
            branches = _table(target, "kernel_branches")
            records.append({
                "file": file,
                "kernel": kernel,
                "registers": facts["registers"],
                "ways": max((row["conflicts"] + 1 for row in loads), default=None),
                "vector_bits": max((row["vector_bits"] for row in loads), default=32),
                "diverges": any(row["divergent"] for row in branches),
            })  # fmt: skip
    out.write_text(json.dumps(records, indent=1))


def _table(target: str, name: str) -> list[dict[str, Any]]:
    check = [sys.executable, "-m", "warplens", "kernel", "check", target, "--target", "sm90"]
    done = subprocess.run([*check, "--table", name, "--json"], check=True, capture_output=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def measure(predicted: Path, out: Path) -> None:
    measured = {}
    for file, calls in CALLS.items():
        path = SAMPLES / file if (SAMPLES / file).is_file() else ACCESSES
        measured |= {(file, kernel): counters for kernel, counters in _counted(path, calls).items()}
    rows = []
    for record in json.loads(predicted.read_text()):
        counters = measured[record["file"], record["kernel"]]
        least = max(1, record["vector_bits"] // 32)  # a warp of 64-bit loads takes two passes, of 128-bit ones four
        ways = counters[PASSES] / counters[LOADS] / least if counters.get(LOADS) else None
        divergent = counters[DIVERGENT]
        rows.append({**record, "nvcc_registers": counters[REGISTERS], "measured_ways": ways, "divergent": divergent})
    print(f"{'kernel':44} registers  nvcc  ways  measured  diverges  divergent branches")
    for row in rows:
        name = f"{row['file']}::{row['kernel']}"
        ways = "–" if row["measured_ways"] is None else f"{row['measured_ways']:.2f}"
        print(
            f"{name:44} {row['registers']:9} {row['nvcc_registers']:5.0f} {row['ways'] or '–':>5} {ways:>9}"
            f" {row['diverges']!s:>9} {row['divergent']:19.0f}"
        )
    (out / "cuda_facts.json").write_text(json.dumps(rows, indent=1))


def _counted(path: Path, calls: dict[str, str]) -> dict[str, dict[str, float]]:
    with tempfile.TemporaryDirectory() as folder:
        main, program = Path(folder, "main.cu"), Path(folder, "main")
        main.write_text(MAIN.format(file=path, calls=" ".join(f"{call};" for call in calls.values())))
        subprocess.run(["nvcc", "-arch=sm_90", "-O3", "-std=c++17", "-o", program, main], check=True)
        metrics = ",".join((REGISTERS, PASSES, LOADS, DIVERGENT))
        command = ["ncu", "--csv", "--clock-control", "none", "--metrics", metrics, program]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line for line in text.splitlines() if line.startswith('"')]
    counted: dict[str, dict[str, float]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        kernel = row["Kernel Name"].partition("(")[0]
        counted.setdefault(kernel, {})[row["Metric Name"]] = float(row["Metric Value"].replace(",", ""))
    return counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    predicting = verbs.add_parser("predict")
    predicting.add_argument("--out", type=Path, required=True)
    measuring = verbs.add_parser("measure")
    measuring.add_argument("predicted", type=Path)
    measuring.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    predict(args.out) if args.verb == "predict" else measure(args.predicted, args.out)


if __name__ == "__main__":
    main()
