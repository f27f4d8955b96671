"""Inputs that ops accept, files of plans and results that are refused with one line, and what a run leaves out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warplens.outputs.summary import _replay
from warplens.planning.fills import fill_of
from warplens.planning.recorded import Recorded, RecordedTensor, contiguous
from warplens.planning.values import scalar
from warplens_run.base.errors import FormatError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.records import decode, save_json
from warplens_run.formats.replay_plan import Argument, Fill, ReplayPlan, Rest, Storage, Times, Unit
from warplens_run.formats.replay_result import ReplayResult, Traced, UnitResult
from warplens_run.replay.text import summary


def held(*shape: int, dtype: str = "int64") -> RecordedTensor:
    return RecordedTensor(shape, dtype, contiguous(shape))


def one(*shape: int, dtype: str = "float32") -> Recorded:
    return Recorded("tensor", tensors=(held(*shape, dtype=dtype),))


def values_of(fill: Fill, count: int) -> list[int]:
    """As both runners fill them."""
    low, high, step = int(fill.low), int(fill.high), int(fill.step)
    if fill.kind == "constant":
        return [low] * count
    if fill.kind == "ramp":
        return [min(low + place * step, high) for place in range(count)]
    if fill.kind == "shares":
        return [(low + step - 1 - place % step) // step for place in range(count)]
    assert fill.kind == "digits"
    triples = list(zip(fill.digits[::3], fill.digits[1::3], fill.digits[2::3], strict=True))
    return [sum(place // stride % size * by for stride, size, by in triples) for place in range(count)]


def test_an_assertion_is_given_what_it_asserts() -> None:
    for op in ("_assert_async", "_functional_assert_async"):
        assert fill_of(op, "self", held(dtype="bool"), {}) == Fill("constant", 1)
    assert fill_of("_linalg_check_errors", "info", held(1, dtype="int32"), {}) == Fill("constant", 0)


@pytest.mark.parametrize(("size", "values"), [("7", [3, 2, 2]), ("6", [2, 2, 2]), ("2", [1, 1, 0]), ("", [1, 1, 1])])
def test_repeats_add_up_to_the_output(size: str, values: list[int]) -> None:
    fill = fill_of("repeat_interleave", "repeats", held(3), {"output_size": Recorded("scalar", size)})
    assert values_of(fill, 3) == values


@pytest.mark.parametrize(("batch_first", "longest"), [("False", 5), ("True", 3)])
def test_packed_sequences_are_as_long_as_there_is_room(batch_first: str, longest: int) -> None:
    given = {"input": one(5, 3, 2), "batch_first": Recorded("scalar", batch_first)}
    assert fill_of("_pack_padded_sequence", "lengths", held(3), given) == Fill("constant", longest)


def test_batch_sizes_add_up_to_the_packed_rows_and_never_grow() -> None:
    for op, argument in (("_pad_packed_sequence", "data"), ("_pack_padded_sequence_backward", "grad")):
        sizes = values_of(fill_of(op, "batch_sizes", held(4), {argument: one(11, 2)}), 4)
        assert sizes == [3, 3, 3, 2]


def test_segments_fill_the_side_they_divide() -> None:
    given = {"data": one(4, 10, 3)}
    rows = values_of(fill_of("segment_reduce", "lengths", held(4, 3), given), 12)
    assert [sum(rows[start : start + 3]) for start in range(0, 12, 3)] == [10] * 4
    offsets = values_of(fill_of("_segment_reduce_backward", "offsets", held(4), {"data": one(10, 3)}), 4)
    assert (offsets[0], offsets[-1], offsets) == (0, 10, sorted(offsets))


def test_pivots_are_rows_counted_from_one() -> None:
    for op, argument in (("linalg_lu_solve", "pivots"), ("lu_unpack", "LU_pivots")):
        assert fill_of(op, argument, held(2, 5, dtype="int32"), {}) == Fill("integers", 1, 6)


@pytest.mark.parametrize(
    ("op", "shape", "given", "sides"),
    [
        ("max_unpool2d", (1, 1, 4, 4), {"output_size": Recorded("scalars", "[8, 9]")}, (8, 9)),
        ("max_unpool3d", (1, 1, 2, 3, 4), {"output_size": Recorded("scalars", "[4, 6, 8]")}, (4, 6, 8)),
        ("max_pool3d_with_indices_backward", (1, 1, 2, 3, 4), {"self": one(1, 1, 4, 6, 9)}, (4, 6, 9)),
        ("adaptive_max_pool2d_backward", (1, 4, 4), {"self": one(1, 9, 8)}, (9, 8)),
    ],
)
def test_each_maximum_has_a_place_of_its_own(
    op: str, shape: tuple[int, ...], given: dict[str, Recorded], sides: tuple[int, ...]
) -> None:
    count, room = 1, 1
    for side in shape:
        count *= side
    for side in sides:
        room *= side
    places = values_of(fill_of(op, "indices", held(*shape), given), count)
    assert len(set(places)) == count
    assert max(places) < room


def test_a_plane_with_too_little_room_gets_one_place() -> None:
    given = {"output_size": Recorded("scalars", "[2, 2]")}
    assert fill_of("max_unpool2d", "indices", held(1, 1, 4, 4), given) == Fill("constant", 0)


def test_a_whole_number_has_at_most_64_bits() -> None:
    assert scalar("-9223372036854775808", "int") == Argument("int", -(1 << 63))
    assert scalar("9223372036854775808", "int") is None
    assert scalar("9223372036854775808", "Scalar") == Argument("float", 2.0**63)


UNIT = Unit("u1", "aten::relu", (), 2, Times(10, 5.0, 5.0, 5.0, 5, 5), "ATen op")
PLAN = ReplayPlan("t.json", "h", 15, 20, (UNIT,), rest=(Rest("k", "kernel", 1, 5, "no launch"),))
RESULT = ReplayResult(
    "p", "t.json", 15, 20, "cpu", "python", "in-situ",
    (UnitResult("u1", "aten::relu", 2, Traced(10, 5.0, 5.0, 5.0), "refused", "no inputs"),),
    rest={"no launch": 7_000_000, "nothing at all": 0},
)  # fmt: skip


def filled(fill: Fill) -> ReplayPlan:
    return replace(PLAN, units=(replace(UNIT, storages=(Storage(8, "int64", fill),)),))


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(PLAN, gpu_ns=-5), "gpu_ns: a negative time: -5"),
        (replace(PLAN, wall_ns=-1), "wall_ns: a negative time"),
        (replace(PLAN, rest=(Rest("k", "kernel", 1, -5, ""),)), r"rest\[0\]: a negative"),
        (replace(PLAN, units=(replace(UNIT, count=(1 << 53) + 1),)), "count: not a count"),
        (replace(PLAN, units=(replace(UNIT, count=10**30),)), "count: a number beyond 64 bits"),
        (replace(PLAN, units=(replace(UNIT, arguments=(Argument("int", 1 << 63),)),)), "value: a whole number beyond"),
        (filled(Fill("shares", 7, step=0)), "fill: not a total and a number of shares"),
        (filled(Fill("shares", -1, step=3)), "fill: not a total and a number of shares"),
    ],
)
def test_a_plan_with_odd_numbers_is_refused(plan: ReplayPlan, words: str) -> None:
    plan_file.parse(plan_file.to_json(PLAN))
    plan_file.parse(plan_file.to_json(filled(Fill("shares", 7, step=3))))
    with pytest.raises(FormatError, match=words):
        plan_file.parse(plan_file.to_json(plan))


def changed(**fields: Any) -> ReplayResult:
    return replace(RESULT, units=(replace(RESULT.units[0], **fields),))


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (changed(count=10**30), "count: a number beyond 64 bits"),
        (changed(count=(1 << 63) - 1), "'u1': not a count"),
        (changed(count=0), "'u1': not a count: 0"),
        (replace(RESULT, units=RESULT.units * 2), "two units have the id 'u1'"),
        (replace(RESULT, units=tuple(replace(RESULT.units[0], id=name, count=1 << 53) for name in "ab")), "together"),
        (replace(RESULT, gpu_ns=10**400), "gpu_ns: a number beyond 64 bits"),
        (changed(status="odd"), "no known status: 'odd'"),
    ],
)
def test_a_result_with_odd_numbers_is_refused(result: ReplayResult, words: str) -> None:
    assert result_file.parse(result_file.to_json(RESULT)) == RESULT
    with pytest.raises(FormatError, match=words):
        result_file.parse(json.loads(json.dumps(result_file.to_json(result))), "r.json")


def test_a_float_written_as_an_endless_number_is_refused() -> None:
    with pytest.raises(FormatError, match="beyond 64 bits"):
        decode(float, 10**400)


def test_a_name_that_is_too_long_is_one_line(tmp_path: Path) -> None:
    from warplens_run.base.errors import WarplensError

    with pytest.raises(WarplensError, match="cannot write"):
        save_json(tmp_path / ("a" * 256), {})


def test_the_end_of_a_run_tells_work_of_no_unit() -> None:
    lines = [line for line in summary(RESULT).splitlines() if line.startswith("not replayed")]
    assert lines == [
        "not replayed: work outside units, 7.000 ms: no launch",
        "not replayed: 1 unit, 0.000 ms: no inputs",
    ]


def test_a_report_says_that_a_replay_ran_on_a_cpu() -> None:
    from warplens.analyses.units.replayed import replay

    time = result_file.Time(5.0, 5.0, 5.0, 5.0, 5.0, 20, 0.01, "host")
    for timer, told in (("host", True), ("profiler", False)):
        result = changed(status="done", time=replace(time, timer=timer))
        text = "\n".join(line for line, _ in _replay({"replay": replay(result)}, 120))
        assert "66.7 % of the GPU time run alone" in text
        assert ("on a CPU" in text) is told


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"gpu_ns": -1}, "gpu_ns"),
        ({"rest": {"no launch": -5}}, "no launch"),
        ({"traced": {"median_ns": -1.0}}, r"units\[0\].traced.median_ns"),
        ({"time": {"median_ns": -1.0}}, r"units\[0\].time.median_ns"),
        ({"time": {"repeats": -3}}, r"units\[0\].time.repeats"),
        ({"time": {"mean_ns": "inf"}}, r"units\[0\].time.mean_ns"),
        ({"kernels": {"median_ns": -2.0}}, r"units\[0\].kernels\[0\].median_ns"),
    ],
)
def test_a_result_with_a_negative_time_is_refused(change: dict[str, Any], where: str) -> None:
    time = {"median_ns": 1, "p10_ns": 1, "p90_ns": 1, "mean_ns": 1, "min_ns": 1, "repeats": 5, "relative_error": 0.1}
    unit = {
        "traced": {"total_ns": 1, "median_ns": 1, "p10_ns": 1, "p90_ns": 1},
        "time": time,
        "kernels": {"name": "k", "kind": "kernel", "median_ns": 1.0},
    }
    unit = {name: {**part, **change.get(name, {})} for name, part in unit.items()}
    top = {name: value for name, value in change.items() if name not in unit}
    value = {
        **result_file.to_json(result_file.empty_result()),
        "units": [{"id": "u", "op": "o", "count": 1, "status": "done", **unit, "kernels": [unit["kernels"]]}],
        **top,
    }
    with pytest.raises(FormatError, match=f"{where}: (not a time or a count|a negative time)"):
        result_file.parse(value)


def test_a_result_whose_kernels_ran_longer_than_the_loop_is_refused() -> None:
    numbers = ("active_j", "total_j", "watts", "idle_watts", "seconds", "launches", "call_ns", "repeats", "interval")
    unit = {
        "id": "u", "op": "o", "count": 1, "status": "done",
        "traced": {"total_ns": 1, "median_ns": 1, "p10_ns": 1, "p90_ns": 1},
        "energy": {**dict.fromkeys(numbers, 1), "busy_fraction": 1.5},
    }  # fmt: skip
    value = {**result_file.to_json(result_file.empty_result()), "units": [unit]}
    with pytest.raises(FormatError, match=r"units\[0\].energy.busy_fraction: not a share from 0 to 1: 1.5"):
        result_file.parse(value)
