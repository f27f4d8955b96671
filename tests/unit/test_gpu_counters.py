"""Power and clocks that a capture sampled: on the trace's clock, in tables, in the summary and in Perfetto's file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import warplens
from support import ROOT, SAMPLES
from warplens.analyses.counters import tables
from warplens.analyses.counters.readings import Series
from warplens.cli import main
from warplens.model.table import Column, Table
from warplens.outputs.power_text import power_text
from warplens_run.base.errors import UsageError
from warplens_run.formats.bundle import Staging

TRACE = next(path for path in SAMPLES if path.name == "gpt2_train_compiled.json.gz")
WITHOUT_STEPS = next(path for path in SAMPLES if path.name == "resnet50_train.json.gz")
FACTS: dict[str, Any] = {"status": "complete", "backend": "torch", "command": ["warplens"], "notes": [], "gpu": True}
MS = 1_000_000
STEP_MS = (16.2, 18.3)
"""Of the two steps of the trace on the GPU."""


@lru_cache(1)
def origin() -> int:
    return int(warplens.open(TRACE).meta.origin_ns)  # type: ignore[union-attr]


def renewed(*watts: float) -> list[float]:
    """Readings of which none repeats the one before, so that each is a renewal."""
    return [value + 0.001 * (number % 2) for number, value in enumerate(watts)]


def samples(first_ns: int, count: int, every_ns: int = MS, **columns: Any) -> dict[str, Any]:
    times = [first_ns + number * every_ns for number in range(count)]
    readings = {
        "power_w": renewed(*[600.0] * count),
        "sm_clock_mhz": [1500] * count,
        "temperature_c": [60] * count,
        "clock_reasons": [4] * (count - count // 4) + [0] * (count // 4),
    }
    facts = {"device": 0, "name": "NVIDIA H200", "power_limit_w": 700.0, "max_sm_clock_mhz": 1980}
    return {**facts, "times_ns": times, **readings, **columns}


def bundle(folder: Path, *gpus: dict[str, Any], windows: Any = (), text: str = "", trace: Path = TRACE) -> Path:
    staging = Staging(folder / "run")
    staging.path("trace.json.gz").write_bytes(trace.read_bytes())
    staging.path("counters.json").write_text(text or json.dumps({"version": 1, "gpus": gpus}))
    if windows:
        staging.path("timing.json").write_text(json.dumps({"version": 1, "windows": windows}))
    return staging.finish(FACTS)


def opened(path: Path, *, cache: bool = False) -> warplens.Profile:
    profile = warplens.open(path, cache=cache)
    assert isinstance(profile, warplens.Profile)
    return profile


def rows(profile: warplens.Profile, table: str) -> list[dict[str, Any]]:
    return profile.table(table).to_dicts()


def test_the_tables_are_there_only_where_counters_were_sampled(tmp_path: Path) -> None:
    plain = opened(TRACE)
    assert "gpu_counters" not in plain.table_names
    with pytest.raises(UsageError, match="profile --counters"):
        plain.table("step_energy")
    sampled = opened(bundle(tmp_path, samples(origin(), 100)))
    assert {"gpu_counters", "step_energy", "counter_timeline"} <= set(sampled.table_names)


def test_counters_are_summed_up_over_the_trace_with_their_limits(tmp_path: Path) -> None:
    power = renewed(*[100.0] * 50 + [600.0] * 10 + [700.0] * 10 + [100.0] * 130)
    profile = opened(bundle(tmp_path, samples(origin() - 50 * MS, 200, power_w=power)))
    extent = max(profile.trace.ints("start_ns") + profile.trace.ints("dur_ns")) / MS
    inside = [watts for number, watts in enumerate(power) if 0 <= number - 50 <= extent]
    by_name = {row["counter"]: row for row in rows(profile, "gpu_counters")}
    row = by_name["power"]
    assert (row["device"], row["unit"], row["samples"], row["min"], row["max"]) == (
        0, "W", len(inside), min(inside), 700.001,
    )  # fmt: skip
    assert row["mean"] == pytest.approx(np.mean(inside))
    assert row["percent_of_limit"] == pytest.approx(np.mean(inside) / 7)
    assert by_name["SM clock"]["limit"] == 1980
    assert by_name["temperature"]["limit"] is None
    assert "memory clock" not in by_name, "what was not read has no row"
    assert by_name["clock: power limit"]["mean"] == 100
    assert "clock: temperature" not in by_name, "a reason that never held has no row"


def test_a_steps_energy_is_its_mean_power_times_its_time(tmp_path: Path) -> None:
    """Power rises by 1 W in every ms: that in the middle of a window is the mean, its first ms (a renewal) aside."""
    profile = opened(bundle(tmp_path, samples(origin() - 20 * MS, 120, power_w=[380.0 + turn for turn in range(120)])))
    energies = {(row["part"], row["step"]): row for row in rows(profile, "step_energy")}
    begins = dict(profile.workspace.gpu.group_by("step").agg(pl.col("start_ns").min()).iter_rows())
    steps = profile.table("steps").frame["step"].to_list()
    for step, time_ms in zip(steps, STEP_MS, strict=True):
        row = energies["step", step]
        assert row["time_ms"] == pytest.approx(time_ms, abs=0.1)
        assert row["power_w"] == pytest.approx(400 + begins[step] / MS + (1 + row["time_ms"]) / 2)
        assert row["energy_j"] == pytest.approx(row["power_w"] * row["time_ms"] / 1000)
        assert row["steps"] == 1
    together = energies["recorded steps", None]
    assert together["steps"] == 2
    assert together["time_ms"] == pytest.approx(sum(STEP_MS) / 2, abs=0.1)
    begin, end = begins[steps[0]], begins[steps[1]] + MS * energies["step", steps[1]]["time_ms"]
    assert together["power_w"] == pytest.approx(400 + (begin + MS + end) / 2 / MS)
    assert together["energy_j"] == pytest.approx(together["power_w"] * together["time_ms"] / 1000)
    assert together["sm_clock_mhz"] == pytest.approx(1500)
    assert (together["power_limit_w"], together["temperature_c"]) == (700, pytest.approx(60))


def held(count: int, *watts: float) -> list[float]:
    """Each reading in `count` samples."""
    return [value for value in watts for _ in range(count)]


def unrecorded(profile: warplens.Profile) -> list[dict[str, Any]]:
    return [row for row in rows(profile, "step_energy") if row["part"] == "unrecorded steps"]


def test_unrecorded_steps_have_the_energy_of_the_longest_window(tmp_path: Path) -> None:
    begin = origin() - 1000 * MS
    windows = [
        {"position": "before", "steps": 20, "seconds": 0.6, "start_ns": begin},
        {"position": "after", "steps": 2, "seconds": 0.06, "start_ns": begin + 1100 * MS},
        {"position": "after", "steps": 33, "seconds": 1.0, "start_ns": begin + 1200 * MS},
    ]
    power = held(5, *[500.0, 501.0] * 6, *[600.0, 601.0] * 6)  # renewed every 100 ms
    profile = opened(bundle(tmp_path, samples(begin, 120, 20 * MS, power_w=power), windows=windows))
    [row] = unrecorded(profile)
    assert row["steps"] == 33
    assert row["time_ms"] == pytest.approx(1000 / 33)
    assert row["power_w"] == pytest.approx(600.5, abs=0.2)
    assert row["energy_j"] == pytest.approx(row["power_w"] / 33)


def test_a_longer_window_in_which_sampling_paused_does_not_count(tmp_path: Path) -> None:
    begin = origin() - 1000 * MS
    windows = [
        {"position": "before", "steps": 20, "seconds": 0.6, "start_ns": begin},
        {"position": "after", "steps": 33, "seconds": 1.0, "start_ns": begin + 1200 * MS},
    ]
    profile = opened(bundle(tmp_path, samples(begin, 40, 20 * MS), windows=windows))
    assert [row["steps"] for row in unrecorded(profile)] == [20]


def test_the_reading_from_before_a_window_is_not_in_its_mean(tmp_path: Path) -> None:
    """NVML shows the idle GPU's power until the first renewal after the work began."""
    begin = origin() - 2000 * MS
    power = held(5, 100.0, 101.0, 100.0, *[600.0, 601.0] * 4, 600.0)
    windows = [{"position": "before", "steps": 30, "seconds": 0.9, "start_ns": begin + 210 * MS}]
    profile = opened(bundle(tmp_path, samples(begin, 60, 20 * MS, power_w=power), windows=windows))
    assert unrecorded(profile)[0]["power_w"] == pytest.approx(600.5, abs=0.1)


def test_recorded_steps_shorter_than_five_renewals_have_a_note_instead_of_a_row(tmp_path: Path) -> None:
    """Their readings were those of before: 207 W where the steps drew 540 W."""
    begin = origin() - 1000 * MS
    windows = [{"position": "before", "steps": 20, "seconds": 0.6, "start_ns": begin}]
    power = held(5, *[500.0, 501.0] * 12)
    profile = opened(bundle(tmp_path, samples(begin, 120, 20 * MS, power_w=power), windows=windows))
    table = profile.table("step_energy")
    assert table.frame["part"].to_list() == ["unrecorded steps"]
    length = 34  # from the first kernel to the last one's end
    assert table.notes == (
        f"GPU 0: no row for the recorded steps: {length} ms are less than the 500 ms (5 renewals of the reading of "
        "power) that a mean needs; record more steps",
    )


def test_the_counters_of_a_trace_shorter_than_five_renewals_are_of_all_readings(tmp_path: Path) -> None:
    begin = origin() - 1000 * MS
    power = held(5, *[500.0, 501.0] * 12)
    table = opened(bundle(tmp_path, samples(begin, 120, 20 * MS, power_w=power))).table("gpu_counters")
    [row] = table.frame.filter(counter="power").to_dicts()
    assert (row["samples"], row["mean"]) == (120, 500.5)
    assert "renewed every 100 ms: these are all readings" in table.notes[0]


def test_how_often_a_reading_is_renewed() -> None:
    times = np.arange(0, 60) * 20 * MS
    values = np.array(held(5, *[500.0, 501.0] * 6))
    assert Series(times, values).renewal_ns == 100 * MS
    later = np.where(times >= 600 * MS, times + 777 * MS, times)
    assert Series(later, values).renewal_ns == 100 * MS, "a pause of the sampling is no renewal"
    assert Series(times, np.arange(60.0)).renewal_ns == 20 * MS, "nothing shorter than the samples' spacing is seen"
    usual = 100 * MS
    assert Series(times, np.full(60, 500.0)).renewal_ns == usual, "a reading that never changes says nothing"
    assert Series(times[:0], values[:0]).renewal_ns == Series(times[:1], values[:1]).renewal_ns == usual


@pytest.mark.parametrize("spacing", [40, 400])
def test_a_window_with_fewer_than_three_samples_has_no_energy(tmp_path: Path, spacing: int) -> None:
    profile = opened(bundle(tmp_path, samples(origin() - 400 * MS, 40, spacing * MS)))
    table = profile.table("step_energy")
    assert len(table) == 0
    assert "no row for the recorded steps" in table.notes[0]


def test_a_trace_without_steps_has_the_energy_of_all_of_it(tmp_path: Path) -> None:
    start = int(opened(WITHOUT_STEPS).meta.origin_ns)
    profile = opened(bundle(tmp_path, samples(start, 2000), trace=WITHOUT_STEPS))
    [row] = rows(profile, "step_energy")
    assert (row["part"], row["steps"], row["step"]) == ("whole trace", 0, None)
    assert row["energy_j"] == pytest.approx(0.6 * row["time_ms"], rel=1e-5)


def test_readings_are_joined_by_lines_and_not_across_a_pause() -> None:
    times = np.arange(0, 100, 10)
    rising = Series(times, times.astype(float))
    assert rising.mean([(15, 65)]) == pytest.approx(40)
    assert rising.mean([(15, 65), (20, 60)]) == pytest.approx(40)
    assert rising.count([(15, 65)]) == 5
    assert rising.mean([]) is None
    assert rising.mean([(80, 300)]) is None, "sampling had ended"
    paused = Series(np.array([0, 10, 20, 90, 100]), np.ones(5))
    assert paused.mean([(0, 100)]) is None


def test_the_energy_counter_is_compared_with_the_readings(tmp_path: Path) -> None:
    begin = origin()
    energy = [[begin, 1000.0], [begin + 2000 * MS, 2180.0]]
    profile = opened(bundle(tmp_path, samples(begin, 200, 10 * MS, energy=energy)))
    assert profile.table("gpu_counters").notes[-1] == (
        "GPU 0: its counter of energy has 590 W on average over 2.0 s, the readings of power 600 W"
    )
    assert all(row["counter"] != "energy counter" for row in rows(profile, "counter_timeline"))


def test_the_timeline_has_the_readings_of_the_trace_and_the_one_that_holds_at_its_start(tmp_path: Path) -> None:
    profile = opened(bundle(tmp_path, samples(origin() - 1000 * MS - MS // 2, 3000)))
    timeline = profile.table("counter_timeline").frame
    power = timeline.filter(counter="power")
    assert power["start_ms"][0] == pytest.approx(-0.5)
    starts = profile.trace.ints("start_ns") + profile.trace.ints("dur_ns")
    assert power["start_ms"][-1] <= starts.max() / MS < power["start_ms"][-1] + 1
    assert power["limit"].unique().to_list() == [700.0]
    assert power["unit"].unique().to_list() == ["W"]


def test_many_readings_are_thinned_and_the_largest_stays(tmp_path: Path) -> None:
    power = [600.0] * 9000
    power[4321] = 699.5
    profile = opened(bundle(tmp_path, samples(origin(), 9000, 4000, power_w=power)))
    table = profile.table("counter_timeline")
    values = table.frame.filter(counter="power")["value"]
    assert len(values) <= 4001
    assert values.max() == 699.5
    assert "thinned" in table.notes[0]


def test_the_cache_keeps_counters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE_DIR", str(tmp_path / "cache"))
    path = bundle(tmp_path, samples(origin(), 50))
    first, second = opened(path, cache=True), opened(path, cache=True)
    assert rows(first, "counter_timeline") == rows(second, "counter_timeline")


def test_corrected_times_have_no_counters(tmp_path: Path) -> None:
    profile = opened(bundle(tmp_path, samples(origin(), 100)))
    assert "gpu_counters" not in profile.corrected().table_names


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"version": 2}',
        '{"version": 1, "gpus": [{"device": -1}]}',
        '{"version": 1, "gpus": [{"device": 0, "times_ns": [1, 2], "power_w": [1]}]}',
        '{"version": 1, "gpus": [{"device": 0, "times_ns": [-1], "power_w": [1]}]}',
        '{"version": 1, "gpus": [{"device": 0, "times_ns": [1], "power_w": ["a"]}]}',
        '{"version": 1, "gpus": [{"device": 0, "times_ns": [1], "energy": [[1e300, 2]]}]}',
    ],
)
def test_damaged_counters_are_a_note(tmp_path: Path, text: str) -> None:
    profile = opened(bundle(tmp_path, text=text or " "))
    assert "counters_damaged" in {row["code"] for row in rows(profile, "quality")}
    assert "gpu_counters" not in profile.table_names


def test_a_trace_of_another_clock_has_no_counters(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run")
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "ts": 1000, "dur": 5, "pid": 1, "tid": 1}
    staging.path("trace.json.gz").write_text(json.dumps({"traceEvents": [event]}))
    staging.path("counters.json").write_text(json.dumps({"version": 1, "gpus": [samples(origin(), 5)]}))
    profile = opened(staging.finish(FACTS))
    assert "counters_other_clock" in {row["code"] for row in rows(profile, "quality")}


def test_readings_that_failed_are_left_out(tmp_path: Path) -> None:
    count = 60
    power = [None if number % 2 else 600.0 for number in range(count)]
    profile = opened(bundle(tmp_path, samples(origin(), count, power_w=power, clock_reasons=[None] * count)))
    by_name = {row["counter"]: row for row in rows(profile, "gpu_counters")}
    assert by_name["power"]["samples"] * 2 == pytest.approx(by_name["SM clock"]["samples"], abs=1)
    assert not any(name.startswith("clock:") for name in by_name)


def test_converted_files_have_the_counters_of_the_trace(tmp_path: Path) -> None:
    path = bundle(tmp_path, samples(origin() - 500 * MS, 1000))
    profile = opened(path)
    target = tmp_path / "x.perfetto.json"
    assert main(["convert", str(path), "-o", str(target)]) == 0
    document = json.loads(target.read_text())
    events = [event for event in document["traceEvents"] if event["ph"] == "C" and event["name"] == "power (W)"]
    gpu = next(
        event["pid"]
        for event in document["traceEvents"]
        if event["ph"] == "M" and event["name"] == "process_name" and event["args"]["name"].startswith("GPU 0")
    )
    expected = {row["counter"]: row["samples"] for row in rows(profile, "gpu_counters")}
    assert len(events) == expected["power"]
    assert {event["pid"] for event in events} == {gpu}
    assert {event["args"]["value"] for event in events} <= {600.0, 600.001}
    assert min(event["ts"] for event in events) >= 0


def test_a_real_steps_power_is_that_of_the_gpus_own_counter_of_energy() -> None:
    """Truth: the counter over 2 s of the same steps at the end of the program, 540.9 W and 33.86 ms a step."""
    profile = opened(ROOT / "samples" / "counters" / "gpt_train.zip")
    table = profile.table("step_energy")
    [row] = table.to_dicts()
    assert (row["part"], row["steps"], row["power_limit_w"]) == ("unrecorded steps", 28, 700)
    assert row["power_w"] == pytest.approx(540.9, rel=0.01)
    assert row["energy_j"] == pytest.approx(540.9 * 0.03386, rel=0.03)
    assert row["sm_clock_mhz"] == pytest.approx(1980)
    assert table.notes[0].startswith("GPU 0: no row for the recorded steps: 33 ms are less than the 500 ms")
    counters = {row["counter"]: row for row in rows(profile, "gpu_counters")}
    assert [counters["power"][key] for key in ("samples", "min", "max", "limit")] == [110, 124.256, 588.338, 700]
    assert not any(name.startswith("clock:") for name in counters), "nothing lowered the clock"
    assert set(counters) == set(COUNTED)
    text = power_text(profile.table("gpu_counters"), table)
    assert text == "539 W of 700 W · 18.66 J a step · SM clock 1.98 of 1.98 GHz"


COUNTED = ("power", "SM clock", "memory clock", "GPU busy", "memory busy", "temperature", "memory used")


def energy_table(*parts: tuple[str, float, float]) -> Table:
    names = ("device", "part", "power_w", "energy_j", "power_limit_w")
    given = [dict(zip(names, (0, *part, 700.0), strict=True)) for part in parts]
    return Table.from_rows("step_energy", "", tables.ENERGIES, [_row(tables.ENERGIES, row) for row in given])


def counter_rows(*counters: tuple[int, str, float, float | None]) -> Table:
    given = [dict(zip(("device", "counter", "mean", "limit"), row, strict=True)) for row in counters]
    return Table.from_rows("gpu_counters", "", tables.COUNTERS, [_row(tables.COUNTERS, row) for row in given])


def _row(columns: Sequence[Column], values: dict[str, Any]) -> dict[str, Any]:
    return {column.name: values.get(column.name) for column in columns}


POWER = (0, "power", 610.0, 700.0)
CLOCK = (0, "SM clock", 1500.0, 1980.0)


@pytest.mark.parametrize(
    ("counters", "parts", "text"),
    [
        ((), (), ""),
        ((CLOCK,), (), ""),
        ((POWER,), (), "610 W of 700 W"),
        (
            (POWER, CLOCK, (0, "clock: power limit", 83.0, None)),
            (("unrecorded steps", 612.0, 36.5), ("recorded steps", 580.0, 40.25)),
            "612 W of 700 W · 36.50 J a step (recorded: 580 W, 40.25 J) · SM clock 1.50 of 1.98 GHz: "
            "the power limit lowers the clock in 83% of the samples",
        ),
        (
            (POWER, CLOCK, (0, "clock: power limit", 3.0, None), (0, "clock: idle", 50.0, None)),
            (("recorded steps", 580.0, 40.25),),
            "580 W of 700 W · 40.25 J a step · SM clock 1.50 of 1.98 GHz",
        ),
        (
            (POWER, (0, "SM clock", 1975.0, 1980.0), (0, "clock: power limit", 90.0, None)),
            (("whole trace", 580.0, 40.25),),
            "580 W of 700 W · 40.25 J · SM clock 1.98 of 1.98 GHz",
        ),
        (
            (POWER, (1, "power", 650.0, 700.0), (1, "SM clock", 1200.0, 1980.0)),
            (("recorded steps", 580.0, 40.25),),
            "GPU 1, the highest of 2 GPUs: 650 W of 700 W · SM clock 1.20 of 1.98 GHz",
        ),
    ],
)
def test_the_summary_says_what_a_step_costs_and_what_lowers_the_clock(counters: Any, parts: Any, text: str) -> None:
    assert power_text(counter_rows(*counters), energy_table(*parts)) == text


def test_without_counters_the_summary_has_no_line() -> None:
    assert power_text(None, None) == ""
