"""The data of a job's page: every rank's computation and calls on the job's clock, and which ranks of many are drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

import warplens
from page_reader import PageData
from warplens.analyses.time.timeline import device_work
from warplens.model.intervals import Union, length, subtract
from warplens.model.table import Table
from warplens.outputs.html import page_bytes, tables
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.tables import pack_table
from warplens.profiles.job import JobProfile
from warplens.ranks.computing import CLOSED_NS, MOST_PER_STEP, coarse
from warplens.ranks.job import Job
from warplens.ranks.own_pace import JobModel
from warplens.ranks.scene import MOST_DRAWN, drawn_ranks, job_scene, pipeline_of
from warplens.ranks.tables.collectives import WAIT_COLUMNS

NCCL4 = Path(__file__).parents[2] / "samples" / "ranks" / "nccl4"


@pytest.fixture(scope="module")
def nccl4() -> JobProfile:
    return warplens.open_ranks([NCCL4])


@pytest.fixture(scope="module")
def page(nccl4: JobProfile) -> PageData:
    return PageData(page_bytes(nccl4.document()).decode())


def many(profile: JobProfile, times: int) -> JobModel:
    """The same ranks over and over, under numbers of their own."""
    digests = [
        replace(digest, facts=msgspec.structs.replace(digest.facts, rank=4 * copy + place, world_size=4 * times))
        for copy in range(times)
        for place, digest in enumerate(profile.job.digests)
    ]
    return JobModel(Job(tuple(digests)))


def test_the_page_has_every_call_of_every_rank(nccl4: JobProfile, page: PageData) -> None:
    header = page.header["job"]
    calls = nccl4.job.calls.sort("rank", "start_ns", "match")
    assert page.header["mode"] == "job"
    assert [each["rank"] for each in header["drawn"]] == nccl4.job.ranks
    assert [each["calls"] for each in header["drawn"]] == calls.group_by("rank").len().sort("rank")["len"].to_list()
    start = page.ints(header["calls"]["start"])
    assert (start == (calls["start_ns"] - nccl4.job.origin_ns).to_numpy()).all()
    assert (page.ints(header["calls"]["length"]) == calls["dur_ns"].to_numpy()).all()
    assert (page.ints(header["calls"]["wait"]) == calls["wait_ns"].fill_null(-1).to_numpy()).all()
    assert (page.ints(header["calls"]["match"]) == calls["match"].to_numpy()).all()
    assert page.column(header["calls"]["kind"]) == calls["kind"].to_list()


def test_the_page_has_the_steps_of_every_rank(nccl4: JobProfile, page: PageData) -> None:
    header = page.header["job"]
    steps = nccl4.job.steps.sort("rank", "start_ns")
    assert page.ints(header["steps"]["step"]).tolist() == steps["step"].to_list()
    assert (page.ints(header["steps"]["start"]) == (steps["start_ns"] - nccl4.job.origin_ns).to_numpy()).all()


def test_computation_on_the_page_is_the_traces_with_short_gaps_closed(nccl4: JobProfile) -> None:
    source = nccl4.job.digests[0].facts.source
    exact = device_work(warplens.open(source, cache=False).workspace, None).computation
    frame = nccl4.job.digests[0].frames["compute"]
    origin = nccl4.job.digests[0].facts.origin_ns
    drawn = Union(frame["start_ns"].to_numpy() - origin, frame["end_ns"].to_numpy() - origin)
    closed = subtract(drawn, exact)
    assert length(subtract(exact, drawn)) == 0
    assert 0 < (closed.ends - closed.starts).max() < CLOSED_NS
    assert len(drawn.starts) < len(exact.starts)


def test_short_gaps_are_closed_and_long_ones_stay() -> None:
    starts = np.array([0, 10_000 + CLOSED_NS - 1, 200_000])
    parts = coarse(Union(starts, starts + 10_000), np.array([0]))
    assert parts.starts.tolist() == [0, 200_000]
    assert parts.ends.tolist() == [starts[1] + 10_000, 210_000]


def test_a_step_with_many_gaps_keeps_the_longest() -> None:
    count = 3 * MOST_PER_STEP
    gaps = np.arange(count) % 7 + CLOSED_NS
    starts = np.cumsum(np.append(0, gaps + 1_000))
    whole = Union(starts, starts + 1_000)
    one_step, two_steps = coarse(whole, np.array([0])), coarse(whole, np.array([0, starts[count // 2]]))
    assert len(one_step.starts) == MOST_PER_STEP
    assert len(two_steps.starts) == 2 * MOST_PER_STEP - 1
    assert (one_step.starts[1:] - one_step.ends[:-1]).min() == CLOSED_NS + 6 - 2
    assert length(one_step) > length(two_steps) > length(whole)


def test_no_computation_is_no_interval() -> None:
    empty = Union(np.empty(0, np.int64), np.empty(0, np.int64))
    assert len(coarse(empty, np.array([0])).starts) == 0


def test_a_small_job_is_drawn_whole(nccl4: JobProfile) -> None:
    assert drawn_ranks(nccl4.model, [-1] * 4) == dict.fromkeys(range(4), "")


def test_of_many_ranks_those_that_matter_are_drawn(nccl4: JobProfile) -> None:
    model = many(nccl4, 8)
    drawn = drawn_ranks(model, [-1] * 32, chosen=[30])
    own = np.median(model.pace.own_ns, axis=1)
    assert len(drawn) <= MOST_DRAWN
    assert list(drawn) == sorted(drawn)
    assert drawn[30] == "chosen"
    assert {"fastest", "median", "straggler"} <= set(drawn.values())
    assert own[list(drawn)].max() == own.max()
    assert own[list(drawn)].min() == own.min()
    scene = job_scene(model, [30])
    assert len(scene.ranks) == 32
    assert scene.calls["place"].n_unique() == len(scene.drawn) == len(drawn)


def test_chosen_ranks_take_the_place_of_none_that_matters(nccl4: JobProfile) -> None:
    model = many(nccl4, 8)
    alone = drawn_ranks(model, [-1] * 32)
    others = [rank for rank in range(32) if rank not in alone][:MOST_DRAWN]
    drawn = drawn_ranks(model, [-1] * 32, chosen=[*others, *others])
    assert {at: why for at, why in drawn.items() if why != "chosen"} == alone
    assert sorted(at for at, why in drawn.items() if why == "chosen") == others


def test_a_pipeline_is_followed_from_stage_to_stage() -> None:
    """Two pipelines beside each other: 0 → 2 → 4 and 1 → 3 → 5."""

    class Calls:
        ranks = (0, 1, 2, 3, 4, 5)
        matched = pl.DataFrame({"rank": [2, 4, 3, 5], "peer": [0, 2, 1, 3], "kind": ["recv"] * 4})

    class Model:
        job = Calls()

    stage = [0, 0, 1, 1, 2, 2]
    assert pipeline_of(Model(), stage, 3) == [1, 3, 5]  # type: ignore[arg-type]
    assert pipeline_of(Model(), stage, 4) == [0, 2, 4]  # type: ignore[arg-type]
    assert pipeline_of(Model(), [-1] * 6, 0) == []  # type: ignore[arg-type]


def test_a_table_with_too_many_rows_keeps_the_largest_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    rows = [(0, 1, 1, 5.0, 5.0), (1, 0, 1, 1.0, 1.0), (2, 0, 1, 9.0, 9.0)]
    header = pack_table(Table.from_rows("waits", "", WAIT_COLUMNS, rows), Packer())
    assert header.rows == 2
    assert header.notes == ["the 2 rows with the largest wait_ms of 3: the other outputs have all"]
    whole = pack_table(Table.from_rows("ranks", "", WAIT_COLUMNS, rows), Packer())
    assert (whole.rows, whole.notes) == (3, [])
