"""What the job's step would win if computation hid transfers that nothing hides today."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.graph.records import Floats
from warplens.ranks.condensing import END
from warplens.ranks.job_graph import job_step_lengths, simulate
from warplens.ranks.job_step import places_of_steps
from warplens.ranks.own_pace import JobModel

ALL_SIZES: Final = math.inf


def gain_of_hiding(model: JobModel, below_bytes: float = ALL_SIZES) -> float:
    """In ms, of the job's step: what is exposed of transfers takes no time, waits for other ranks stay.

    Of all of them, or of those whose messages are known to be below a size.
    """
    if not model.is_known:
        return 0.0
    graph = replace(model.graph, transfer_ns=_hidden(model, below_bytes))
    saved = model.step_ns - job_step_lengths(simulate(graph))
    return max(0.0, float(np.median(saved[places_of_steps(model)]))) / 1e6


def _hidden(model: JobModel, below_bytes: float) -> Floats:
    """The transfers of all moments, those of the chosen calls without their exposed part."""
    graph = model.graph
    wait = pl.col("wait_ns").fill_null(0)
    exposed = pl.min_horizontal("exposed_ns", pl.col("dur_ns") - wait)
    chosen = (pl.col("bytes") > 0) & (pl.col("bytes") < below_bytes) if below_bytes < ALL_SIZES else pl.lit(True)
    calls = model.job.calls.filter(chosen).select(
        pl.col("rank").cast(pl.Int64), "id", exposed.cast(pl.Float64).alias("hidden_ns")
    )  # fmt: skip
    ends = np.flatnonzero(graph.kind == END)
    moments = pl.DataFrame({"rank": graph.rank[ends], "id": graph.id[ends]})
    joined = moments.join(calls, on=["rank", "id"], how="left", maintain_order="left")
    shorter: Floats = graph.transfer_ns.copy()
    # A transfer below 0 is an end before the last rank's start: clocks are only so exact.
    hidden = np.minimum(joined["hidden_ns"].fill_null(0.0).to_numpy(), np.maximum(shorter[ends], 0.0))
    shorter[ends] -= hidden
    return shorter
