"""Many ranks opened as one run: real ranks with a planted delay, and jobs of a simulation with their truth."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

import warplens
from make_ranks import Fault, Grid, JobSpec, make_job
from support import SHARED
from warplens.profiles.job import JobProfile

NCCL4 = Path(__file__).parents[2] / "samples" / "ranks" / "nccl4"
DLRM = SHARED / "traces" / "ranks" / "dlrm8"


@pytest.fixture(scope="module")
def nccl4() -> JobProfile:
    return warplens.open_ranks([NCCL4])


def test_a_host_that_sleeps_is_named_with_its_first_step(nccl4: JobProfile) -> None:
    (row,) = nccl4.table("stragglers").to_dicts()
    assert (row["rank"], row["cause"], row["since_step"]) == (1, "host", 7)
    assert row["excess_ms"] == pytest.approx(20, abs=3)


def test_the_joined_graphs_reproduce_every_rank(nccl4: JobProfile) -> None:
    simulated, graph = nccl4.model.recorded, nccl4.model.graph
    assert len(graph.order) == len(graph)
    assert abs(simulated.times - graph.recorded_ns).max() == 0


def test_waits_and_transfers_add_up(nccl4: JobProfile) -> None:
    calls = nccl4.job.matched
    tail = calls["last_end_ns"] - calls["end_ns"]
    assert ((calls["dur_ns"] - calls["wait_ns"] - calls["transfer_ns"] + tail).filter(calls["wait_ns"] > 0) == 0).all()
    assert calls.group_by("match").agg(pl.col("wait_ns").min())["wait_ns"].max() == 0


def test_every_table_of_a_job_can_be_made(nccl4: JobProfile) -> None:
    for name in nccl4.table_names:
        assert nccl4.table(name).name == name
    assert nccl4.table("ranks").frame["rank"].to_list() == [0, 1, 2, 3]
    assert nccl4.table("groups").frame["size"].max() == 4


@pytest.mark.skipif(not DLRM.exists(), reason="the shared traces are not here")
def test_traces_without_metadata_give_the_figures_of_another_program() -> None:
    oracle = json.loads((SHARED / "oracles" / "dlrm8_collectives.json").read_text())
    job = warplens.open_ranks([DLRM])
    rows = job.table("collectives").to_dicts()
    for own, other in zip(rows, oracle["collectives"], strict=True):
        assert own["least_us"] == other["min_dur"]
        assert (own["transfer_us"], own["start_skew_us"], own["end_skew_us"]) == (
            other["transfer"],
            other["start_skew"],
            other["end_skew"],
        )
        assert (own["first_rank"], own["last_rank"]) == (other["first_rank"], other["last_rank"])
    waited = job.job.calls.with_columns((pl.col("last_start_ns") - pl.col("start_ns")).alias("w"))
    sums = waited.group_by("rank").agg(pl.col("w").sum() // 1000).sort("rank")
    assert sums["w"].to_list() == [oracle["wait_us"][str(rank)] for rank in range(8)]
    (late,) = job.table("stragglers").to_dicts()
    assert (late["rank"], late["cause"]) == (7, "host")
    assert late["excess_ms"] == pytest.approx(7.5, abs=0.1)


def test_clocks_of_hosts_are_found_again(tmp_path: Path) -> None:
    faults = (Fault("clock"), Fault.parse("slow_gpu:rank=2,since=3,factor=1.5"))
    truth = make_job(tmp_path, JobSpec(grid=Grid(dp=4), steps=40, events=2000, faults=faults, seed=3, gpus_per_host=1))
    job = warplens.open_ranks([tmp_path], cache=False)
    ranks = job.table("ranks").frame
    offsets = ranks["clock_offset_us"] - pl.Series([clock.offset_us for clock in truth.clocks])
    drifts = ranks["clock_drift_ppm"] - pl.Series([clock.drift_ppm for clock in truth.clocks])
    assert (offsets - offsets.median()).abs().max() < 20  # what all clocks have in common nobody can tell
    assert (drifts - drifts.median()).abs().max() < 5
    (row,) = job.table("stragglers").to_dicts()
    assert (row["rank"], row["cause"]) == (2, "GPU")


def test_a_single_rank_is_compared_with_nobody() -> None:
    job = warplens.open_ranks([NCCL4 / "nccl4_rank0.json.gz"])
    assert job.verdict().startswith("1 of 4 ranks")
    assert "cannot tell who waits: there is no other rank to compare it with" in job.verdict()
    assert [finding.code for finding in job.findings()] == []


def test_a_rank_that_is_cut_off_before_its_gpu_events_is_noted_as_that(tmp_path: Path) -> None:
    whole = (NCCL4 / "nccl4_rank1.json.gz").read_bytes()
    (tmp_path / "rank0.json.gz").write_bytes((NCCL4 / "nccl4_rank0.json.gz").read_bytes())
    (tmp_path / "rank1.json.gz").write_bytes(whole[:300_000])
    notes = [row["message"] for row in warplens.open_ranks([tmp_path]).table("quality").to_dicts()]
    assert "rank 1 could not be read: it ends before its first GPU event" in notes
