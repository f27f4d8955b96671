"""Jobs of a simulation, whose true matching, clocks and times are known, and real ranks."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import warplens
from make_ranks import Fault, Grid, JobSpec, Truth, make_job
from rank_digests import matches, true_matches
from support import SHARED, nightly_after
from warplens.profiles.job import JobProfile
from warplens.ranks.roles import stages

PIPE4 = SHARED / "traces" / "ranks" / "pipe4"
GRIDS = {
    "tensor, pipeline and data": Grid(tp=2, pp=2, dp=2),
    "experts and data": Grid(ep=2, dp=2),
    "stages of tensor-parallel ranks": Grid(tp=2, pp=4),
}


def opened(folder: Path, *faults: str, **values: object) -> tuple[JobProfile, Truth]:
    spec = JobSpec(faults=tuple(map(Fault.parse, faults)), **{"steps": 4, "events": 400, **values})  # type: ignore[arg-type]
    truth = make_job(folder, spec)
    return warplens.open_ranks([folder], cache=False), truth


def reproduces(job: JobProfile) -> bool:
    graph = job.model.graph
    return len(graph.order) == len(graph) > 0 and bool((job.model.recorded.times == graph.recorded_ns).all())


@pytest.mark.parametrize("grid", nightly_after(1, GRIDS.values()), ids=GRIDS)
def test_every_collective_of_a_grid_is_matched_and_every_time_reproduced(grid: Grid, tmp_path: Path) -> None:
    job, truth = opened(tmp_path, grid=grid)
    assert matches(job.job) == true_matches(truth, job.job.ranks)
    assert reproduces(job)
    assert not job.job.clocks.offset_ns.any()  # clocks that agree are left as they are


def test_sequence_numbers_lead_to_the_same_matching(tmp_path: Path) -> None:
    job, truth = opened(tmp_path, grid=Grid(tp=2, dp=2), seq=True)
    assert matches(job.job) == true_matches(truth, job.job.ranks)
    assert job.job.matched["part"].unique().to_list() == [-2]


def test_a_missing_rank_and_clocks_of_their_own_change_no_match(tmp_path: Path) -> None:
    job, truth = opened(tmp_path, "missing:rank=3", "clock", grid=Grid(tp=2, pp=2, dp=2), gpus_per_host=1)
    assert matches(job.job) == true_matches(truth, job.job.ranks)
    assert reproduces(job)
    assert any("1 rank of 8 missing: 3" in note.message for note in job.job.notes())


def test_files_in_any_order_and_by_any_name_are_the_same_job(tmp_path: Path) -> None:
    truth = make_job(tmp_path / "job", JobSpec(grid=Grid(tp=2, dp=2), steps=3, events=300))
    names = [f"{name}.json.gz" for name in ("quick", "brown", "fox", "jumps")]
    random.Random(1).shuffle(names)
    for rank, name in enumerate(names):
        (tmp_path / "job" / f"rank{rank}.json.gz").rename(tmp_path / name)
    job = warplens.open_ranks([tmp_path / name for name in names], cache=False)
    assert job.job.ranks == [0, 1, 2, 3]
    assert matches(job.job) == true_matches(truth, job.job.ranks)


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_found_again_where_no_metadata_name_them(seed: int, tmp_path: Path) -> None:
    job, truth = opened(tmp_path, "no_metadata", grid=Grid(tp=2, dp=2), seed=seed, steps=6)
    found, true = matches(job.job), true_matches(truth, job.job.ranks)
    assert found <= true  # what is not sure stays alone
    assert len(found) >= 0.5 * len(true)


@pytest.mark.parametrize("clock", [(), ("clock",)], ids=["one clock", "a clock per host"])
def test_all_groups_and_peers_are_found_by_a_meeting_of_all(clock: tuple[str, ...], tmp_path: Path) -> None:
    grid = Grid(tp=2, pp=2, dp=2)
    job, truth = opened(tmp_path, "no_metadata", *clock, grid=grid, steps=8, events=800, gpus_per_host=2)
    found, true = matches(job.job), true_matches(truth, job.job.ranks)
    assert found <= true
    assert len(found) >= 0.9 * len(true)
    received = job.job.matched.filter(job.job.matched["kind"] == "recv").select("rank", "peer").unique()
    assert set(received.iter_rows()) <= {(rank, (rank + 4) % 8) for rank in range(8)}
    assert reproduces(job)


def test_offsets_and_drift_are_found_over_many_hosts(tmp_path: Path) -> None:
    job, truth = opened(tmp_path, "clock", grid=Grid(tp=2, pp=2), gpus_per_host=1, steps=40, events=1500)
    clocks = job.job.clocks
    offsets = clocks.offset_at(job.job.origin_ns) / 1e3 - [each.offset_us for each in truth.clocks]
    drifts = clocks.drift * 1e6 - [each.drift_ppm for each in truth.clocks]
    assert np.ptp(offsets) / 2 < 20  # what all clocks have in common cannot be known
    assert sum(truth.step_ms) >= 500
    assert np.ptp(drifts) / 2 < 5
    assert reproduces(job)


def test_ranks_of_different_lengths_are_compared_over_the_steps_that_all_have(tmp_path: Path) -> None:
    make_job(tmp_path / "long", JobSpec(grid=Grid(dp=2), steps=6, events=300))
    make_job(tmp_path / "short", JobSpec(grid=Grid(dp=2), steps=3, events=150))
    job = warplens.open_ranks([tmp_path / "long" / "rank0.json.gz", tmp_path / "short" / "rank1.json.gz"], cache=False)
    assert job.model.graph.steps == [2, 3, 4]
    assert any("recorded other numbers of steps" in note.message for note in job.job.notes())
    for name in job.table_names:
        job.table(name)


@pytest.mark.skipif(not PIPE4.exists(), reason="the shared traces are not here")
def test_real_stages_of_a_pipeline_are_reproduced() -> None:
    job = warplens.open_ranks([PIPE4], cache=False)
    assert reproduces(job)
    named = job.job.calls.filter(job.job.calls["group"] == "0")  # the others were launched before the recording
    assert len(named) == 800
    assert (named["match"] >= 0).all()


def costliest(job: JobProfile) -> dict[str, object]:
    return job.table("stragglers").to_dicts()[0]


@pytest.mark.parametrize(
    ("fault", "grid", "values"),
    [
        ("slow_host:rank=0,factor=3", Grid(tp=2, dp=2), {"sharded": True}),
        ("slow_gpu:rank=3,since=4,factor=1.5 missing:rank=2", Grid(tp=2, dp=2), {}),
    ],
    ids=["weights that are gathered", "a missing rank"],
)
def test_the_gain_is_that_of_the_simulation(fault: str, grid: Grid, values: dict[str, object], tmp_path: Path) -> None:
    job, truth = opened(tmp_path, *fault.split(), grid=grid, steps=8, events=800, **values)
    row, true = costliest(job), truth.faults[0]
    assert (row["rank"] in true.ranks, row["cause"], row["since_step"]) == (True, true.cause, true.since_step)
    assert row["gain_ms"] == pytest.approx(true.gain_ms_per_step, rel=0.1)


def test_a_slow_rank_behind_a_slower_one_is_named_with_what_it_costs_then(tmp_path: Path) -> None:
    faults = ("gc:rank=3,ms=30,every=1", "uneven_data:rank=1,since=4,factor=1.7")
    job, truth = opened(tmp_path, *faults, grid=Grid(dp=4), steps=8, events=800)
    first, second = job.table("stragglers").to_dicts()
    assert (first["rank"], first["cause"], first["note"]) == (3, "host", "")
    assert (second["rank"], second["cause"], second["since_step"]) == (1, "imbalance", truth.faults[1].since_step)
    assert second["gain_ms"] < 0.02 * np.median(truth.step_ms)
    assert second["note"].endswith("ms a step once those above are fixed")


def test_a_slow_gpu_in_a_stage_with_another_layer_is_told_from_the_stage(tmp_path: Path) -> None:
    faults = ("uneven_stage:stage=1,layers=1", "slow_gpu:rank=4,since=4,factor=1.4")
    job, truth = opened(tmp_path, *faults, grid=Grid(tp=2, pp=2, dp=2), steps=8, events=800)
    rows = {row["cause"]: row for row in job.table("stragglers").to_dicts()}
    for cause, true in zip(("imbalance", "GPU"), truth.faults, strict=True):
        assert (rows[cause]["rank"], rows[cause]["since_step"]) == (4, true.since_step)
        assert rows[cause]["gain_ms"] == pytest.approx(true.gain_ms_per_step, rel=0.1)


def test_a_rank_whose_sender_is_missing_is_in_the_stage_of_its_group(tmp_path: Path) -> None:
    job, _ = opened(tmp_path, "missing:rank=3", grid=Grid(tp=2, pp=2, dp=2), steps=3)
    assert stages(job.job) == [0, 0, 0, 1, 1, 1, 1]
