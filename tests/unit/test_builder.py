"""`TraceBuilder`: rows and columns give one trace, damaged times are dropped and counted, numbers become rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

from support import differences
from warplens.model.builder import TraceBuilder
from warplens.model.check import self_check
from warplens.model.event_records import Allocation, CallSpec, LaunchGeometry
from warplens.model.times import MAX_NS, YEAR_NS, durations
from warplens.model.trace import Meta, Trace

META = Meta(source="made by hand", format="kineto")
BOOT = 1_700_000_000_123_456_789
"""Nanoseconds since 1970, which no float distinguishes."""


def built(builder: TraceBuilder) -> Trace:
    trace = builder.build(META)
    self_check(trace)
    return trace


def counts(trace: Trace) -> dict[str, int]:
    return {note.code: note.count for note in trace.quality.notes}


def one_by_one() -> TraceBuilder:
    builder = TraceBuilder()
    lane = builder.lanes[1, 2]
    for place in range(3):
        builder.add("op", f"op {place}", BOOT + 10 * place, 5, lane=lane, external_id=place)
    builder.add("kernel", "gemm", BOOT + 7, 3, lane=builder.lanes[1, "GPU"], device=0, stream=7, correlation=4)
    return builder


def many_at_once() -> TraceBuilder:
    builder = TraceBuilder()
    places = np.arange(3)
    names = builder.name_codes(lambda place: f"op {place}", places)
    start = BOOT + 10 * places
    builder.add_columns("op", names, start, durations(start, start + 5), lane=builder.lanes[1, 2], external_id=places)
    gemm = np.array([builder.names["gemm"]])
    lane = builder.lanes[1, "GPU"]
    times = np.array([BOOT + 7]), np.array([3])
    builder.add_columns("kernel", gemm, *times, lane=lane, device=0, stream=7, correlation=4)
    return builder


def test_rows_and_columns_give_the_same_trace() -> None:
    assert differences(built(one_by_one()), built(many_at_once())) == []


def test_times_since_1970_keep_their_nanoseconds() -> None:
    assert built(one_by_one()).events["start_ns"].to_list() == [0, 10, 20, 7]


def test_rows_added_between_columns_keep_the_order_of_adding() -> None:
    builder = many_at_once()
    builder.add("op", "last", BOOT, 100, lane=0)
    assert len(builder) == 5
    assert builder.gathered().name.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("start", [None, MAX_NS, -MAX_NS, BOOT + 2 * YEAR_NS, 10**30])
def test_an_event_without_a_usable_start_is_dropped_and_counted(start: int | None) -> None:
    builder = one_by_one()
    builder.add("op", "damaged", start, 5, lane=0)
    trace = built(builder)
    assert (len(trace), counts(trace)) == (4, {"out_of_range": 1})


@pytest.mark.parametrize(
    ("duration", "code"), [(None, "missing_duration"), (-1, "negative_duration"), (-(10**30), "negative_duration")]
)
def test_a_missing_or_negative_duration_is_counted_as_none(duration: int | None, code: str) -> None:
    builder = one_by_one()
    builder.add("op", "damaged", BOOT + 50, duration, lane=0)
    trace = built(builder)
    assert (trace.events["dur_ns"].to_list()[3], counts(trace)) == (0, {code: 1})


@pytest.mark.parametrize("duration", [YEAR_NS, 10**30])
def test_an_event_of_years_is_dropped_and_counted(duration: int) -> None:
    builder = one_by_one()
    builder.add("op", "damaged", BOOT, duration, lane=0)
    assert counts(built(builder)) == {"out_of_range": 1}


def test_durations_that_add_up_to_decades_are_dropped_and_counted() -> None:
    builder = one_by_one()
    for _ in range(40):
        builder.add("op", "damaged", BOOT, YEAR_NS - 1, lane=0)
    trace = built(builder)
    assert (len(trace), counts(trace)) == (4, {"out_of_range": 40})


def test_masks_of_columns_say_which_times_are_known() -> None:
    builder = TraceBuilder()
    name = np.full(3, builder.names["op"])
    known, unknown = np.array([True, False, True]), np.array([True, True, False])
    times = np.array([5, 0, 9]), np.array([1, 1, 77])
    builder.add_columns("op", name, *times, lane=builder.lanes[1, 1], has_start=known, has_duration=unknown)
    trace = built(builder)
    assert trace.events.select("start_ns", "dur_ns").rows() == [(0, 1), (4, 0)]
    assert counts(trace) == {"out_of_range": 1, "missing_duration": 1}


def test_differences_of_damaged_times_do_not_wrap_around() -> None:
    start, end = np.array([-9 * 10**18, 9 * 10**18, 4]), np.array([9 * 10**18, -9 * 10**18, 9])
    assert durations(start, end).tolist() == [MAX_NS, -MAX_NS, 5]


def test_events_without_a_name_get_one_and_are_counted() -> None:
    builder = one_by_one()
    builder.add("op", "", BOOT, 5, lane=0)
    trace = built(builder)
    assert ("(unnamed)" in trace.names, counts(trace)) == (True, {"unnamed": 1})


def test_half_a_character_in_a_name_is_replaced() -> None:
    builder = one_by_one()
    builder.add("op", "half \ud800", BOOT, 5, lane=0)
    assert "half ?" in built(builder).names


def test_equal_callers_are_one_event_and_numbers_become_rows() -> None:
    builder = one_by_one()
    callers = [builder.frame(0, "python", "train.py(3): step", BOOT) for _ in range(2)]
    assert callers[0] == callers[1]
    builder.add_context(3, callers[0])
    builder.add_metric(0, "tokens", 5.0)
    builder.add_copies([(3, 4096), (1, -1)])
    builder.add_arrow(0, 2)
    trace = built(builder)
    names = [trace.names[name] for name in trace.ints("name")]
    frame, kernel = names.index("train.py(3): step"), names.index("gemm")
    assert trace.contexts.rows() == [(kernel, frame)]
    assert trace.frames.rows() == [(frame, names.index("op 0"))]
    assert trace.metrics.rows() == [(names.index("op 0"), "tokens", 5.0)]
    assert trace.copies.rows() == [(kernel, 4096)]
    assert trace.flows.rows() == [(names.index("op 0"), names.index("op 2"))]


def test_flow_ends_belong_to_the_op_that_starts_there() -> None:
    builder = one_by_one()
    ends = np.array([BOOT, BOOT + 20, BOOT + 3])
    builder.add_flow_ends([True, False, False], ["a", "a", "a"], ends, [0, 0, 0])
    assert built(builder).flows.rows() == [(0, 2)]


def test_allocations_have_the_lane_of_their_thread_and_usable_times() -> None:
    builder = one_by_one()
    for start in (BOOT + 1, None, BOOT + 2 * YEAR_NS):
        builder.add_allocations([Allocation(start, 1, 2, "GPU 0", 512, address=0x7F00)])
    trace = built(builder)
    assert trace.memory.rows() == [(1, 0, "GPU 0", 512, -1, -1, 0x7F00)]
    assert counts(trace) == {"out_of_range": 2}


def test_numbers_beyond_64_bits_are_absent() -> None:
    builder = TraceBuilder()
    geometry = builder.geometries[LaunchGeometry("[1, 1, 1]", "[32, 1, 1]", registers=10**30)]
    lane = builder.lanes[0, 0]
    builder.add("kernel", "k", 0, 1, lane=lane, device=2**40, stream=0, correlation=10**30, geometry=geometry)
    trace = built(builder)
    assert trace.events.select("device", "correlation").row(0) == (-1, -1)
    assert trace.geometries["registers"].to_list() == [-1]


def test_every_frame_of_a_trace_without_side_facts_has_its_columns() -> None:
    trace = built(one_by_one())
    assert trace.copies.schema == {"id": pl.UInt32, "bytes": pl.Int64}
    assert trace.flows.schema == {"source": pl.Int32, "target": pl.Int32}


@pytest.mark.parametrize("indent", [None, 2, "compact"])
def test_lists_are_the_same_however_a_file_was_indented(indent: int | str | None) -> None:
    lists = ([[8, 16], [], [16]], ["float", "", "Scalar"], [[16, 1], [], [1]], ["", "[1, 2]", "7"])
    style: dict[str, Any] = {"separators": (",", ":")} if indent == "compact" else {"indent": indent}
    builder = TraceBuilder()
    assert builder.specs[CallSpec(*(json.dumps(part, **style) for part in lists))] == 0
    geometry = builder.geometries[LaunchGeometry(json.dumps([4, 2, 1], **style), json.dumps([128, 1, 1], **style))]
    builder.add("kernel", "gemm", 7, 3, lane=builder.lanes[1, "GPU"], device=0, stream=7, geometry=geometry)
    trace = built(builder)
    assert trace.specs.row(0) == tuple(json.dumps(part) for part in lists)
    assert trace.geometries.row(0)[:2] == ("[4, 2, 1]", "[128, 1, 1]")


@pytest.mark.parametrize("start_ns", [-(2**63), -(2**63) + 1, 2**63 - 1, 2**64, -(2**70), None])
def test_allocations_at_impossible_times_are_counted(start_ns: int | None) -> None:
    builder = TraceBuilder()
    builder.add("op", "aten::mm", 0, 10, lane=builder.lanes[1, 2])
    builder.add_allocations([Allocation(start_ns, 1, 2, "GPU 0", 512), Allocation(5, 1, 2, "GPU 0", 256)])
    trace = built(builder)
    assert trace.memory["bytes"].to_list() == [256]
    assert counts(trace) == {"out_of_range": 1}


@pytest.mark.parametrize("size", [-(2**63), 2**63 - 1, 2**50, -(2**50)])
def test_allocations_of_impossible_sizes_are_counted(size: int) -> None:
    builder = TraceBuilder()
    builder.add("op", "aten::mm", 0, 10, lane=builder.lanes[1, 2])
    builder.add_allocations([Allocation(5, 1, 2, "GPU 0", size, address=64), Allocation(6, 1, 2, "GPU 0", 256)])
    trace = built(builder)
    assert trace.memory["bytes"].to_list() == [256]
    assert counts(trace) == {"out_of_range": 1}
