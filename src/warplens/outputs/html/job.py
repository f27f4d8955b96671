"""The timelines of a job as columns of the page."""

from __future__ import annotations

import numpy as np
import polars as pl

from warplens.model.job_scene import JobScene
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.records import ColumnSpec, DrawnRankHeader, JobHeader


def pack_job(scene: JobScene, packer: Packer) -> JobHeader:
    counts = {name: _counts(frame, len(scene.drawn)) for name, frame in _frames(scene).items()}
    drawn = [
        DrawnRankHeader(each.rank, each.host, each.stage, each.why, *(counts[name][place] for name in counts))
        for place, each in enumerate(scene.drawn)
    ]
    return JobHeader(
        ranks=len(scene.ranks),
        drawn=drawn,
        calls={
            **_spans(scene.calls.with_columns((pl.col("start_ns") + pl.col("dur_ns")).alias("end_ns")), packer),
            # Where a call is not matched, it is not known how long it waited.
            "wait": packer.add_ints(scene.calls["wait_ns"].fill_null(-1).to_numpy()),
            "match": packer.add_ints(scene.calls["match"].to_numpy(), delta=True),
            "kind": packer.add_texts(scene.calls["kind"]),
            "group": packer.add_texts(scene.calls["group"]),
            "bytes": packer.add_ints(scene.calls["bytes"].to_numpy()),
            "step": packer.add_ints(scene.calls["step"].to_numpy(), delta=True),
            "peer": packer.add_ints(scene.calls["peer"].to_numpy()),
        },
        compute=_spans(scene.compute, packer),
        steps={**_spans(scene.steps, packer), "step": packer.add_ints(scene.steps["step"].to_numpy(), delta=True)},
    )


def _frames(scene: JobScene) -> dict[str, pl.DataFrame]:
    return {"calls": scene.calls, "computes": scene.compute, "steps": scene.steps}


def _counts(frame: pl.DataFrame, places: int) -> list[int]:
    return [int(count) for count in np.bincount(frame["place"].to_numpy(), minlength=places)]


def _spans(frame: pl.DataFrame, packer: Packer) -> dict[str, ColumnSpec]:
    """Starts as differences: small numbers but for one per rank."""
    start, end = frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy()
    return {"start": packer.add_ints(start, delta=True), "length": packer.add_ints(end - start)}
