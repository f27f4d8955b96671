"""Metrics that Nsight Systems samples of a GPU are counters of the trace."""

from __future__ import annotations

from pathlib import Path

import pytest

import warplens
from nsys_files import BOOT, NsysFile, opened, training_step

ACTIVE = {BOOT - 5_000: 0, BOOT + 30_000: 97, BOOT + 50_000: 99, BOOT + 70_000: 2}


def sampled() -> NsysFile:
    file = training_step()
    file.metric(10, "SMs Active [Throughput %]", ACTIVE)
    file.metric(11, "DRAM Read Bandwidth [Throughput %]", {BOOT + 30_000: 61, BOOT + 50_000: None, BOOT + 20_000: 40})
    file.metric(12, "GPC Clock Frequency [MHz]", {BOOT + 30_000: 1_980})
    file.metric(13, "Vertex/Tess/Geometry Warps in Flight [Avg]", {BOOT + 30_000: 1})
    file.metric(10, "SMs Active [Throughput %]", {BOOT + 30_000: 5}, gpu=1)
    return file


def rows(profile: warplens.Profile, table: str) -> list[tuple[object, ...]]:
    return profile.table(table).to_polars().rows()


def test_samples_are_counters_with_units_and_limits(tmp_path: Path) -> None:
    profile = opened(sampled().write(tmp_path / "x.sqlite"))
    found = {(row[0], row[1]): row[2:] for row in rows(profile, "gpu_counters")}
    assert found[0, "SMs Active"] == ("%", 3, 2.0, 66.0, 97.0, 99.0, 100.0, 66.0)
    assert found[0, "DRAM Read Bandwidth"] == ("%", 2, 40.0, 50.5, 40.0, 61.0, 100.0, 50.5)
    assert found[0, "GPC Clock Frequency"][:2] == ("MHz", 1)
    assert found[0, "GPC Clock Frequency"][-2:] == (None, None)
    assert found[1, "SMs Active"][1:4] == (1, 5.0, 5.0)
    assert len(found) == 4, "only what is worth a track"


def test_they_are_on_the_clock_of_the_events_and_in_order(tmp_path: Path) -> None:
    profile = opened(sampled().write(tmp_path / "x.sqlite"))
    timeline = [(row[3], row[4]) for row in rows(profile, "counter_timeline") if row[:2] == (0, "SMs Active")]
    assert timeline == [(-0.005, 0.0), (0.03, 97.0), (0.05, 99.0), (0.07, 2.0)]
    read = [row[3] for row in rows(profile, "counter_timeline") if row[1] == "DRAM Read Bandwidth"]
    assert read == [0.02, 0.03]


def test_without_power_there_is_no_energy_and_no_word_on_it(tmp_path: Path) -> None:
    profile = opened(sampled().write(tmp_path / "x.sqlite"))
    energy = profile.table("step_energy")
    assert (len(energy), energy.notes) == (0, ())
    assert profile.table("gpu_counters").notes == ()


@pytest.mark.parametrize("column", ["timestamp", "metricId", "typeId", "value", "metricName"])
def test_exports_without_a_column_have_no_counters_and_keep_their_events(tmp_path: Path, column: str) -> None:
    without = {"GPU_METRICS": (column,), "TARGET_INFO_GPU_METRICS": (column,)}
    profile = opened(sampled().write(tmp_path / "x.sqlite", without=without))
    plain = opened(training_step().write(tmp_path / "plain.sqlite"))
    assert rows(profile, "kernels") == rows(plain, "kernels")
    assert "gpu_counters" not in profile.table_names
