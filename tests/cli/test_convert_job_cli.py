"""`convert` of many ranks: one Chrome trace on one clock, with arrows between matched collectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import warplens
from make_ranks import Fault, Grid, JobSpec, make_job
from support import ROOT
from viewer_rules import chrome_trace, imported
from warplens.cli import main

NCCL4 = ROOT / "samples" / "ranks" / "nccl4"
pytestmark = pytest.mark.usefixtures("one_cache")
ARROWS = "warplens.ranks."


def converted(job: Path, target: Path, *words: str) -> list[dict[str, Any]]:
    assert main(["convert", str(job), "-o", str(target), *words]) == 0
    events: list[dict[str, Any]] = chrome_trace(target)["traceEvents"]
    return events


def ranks_in(events: list[dict[str, Any]]) -> set[int]:
    names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    return {int(name.split(" ")[1]) for name in names if name.startswith("rank ")}


def test_every_matched_collective_has_arrows_and_nothing_is_dropped(tmp_path: Path) -> None:
    events = converted(NCCL4, tmp_path / "job.perfetto.json.gz")
    shown = imported(events)
    calls = warplens.open_ranks([NCCL4]).job.matched
    arrows = [(source, target) for cat, source, target in shown.flows if cat.startswith(ARROWS)]
    assert ranks_in(events) == {0, 1, 2, 3}
    assert len(arrows) == len(calls) - calls["match"].n_unique()
    assert all(source["cat"] == target["cat"] == "kernel" and "nccl" in target["name"] for source, target in arrows)
    assert shown.dropped == []
    waits = [event for event in events if event.get("cat") == "warplens.wait"]
    assert sum(wait["dur"] for wait in waits) == pytest.approx(calls["wait_ns"].sum() / 1e3, rel=1e-6)


def test_clocks_are_aligned_and_drift_is_removed(tmp_path: Path) -> None:
    spec = JobSpec(grid=Grid(dp=3), steps=30, events=1500, faults=(Fault("clock"),), seed=3, gpus_per_host=1)
    make_job(tmp_path / "job", spec)
    job = warplens.open_ranks([tmp_path / "job"])
    assert abs(job.job.clocks.drift).max() > 1e-6
    events = converted(tmp_path / "job", tmp_path / "job.perfetto.json.gz")
    ends = [
        [source["ts"] + source["dur"], target["ts"] + target["dur"]]
        for cat, source, target in imported(events).flows
        if cat.startswith(ARROWS)
    ]
    assert np.abs(np.diff(ends)).max() < 20  # µs; recorded, they are up to 50 ms apart
    calls = job.job.matched
    last = (calls["start_ns"].max() - job.job.origin_ns) / 1e3  # type: ignore[operator]
    kernels = [event["ts"] for event in events if event.get("cat") == "kernel" and "nccl" in event["name"]]
    first = min(event["ts"] for event in events if event["ph"] == "X")
    assert max(kernels) - first == pytest.approx(last, abs=2_000)


def test_chosen_ranks_are_written_and_one_alone_is_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = converted(NCCL4, tmp_path / "two.perfetto.json", "--rank", "0", "--rank", "3")
    assert ranks_in(events) == {0, 3}
    assert "note: ranks 0 and 3 of 4\n" in capsys.readouterr().err
    assert converted(NCCL4, tmp_path / "same.perfetto.json", "--ranks", "0,3") == events
    own = converted(NCCL4 / "nccl4_rank3.json.gz", tmp_path / "own.perfetto.json")
    assert converted(NCCL4, tmp_path / "one.perfetto.json", "--rank", "3") == own
    assert main(["convert", str(NCCL4), "-o", f"{tmp_path}/x.perfetto.json", "--rank", "0", "--rank", "9"]) == 2
    assert f"error: no rank 9 in {NCCL4}" in capsys.readouterr().err


def test_of_many_ranks_those_that_matter_are_written(tmp_path: Path) -> None:
    faults = (Fault.parse("slow_gpu:rank=7,since=1,factor=1.8"),)
    make_job(tmp_path / "job", JobSpec(grid=Grid(dp=12), steps=4, events=300, layers=1, faults=faults))
    ranks = ranks_in(converted(tmp_path / "job", tmp_path / "job.perfetto.json.gz"))
    assert {0, 7} <= ranks
    assert 3 <= len(ranks) <= 8


def test_forms_of_one_trace_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", str(NCCL4), "-o", f"{tmp_path}/x.parquet"]) == 2
    out, errors = capsys.readouterr()
    assert not out
    assert errors.startswith(f"error: {tmp_path}/x.parquet is a form for one trace, not for the ranks of a job\n")
    assert list(tmp_path.iterdir()) == []
