"""One small example of each kind of thing that can be opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import warplens
from kernel_traces import copy_past_the_end, trace_of
from memory_snapshots import snapshot, train, written
from support import ROOT, kernel, launch, op, write_trace
from warplens_lab.facts import save_facts
from warplens_lab.facts.records import Access, KernelFacts, SourcePlace
from warplens_lab.tracing import save

SAMPLES = ROOT / "samples"


def a_trace(folder: Path) -> warplens.Opened:
    events = [op("aten::mm", 0, 10), launch(1, 2, 1), kernel("gemm", 20, 20, 1)]
    return warplens.open(write_trace(folder / "trace.json", events), cache=False)


def call_paths(folder: Path) -> warplens.Opened:
    return warplens.open(SAMPLES / "proton" / "scopes.hatchet.gz", cache=False)


def a_comparison(folder: Path) -> warplens.Opened:
    return warplens.diff(a_trace(folder), a_trace(folder))


def a_kernel_check(folder: Path) -> warplens.Opened:
    place = SourcePlace("/here/product.py", 6, 9)
    access = Access(
        place=place, kind="load", argument="x_ptr", element="f16", element_bits=16, shape=(256,), is_masked=False,
        is_indirect=False, in_loop=False, width_bits=16, narrowest_bits=16, best_bits=32, instructions=4,
        depends_on=("n",), undivided=("n",), undivided_address=("n",),
    )  # fmt: skip
    facts = KernelFacts(
        kernel="product", file=place.file, target="sm90", triton_version="3.9.0", signature="*fp16:16, i32", config="",
        num_warps=4, num_stages=3, num_ctas=1, registers=18, accesses=(access,),
    )  # fmt: skip
    save_facts(folder / "facts.json", [facts])
    return warplens.open(folder / "facts.json")


def a_kernel_trace(folder: Path) -> warplens.Opened:
    save(trace_of(copy_past_the_end(folder)), folder / "trace.wkt")
    return warplens.open(folder / "trace.wkt")


def a_replay(folder: Path) -> warplens.Opened:
    return warplens.open(SAMPLES / "replay" / "gpt2_compiled.result.json.gz")


def a_memory_snapshot(folder: Path) -> warplens.Opened:
    return warplens.open(written(folder / "snapshot.pickle", snapshot(train(steps=2))))


KINDS: dict[str, Callable[[Path], warplens.Opened]] = {
    "trace": a_trace,
    "call paths": call_paths,
    "comparison": a_comparison,
    "kernel check": a_kernel_check,
    "kernel trace": a_kernel_trace,
    "replay": a_replay,
    "memory snapshot": a_memory_snapshot,
}
