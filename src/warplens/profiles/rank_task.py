"""The task that is run for each rank of a job, in whatever process: read its trace and keep what the job needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from warplens.analyses import Options, Workspace
from warplens.analyses.units.unique import kernel_groups
from warplens.categories import load_categorizer
from warplens.model.trace import Trace
from warplens.profiles.describing import find_gpu
from warplens.profiles.reading import read_rank
from warplens.ranks import digest_cache
from warplens.ranks.digest import digest
from warplens.ranks.records import RankDigest
from warplens.readers import inputs
from warplens.readers.inputs import Input
from warplens_run.base.errors import FormatError


@dataclass(frozen=True)
class RankTask:
    """What a process has to know: paths and numbers."""

    path: str
    rank: int
    host: str
    cache: bool = True
    rules: tuple[str, ...] = ()
    gap_ns: int = 10_000
    execution_trace: str = ""
    """Of the same rank; empty where there is none."""
    max_bytes: int = 0
    """What a file may unpack to; 0: by its size and the free memory."""

    @property
    def options(self) -> str:
        """All that the digest of a trace depends on besides the trace."""
        return f"{self.rules} {self.gap_ns} {self.rank} {self.host}"


def digest_rank(task: RankTask) -> RankDigest:
    """The digest of one rank; a `FormatError` for what is not a trace, or too little of one."""
    calls = Path(task.execution_trace) if task.execution_trace else None
    opened = inputs.find(Path(task.path), calls, max_bytes=task.max_bytes)
    if task.cache:
        kept = digest_cache.load(opened.content_hash, task.options, task.path)
        if kept is not None:
            return kept
    work = workspace_of(task, opened)
    made = digest(work, task.rank, task.host)
    if task.cache:
        digest_cache.save(made, task.options)
    return made


def kernel_groups_of_rank(task: RankTask) -> pl.DataFrame:
    """The kernels of one rank, for the job's table of unique ones."""
    return kernel_groups(workspace_of(task, _found(task))).drop("units")


@dataclass(frozen=True)
class RankEvents:
    """The GPU work of one rank: `events` in ns of its own clock, with codes of `kernels`."""

    events: pl.DataFrame
    kernels: pl.DataFrame


def gpu_events_of_rank(task: RankTask) -> RankEvents:
    """What a picture of a job draws of a rank: a small part of its trace, whose names are there once."""
    work = workspace_of(task, _found(task))
    columns = ("id", "kind", "name", "device", "stream", "dur_ns", "step")
    events = work.gpu.select(*columns, pl.col("start_ns") + work.trace.meta.origin_ns)
    return RankEvents(events, work.kernel_facts.drop("kernel_order"))


def workspace_of(task: RankTask, opened: Input) -> Workspace:
    """The trace of one rank; a `FormatError` for what is not a trace, or too little of one."""
    trace = read_rank(opened)
    del opened
    if not isinstance(trace, Trace):
        raise FormatError("sums by call path, not a trace", where=task.path, hint="record a timeline")
    if len(trace.gpu_rows) == 0 and trace.quality.has("truncated"):
        raise FormatError("it ends before its first GPU event", where=task.path)
    categorizer = load_categorizer([Path(file) for file in task.rules], [])
    return Workspace(trace, categorizer, Options(gap_ns=task.gap_ns), find_gpu(trace))


def _found(task: RankTask) -> Input:
    calls = Path(task.execution_trace) if task.execution_trace else None
    return inputs.find(Path(task.path), calls, max_bytes=task.max_bytes)
