"""Which moments of several ranks are the same moment of their program."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.model.kinds import NONE
from warplens.model.trace import Ints
from warplens.ranks.job import Job


def labels(job: Job, moments: pl.DataFrame) -> Ints:
    """By kind and step; of collectives also by their kind, the purpose of their group, and their number in the step."""
    purposes = pl.DataFrame(
        [
            (position, group.name, group.description or group.name)
            for position, digest in enumerate(job.digests)
            for group in digest.facts.groups
        ],
        schema={"rank": pl.Int32, "group": pl.String, "purpose": pl.String},
        orient="row",
    ).unique(["rank", "group"])
    calls = job.calls.join(purposes, on=["rank", "group"], how="left").select(
        "rank", "id", "number", "purpose",
        pl.col("kind").alias("collective"),
        pl.col("group_size").alias("size"),
        (pl.col("peer") - _numbers_of(job)).sign().alias("direction"),
    )  # fmt: skip
    own = moments.select(pl.col("rank").cast(pl.Int32), "kind", "step", "id")
    known = own.join(calls, on=["rank", "id"], how="left", maintain_order="left")
    keys = ["kind", "step", "collective", "purpose", "size", "direction", "number"]
    # The last events of a step's streams: in the order of the streams, as they are listed.
    known = known.with_columns(pl.int_range(pl.len()).over("rank", *keys).alias("place"))
    numbers: Ints = known.select(pl.struct(*keys, "place").rank("dense"))["kind"].to_numpy().astype(np.int64)
    return numbers


def _numbers_of(job: Job) -> pl.Expr:
    """The number of the rank at each position."""
    return pl.col("rank").cast(pl.Int64).replace_strict(list(range(len(job.ranks))), job.ranks, default=NONE)
