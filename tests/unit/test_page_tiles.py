"""The tiles that are read off tables."""

from __future__ import annotations

import polars as pl

from warplens.model.clock import ESTIMATED, Clock
from warplens.model.table import Column, Table
from warplens.outputs.html.table_tiles import job_tiles, serving_rates, serving_tiles, snapshot_tiles

GIB = 2**30
PASS = Clock(10.0, 9.0, 11.0, ESTIMATED, 11.5, whole="pass")


def table(name: str, **values: list[object]) -> Table:
    frame = pl.DataFrame(values)
    columns = tuple(Column(column, column, "", frame[column].dtype) for column in frame.columns)
    return Table.from_frame(name, "for a test", columns, frame)


def words(tiles: list[object]) -> list[tuple[str, str, str]]:
    return [(tile.label, tile.value, tile.note) for tile in tiles]  # type: ignore[attr-defined]


def test_a_served_model_has_its_rates_and_the_time_between_tokens() -> None:
    phases = table(
        "serving_phases",
        phase=["prefill", "decode", "all"],
        requests=[1.0, 31.6, 20.0],
        tokens_per_s=[29174.0, 3891.4, 11786.0],
        plain_tokens_per_s=[None, 4105.2, None],
        median_ms=[70.2, 8.1, 8.1],
        mfu_percent=[40.0, 2.0, 12.34],
        mbu_percent=[10.0, 60.0, 50.0],
    )
    latency = table(
        "token_latency",
        part=["interval", "attention"],
        p50_ms=[8.1, 1.5],
        p90_ms=[9.0, 1.5],
        p99_ms=[78.3, 2.0],
        plain_p50_ms=[7.9, None],
    )
    assert words([*serving_tiles([phases, latency], PASS)]) == [
        ("Decode", "3,891 tokens/s", "8.1 ms a pass · 32 requests · 3,732 to 4,561 unprofiled"),
        ("Prefill", "29,174 tokens/s", "70.2 ms a pass · 1 request · recorded"),
        ("Between two tokens", "8.1 ms", "p90 9.0 ms · p99 78.3 ms · 7.1 ms to 8.7 ms unprofiled"),
    ]
    assert words([*serving_rates([phases])]) == [("MFU", "12.3 %", "MBU 50.0 %")]
    assert serving_tiles([], PASS) == serving_rates([]) == []


def test_figures_that_a_served_trace_lacks_are_left_out() -> None:
    phases = table(
        "serving_phases",
        phase=["mixed"],
        requests=pl.Series([None], dtype=pl.Float64),
        tokens_per_s=pl.Series([None], dtype=pl.Float64),
        plain_tokens_per_s=pl.Series([None], dtype=pl.Float64),
        median_ms=[3.0],
        mfu_percent=pl.Series([None], dtype=pl.Float64),
        mbu_percent=pl.Series([None], dtype=pl.Float64),
    )
    assert words([*serving_tiles([phases], PASS)]) == [("Mixed passes", "–", "3.0 ms a pass · recorded")]
    assert serving_rates([phases]) == []


def test_a_job_has_the_mean_of_its_ranks_and_the_straggler() -> None:
    ranks = table(
        "ranks",
        rank=[0, 1],
        step_ms=[90.0, 110.0],
        compute_ms=[40.0, 60.0],
        exposed_ms=[40.0, 40.0],
        wait_ms=[20.0, 0.0],
        idle_ms=[10.0, 10.0],
    )
    straggler = table("stragglers", rank=[1], excess_ms=[20.0], since_step=[3], cause=["host"])
    assert words([*job_tiles([ranks, straggler])]) == [
        ("Step", "100.0 ms", "slowest: rank 1, 110.0 ms"),
        ("Computation", "50.0 %", "50.0 ms"),
        ("Exposed communication", "40.0 %", "10.0 ms of 40.0 ms waits for a rank"),
        ("Idle", "10.0 %", "10.0 ms"),
        ("Straggler", "rank 1", "20.0 ms a step since step 3"),
    ]
    assert job_tiles([table("ranks", rank=[0], step_ms=pl.Series([None], dtype=pl.Float64))]) == []


def test_a_snapshot_has_the_peak_of_the_device_that_held_most() -> None:
    moments = table(
        "memory_timeline",
        device=["GPU 0", "GPU 1", "GPU 1"],
        allocated_bytes=[GIB, 3 * GIB, GIB],
        reserved_bytes=[2 * GIB, 4 * GIB, 4 * GIB],
        is_peak=[True, True, False],
    )
    pools = table(
        "fragmentation",
        device=["GPU 0", "GPU 1", "GPU 1", "GPU 1"],
        moment=["peak", "peak", "peak", "end"],
        lost_bytes=[GIB, GIB // 2, GIB // 4, GIB],
    )
    assert words([*snapshot_tiles([moments, pools])]) == [
        ("Memory peak", "3.0 GiB", "allocated on GPU 1"),
        ("Reserved", "4.0 GiB", "75 % of it allocated"),
        ("Fragmentation", "768.0 MiB", "lost at the peak"),
    ]
    assert list(snapshot_tiles([])) == []
