"""Figures of TraceLens on the traces of its own repository, kept as numbers: `tests/peers/tracelens_figures.csv.gz`.

They are read once from the reference sheets of a checkout; the traces are needed for every comparison and stay there:

    python tests/tracelens_references.py FOLDER    writes them anew; FOLDER contains TraceLens/
"""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from support import SHARED

FIGURES: Final = Path(__file__).parent / "peers" / "tracelens_figures.csv.gz"
PEERS: Final = os.environ.get("WARPLENS_PEERS", "")
TESTS: Final = Path("TraceLens", "tests", "traces")
MODELS: Final = {
    "falconsai": "Falconsai_nsfw_image_detection__1016002",
    "qwen": "Qwen_Qwen1.5-0.5B-Chat__1016005",
    "timesformer": "facebook_timesformer-base-finetuned-k400__1016002",
    "bert": "gaunernst_bert-small-uncased__1016001",
    "owlv2": "google_owlv2-large-patch14-ensemble__1016001",
}
SHEETS: Final = "_perf_report_csvs"
ARGUMENTS: Final = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")


class Figure(NamedTuple):
    """What a number is: the table and the column that have it here, and the row's key there."""

    table: str
    key: str
    column: str


class Case(NamedTuple):
    """A trace and its sheets below `TESTS`, and what the trace is called among the shared ones, if it is there."""

    trace: str
    sheets: str
    captures: str = ""
    shared: str = ""
    shared_captures: str = ""


def _served(name: str, trace: str, shared: str = "", *, captured: bool = True) -> Case:
    folder = f"inference/{name}"
    return Case(
        f"{folder}/{trace}.json.gz",
        f"{folder}/perf_csvs",
        f"{folder}/capture_traces" if captured else "",
        f"serving/{shared}.replay.json.gz" if shared else "",
        f"serving/{shared}.capture.json.gz" if shared else "",
    )


CASES: Final = {
    **{f"h100 {name}": Case(f"h100/{file}.json.gz", f"h100/{file}{SHEETS}") for name, file in MODELS.items()},
    **{f"mi300 {name}": Case(f"mi300/{file}.json.gz", f"mi300/{file}{SHEETS}") for name, file in MODELS.items()},
    "mi300 qwen": Case(
        f"mi300/{MODELS['qwen']}.json.gz", f"mi300/{MODELS['qwen']}{SHEETS}", shared="public/mi300_qwen_infer.json.gz"
    ),
    "mi300 resnet": Case(
        "mi300/resnet_act_checkpoint.json.gz",
        f"mi300/resnet_act_checkpoint_recompute{SHEETS}",
        shared="public/mi300_resnet_ddp_recompute.json.gz",
    ),
    "mi210 gpu only": Case(
        "mi210/gpu_only_trace/gpu_only_trace.json.gz",
        f"mi210/gpu_only_trace/gpu_only_trace{SHEETS}",
        shared="public/mi210_gpu_only.json.gz",
    ),
    "mi300 compiled": Case(
        "torch_compile_triton/trace.json.gz",
        f"torch_compile_triton/trace{SHEETS}",
        shared="public/mi300_torch_compile.json.gz",
    ),
    "normalization": Case(
        "perf_model/normalization/normalization_layer_test.json.gz",
        f"perf_model/normalization/normalization_layer_test{SHEETS}",
    ),
    "jax convolution": Case(
        "mi300/jax_conv_minimal_legacy/chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb",
        f"mi300/jax_conv_minimal{SHEETS}",
    ),
    "sglang decode": _served("sglang_decode", "sglang_Qwen3-8B_decode", "sglang_decode"),
    "sglang prefill": _served("sglang_prefilldecode", "sglang_Qwen3-8B_prefilldecode", captured=False),
    "vllm decode": _served("vllm_decode_full", "graph_execution"),
    "vllm piecewise": _served("vllm_prefilldecode_piecewise", "graph_execution", "vllm_piecewise"),
    "flux": _served("xdit_flux.1_aiter_sage", "profile_trace_rank_0"),
    "stable diffusion": _served("xdit_sd_3.5", "profile_trace_rank_0", captured=False),
}


def files_of(case: Case) -> tuple[Path, list[Path]] | None:
    """The trace and its captures, in the checkout or among the shared traces; None where neither is at hand."""
    places = [(Path(PEERS) / TESTS, case.trace, case.captures)] if PEERS else []
    places += [(SHARED / "traces", case.shared, case.shared_captures)] if case.shared else []
    for root, trace, captures in places:
        if (root / trace).exists():
            return root / trace, [root / captures] if captures else []
    return None


def read_figures() -> dict[str, dict[Figure, float]]:
    """By case; numbers have seven digits."""
    figures: dict[str, dict[Figure, float]] = {name: {} for name in CASES}
    with gzip.open(FIGURES, "rt", newline="") as file:
        for name, table, key, column, value in csv.reader(file):
            figures[name][Figure(table, key, column)] = float(value)
    return figures


def references(folder: Path) -> dict[Figure, float]:
    """The figures of a folder of sheets that have a counterpart here; rows of equal keys are added up."""
    figures: dict[Figure, float] = {}

    def add(figure: Figure, text: str | None, unite: Callable[[float, float], float] = lambda a, b: a + b) -> None:
        if text not in (None, "", "nan"):
            value = float(str(text))
            figures[figure] = unite(figures[figure], value) if figure in figures else value

    timeline = _rows(folder / "gpu_timeline.csv")
    for row in timeline if timeline and "is_recompute" not in timeline[0] else ():
        device = f" of GPU {int(row['gpu_pid']) - 1}" if "gpu_pid" in row else ""
        add(Figure("timeline", row["type"] + device, "time_ms"), row["time ms"])
    for row in _rows(folder / "kernel_summary.csv"):
        key = f"{row.get('Parent cpu_op', '')}|{row['Kernel name']}"
        add(Figure("kernels", key, "total_us"), row["Kernel duration (µs)_sum"])
        add(Figure("kernels", key, "count"), row["Kernel duration (µs)_count"])
    for row in _rows(folder / "ops_summary.csv"):
        add(Figure("ops", row["name"], "count"), row["Count"])
        add(Figure("ops", row["name"], "kernel_us"), row["total_direct_kernel_time_sum"])
        add(Figure("ops", row["name"], "subtree_kernel_us"), row.get("total_subtree_kernel_time_sum"))
    for row in _rows(folder / "ops_unique_args.csv"):
        key = _call_key(row)
        add(Figure("op_shapes", key, "count"), row["operation_count"])
        add(Figure("op_shapes", key, "kernel_us"), row["total_direct_kernel_time_sum"])
        add(Figure("op_shapes", key, "kernel_us_min"), row["total_direct_kernel_time_min"], min)
        add(Figure("op_shapes", key, "kernel_us_max"), row["total_direct_kernel_time_max"], max)
    for row in _rows(folder / "unified_perf_summary.csv"):
        key = _call_key(row)
        for column, scale, text in (("flop", 1e9, row["GFLOPS"]), ("bytes", 2**20, row["Data Moved (MB)"])):
            add(Figure("op_shapes", key, column), str(float(text) * scale) if text else None, max)
    return figures


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _call_key(row: dict[str, str]) -> str:
    return call_key(row["name"], (_as_json(row[name]) for name in ARGUMENTS))


def _as_json(text: str) -> str:
    """`((16, 4), ())` as the profiler writes it, `[[16, 4], []]`."""
    return json.dumps(ast.literal_eval(text)) if text else ""


def call_key(op: str, arguments: Iterable[str]) -> str:
    """An op with its shapes, types, strides and values, each a list in JSON."""
    return "|".join([op, *(json.dumps(json.loads(text or "[]"), separators=(",", ":")) for text in arguments)])


def _lines(peers: Path) -> Iterator[tuple[str, str, str, str, str]]:
    for name, case in CASES.items():
        for figure, value in references(peers / TESTS / case.sheets).items():
            yield name, *figure, f"{value:.7g}"


def _write(peers: Path) -> None:
    content = io.StringIO()
    csv.writer(content, lineterminator="\n").writerows(_lines(peers))
    FIGURES.write_bytes(gzip.compress(content.getvalue().encode(), mtime=0))


if __name__ == "__main__":
    csv.field_size_limit(1 << 30)
    _write(Path(sys.argv[1]))
