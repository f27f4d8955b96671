"""`arguments`: what ops were called with, from the ExecutionTrace joined to the trace."""

from __future__ import annotations

from typing import Final

import polars as pl

from warplens.analyses.missing_data import torch_hint
from warplens.analyses.work.kernels import OP, PERCENT
from warplens.analyses.workspace import Workspace, percent_of
from warplens.model.table import Column, Table

TENSOR: Final = r'\[\d+,\s*\d+,\s*\d+,\s*\d+,\s*\d+,\s*("[^"]*")\]'
"""A tensor among an op's inputs. Its ids and offset change from call to call; its device is part of the signature."""
SIGNATURE: Final = ("schema", "input_shapes", "input_types", "input_strides", "inputs", "kernel_file")
NOT_JOINED: Final = "no ExecutionTrace joined"
HOW_TO_JOIN: Final = " (open the trace together with its ExecutionTrace)"
COLUMNS: Final = (
    OP,
    Column("schema", "the overload that ran, as PyTorch declares it; empty for non-operators", "", pl.String),
    Column("input_shapes", "shapes of the inputs; those of lists are lists", "", pl.String),
    Column("input_types", "types of the inputs, with the element type of tensors", "", pl.String),
    Column("input_strides", "strides of the inputs", "", pl.String),
    Column("inputs", "values of the inputs: numbers, strings, devices; of a tensor, its device", "", pl.String),
    Column("count", "calls of the op with these inputs, whether they launched GPU work or not", "", pl.Int64),
    Column("joined", "calls that the ExecutionTrace contains; of the others only the op is known", "", pl.Int64),
    Column("kernel_us", "GPU time of the kernels they launched themselves", "us", pl.Float64),
    PERCENT,
    Column("kernel_file", "source of the Triton kernel", "", pl.String),
)
ABOUT: Final = ("arguments", "one row per op and everything it was called with", COLUMNS)


def arguments(work: Workspace) -> Table:
    trace = work.trace
    if trace.arguments.is_empty():
        return Table.from_rows(*ABOUT, [], NOT_JOINED + torch_hint(work, HOW_TO_JOIN))
    return Table.from_frame(*ABOUT, _grouped(_calls(work), work))


def _calls(work: Workspace) -> pl.DataFrame:
    """One row per op call: its name, its GPU time and, where it was joined, its arguments."""
    trace = work.trace
    ops = trace.events[trace.rows_of("op")].select("id", "name")
    names = pl.Series("op", trace.names, dtype=pl.String).gather(ops["name"])
    own = work.gpu.filter((pl.col("op_row") >= 0) & (pl.col("op_row") == pl.col("owner")))
    times = own.group_by(pl.col("op_row").cast(pl.UInt32).alias("id")).agg(pl.col("dur_ns").sum())
    given = trace.arguments.select("id", *SIGNATURE).with_columns(pl.col("inputs").str.replace_all(TENSOR, "$1"))
    return (
        ops.select("id", names)
        .join(times, on="id", how="left", maintain_order="left")
        .join(given.with_columns(joined=pl.lit(1)), on="id", how="left", maintain_order="left")
        .with_columns(pl.col(SIGNATURE).fill_null(""), pl.col("joined", "dur_ns").fill_null(0))
    )


def _grouped(calls: pl.DataFrame, work: Workspace) -> pl.DataFrame:
    return (
        calls.group_by("op", *SIGNATURE, maintain_order=True)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            pl.col("joined").sum().cast(pl.Int64),
            (pl.col("dur_ns").sum() / 1000).alias("kernel_us"),
        )
        .with_columns(percent_of("kernel_us", work.gpu_total_ns).alias("percent"))
        .sort("kernel_us", "count", "op", descending=[True, True, False], maintain_order=True)
    )
