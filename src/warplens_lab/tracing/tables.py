"""Tables of a trace: launches, accesses, tensors, faults and errors of numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import polars as pl

from warplens.model.table import Column, Table
from warplens_lab.tracing.records import (
    FAULT_KINDS,
    MAY_BE_INTENDED,
    NO_TENSOR,
    Fault,
    KernelTrace,
    NumberError,
    TracedLaunch,
)

LAUNCH: Final = Column("launch", "its number, in the order of the run", "", pl.Int64)
KERNEL: Final = Column("kernel", "name of the kernel's function", "", pl.String)
ACTIVE: Final = Column(
    "active_lanes_percent", "lanes whose mask is set, of all lanes of loads, stores and atomics", "%", pl.Float64
)
SECTORS: Final = Column(
    "sector_percent",
    "32-byte sectors that would do, of those that warps of 32 lanes touch; 100 is coalesced",
    "%",
    pl.Float64,
)
LAUNCH_COLUMNS: Final = (
    LAUNCH,
    KERNEL,
    Column("grid", "programs in x, y and z", "", pl.String),
    Column("programs", "programs launched", "", pl.Int64),
    Column("traced_programs", "programs that the numbers of this row are of", "", pl.Int64),
    Column("true_bytes", "bytes of the active lanes of loads, stores and atomics", "bytes", pl.Int64),
    Column("attempted_bytes", "bytes if every lane were active", "bytes", pl.Int64),
    Column("loaded_bytes", "true bytes of loads", "bytes", pl.Int64),
    Column("stored_bytes", "true bytes of stores", "bytes", pl.Int64),
    Column("atomic_bytes", "true bytes of atomics, each lane once", "bytes", pl.Int64),
    Column("unique_bytes", "bytes touched at all, each once", "bytes", pl.Int64),
    Column("shared_bytes", "bytes touched by more than one program", "bytes", pl.Int64),
    ACTIVE,
    Column("masked_loads_percent", "lanes of loads that a mask switches off, of all lanes of loads", "%", pl.Float64),
    Column("masked_stores_percent", "the same of stores", "%", pl.Float64),
    SECTORS,
    Column("flop", "floating operations executed, masked lanes included", "flop", pl.Int64),
    Column("dot_flop", "of matrix products: 2 × M × N × K", "flop", pl.Int64),
    Column("reduce_flop", "of reductions, scans and floating atomic adds", "flop", pl.Int64),
    Column("elementwise_flop", "of elementwise arithmetic", "flop", pl.Int64),
    Column("flop_per_byte", "arithmetic intensity if no access hits a cache", "flop/byte", pl.Float64),
    Column("flop_per_unique_byte", "arithmetic intensity if every repeated access does", "flop/byte", pl.Float64),
    Column("faults", "different faults found", "", pl.Int64),
    Column("called_from", "where it was launched", "", pl.String),
)
ACCESS_COLUMNS: Final = (
    LAUNCH,
    KERNEL,
    Column("line", "line of the statement", "", pl.Int64),
    Column("op", "load, store, atomic_…, reduce_…, scan_…, dot; or of each element: add, exp, where, …", "", pl.String),
    Column("tensor", "the argument it touches; empty for what touches no memory", "", pl.String),
    Column("accesses", "how often it ran, over all traced programs", "", pl.Int64),
    Column("lanes", "elements of its blocks", "", pl.Int64),
    Column("active_lanes", "those whose mask is set", "", pl.Int64),
    ACTIVE,
    Column("true_bytes", "bytes of the active lanes", "bytes", pl.Int64),
    Column("attempted_bytes", "bytes of all lanes", "bytes", pl.Int64),
    Column("sectors", "32-byte sectors touched, per warp of 32 lanes", "", pl.Int64),
    Column("minimum_sectors", "the fewest that hold as many elements", "", pl.Int64),
    SECTORS,
    Column("flop", "floating operations of dots, reductions and elementwise arithmetic", "flop", pl.Int64),
    Column("statement", "source text", "", pl.String),
    Column("path", "calls that lead to it, the kernel's own line first", "", pl.String),
    Column("file", "source file", "", pl.String),
)
TENSOR_COLUMNS: Final = (
    LAUNCH,
    KERNEL,
    Column("tensor", "the argument, or all that share its memory", "", pl.String),
    Column("dtype", "element type", "", pl.String),
    Column("shape", "sizes", "", pl.String),
    Column("loaded_bytes", "true bytes of loads", "bytes", pl.Int64),
    Column("stored_bytes", "true bytes of stores and atomics", "bytes", pl.Int64),
    Column("unique_bytes", "bytes touched at all", "bytes", pl.Int64),
    Column("shared_bytes", "bytes touched by more than one program", "bytes", pl.Int64),
    Column("loads_per_byte", "how often a byte that was read was loaded", "", pl.Float64),
)
FAULT_COLUMNS: Final = (
    LAUNCH,
    KERNEL,
    Column("fault", "kind of mistake", "", pl.String),
    Column("line", "line of the statement", "", pl.Int64),
    Column("op", "what the statement does there", "", pl.String),
    Column("tensor", "the argument", "", pl.String),
    Column("program", "program id of the first occurrence", "", pl.String),
    Column("place", "the element by its indices: row, column, …", "", pl.String),
    Column("index", "element of the first occurrence, counted from the tensor's first", "", pl.Int64),
    Column("elements", "elements it happened to", "", pl.Int64),
    Column("programs", "programs it happened in", "", pl.Int64),
    Column("other_program", "the other program of a race", "", pl.String),
    Column("other_line", "where the other program touched it, or where an undefined value is used", "", pl.Int64),
    Column("may_be_intended", "a note, unless --strict makes it a fault", "", pl.Boolean),
    Column("message", "description", "", pl.String),
    Column("remedy", "what to change", "", pl.String),
    Column("statement", "source text", "", pl.String),
    Column("meaning", "what the kind means", "", pl.String),
    Column("file", "source file", "", pl.String),
)
NUMBER_COLUMNS: Final = (
    LAUNCH,
    KERNEL,
    Column("tensor", "the argument that was stored to", "", pl.String),
    Column("dtype", "element type", "", pl.String),
    Column("elements", "elements stored", "", pl.Int64),
    Column("largest_ulps", "largest error, in units in the last place of the type", "ulp", pl.Float64),
    Column("median_ulps", "median error", "ulp", pl.Float64),
    Column("judged_dtype", "the coarsest type among this tensor and the inputs", "", pl.String),
    Column("judged_ulps", "median error in ulps of that type", "ulp", pl.Float64),
    Column("place", "the element with the largest error", "", pl.String),
    Column("value", "its value", "", pl.Float64),
    Column("shadow", "the value of the fp64 shadow there", "", pl.Float64),
    Column("line", "line at which the error grows most", "", pl.Int64),
    Column("growth_percent", "part of all growth of the error that comes in at that line", "%", pl.Float64),
    Column("statement", "source text", "", pl.String),
    Column("file", "source file", "", pl.String),
)


def kernel_launches(trace: KernelTrace) -> Table:
    rows = [_launch_row(launch) for launch in trace.launches]
    return Table.from_rows("kernel_launches", "one row per launch", LAUNCH_COLUMNS, rows, *_notes(trace))


def kernel_accesses_traced(trace: KernelTrace) -> Table:
    rows = [row for launch in trace.launches for row in _access_rows(launch)]
    note = "lanes go along the dimension with the smallest stride, one element each; the compiler may choose otherwise"
    meaning = "one row per launch, line, operation and tensor"
    return Table.from_rows("kernel_accesses_traced", meaning, ACCESS_COLUMNS, rows, note, *_notes(trace))


def kernel_tensors_traced(trace: KernelTrace) -> Table:
    rows = [row for launch in trace.launches for row in _tensor_rows(launch)]
    return Table.from_rows(
        "kernel_tensors_traced", "one row per launch and tensor", TENSOR_COLUMNS, rows, *_notes(trace)
    )


def kernel_faults(trace: KernelTrace) -> Table:
    rows = [_fault_row(launch, fault) for launch, fault in trace.faults]
    meaning = "one row per fault: kind, statement and tensor"
    return Table.from_rows("kernel_faults", meaning, FAULT_COLUMNS, rows, *_notes(trace))


def kernel_numbers(trace: KernelTrace) -> Table:
    rows = [_number_row(launch, row) for launch in trace.launches for row in launch.numbers]
    meaning = "one row per launch and output of floats: its error against an fp64 shadow"
    notes = [] if rows else ["made with `kernel trace --shadow fp64`"]
    return Table.from_rows("kernel_numbers", meaning, NUMBER_COLUMNS, rows, *notes, *_notes(trace))


TABLES: Final[dict[str, Callable[[KernelTrace], Table]]] = {
    "kernel_launches": kernel_launches,
    "kernel_accesses_traced": kernel_accesses_traced,
    "kernel_tensors_traced": kernel_tensors_traced,
    "kernel_faults": kernel_faults,
    "kernel_numbers": kernel_numbers,
}


def _notes(trace: KernelTrace) -> list[str]:
    sampled = [launch for launch in trace.launches if launch.traced_programs < launch.programs]
    if not sampled:
        return []
    return [f"{len(sampled)} launches were sampled (seed {trace.seed}): their numbers are of the traced programs only"]


def _launch_row(launch: TracedLaunch) -> dict[str, Any]:
    own = {"launch", "grid", "faults", "called_from"}
    row = {column.name: getattr(launch, column.name) for column in LAUNCH_COLUMNS if column.name not in own}
    file, line, _ = launch.called_from[-1] if launch.called_from else ("", 0, "")
    grid = " × ".join(map(str, launch.grid))
    return {"launch": launch.index, "grid": grid, "faults": len(launch.faults), "called_from": f"{file}:{line}", **row}


def _access_rows(launch: TracedLaunch) -> list[dict[str, Any]]:
    rows = []
    for access in launch.accesses:
        site = launch.sites[access.site]
        own = (
            "accesses",
            "lanes",
            "active_lanes",
            "true_bytes",
            "attempted_bytes",
            "sectors",
            "minimum_sectors",
            "flop",
        )
        rows.append(
            {
                "launch": launch.index,
                "kernel": launch.kernel,
                "line": site.line,
                "op": access.op,
                "tensor": launch.tensors[access.tensor].name if access.tensor != NO_TENSOR else "",
                **{name: getattr(access, name) for name in own},
                "active_lanes_percent": _percent(access.active_lanes, access.lanes),
                "sector_percent": _percent(access.minimum_sectors, access.sectors),
                "statement": site.statement,
                "path": " > ".join(f"{function}:{line}" for _, line, function in site.path),
                "file": site.file,
            }
        )
    return rows


def _tensor_rows(launch: TracedLaunch) -> list[dict[str, Any]]:
    rows = []
    for reuse in launch.reuse:
        members = {at for at, info in enumerate(launch.tensors) if info.name in reuse.tensors}
        infos = [launch.tensors[at] for at in sorted(members)]
        touched = [access for access in launch.accesses if access.tensor in members]
        loaded = sum(access.true_bytes for access in touched if access.op == "load")
        rows.append(
            {
                "launch": launch.index,
                "kernel": launch.kernel,
                "tensor": ", ".join(reuse.tensors),
                "dtype": ", ".join(dict.fromkeys(info.dtype for info in infos)),
                "shape": ", ".join(dict.fromkeys(str(list(info.shape)) for info in infos)),
                "loaded_bytes": loaded,
                "stored_bytes": sum(access.true_bytes for access in touched if access.op != "load"),
                "unique_bytes": reuse.unique_bytes,
                "shared_bytes": reuse.shared_bytes,
                "loads_per_byte": loaded / reuse.read_bytes if loaded and reuse.read_bytes else None,
            }
        )
    return rows


def _fault_row(launch: TracedLaunch, fault: Fault) -> dict[str, Any]:
    site = launch.sites[fault.site]
    other = None if fault.other_site is None else launch.sites[fault.other_site].line
    return {
        "launch": launch.index,
        "kernel": launch.kernel,
        "fault": fault.kind,
        "line": site.line,
        "op": fault.op,
        "tensor": fault.tensor,
        "program": str(fault.program),
        "place": str(list(fault.place)) if fault.place else None,
        "index": fault.index,
        "elements": fault.elements,
        "programs": fault.programs,
        "other_program": None if fault.other_program is None else str(fault.other_program),
        "other_line": other,
        "may_be_intended": fault.kind in MAY_BE_INTENDED,
        "message": fault.message,
        "remedy": fault.remedy,
        "statement": site.statement,
        "meaning": FAULT_KINDS.get(fault.kind, ""),
        "file": site.file,
    }


def _number_row(launch: TracedLaunch, row: NumberError) -> dict[str, Any]:
    site = launch.sites[row.site] if row.site >= 0 else None
    own = (
        "tensor",
        "dtype",
        "elements",
        "largest_ulps",
        "median_ulps",
        "judged_dtype",
        "judged_ulps",
        "value",
        "shadow",
    )
    return {
        "launch": launch.index,
        "kernel": launch.kernel,
        **{name: getattr(row, name) for name in own},
        "place": str(list(row.place)),
        "line": site.line if site else None,
        "growth_percent": row.growth_percent if site else None,
        "statement": site.statement if site else "",
        "file": site.file if site else "",
    }


def _percent(part: int, whole: int) -> float | None:
    return 100 * part / whole if whole else None
