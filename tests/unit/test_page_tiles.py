"""The tiles that are read off tables."""

from __future__ import annotations

import polars as pl

from warplens.model.answer import Answer, Part
from warplens.model.clock import ESTIMATED, RECORDED, Clock
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
        low_tokens_per_s=[None, 3950.0, None],
        high_tokens_per_s=[None, 4270.0, None],
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
        ("Decode", "3,891 tokens/s", "8.1 ms an iteration · 32 requests · 3,950 to 4,270 unprofiled"),
        ("Prefill", "29,174 tokens/s", "70.2 ms an iteration · 1 request · recorded"),
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
    assert words([*serving_tiles([phases], PASS)]) == [("Mixed iterations", "–", "3.0 ms an iteration · recorded")]
    assert serving_rates([phases]) == []


def test_a_job_has_its_step_the_parts_of_the_rank_that_decides_it_and_the_straggler() -> None:
    parts = (
        Part("computation", "", 60.0, 60.0),
        Part("exposed communication", "transfers", 25.0, 25.0),
        Part("exposed communication", "waits for other ranks", 5.0, 5.0),
        Part("GPU idle", "dependency", 10.0, 10.0),
    )
    clock = Clock(100.0, 100.0, 100.0, RECORDED, 100.0, "step", 3)
    answer = Answer("job", (), "", clock=clock, parts=parts, parts_of="rank 1")
    straggler = table("stragglers", rank=[1], excess_ms=[20.0], gain_low_ms=[5.0], since_step=[3], cause=["host"])
    assert words([*job_tiles(answer, [straggler])]) == [
        ("Step", "100.0 ms", "measured, as recorded · 3 steps"),
        ("GPU busy", "90.0 %", "90.0 ms of rank 1's step"),
        ("Exposed communication", "30.0 %", "30.0 ms of rank 1's step"),
        ("GPU idle", "10.0 %", "10.0 ms of rank 1's step"),
        ("Straggler", "rank 1", "20.0 ms a step since step 3"),
    ]
    assert job_tiles(Answer("job", (), ""), [straggler]) == []
    doubtful = table("stragglers", rank=[1], excess_ms=[20.0], gain_low_ms=[0.0], since_step=[3], cause=["host"])
    assert job_tiles(answer, [doubtful])[-1].label == "Slower rank"


def test_a_job_without_gpus_has_no_tile_of_what_they_do() -> None:
    parts = (Part("host", "", 70.0, 70.0), Part("exposed communication", "transfers", 30.0, 30.0))
    clock = Clock(100.0, 100.0, 100.0, RECORDED, 100.0, "step", 3)
    answer = Answer("job", (), "", clock=clock, parts=parts, parts_of="rank 0")
    assert [tile.label for tile in job_tiles(answer, [])] == ["Step", "Host", "Exposed communication"]


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
