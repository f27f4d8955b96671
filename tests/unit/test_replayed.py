"""The tables of a replay's result, from results made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import ROOT, Opened, kernel, launch, op
from warplens.analyses.units.replayed import (
    REPLAY_TABLES,
    WholeRun,
    replay,
    replay_categories,
    replay_left,
    replay_ops,
    replay_units,
)
from warplens.profiles.replay import open_replay
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_result import Energy, MeterFacts, ReplayResult, Time, Traced, UnitResult
from warplens_run.formats.result_sums import in_range


def timed(median: float) -> Time:
    return Time(median, median, median, median, median, 20, 0.01)


def energy(active: float, *, doubtful: bool = False) -> Energy:
    return Energy(active, 2 * active, 300, 100, 2.0, 1000, 1000, 0.9, 5, 0.02, doubtful=doubtful)


def unit(identity: str, median: float, count: int, found: float | None = None, **facts: Any) -> UnitResult:
    traced = Traced(int(count * median), median, 0.9 * median, 1.05 * median)
    known = {"status": "done" if found else "failed", "time": timed(found) if found else None} | facts
    return UnitResult(identity, known.pop("op", "aten::mm"), count, traced, **known)


def a_result() -> ReplayResult:
    units = (
        unit("u1", 1000, 10, 1050, same=True, category="GEMM", energy=energy(0.5), kernel="gemm"),
        unit(
            "u2", 2000, 2, 3000, same=False, difference="another grid", category="GEMM", energy=energy(1, doubtful=True)
        ),
        unit("u3", 500, 4, op="aten::add", category="Elementwise", reason="no such op"),
    )
    return ReplayResult("hash", "t.json", 20_000, 100_000, "NVIDIA H200", "python", "in-situ", units,
                  rest={"launched by a graph": 4000}, meter=MeterFacts("NVML", 0.1, 100.0))  # fmt: skip


def measures(result: ReplayResult, whole: WholeRun | None = None) -> dict[str, float]:
    return {row["measure"]: row["value"] for row in replay(result, whole).to_dicts()}


def test_the_figures_are_weighted_by_time() -> None:
    found = measures(a_result())
    assert found["traced"] == 20
    assert found["covered"] == pytest.approx(100 * 14_000 / 20_000)
    assert found["same kernels"] == pytest.approx(100 * 10_000 / 14_000)
    assert found["in range"] == pytest.approx(100 * 10_000 / 14_000)
    assert found["replayed"] == pytest.approx(16.5)
    assert found["replayed / traced"] == pytest.approx(16_500 / 14_000)
    assert found["active energy"] == pytest.approx(7)
    assert found["doubtful"] == pytest.approx(100 * 4_000 / 14_000)
    assert "closure" not in found


def test_the_closure_is_active_scaled_to_all_time_plus_idle() -> None:
    found = measures(a_result(), WholeRun(joules=40, seconds=0.3))
    assert found["closure"] == pytest.approx(7 / 0.7 + 100 * 0.3)
    assert found["closure / whole run"] == pytest.approx(1.0)


@pytest.mark.parametrize(("found", "expected"), [(1090, True), (1101, False), (901, True), (899, False), (None, None)])
def test_in_range_is_the_traces_own_spread_or_a_tenth(found: float | None, expected: bool | None) -> None:
    one = unit("u", 1000, 1, found)
    assert in_range(replace(one, traced=Traced(1000, 1000, 990, 1010))) is expected
    assert in_range(replace(one, traced=Traced(1000, 1000, 0, 5000))) is (True if found else None)


def test_a_cpus_times_are_compared_with_nothing() -> None:
    result = a_result()
    units = [replace(each, same=None, time=each.time and replace(each.time, timer="host")) for each in result.units]
    result = replace(result, device="cpu", units=tuple(units))
    rows = replay_units(result).to_dicts()
    assert [row["replayed_us"] for row in rows] == [1.05, 3.0, None]
    assert {row["ratio"] for row in rows} == {None}
    assert {row["in_range"] for row in rows} == {""}
    assert {row["ratio"] for row in replay_ops(result).to_dicts()} == {None}
    assert measures(result)["covered"] == pytest.approx(70)
    assert not {"same kernels", "in range", "replayed / traced"} & set(measures(result))


def test_every_microsecond_that_was_not_replayed_has_a_reason() -> None:
    rows = replay_left(a_result()).to_dicts()
    assert [(row["reason"], row["total_us"]) for row in rows] == [
        ("launched by a graph", 4.0),
        ("failed: no such op", 2.0),
    ]
    covered = measures(a_result())["covered"]
    assert covered + sum(row["percent"] for row in rows) == pytest.approx(100)


def test_rollups_add_up() -> None:
    result = a_result()
    whole = sum(row["total_us"] for row in replay_units(result).to_dicts())
    for table in (replay_ops(result), replay_categories(result)):
        assert sum(row["total_us"] for row in table.to_dicts()) == pytest.approx(whole)
        assert sum(row["active_j"] or 0 for row in table.to_dicts()) == pytest.approx(7)
    [gemm, added] = replay_categories(result).to_dicts()
    assert (gemm["kernel_category"], gemm["ratio"]) == ("GEMM", pytest.approx(16_500 / 14_000))
    assert added["replayed_us"] is None


def test_units_tell_what_is_wrong_with_them() -> None:
    rows = {row["unit"]: row for row in replay_units(a_result()).to_dicts()}
    assert rows["u2"]["difference"] == "another grid"
    assert (rows["u2"]["same_kernel"], rows["u2"]["in_range"]) == ("no", "no")
    assert rows["u3"]["note"] == "no such op"
    assert rows["u3"]["replayed_us"] is None


def test_a_result_survives_being_written(tmp_path: Path) -> None:
    result_file.save(tmp_path / "r.json", a_result())
    assert result_file.load(tmp_path / "r.json") == a_result()
    opened = open_replay(tmp_path / "r.json", WholeRun(40, 0.3))
    tables, facts = opened.tables(), opened.document().facts
    assert [table.name for table in tables] == list(REPLAY_TABLES)
    assert facts["device"] == "NVIDIA H200"


@pytest.mark.parametrize("text", ["", "{}", '{"format": "warplens-replay-result", "version": 2}'])
def test_something_else_is_no_result(text: str, tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(warplens.FormatError):
        result_file.load(tmp_path / "r.json")


def test_a_result_joins_the_report_of_its_trace(opened: Opened, tmp_path: Path) -> None:
    result_file.save(tmp_path / "r.json", a_result())
    events = [op("aten::mm", 0, 10), launch(1, 2, 1), kernel("gemm", 20, 20, 1)]
    profile = opened(events, replay=tmp_path / "r.json")
    assert set(REPLAY_TABLES) <= set(profile.table_names)
    assert len(profile.table("replay_units")) == 3
    plain = opened(events)
    assert not set(REPLAY_TABLES) & set(plain.table_names)
    with pytest.raises(warplens.UsageError, match="needs the result of a replay"):
        plain.table("replay_units")
    with pytest.raises(warplens.UsageError, match="of another trace"):
        opened(events[:2], replay=tmp_path / "r.json")


def test_a_real_result_joins_its_real_trace() -> None:
    folder = ROOT / "samples" / "replay"
    profile = warplens.open(folder / "gpt2_compiled.json.gz", replay=folder / "gpt2_compiled.result.json.gz")
    found = {row["measure"]: row["value"] for row in profile.table("replay").to_dicts()}
    assert found["covered"] == pytest.approx(100)
    assert found["same kernels"] == pytest.approx(100)
    total = sum(row["total_us"] for row in profile.table("replay_units").to_dicts())
    assert total == pytest.approx(sum(row["total_us"] for row in profile.table("kernels").to_dicts()))


def test_half_a_character_in_a_result_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    result_file.save(path, a_result())
    path.write_text(path.read_text("utf-8").replace('"u1"', r'"\ud800 \ud83d\ude00"'), "utf-8")
    frame = open_replay(path).table("replay_units").frame
    assert "? \N{GRINNING FACE}" in frame["unit"].to_list()
