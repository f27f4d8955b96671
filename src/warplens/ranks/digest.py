"""`digest`: what a job needs of one rank, from its trace. It runs where the trace is, one task per rank."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.breakdown import COMPUTATION, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from warplens.analyses.time.gaps import gaps_in_any_order
from warplens.analyses.time.host_activity import matching_names
from warplens.analyses.time.steps import steps as steps_table
from warplens.analyses.work.comm import UNKNOWN as UNKNOWN_TEXT
from warplens.analyses.work.comm import described_collectives
from warplens.analyses.work.modules import lines_around, modules_around
from warplens.analyses.workspace import COMMUNICATION, Workspace
from warplens.model.kinds import CODE, NONE
from warplens.model.trace import Bools, Ints
from warplens.passes.climb import climb
from warplens.ranks.computing import computing
from warplens.ranks.condensing import condensed
from warplens.ranks.condensing_host import condensed_on_host
from warplens.ranks.host_collectives import exposed_by_step, host_collectives
from warplens.ranks.kinds import kind_of
from warplens.ranks.records import FRAMES, RankDigest, RankFacts
from warplens.ranks.tensors import tensor_bytes, tensor_elements

HOST_KINDS: Final = ("op", "annotation", "python", "module")
WAITING: Final = re.compile(r".*(run_backward|synchronize|\bwait\b|acquire|\bpoll\b|select\.)", re.IGNORECASE)
"""In these the host is not at work: another thread or the GPU is."""
LOADER: Final = re.compile(r".*(data_?loader|collate|prefetch|read_?batch|load_?batch|next_?batch)", re.IGNORECASE)
MOST_NAMES: Final = 400
"""Of what the host did in a step: the rest takes next to no time."""
MESSAGE: Final = r"^nccl:(?:send|recv) (\d+)(?:->|<-)(\d+)"
"""The numbers of a rank and its peer in their group, which is not named."""


def digest(work: Workspace, rank: int, host: str) -> RankDigest:
    """`rank` and `host` are what the file's name tells; the trace's own word counts more."""
    on_host, has_kernels = host_collectives(work), len(described_collectives(work)) > 0
    frames = {
        "steps": _steps(work) if on_host is None else _with_exposed_calls(work, _steps(work), on_host),
        "idle": _idle(work),
        "collectives": _with_those_of_the_host(work, _collectives(work), on_host),
        "host": _host_time(work),
        "work": _gpu_work(work),
        "kernels": _kernels(work),
        "compute": computing(work),
        **(condensed(work) if on_host is None or has_kernels else condensed_on_host(work, on_host)),
    }
    return RankDigest(_facts(work, rank, host), {name: frames[name].select(_cast(name)) for name in FRAMES})


def _cast(name: str) -> list[pl.Expr]:
    return [pl.col(column).cast(dtype) for column, dtype in FRAMES[name].items()]


def _facts(work: Workspace, rank: int, host: str) -> RankFacts:
    meta, trace = work.trace.meta, work.trace
    distributed = meta.distributed
    used = sorted({device for device in work.gpu["device"].unique().to_list() if device is not None})
    names = {device.id: device.name for device in meta.devices}
    gpu = next((names[device] for device in used if device in names), "")
    end = trace.ints("start_ns") + trace.ints("dur_ns")
    return RankFacts(
        source=meta.source,
        content_hash=meta.content_hash,
        size_bytes=meta.size_bytes,
        rank=rank if distributed is None else distributed.rank,
        world_size=NONE if distributed is None else distributed.world_size or NONE,
        host=meta.facts.get("host", "") or host,
        gpu=gpu,
        versions={name: text for name, text in meta.facts.items() if "version" in name or name == "torch"},
        groups=() if distributed is None else distributed.groups,
        origin_ns=meta.origin_ns,
        first_ns=meta.origin_ns + int(trace.ints("start_ns").min(initial=0)),
        last_ns=meta.origin_ns + int(end.max(initial=0)),
        gpu_events=len(trace.gpu_rows),
        format=meta.format,
        is_described=trace.quality.has("execution_collectives"),
        has_guessed_steps=trace.quality.has("steps_guessed"),
        warnings=tuple(
            note.message for note in trace.quality.notes if note.severity == "warning" or note.code == "no_gpu"
        ),
    )


def _steps(work: Workspace) -> pl.DataFrame:
    origin = work.trace.meta.origin_ns
    host = work.trace.steps.select(
        pl.col("step").cast(pl.Int64), pl.col("start_ns") + origin, pl.col("end_ns") + origin
    )
    ns = {
        "gpu_ns": "gpu_ms", "busy_ns": "busy_ms", "compute_ns": "computation_ms",
        "exposed_ns": "exposed_communication_ms", "idle_ns": "idle_ms",
    }  # fmt: skip
    columns = [(pl.col(ms) * 1e6).round(0).cast(pl.Int64).alias(name) for name, ms in ns.items()]
    return host.join(steps_table(work).frame.select("step", *columns), on="step", how="left", maintain_order="left")


def _with_exposed_calls(work: Workspace, steps: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Collectives of the host that nothing hides are communication of the step, and no idle time of the GPU."""
    sums = exposed_by_step(work, calls)
    steps = steps.join(sums, on="step", how="left", maintain_order="left")
    more = pl.col("on_host_ns").fill_null(0)
    idle = (pl.col("idle_ns") - more).clip(0) if len(work.gpu) else pl.col("idle_ns")
    return steps.with_columns((pl.col("exposed_ns").fill_null(0) + more).alias("exposed_ns"), idle.alias("idle_ns"))


def _idle(work: Workspace) -> pl.DataFrame:
    """By the step whose work the GPU had begun when the gap began; before the first, that one.

    The host's marks tell no more than that: it may be steps ahead.
    """
    gaps = gaps_in_any_order(work)
    begun = work.gpu.filter(pl.col("step") >= 0).group_by("step").agg(pl.col("start_ns").min()).sort("start_ns")
    number = np.searchsorted(begun["start_ns"].to_numpy(), gaps["start_ns"].to_numpy(), "right") - 1
    numbers = begun["step"].to_numpy().astype(np.int64) if begun.height else np.array([NONE], np.int64)
    frame = gaps.select("cause", pl.col("gap_ns").alias("idle_ns")).with_columns(
        pl.Series("step", numbers[np.maximum(number, 0)], dtype=pl.Int64)
    )
    return frame.group_by("step", "cause").agg(pl.col("idle_ns").sum()).sort("step", "cause")


def _collectives(work: Workspace) -> pl.DataFrame:
    trace, frame = work.trace, described_collectives(work)
    launch = frame["launch"].to_numpy()
    start = trace.ints("start_ns")
    launched = np.where(launch >= 0, start[np.maximum(launch, 0)], frame["start_ns"].to_numpy())
    owner = frame["owner"].to_numpy()
    origin = trace.meta.origin_ns
    frame = _with_names_of_nccl(work, frame)
    return frame.with_columns(
        pl.Series("launch_ns", launched + origin),
        (pl.col("start_ns") + origin).alias("start_ns"),
        (pl.col("start_ns") + pl.col("dur_ns") + origin).alias("end_ns"),
        pl.Series("kind", [_kind(*texts) for texts in frame.select("collective", "kernel").iter_rows()]),
        modules_around(work, owner),
        pl.col("ranks").fill_null("").alias("group_ranks"),
        pl.col("message_bytes").fill_null(NONE).alias("bytes"),
        pl.col("seq", "peer", "member", "group_size").fill_null(NONE),
        pl.col("in_splits", "out_splits").fill_null(""),
        pl.col("kernel_short").alias("kernel"),
    ).sort("launch_ns", "start_ns", "id")


def _with_those_of_the_host(work: Workspace, kernels: pl.DataFrame, on_host: pl.DataFrame | None) -> pl.DataFrame:
    if on_host is None:
        return kernels
    times = [(pl.col(name) + work.trace.meta.origin_ns) for name in ("launch_ns", "start_ns", "end_ns")]
    both = [frame.select(_cast("collectives")) for frame in (kernels, on_host.with_columns(times))]
    return pl.concat(both).sort("launch_ns", "start_ns", "id")


def _with_names_of_nccl(work: Workspace, frame: pl.DataFrame) -> pl.DataFrame:
    """Where a collective is not described, the annotation around its launch names it and has its tensor's size."""
    trace = work.trace
    is_named = np.array([name.startswith("nccl:") for name in trace.names], bool)[trace.ints("name")]
    launch, unknown = frame["launch"].to_numpy(), (frame["group"] == UNKNOWN_TEXT).to_numpy()
    around = climb(np.where(unknown, launch, NONE), trace.ints("parent"), is_named & trace.is_kind("annotation", "op"))
    own_bytes = pl.Series("own_bytes", tensor_bytes(work, around))
    return frame.with_columns(trace.names_at(around, absent=None).alias("annotation"), own_bytes).with_columns(
        pl.coalesce("annotation", "collective").alias("collective"),
        pl.when(pl.col("peer").fill_null(NONE) < 0)
        .then(pl.col("annotation").str.extract(MESSAGE, 2).cast(pl.Int64))
        .otherwise("peer")
        .alias("peer"),
        pl.col("annotation").str.extract(MESSAGE, 1).cast(pl.Int64).alias("member"),
        pl.coalesce("message_bytes", pl.when(pl.col("own_bytes") > 0).then("own_bytes")).alias("message_bytes"),
    )


def _kind(collective: str, kernel: str) -> str:
    kind = kind_of(collective)
    return kind if kind != "other" else kind_of(kernel)


def _host_time(work: Workspace) -> pl.DataFrame:
    """The host's own time by name and step: an event without those inside it, waits, or runtime calls."""
    trace = work.trace
    duration, parent = trace.ints("dur_ns"), trace.ints("parent")
    rows = trace.rows_of(*HOST_KINDS)
    rows = rows[np.isin(trace.ints("lane")[rows], _lanes_of_program(work))]
    own = duration.astype(np.int64).copy()
    inner = np.flatnonzero((parent >= 0) & trace.is_kind(*HOST_KINDS, "runtime"))
    np.subtract.at(own, parent[inner], duration[inner])
    is_wait = matching_names(trace, WAITING)[trace.ints("name")[rows]]
    rows = rows[~is_wait & (own[rows] > 0)]
    keys, lines = ["step", "code", "line", "is_loading"], lines_around(work, rows)
    frame = pl.DataFrame({
        "step": trace.ints("step")[rows].astype(np.int64),
        "code": trace.ints("name")[rows],
        "line": lines.codes,
        "is_loading": _is_loading(work, rows),
        "host_ns": own[rows],
    })  # fmt: skip
    summed = frame.group_by(keys).agg(pl.len().alias("count"), pl.col("host_ns").sum())
    kept = summed.sort("host_ns", descending=True).group_by("step", maintain_order=True).head(MOST_NAMES)
    names = pl.Series("name", trace.names, dtype=pl.String).gather(kept["code"])
    kept = kept.with_columns(names.alias("name"), lines.text(kept["line"]))
    return kept.sort("step", "host_ns", descending=[False, True])


def _is_loading(work: Workspace, rows: Ints) -> Bools:
    """Whether each host event is a part of loading data."""
    trace = work.trace
    is_loader = matching_names(trace, LOADER)[trace.ints("name")] & trace.is_kind(*HOST_KINDS)
    if not is_loader.any():
        return np.zeros(len(rows), bool)
    is_loading: Bools = climb(rows, trace.ints("parent"), is_loader) >= 0
    return is_loading


def _lanes_of_program(work: Workspace) -> Ints:
    """Threads that launch GPU work, and those that mark steps."""
    trace = work.trace
    launch = trace.ints("launch")[trace.gpu_rows]
    marks = trace.rows_of("annotation")
    marking = marks[np.isin(trace.ints("start_ns")[marks], trace.steps["start_ns"].to_numpy())]
    rows = np.append(launch[launch >= 0], marking)
    lanes: Ints = np.unique(trace.ints("lane")[rows])
    return lanes


def _kernels(work: Workspace) -> pl.DataFrame:
    """GPU time by kernel and op, whatever runs meanwhile; copies are never communication, as in a step's parts."""
    part = (
        pl.when(pl.col("kind") == CODE["memcpy"])
        .then(pl.lit(EXPOSED_COPIES))
        .when(pl.col("kernel_category") == COMMUNICATION)
        .then(pl.lit(EXPOSED_COMMUNICATION))
        .otherwise(pl.lit(COMPUTATION))
    )
    keys = ["step", "part", "kernel", "op"]
    named = work.gpu.select("step", part.alias("part"), pl.col("kernel_short").alias("kernel"), "op", "dur_ns")
    summed = named.group_by(keys).agg(pl.len().alias("count"), pl.col("dur_ns").sum().alias("gpu_ns"))
    return summed.sort(keys)


def _gpu_work(work: Workspace) -> pl.DataFrame:
    """GPU time by op, Python line and step, and how many elements the ops took: more work, or the same and slower?"""
    frame = work.gpu.filter(pl.col("kernel_category") != COMMUNICATION)
    owner = frame["owner"].to_numpy()
    lines = lines_around(work, owner)
    frame = frame.select("step", "op", "dur_ns").with_columns(
        pl.Series("line", lines.codes), pl.Series("elements", tensor_elements(work, owner))
    )
    summed = frame.group_by("step", "op", "line").agg(
        pl.len().alias("count"), pl.col("dur_ns").sum().alias("gpu_ns"), pl.col("elements").sum()
    )
    summed = summed.with_columns(lines.text(summed["line"]))
    return summed.sort("step", "gpu_ns", "op", "line", descending=[False, True, False, False])
