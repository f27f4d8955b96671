"""`comm`: collectives by kind, group, dtype and size, with their bandwidths and how much nothing hides."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.shared import shared
from warplens.analyses.time.timeline import device_work
from warplens.analyses.work.kernels import STEP_TIME, STEP_US
from warplens.analyses.workspace import COMMUNICATION, Workspace, percent_of
from warplens.costs.collective import algbw_gbps, busbw_gbps
from warplens.model.intervals import covered_until
from warplens.model.kinds import NONE
from warplens.model.table import Column, Table
from warplens.model.trace import Ints, ProcessGroup
from warplens.passes.climb import climb
from warplens_run.base.units import ranges

ELEMENT_BYTES = {
    "float": 4, "float32": 4, "double": 8, "float64": 8, "half": 2, "float16": 2, "bfloat16": 2, "int": 4,
    "int32": 4, "long": 8, "int64": 8, "short": 2, "int16": 2, "char": 1, "int8": 1, "byte": 1, "uint8": 1,
    "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1,
    "complexfloat": 8, "complexdouble": 16,
}  # fmt: skip
UNKNOWN = "(unknown)"
COLUMNS = (
    Column("collective", "kind of collective; the op or kernel where it is not recorded", "", pl.String),
    Column("group", "process group", "", pl.String),
    Column("group_description", "what the program calls it; empty where that is not recorded", "", pl.String),
    Column("group_ranks", "its ranks; empty where they are not recorded", "", pl.String),
    Column("group_size", "ranks in it", "", pl.Int64),
    Column("dtype", "element type", "", pl.String),
    Column("message_bytes", "bytes of the larger side of the message on one rank", "bytes", pl.Int64),
    Column("count", "GPU events", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    Column("mean_us", "mean duration", "us", pl.Float64),
    Column("min_us", "shortest duration: least time waiting for other ranks", "us", pl.Float64),
    Column("max_us", "longest", "us", pl.Float64),
    Column("exposed_us", "part of total_us not overlapped by computation on the same GPU", "us", pl.Float64),
    Column("algbw_gbps", "message_bytes over mean duration", "GB/s", pl.Float64),
    Column("busbw_gbps", "algbw times the collective's factor: comparable with the links' speed", "GB/s", pl.Float64),
    Column("percent", "share of the summed duration of all GPU events", "%", pl.Float64),
    STEP_TIME,
)


KEYS = ("collective", "group", "group_description", "group_ranks", "group_size", "dtype", "message_bytes")
"""The columns that identify a row."""
CUT = "..."
"""What a recorded list of more than 30 ranks ends with."""


def comm(work: Workspace) -> Table:
    us = pl.col("dur_ns") / 1000
    frame = (
        described_collectives(work)
        .group_by(KEYS)
        .agg(
            pl.len().cast(pl.Int64).alias("count"),
            (pl.col("dur_ns").sum() / 1000).alias("total_us"),
            us.mean().alias("mean_us"),
            us.min().alias("min_us"),
            us.max().alias("max_us"),
            (pl.col("exposed_ns").sum() / 1000).alias("exposed_us"),
            STEP_US,
        )
        .with_columns(percent_of("total_us", work.gpu_total_ns).alias("percent"))
        .sort("total_us", *KEYS, descending=[True, *[False] * len(KEYS)])
    )
    sent = frame.select("collective", "group_size", "message_bytes", "mean_us").rows()
    rates = [algbw_gbps(size or 0, us) for _, _, size, us in sent]
    on_links = [busbw_gbps(kind, ranks or 0, size or 0, us) for kind, ranks, size, us in sent]
    frame = frame.with_columns(
        pl.Series("algbw_gbps", rates, dtype=pl.Float64), pl.Series("busbw_gbps", on_links, dtype=pl.Float64)
    )
    notes = () if len(frame) else ("no communication kernels in this trace",)
    return Table.from_frame("comm", "one row per collective, group, dtype and size", COLUMNS, frame, *notes)


@shared
def described_collectives(work: Workspace) -> pl.DataFrame:
    """Communication kernels with what their own or their op's record says about the collective."""
    trace = work.trace
    frame = work.gpu.filter(pl.col("kernel_category") == COMMUNICATION)
    recorded = np.zeros(len(trace), bool)
    recorded[trace.collectives["id"].to_numpy()] = True
    own = frame["id"].to_numpy().astype(np.int64)
    around = climb(frame["owner"].to_numpy(), trace.ints("parent"), recorded)
    record = np.where(recorded[own], own, around)
    recorded_collectives = trace.collectives.unique("id", keep="first").with_columns(
        pl.col("id").cast(pl.Int64).alias("record")
    )
    frame = frame.with_columns(pl.Series("record", record), pl.Series("exposed_ns", _exposed(work, frame)))
    frame = frame.join(recorded_collectives.drop("id"), on="record", how="left", maintain_order="left")
    numbers = np.full(len(trace) + 1, NONE)  # of a kernel with a record of its own, the op's may have the number
    numbers[trace.collectives["id"].to_numpy()] = trace.collectives["seq"].fill_null(NONE).to_numpy()
    frame = frame.with_columns(
        pl.when(pl.col("seq") >= 0).then("seq").otherwise(pl.Series(numbers[around])).alias("seq")
    )
    elements = pl.max_horizontal("in_elements", "out_elements")
    sizes = pl.col("dtype").str.to_lowercase().str.replace("c10::", "").replace_strict(ELEMENT_BYTES, default=None)
    return _with_groups(work, frame).with_columns(
        pl.col("collective").fill_null(pl.when(pl.col("op_row") >= 0).then("op").otherwise("kernel_short")),
        pl.col("group").fill_null(UNKNOWN),
        pl.col("dtype").fill_null(UNKNOWN),
        pl.when(elements >= 0).then(elements * sizes).cast(pl.Int64).alias("message_bytes"),
    )


def _with_groups(work: Workspace, frame: pl.DataFrame) -> pl.DataFrame:
    """Adds the description and the ranks of each group, from the call's own record, else from the head of the file."""
    job, keys = work.trace.meta.distributed, ["group", "ranks", "description"]
    recorded = frame.select(keys).unique()
    groups = [_group(*row, among=job.groups if job is not None else ()) for row in recorded.iter_rows()]
    ranks = [ranges(group.ranks) + (", …" if group.is_cut else "") for group in groups]
    recorded = recorded.with_columns(
        pl.Series("group_description", [group.description for group in groups], dtype=pl.String),
        pl.Series("group_ranks", ranks, dtype=pl.String),
    )
    return frame.join(recorded, on=keys, how="left", nulls_equal=True, maintain_order="left")


class _Group(NamedTuple):
    description: str
    ranks: tuple[int, ...]
    is_cut: bool = False
    """More ranks follow, which are not recorded."""


def _group(name: str | None, ranks: str | None, description: str | None, *, among: Iterable[ProcessGroup]) -> _Group:
    """Names are numbers that programs use again: of several groups, the one that has the recorded ranks."""
    own, is_cut = tuple(int(number) for number in re.findall(r"\d{1,9}", ranks or "")), CUT in (ranks or "")
    is_part = is_cut or not own
    same = [group for group in among if group.name == name and own == group.ranks[: len(own) if is_part else None]]
    if len(same) != 1:
        return _Group(description or "", own, is_cut)
    return _Group(description or same[0].description, same[0].ranks)


def _exposed(work: Workspace, frame: pl.DataFrame) -> Ints:
    start, duration = frame["start_ns"].to_numpy(), frame["dur_ns"].to_numpy()
    exposed: Ints = duration.copy()
    for device in frame["device"].unique().to_list():
        computing = device_work(work, device).computation
        own = (frame["device"] == device).to_numpy()
        end = start[own] + duration[own]
        exposed[own] -= covered_until(computing, end) - covered_until(computing, start[own])
    return exposed
