"""`unique`, `unique_kernels` and `units`: how many different kernels a trace has, by each meaning of "different".

A kernel's name alone, with its grid and block, or the op and inputs behind it: each definition gives another number,
and a replay runs units, the finest of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.units.calls import UnitCalls, unit_calls
from warplens.analyses.units.launch_api import TRITON, api_of
from warplens.analyses.work.kernels import PERCENT
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.kinds import CODE, KINDS, NONE
from warplens.model.table import Column, Table

SHARES: Final = (50, 90, 95, 99)
CUMULATIVE: Final = Column(
    "cumulative_percent", "share of the GPU time of the trace, this row and all above it", "%", pl.Float64
)
DEFINITIONS: Final = (
    # definition, columns that distinguish two GPU events, meaning
    ("name", ("name",), "the kernel's name"),
    ("name + grid + block", ("name", "grid", "block"), "and how it is laid out on the GPU"),
    ("op signature", ("op_name", "dims", "types", "strides"), "the op that launched it, with shapes, dtypes, strides"),
    ("op signature + values", ("op_name", "spec"), "and the values of its other arguments"),
    ("op signature + values × kernel", ("op_name", "spec", "name", "grid", "block"), "and each kernel of the op apart"),
    ("unit", ("unit",), "a call of an op with all it launches: what a replay runs"),
)


def unique(work: Workspace) -> Table:
    events = _events(work)
    rows = [
        {"definition": name, "unique": len(totals), "meaning": meaning, **_needed(totals)}
        for name, columns, meaning in DEFINITIONS
        for totals in [_totals(events, columns)]
    ]
    columns = (
        Column("definition", "when two kernels count as the same", "", pl.String),
        Column("unique", "number of distinct kernels", "", pl.Int64),
        *(
            Column(f"n_for_{share}", f"how many of the longest take {share} % of their GPU time", "", pl.Int64)
            for share in SHARES
        ),
        Column("meaning", "description", "", pl.String),
    )
    notes = ["kernels only; copies and memsets count only as part of a unit"]
    if not work.trace.specs.height:
        notes.append("the trace records no shapes: ops are distinguished by name only")
    outside = events.filter(pl.col("unit") == NONE)["dur_ns"].sum() / max(work.gpu_total_ns, 1)
    if outside:
        notes.append(f"{100 * outside:.1f} % of the GPU time belongs to no op; those kernels count by name")
    return Table.from_rows("unique", "one row per definition of a unique kernel", columns, rows, *notes)


def _events(work: Workspace) -> pl.DataFrame:
    """One row per GPU event with all columns that distinguish it."""
    by_unit = unit_calls(work)
    rest = by_unit.rest.with_columns(unit=pl.lit(None, pl.UInt32))
    columns = ["id", "name", "kind", "grid", "block", "dur_ns", "op_row", "unit"]
    events = pl.concat([by_unit.pieces.select(columns), rest.select(columns)]).sort("id")
    rows = events["op_row"].to_numpy().astype(np.int64)
    at = np.maximum(rows, 0)
    trace = work.trace
    spec = np.where(rows >= 0, trace.ints("spec").astype(np.int64)[at] if len(trace) else rows, NONE)
    op = np.where(rows >= 0, trace.ints("name").astype(np.int64)[at] if len(trace) else rows, NONE)
    shapes = trace.specs.with_row_index("spec").cast({"spec": pl.Int64})
    shapes = shapes.rename({"input_dims": "dims", "input_types": "types", "input_strides": "strides"})
    # Work of no op is distinguished by its own name.
    own = events["name"].to_numpy().astype(np.int64) + len(trace.names)
    return (
        events.with_columns(pl.Series("spec", spec), pl.Series("op_name", np.where(op >= 0, op, own)))
        .join(shapes, on="spec", how="left", maintain_order="left")
        .with_columns(pl.col("unit").cast(pl.Int64).fill_null(NONE))
    )


def _totals(events: pl.DataFrame, columns: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """GPU time of each distinct one, longest first; copies and memsets count in units only."""
    wanted = pl.col("unit") >= 0 if columns == ("unit",) else pl.col("kind") == CODE["kernel"]
    events = events.filter(wanted)
    totals = events.group_by(columns).agg(pl.col("dur_ns").sum())["dur_ns"].to_numpy()
    return np.sort(totals)[::-1]


def _needed(totals: np.ndarray[tuple[int], np.dtype[np.int64]]) -> dict[str, int]:
    """How many of the longest take each share of what all of them take."""
    reached = np.cumsum(totals)
    whole = int(reached[-1]) if len(reached) else 0
    return {
        f"n_for_{share}": min(int(np.searchsorted(reached, share / 100 * whole)) + 1, len(totals)) for share in SHARES
    }


KERNEL_COLUMNS: Final = (
    Column("kernel", "full name", "", pl.String),
    Column("kernel_short", "readable short form of the kernel's name", "", pl.String),
    Column("kernel_category", "what the kernel does, derived from its name", "", pl.String),
    Column(
        "api",
        "what can launch it again: library call, ATen op, custom CUDA, Triton source, memcpy/memset",
        "",
        pl.String,
    ),
    Column("count", "launches", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    PERCENT,
    CUMULATIVE,
    Column("geometries", "different grids and blocks", "", pl.Int64),
    Column("units", "units that launch it", "", pl.Int64),
    Column("op", "the op that launches most of it", "", pl.String),
    Column("ops", "ops that launch it", "", pl.Int64),
)


def unique_kernels(work: Workspace) -> Table:
    units = pl.col("units").explode().drop_nulls().n_unique().cast(pl.Int64)
    frame = with_shares(by_kernel(kernel_groups(work), units.alias("units")), work.gpu_total_ns)
    return Table.from_frame("unique_kernels", "one row per kernel name", KERNEL_COLUMNS, frame)


def kernel_groups(work: Workspace) -> pl.DataFrame:
    """Launches and GPU time by kernel, op and geometry, from which tables of unique kernels are summed."""
    by_unit = unit_calls(work)
    rest = by_unit.rest.with_columns(unit=pl.lit(None, pl.UInt32), record=pl.lit(NONE))
    columns = ["kernel", "kernel_short", "kernel_category", "kind", "grid", "block", "dur_ns", "op", "unit", "record"]
    events = pl.concat([by_unit.pieces.select(columns), rest.select(columns)], how="vertical_relaxed")
    return events.group_by("kernel", "op", "grid", "block").agg(
        pl.col("kernel_short", "kernel_category", "kind").first(),
        (pl.col("record") >= 0).any().alias("has_source"),
        pl.len().cast(pl.Int64).alias("count"),
        pl.col("dur_ns").sum().alias("total_ns"),
        pl.col("unit").unique().alias("units"),
    )


def by_kernel(groups: pl.DataFrame, *more: pl.Expr) -> pl.DataFrame:
    """A row per kernel, the longest first: its sums, what can launch it again, the op that launches most of it."""
    main = groups.group_by("kernel", "op").agg(pl.col("total_ns").sum())
    main = main.sort("total_ns", "op", descending=[True, False]).unique("kernel", keep="first", maintain_order=True)
    frame = (
        groups.group_by("kernel")
        .agg(
            pl.col("kernel_short", "kernel_category", "kind").first(),
            pl.col("has_source").any(),
            pl.col("count").sum(),
            (pl.col("total_ns").sum() / 1000).alias("total_us"),
            pl.struct("grid", "block").n_unique().cast(pl.Int64).alias("geometries"),
            pl.col("op").n_unique().cast(pl.Int64).alias("ops"),
            *more,
        )
        .join(main.select("kernel", "op"), on="kernel", how="left")
        .sort("total_us", "kernel", descending=[True, False])
    )
    apis = [
        TRITON if has_source else api_of(kernel, KINDS[kind], op)
        for kernel, kind, op, has_source in frame.select("kernel", "kind", "op", "has_source").iter_rows()
    ]
    return frame.with_columns(pl.Series("api", apis, dtype=pl.String))


UNIT_COLUMNS: Final = (
    Column("unit", "its number, in order of decreasing time; u1 is the first unit of a plan", "", pl.String),
    Column("op", "the op that was called", "", pl.String),
    Column("kernels", "what one call launches, in order", "", pl.String),
    Column("kernel_category", "of its longest kernel", "", pl.String),
    Column("api", "what can launch that one again", "", pl.String),
    Column("count", "calls", "", pl.Int64),
    Column("total_us", "GPU time of all calls", "us", pl.Float64),
    Column("median_us", "GPU time of one call, median", "us", pl.Float64),
    Column("p10_us", "a tenth of the calls took less", "us", pl.Float64),
    Column("p90_us", "a tenth of the calls took more", "us", pl.Float64),
    PERCENT,
    CUMULATIVE,
    Column("input_dims", "shapes of the inputs, as recorded", "", pl.String),
    Column("input_types", "dtypes of the inputs", "", pl.String),
    Column("input_strides", "strides of the inputs", "", pl.String),
    Column("concrete_inputs", "values of the other arguments", "", pl.String),
)


def units(work: Workspace) -> Table:
    by_unit = unit_calls(work)
    us = pl.col("total_ns") / 1000
    times = by_unit.calls.group_by("unit").agg(
        us.median().alias("median_us"),
        us.quantile(0.1, "linear").alias("p10_us"),
        us.quantile(0.9, "linear").alias("p90_us"),
    )
    specs = work.trace.specs.with_row_index("spec").cast({"spec": pl.Int64})
    names = pl.Series("name", work.trace.names, dtype=pl.String)
    frame = (
        by_unit.units.with_columns(names.gather(by_unit.units["op"]).alias("op"), us.alias("total_us"))
        .with_columns(pl.col("calls").cast(pl.Int64).alias("count"))
        .join(times, on="unit", how="left", maintain_order="left")
        .join(_launched(by_unit), on="unit", how="left", maintain_order="left")
        .join(specs, on="spec", how="left", maintain_order="left")
        .with_columns(pl.format("u{}", pl.col("unit") + 1).alias("unit"))
    )
    apis = [
        TRITON if launch >= 0 else api_of(kernel, kind, op)
        for launch, kernel, kind, op in frame.select("launch", "longest", "longest_kind", "op").iter_rows()
    ]
    frame = with_shares(frame.with_columns(pl.Series("api", apis, dtype=pl.String)), work.gpu_total_ns)
    outside = int(by_unit.rest["dur_ns"].sum())
    note = f"{outside / 1e3:,.1f} µs of GPU time belong to no unit: see warplens replay plan" if outside else ""
    return Table.from_frame(
        "units", "one row per op call with its inputs and kernels", UNIT_COLUMNS, frame, *([note] * bool(note))
    )


def _launched(by_unit: UnitCalls) -> pl.DataFrame:
    """Per unit: the kernels of one call as text, and the longest of them."""
    one_call = by_unit.pieces.join(by_unit.units.select("call"), on="call", how="semi", maintain_order="left")
    longest = pl.col("dur_ns").arg_max()
    kinds = pl.Series("kinds", KINDS)
    frame = one_call.group_by("unit", maintain_order=True).agg(
        pl.col("kernel_short").str.join(" + ").alias("kernels"),
        pl.col("kernel_category").get(longest),
        pl.col("kernel").get(longest).alias("longest"),
        pl.col("kind").get(longest).alias("kind_code"),
    )
    return frame.with_columns(kinds.gather(frame["kind_code"]).alias("longest_kind")).drop("kind_code")


def with_shares(frame: pl.DataFrame, whole_ns: int) -> pl.DataFrame:
    """With each row's percentage of the whole GPU time, and that of all rows so far."""
    frame = frame.with_columns(pl.col("total_us").cum_sum().alias("so_far_us"))
    shares = {"percent": "total_us", "cumulative_percent": "so_far_us"}
    return frame.with_columns(percent_of(us, whole_ns).alias(name) for name, us in shares.items())
