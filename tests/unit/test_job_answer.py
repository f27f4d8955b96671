"""The Answer of a job: its step, where it goes on each rank, and that no number of it stands twice with two values."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pytest

import warplens
from support import ROOT, SHARED
from warplens.cli.explaining.topics import TOPICS
from warplens.model.clock import RECORDED
from warplens.outputs.html.tiles import page_tiles
from warplens.profiles.job import JobProfile
from warplens.ranks.job_step import job_steps

SAMPLES = sorted(path for path in (ROOT / "samples" / "ranks").iterdir() if path.is_dir())
OTHERS = [path for name in ("dlrm8", "pipe4") if (path := SHARED / "traces" / "ranks" / name).exists()]


@pytest.fixture(scope="module", params=[*SAMPLES, *OTHERS], ids=lambda path: path.name)
def job(request: pytest.FixtureRequest) -> JobProfile:
    return warplens.open_ranks([request.param])


def test_every_table_and_tile_has_the_step_of_the_answer(job: JobProfile) -> None:
    clock = job.answer().clock
    assert clock is not None
    assert (clock.source, clock.whole) == (RECORDED, "step")
    assert [row["step_ms"] for row in job.table("step_time").to_dicts()] == [clock.step_ms]
    assert job.table("ranks").frame["step_ms"].to_list() == pytest.approx([clock.step_ms] * len(job.job.ranks))
    for row in job.table("pipeline").to_dicts():
        assert row["step_ms"] == pytest.approx(clock.step_ms)
    each = job.table("rank_steps").frame.filter(pl.col("step").is_in(job_steps(job.model)))
    assert each["step_ms"].median() == pytest.approx(clock.step_ms)
    assert next(tile for tile in page_tiles(job.document(), None) if tile.label == "Step").value == clock.amount
    assert clock.amount in job.verdict()


def test_the_parts_of_each_rank_add_up_to_the_step(job: JobProfile) -> None:
    answer, frame = job.answer(), job.table("breakdown").frame
    assert answer.clock is not None
    assert (frame["time_ms"] >= 0).all()
    sums = frame.group_by("rank").agg(pl.col("time_ms", "percent").sum()).sort("rank")
    assert sums["rank"].to_list() == job.job.ranks
    assert sums["time_ms"].to_list() == pytest.approx([answer.clock.step_ms] * len(sums))
    assert sums["percent"].to_list() == pytest.approx([100] * len(sums))
    of_one = frame.filter(pl.col("rank") == int(answer.parts_of.removeprefix("rank ")))
    assert of_one["time_ms"].to_list() == pytest.approx([part.time_ms for part in answer.parts], abs=1e-5)
    for part in answer.parts:
        assert part.place_ms is None or part.place_ms <= part.time_ms * (1 + 1e-9)
        for word in filter(None, (part.part, part.cause)):
            assert any(line for topic in TOPICS for line in topic(word)), word


def test_gains_have_intervals_and_are_shares_of_the_step(job: JobProfile) -> None:
    answer = job.answer()
    assert answer.clock is not None
    for finding, stated in zip(job.findings(), answer.findings, strict=True):
        assert finding.gain_percent == pytest.approx(100 * finding.gain_ms / answer.clock.step_ms)
        assert re.fullmatch(r"≤ .+|[\d.,]+ \S+ \([\d.,]+ to [\d.,]+\)", stated.gain)
    for name in ("stragglers", "job_what_if"):
        for row in job.table(name).to_dicts():
            assert row["gain_low_ms"] <= row["gain_ms"] <= row["gain_high_ms"] <= answer.clock.step_ms * 1.1


@pytest.mark.parametrize(
    ("name", "steps"), [("fsdp4_gpu", [8, 9, 10]), ("gloo4", [4, 5, 6]), ("nccl4", [5, 6, 7, 8, 9])]
)
def test_the_step_is_what_it_is_since_a_rank_delays_it_and_never_a_warm_up(name: str, steps: list[int]) -> None:
    job = warplens.open_ranks([ROOT / "samples" / "ranks" / name])
    assert job_steps(job.model) == steps
    assert job.clock is not None
    assert job.clock.step_ms == pytest.approx(float(np.median([job.step_ms[step] for step in steps])))


def test_the_rank_that_delays_a_job_of_hosts_works_while_others_wait() -> None:
    job = warplens.open_ranks([ROOT / "samples" / "ranks" / "gloo4"])
    assert job.answer().parts_of == "rank 2"
    first = job.answer().largest[0]
    assert (first.part, first.place) == ("host", "aten::mm")
    rows = {row["rank"]: row for row in job.table("breakdown").to_dicts() if row["cause"] == "waits for other ranks"}
    assert all(rows[rank]["percent"] > 10 * rows[2]["percent"] for rank in (0, 1, 3))
