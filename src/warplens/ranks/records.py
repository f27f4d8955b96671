"""What is kept of one rank: a few facts and small frames, enough for every table of the job.

Times are whole ns of the rank's own clock. The frames' columns are declared in `FRAMES`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec
import polars as pl

from warplens.model.trace import ProcessGroup

UNKNOWN: Final = -1

FRAMES: Final[dict[str, dict[str, type[pl.DataType]]]] = {
    # Of each step: when it began and ended on the host, how long it took on the GPU and what the GPU did.
    "steps": {
        "step": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "gpu_ns": pl.Int64,
        "busy_ns": pl.Int64,
        "compute_ns": pl.Int64,
        "exposed_ns": pl.Int64,
        "idle_ns": pl.Int64,
    },
    # Why the GPU was idle.
    "idle": {"step": pl.Int64, "cause": pl.String, "idle_ns": pl.Int64},
    # One row per communication kernel, in the order of their launches.
    "collectives": {
        "id": pl.Int64,
        "step": pl.Int64,
        "kind": pl.String,
        "group": pl.String,
        "group_size": pl.Int64,
        "group_ranks": pl.String,
        "dtype": pl.String,
        "bytes": pl.Int64,
        "seq": pl.Int64,
        "peer": pl.Int64,
        "member": pl.Int64,  # the rank's own number, where a message names both sides by their numbers in a group
        "in_splits": pl.String,
        "out_splits": pl.String,
        "device": pl.Int64,
        "stream": pl.Int64,
        "launch_ns": pl.Int64,
        "start_ns": pl.Int64,
        "end_ns": pl.Int64,
        "exposed_ns": pl.Int64,
        "module": pl.String,
        "kernel": pl.String,
    },
    # What the host and the GPU did in each step: time of the host's own in events of a name, GPU time of ops.
    "host": {
        "step": pl.Int64, "name": pl.String, "line": pl.String, "is_loading": pl.Boolean, "count": pl.Int64,
        "host_ns": pl.Int64,
    },
    "work": {
        "step": pl.Int64, "op": pl.String, "line": pl.String, "count": pl.Int64, "gpu_ns": pl.Int64,
        "elements": pl.Int64,
    },
    # GPU time of kernels and of the ops that launch them, as the part of a step that they count as.
    "kernels": {
        "step": pl.Int64, "kernel": pl.String, "op": pl.String, "part": pl.String, "count": pl.Int64,
        "gpu_ns": pl.Int64,
    },
    # When the GPU computed, with short gaps closed: see computing.py.
    "compute": {"start_ns": pl.Int64, "end_ns": pl.Int64},
    # The step's graph between the moments that ranks share: see condensing.py.
    "moments": {"kind": pl.UInt8, "step": pl.Int64, "id": pl.Int64, "recorded_ns": pl.Int64},
    "ways": {
        "target": pl.Int32,
        "source": pl.Int32,
        "length_ns": pl.Int64,
        "host_ns": pl.Int64,
        "gpu_ns": pl.Int64,
    },
}  # fmt: skip


class RankFacts(msgspec.Struct, frozen=True):
    """Who the rank is, and what its trace is."""

    source: str
    content_hash: str = ""
    size_bytes: int = 0
    rank: int = UNKNOWN
    world_size: int = UNKNOWN
    host: str = ""
    """Name of its machine; empty where unknown."""
    gpu: str = ""
    versions: dict[str, str] = {}
    groups: tuple[ProcessGroup, ...] = ()
    origin_ns: int = 0
    """When the trace began, of the host's clock."""
    first_ns: int = 0
    last_ns: int = 0
    gpu_events: int = 0
    format: str = ""
    """Of the trace."""
    is_described: bool = False
    """Whether an ExecutionTrace describes its collectives."""
    has_guessed_steps: bool = False
    """Whether its steps were inferred, not marked."""
    warnings: tuple[str, ...] = ()
    """What is wrong with the trace."""


@dataclass(frozen=True)
class RankDigest:
    facts: RankFacts
    frames: dict[str, pl.DataFrame]
    """By the names of `FRAMES`."""

    @property
    def steps(self) -> pl.DataFrame:
        return self.frames["steps"]

    @property
    def collectives(self) -> pl.DataFrame:
        return self.frames["collectives"]
