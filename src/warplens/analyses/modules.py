"""`modules` and `python_lines`: GPU time by the user's own code, backward folded into forward."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import polars as pl

from warplens.analyses.kernels import PERCENT
from warplens.analyses.workspace import NO_LAUNCH, Workspace, percent_of
from warplens.model.arrays import sorted_unique
from warplens.model.kinds import CODE, MODULE_PREFIX
from warplens.model.table import Column, Table, table
from warplens.model.trace import Bools, Ints
from warplens.passes.climb import Context, climb, climb_context

OUTSIDE = "(outside any module)"
NO_FRAME = "(no Python frame)"
FRAME = re.compile(r"(?P<file>.+?)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)
INFRASTRUCTURE = re.compile(
    r"<built-in|<frozen|<string>|<eval|nn\.Module: "
    r"|(?:.*(?:site|dist)-packages/)?(?:torch|triton|torch_tb_profiler|torchvision/ops|functorch)/"
    r"|(?:.*/)?(?:contextlib|functools|threading|dataclasses|typing|abc|enum|copy|inspect|weakref)\.py\("
)
"""Frames that no user would call their own line."""

FORWARD = Column("forward_us", "GPU time launched by the forward pass", "us")
BACKWARD = Column("backward_us", "GPU time of backward ops that this forward code created", "us")


def modules(work: Workspace) -> Table:
    trace = work.trace
    is_module = trace.ints("kind") == CODE["module"]
    context = _context(work, is_module)
    paths = _module_paths(work, is_module, context.row)
    owners = work.gpu["owner"].to_list()
    missing = [OUTSIDE if owner >= 0 else NO_LAUNCH for owner in owners]
    keys = [paths.get(row, other) for row, other in zip(context.row.tolist(), missing, strict=True)]
    frame = _by_key(work, context, keys, "module")
    frame = _with_outer_modules(frame)
    frame = frame.with_columns(
        percent_of("kernel_us", work.gpu_total_ns).alias("percent"),
        percent_of("subtree_kernel_us", work.gpu_total_ns).alias("subtree_percent"),
        (pl.col("module").str.count_matches("/", literal=True)).alias("depth"),
    ).sort("subtree_kernel_us", "module", descending=[True, False])
    columns = (
        Column("module", "path of nn.Module instances, outermost first"),
        Column("depth", "modules around it"),
        Column("count", "GPU events whose innermost module this is"),
        FORWARD,
        BACKWARD,
        Column("kernel_us", "GPU time of exactly this module", "us"),
        Column("subtree_kernel_us", "GPU time of this module and those inside it", "us"),
        PERCENT,
        Column("subtree_percent", "share of all GPU time, inner modules included", "%"),
    )
    notes = () if is_module.any() else ("no nn.Module frames in this trace: record with with_stack=True",)
    return table("modules", "one row per nn.Module path", columns, frame, *notes)


def python_lines(work: Workspace) -> Table:
    trace = work.trace
    is_user_frame = user_frames(work)
    context = _context(work, is_user_frame)
    codes = np.where(context.row >= 0, trace.ints("name")[np.maximum(context.row, 0)], len(trace.names))
    names = pl.Series([*trace.names, NO_FRAME], dtype=pl.String).gather(codes)
    frame = _by_key(work, context, names.to_list(), "frame")
    parts = [_frame_parts(text) for text in frame["frame"].to_list()]
    frame = frame.with_columns(
        pl.Series("file", [part[0] for part in parts], dtype=pl.String),
        pl.Series("line", [part[1] for part in parts], dtype=pl.Int64),
        pl.Series("function", [part[2] for part in parts], dtype=pl.String),
        percent_of("kernel_us", work.gpu_total_ns).alias("percent"),
    ).sort("kernel_us", "file", "line", descending=[True, False, False])
    columns = (
        Column("file", "source file of the innermost frame that is not framework plumbing"),
        Column("line", "line where that function starts"),
        Column("function", "its name"),
        Column("count", "GPU events launched from it"),
        FORWARD,
        BACKWARD,
        Column("kernel_us", "GPU time, forward and backward", "us"),
        PERCENT,
    )
    notes = () if is_user_frame.any() else ("no Python frames in this trace: record with with_stack=True",)
    return table("python_lines", "one row per Python function (file:line)", columns, frame, *notes)


def user_frames(work: Workspace) -> Bools:
    """Which events are Python frames of the user's own code; computed once."""
    known: Bools | None = work.memo.get("user_frames")
    if known is None:
        trace = work.trace
        own = np.array([bool(FRAME.fullmatch(name)) and not INFRASTRUCTURE.match(name) for name in trace.names], bool)
        known = trace.ints("kind") == CODE["python"]
        known[known] = own[trace.ints("name")[known]]
        work.memo["user_frames"] = known
    return known


def _context(work: Workspace, stop: Bools) -> Context:
    trace = work.trace
    owner = work.gpu["owner"].to_numpy()
    return climb_context(owner, trace.ints("parent"), trace.ints("forward"), stop)


def _by_key(work: Workspace, context: Context, keys: list[str], name: str) -> pl.DataFrame:
    us = pl.col("dur_ns") / 1000
    frame = pl.DataFrame({name: pl.Series(keys, dtype=pl.String), "dur_ns": work.gpu["dur_ns"]})
    return (
        frame.with_columns(pl.Series("backward", context.backward))
        .group_by(name)
        .agg(
            pl.len().alias("count"),
            us.filter(~pl.col("backward")).sum().alias("forward_us"),
            us.filter("backward").sum().alias("backward_us"),
            (pl.col("dur_ns").sum() / 1000).alias("kernel_us"),
        )
    )


def _module_paths(work: Workspace, is_module: Bools, rows: Ints) -> dict[int, str]:
    """Path of every module call that GPU work hangs under."""
    trace = work.trace
    parent, names = trace.ints("parent"), trace.ints("name")
    calls = np.flatnonzero(is_module)
    outer = dict(zip(calls.tolist(), climb(parent[calls], parent, is_module).tolist(), strict=True))
    paths: dict[int, str] = {}
    for row in sorted_unique(rows[rows >= 0]).tolist():
        chain = []
        at = row
        while at >= 0 and at not in paths:
            chain.append(at)
            at = outer[at]
        for call in reversed(chain):
            own = trace.names[names[call]].removeprefix(MODULE_PREFIX).replace("/", "∕")
            paths[call] = f"{paths[outer[call]]}/{own}" if outer[call] >= 0 else own
    return paths


def _with_outer_modules(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `subtree_kernel_us`, and rows for modules that launch nothing themselves."""
    subtree: Counter[str] = Counter()
    for module, us in frame.select("module", "kernel_us").iter_rows():
        parts = module.split("/")
        for depth in range(1, len(parts) + 1):
            subtree["/".join(parts[:depth])] += us
    totals = pl.DataFrame(
        {"module": list(subtree), "subtree_kernel_us": list(map(float, subtree.values()))},
        schema={"module": pl.String, "subtree_kernel_us": pl.Float64},
    )
    return totals.join(frame, on="module", how="left").with_columns(
        pl.col("count").fill_null(0), pl.col("forward_us", "backward_us", "kernel_us").fill_null(0.0)
    )


def _frame_parts(text: str) -> tuple[str, int | None, str]:
    match = FRAME.fullmatch(text)
    if match is None:
        return text, None, ""
    return match["file"], int(match["line"][:18]), match["function"]
