"""The GPU work of all ranks of a job: its unique kernels as one table, and its events on one clock."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import warplens
from make_ranks import Fault, Grid, JobSpec, make_job
from support import ROOT
from warplens.outputs.gantt_chart import make_chart, whole_window
from warplens.profiles.job import JobProfile
from warplens.profiles.job_gantt import job_gantt_document, job_gpu_events

STAGES = ROOT / "samples" / "ranks" / "pp4_uneven_stage"


@pytest.fixture(scope="module")
def stages() -> JobProfile:
    return warplens.open_ranks([STAGES])


@pytest.fixture(scope="module")
def ranks() -> list[warplens.Profile]:
    opened = [warplens.open(STAGES / f"pp4_uneven_stage.rank{rank}.json.gz", cache=False) for rank in range(4)]
    return [profile for profile in opened if isinstance(profile, warplens.Profile)]


def test_unique_kernels_of_a_job_are_sums_over_the_ranks_that_run_them(
    stages: JobProfile, ranks: list[warplens.Profile]
) -> None:
    frame = stages.table("unique_kernels").frame
    every = pl.concat([profile.table("unique_kernels").frame for profile in ranks])
    expected = every.group_by("kernel").agg(
        pl.len().cast(pl.Int64).alias("ranks"), pl.col("count").sum(), pl.col("total_us").sum()
    )
    columns = ["kernel", "ranks", "count", "total_us"]
    both = frame.select(columns).join(expected, on="kernel", how="full", suffix="_expected")
    assert len(both) == len(frame) == 27
    assert both["ranks"].to_list() == both["ranks_expected"].to_list()
    assert both["count"].to_list() == both["count_expected"].to_list()
    assert both["total_us"].to_list() == pytest.approx(both["total_us_expected"].to_list())
    assert frame["ranks"].value_counts().sort("ranks").rows() == [(1, 7), (4, 20)]
    assert frame["per_rank_us"].to_list() == pytest.approx((frame["total_us"] / frame["ranks"]).to_list())
    assert frame["percent"].sum() == pytest.approx(100)
    assert frame["cumulative_percent"][-1] == pytest.approx(100)


def test_geometries_and_ops_of_a_job_are_counted_once_for_all_ranks(
    stages: JobProfile, ranks: list[warplens.Profile]
) -> None:
    events = pl.concat(
        profile.gpu_events()
        .select("kernel", "op", "geometry")
        .join(
            profile.trace.geometries.with_row_index("geometry").cast({"geometry": pl.Int32}), on="geometry", how="left"
        )
        for profile in ranks
    )
    expected = events.group_by("kernel").agg(
        pl.struct("grid", "block").n_unique().alias("geometries"), pl.col("op").n_unique().alias("ops")
    )
    frame = stages.table("unique_kernels").frame.select("kernel", "geometries", "ops").sort("kernel")
    assert frame.rows() == expected.select("kernel", "geometries", "ops").sort("kernel").rows()
    assert frame["geometries"].max() > 1  # type: ignore[operator]


def test_the_table_is_made_only_where_it_is_asked_for(stages: JobProfile) -> None:
    assert "unique_kernels" in stages.table_names
    assert "unique_kernels" not in stages.report_names
    (row,) = stages.sql("select count(*) as n from unique_kernels where ranks = 1").to_dicts()
    assert row == {"n": 7}


def test_a_rank_that_is_gone_meanwhile_is_an_error_with_its_path(tmp_path: Path) -> None:
    make_job(tmp_path, JobSpec(grid=Grid(dp=2), steps=2, events=100, layers=2))
    job = warplens.open_ranks([tmp_path])
    (tmp_path / "rank1.json.gz").unlink()
    with pytest.raises(warplens.WarplensError, match=r"rank1\.json\.gz"):
        job.table("unique_kernels")


def test_a_chart_of_a_job_has_a_row_for_each_stream_of_each_rank(
    stages: JobProfile, ranks: list[warplens.Profile]
) -> None:
    events = job_gpu_events(stages, [1, 3])
    chart = make_chart(events, whole_window(events))
    rows = [(row.rank, row.device, row.stream) for row in chart.rows]
    streams = {rank: set(ranks[rank].gpu_events().select("device", "stream").unique().rows()) for rank in (1, 3)}
    assert rows == sorted((rank, *pair) for rank in (1, 3) for pair in streams[rank])
    assert len(chart.bars) == sum(len(ranks[rank].gpu_events()) for rank in (1, 3))
    for rank in (1, 3):
        own = events.filter(pl.col("rank") == rank).group_by("kernel_category").agg(pl.col("dur_ns").sum())
        table = ranks[rank].table("kernel_categories").frame.select("kernel_category", "total_us")
        times = {str(name): ns / 1e3 for name, ns in own.iter_rows()}
        assert times == pytest.approx(dict(table.iter_rows()), rel=1e-4), "but for the drift of its clock"


def test_ranks_are_drawn_on_one_clock(tmp_path: Path) -> None:
    faults = (Fault.parse("clock:offset_ms=40"),)
    make_job(tmp_path, JobSpec(grid=Grid(dp=4), gpus_per_host=1, steps=3, events=100, layers=2, faults=faults))
    job = warplens.open_ranks([tmp_path])
    events = job_gpu_events(job, range(4))
    assert events["start_ns"].min() >= 0  # type: ignore[operator]
    ends = (
        events.filter(pl.col("kernel_category") == "Communication")
        .with_columns(end=pl.col("start_ns") + pl.col("dur_ns"))
        .sort("rank", "end")
        .with_columns(call=pl.int_range(pl.len()).over("rank"))
    )
    spread = ends.group_by("call").agg((pl.col("end").max() - pl.col("end").min()).alias("ns"), pl.len())
    assert spread["len"].unique().to_list() == [4]
    assert spread["ns"].max() < 200_000  # type: ignore[operator]
    offsets = job.table("ranks").frame["clock_offset_us"]
    assert offsets.max() - offsets.min() > 5_000  # type: ignore[operator]


def test_the_page_of_a_job_has_a_lane_for_each_stream_of_each_rank(stages: JobProfile) -> None:
    events = job_gpu_events(stages, [0, 2])
    document = job_gantt_document(stages, events, command="warplens gantt", start="view=1-2")
    assert document.kind == "gantt"
    assert document.extras is not None
    extras = document.extras()
    (scene,) = extras.scenes
    assert extras.start == "view=1-2"
    lanes = scene.trace.lanes.filter(pl.col("thread").str.starts_with("stream"))
    drawn = sorted({f"rank {rank}" for rank in (0, 2) for _ in range(2)})
    assert sorted(set(lanes["process"].to_list())) == drawn
    gpu = scene.trace.events[scene.trace.gpu_rows]
    assert sorted(gpu["start_ns"].to_list()) == sorted(events["start_ns"].to_list())
    assert int(gpu["dur_ns"].sum()) == int(events["dur_ns"].sum())
