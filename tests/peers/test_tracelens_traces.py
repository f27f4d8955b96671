"""The sheets that TraceLens' repository has of its own test traces, cell by cell beside ours.

They are read from a checkout: `WARPLENS_PEERS` is a folder with `TraceLens/` in it. Nothing of them is in this repository.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from warplens.compat import generate_perf_report_pytorch
from warplens.compat.names import op_category

pandas = pytest.importorskip("pandas")

PEERS = os.environ.get("WARPLENS_PEERS", "")
TRACES = Path(PEERS) / "TraceLens" / "tests" / "traces"
ENDING = "_perf_report_csvs"
RECOMPUTE = "_recompute"
TOLERANCE = 1e-3
ROUNDED = {"gpu_timeline": 1e-5}
"""What two sums of times in float µs may differ by, in ms; an idle time of 11 ns differs by more than a thousandth."""
UIDS = ("ex_UID", "UID_first")
"""Numbers of events, which are not the same in another program."""
KEYS = {
    # sheet: the columns that say what a row is about; sheets of costed ops have those of the last line
    "gpu_timeline": ("type",),
    "ops_summary_by_category": ("op category",),
    "ops_summary": ("name",),
    "ops_unique_args": ("name", "Input Dims", "Input type", "Input Strides", "Concrete Inputs"),
    "unified_perf_summary": ("name", "Input Dims", "Input type", "Input Strides", "Concrete Inputs"),
    "kernel_summary": ("Parent op category", "Parent cpu_op", "Kernel name", "Kernel stream"),
    "short_kernels_summary": ("Parent cpu_op", "Input dims", "Input strides", "Concrete Inputs", "Kernel name"),
    "short_kernel_histogram": (),
    "coll_analysis": ("Process Group Name", "Collective name", "In msg nelems"),
    "": ("name", "Input Dims_first", "Input type_first", "Input Strides_first", "Concrete Inputs_first"),
}
FLOP = ("FLOPS/Byte", "GFLOPS", "TFLOPS/s")
BYTES = ("Data Moved (MB)", "TB/s", "FLOPS/Byte")
MORE_LINKED = ("resnet_act_checkpoint", "normalization_layer_test")
"""Traces with kernels whose launches TraceLens does not find: it needs an arrow where an equal number says it too."""


class Case(NamedTuple):
    trace: Path
    folder: Path
    options: dict[str, Any]


class Difference(NamedTuple):
    trace: str
    sheet: str
    column: str
    op: str
    theirs: float
    ours: Any


def cases() -> Iterator[Case]:
    for folder in sorted(TRACES.rglob(f"*{ENDING}")):
        name = folder.name.removesuffix(ENDING)
        options = {"detect_recompute": True} if name.endswith(RECOMPUTE) else {}
        trace = folder.parent / f"{name.removesuffix(RECOMPUTE)}.json.gz"
        if trace.is_file() and trace.stat().st_size:
            yield Case(trace, folder, options)


def rows_by_key(frame: Any, sheet: str) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    names = [name for name in (*KEYS.get(sheet, KEYS[""]), "is_recompute") if name in frame.columns]
    rows: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for number, row in enumerate(frame.to_dict("records")):
        rows.setdefault(tuple(str(row[name]) for name in names) or (str(number),), []).append(row)
    return rows


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)


def compare(case: Case, folder: Path) -> tuple[int, list[Difference]]:
    """How many numbers of a reference are equal here, and those that are not."""
    generate_perf_report_pytorch(
        case.trace, output_csvs_dir=folder, kernel_summary=True, short_kernel_study=True, **case.options
    )
    equal, differences = 0, []
    for path in sorted(case.folder.glob("*.csv")):
        if path.stat().st_size < 3:  # a sheet without columns
            continue
        theirs, sheet = pandas.read_csv(path), path.stem
        ours = pandas.read_csv(folder / path.name)
        shown = [name for name in theirs.columns if not name.startswith("param: ")]
        assert [name for name in ours.columns if not name.startswith("param: ")] == shown, (path, sheet)
        own_rows = rows_by_key(ours, sheet)
        for key, rows in rows_by_key(theirs, sheet).items():
            for at, row in enumerate(rows):
                here = own_rows.get(key, [])
                for column, value in row.items():
                    if column in UIDS or column.startswith("param: ") or not is_number(value):
                        continue
                    own = here[at][column] if at < len(here) else None
                    near = is_number(own) and math.isclose(own, value, rel_tol=TOLERANCE, abs_tol=ROUNDED.get(sheet, 0))
                    # The deviation of nearly equal times is mostly the rounding of their starts to a quarter of a µs.
                    if near or (is_number(own) and "std" in column and abs(own - value) < 5e-3):
                        equal += 1
                    else:
                        op = str(row.get("name") or row.get("Parent cpu_op") or key[0])
                        differences.append(Difference(case.trace.name, sheet, column, op, value, own))
    return equal, differences


DEFINITIONS = {
    # how TraceLens' categories of ops begin: what FLOPs and bytes of ours count that its do not, or the other way round
    "NORM": "norms: FLOPs per element, statistics among the bytes",
    "reduce": "reductions: the size of the result",
    "CONV": "convolutions: the gradient of the output is read once",
    "elementwise": "elementwise: broadcast inputs have their stored size, numbers have none",
    "triton": "compiled kernels: the FLOPs of a fused operation",
}


def reason(difference: Difference) -> str:
    """Why a number differs: a definition, or what the other program leaves out; empty where nothing explains it."""
    if any(word in difference.column for word in (*FLOP, *BYTES)):
        category = op_category(difference.op)
        return next((why for start, why in DEFINITIONS.items() if category.startswith(start)), "")
    if any(difference.trace.startswith(name) for name in MORE_LINKED):
        return "kernels whose launch TraceLens does not find"
    return ""


@pytest.mark.skipif(not TRACES.is_dir(), reason="no checkout of TraceLens: WARPLENS_PEERS is not set")
def test_the_sheets_of_tracelens_test_traces_are_equal_but_for_named_reasons(tmp_path: Path) -> None:
    """docs/guides/tracelens.md has these numbers."""
    total, reasons, unexplained = 0, Counter[str](), []
    for number, case in enumerate(cases()):
        equal, differences = compare(case, tmp_path / str(number))
        total += equal
        for difference in differences:
            reasons[reason(difference)] += 1
            if not reason(difference):
                unexplained.append(difference)
    print(f"{total} equal, {reasons.total()} differ: {dict(reasons)}")
    assert not unexplained, unexplained[:20]
    assert total > 12 * reasons.total()
