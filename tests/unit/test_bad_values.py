"""Events with missing, wrong or absurd fields: the rest of the event and of the trace counts, and a note says so."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import warplens
from damage import WHOLE, Events, figures, read, text_of, warnings_of, work
from support import annotation, ends, frame, fwdbwd, kernel, launch, memory, nightly_after, op

RELU = 4
WITHOUT_RELU = {"events": 4, "gpu": 1, "gpu_us": 20.0, "busy_us": 20.0, "idle_us": 0.0, "in_op_us": 20.0}
RELU_OF_NO_LENGTH = {**WITHOUT_RELU, "events": 5, "gpu": 2}
UNLINKED_RELU = {**WHOLE, "in_op_us": 20.0}
BEYOND_64_BITS = 2**70
Read = Callable[..., warplens.Profile]


@pytest.fixture
def opened(tmp_path: Path) -> Read:
    return lambda events, header=None: read(tmp_path, text_of(events, **(header or {})))


def with_relu(**fields: Any) -> Events:
    events = work()
    events[RELU] |= fields
    return events


def with_relu_args(**fields: Any) -> Events:
    events = work()
    events[RELU]["args"] |= fields
    return events


def without(*fields: str) -> Events:
    events = work()
    events[RELU] = {name: value for name, value in events[RELU].items() if name not in fields}
    return events


WRONG_TIMES = {
    "dur missing": (without("dur"), RELU_OF_NO_LENGTH, {"missing_duration": 1}),
    "dur NaN": (with_relu(dur=math.nan), RELU_OF_NO_LENGTH, {"missing_duration": 1}),
    "dur text": (with_relu(dur="long"), RELU_OF_NO_LENGTH, {"missing_duration": 1, "bad_args": 1}),
    "dur negative": (with_relu(dur=-5), RELU_OF_NO_LENGTH, {"negative_duration": 1}),
    "dur minus infinity": (with_relu(dur=-math.inf), RELU_OF_NO_LENGTH, {"negative_duration": 1}),
    "dur infinity": (with_relu(dur=math.inf), WITHOUT_RELU, {"out_of_range": 1}),
    "dur 1e300": (with_relu(dur=1e300), WITHOUT_RELU, {"out_of_range": 1}),
    "dur of a century": (with_relu(dur=3.2e15), WITHOUT_RELU, {"out_of_range": 1}),
    "dur beyond 64 bits": (with_relu(dur=BEYOND_64_BITS), WITHOUT_RELU, {"out_of_range": 1}),
    "dur beyond floats": (with_relu(dur=10**400), RELU_OF_NO_LENGTH, {"missing_duration": 1, "bad_args": 1}),
    "ts missing": (without("ts"), WITHOUT_RELU, {"out_of_range": 1}),
    "ts NaN": (with_relu(ts=math.nan), WITHOUT_RELU, {"out_of_range": 1}),
    "ts infinity": (with_relu(ts=math.inf), WITHOUT_RELU, {"out_of_range": 1}),
    "ts null": (with_relu(ts=None), WITHOUT_RELU, {"out_of_range": 1, "bad_args": 1}),
    "ts decades away": (with_relu(ts=1.7e15), WITHOUT_RELU, {"out_of_range": 1}),
    "ts beyond 64 bits": (with_relu(ts=-BEYOND_64_BITS), WITHOUT_RELU, {"out_of_range": 1}),
}


@pytest.mark.parametrize("events, expected, notes", WRONG_TIMES.values(), ids=WRONG_TIMES)
def test_an_impossible_time_is_counted_as_zero_or_skipped_and_noted(
    opened: Read, events: Events, expected: dict[str, float], notes: dict[str, int]
) -> None:
    profile = opened(events)
    assert figures(profile) == expected
    assert warnings_of(profile) == notes


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "1" * 5000], ids=lambda text: text[:9])
def test_numbers_that_json_does_not_know_cost_at_most_their_event(tmp_path: Path, literal: str) -> None:
    profile = read(tmp_path, text_of(work()).replace(b'"dur": 10,', f'"dur": {literal},'.encode()))
    assert figures(profile) in (WITHOUT_RELU, RELU_OF_NO_LENGTH)
    assert len(warnings_of(profile)) == 1


def test_durations_too_long_to_add_up_are_skipped_and_the_sums_stay_right(opened: Read) -> None:
    """Each is below a year, but a thousand of them would not fit in 64 bits of nanoseconds."""
    profile = opened(work() + [kernel("endless", 100, 3e13) for _ in range(1000)])
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"out_of_range": 1000}


def test_of_two_clocks_in_one_file_one_is_kept(opened: Read) -> None:
    """Half of the events since boot, half since 1970: a trace of 54 years would tell nothing."""
    since_1970 = [{**event, "ts": event["ts"] + 1.7e15} for event in work()]
    profile = opened(work() + since_1970)
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"out_of_range": 5}


def test_times_since_1970_in_whole_microseconds_are_exact(opened: Read) -> None:
    profile = opened([{**event, "ts": event["ts"] + 1_700_000_000_000_000} for event in work()])
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {}


MISSING = {
    "name": (WHOLE, {"unnamed": 1}),
    "ph": (WITHOUT_RELU, {"not_events": 1}),
    "cat": ({**WITHOUT_RELU, "events": 5}, {}),
    "pid": (WHOLE, {}),
    "tid": (WHOLE, {}),
    "args": (UNLINKED_RELU, {"unlinked_kernels": 1}),
}


@pytest.mark.parametrize("field, expected, notes", [(name, *rest) for name, rest in MISSING.items()], ids=MISSING)
def test_a_missing_field_costs_what_it_alone_says(
    opened: Read, field: str, expected: dict[str, float], notes: dict[str, int]
) -> None:
    profile = opened(without(field))
    if field == "args":  # the process and thread of a kernel are its GPU and stream
        assert {row["stream"] for row in profile.table("kernels").to_dicts()} == {7}
    assert figures(profile) == expected
    assert warnings_of(profile) == notes


def test_an_event_without_a_name_is_called_unnamed(opened: Read) -> None:
    assert "(unnamed)" in opened(without("name")).table("kernels").frame["kernel"].to_list()


@pytest.mark.parametrize("entry", [None, 7, "text", [], [1, 2], True, {}, {"ts": 5}], ids=repr)
def test_entries_that_are_no_events_are_counted(opened: Read, entry: Any) -> None:
    profile = opened([entry, *work(), entry])
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"not_events": 2}


@pytest.mark.parametrize("args", [[], [1], "text", 5, 1.5, True], ids=repr)
def test_args_that_are_no_object_are_left_out_and_noted(opened: Read, args: Any) -> None:
    profile = opened(with_relu(args=args))
    assert figures(profile) == UNLINKED_RELU
    assert warnings_of(profile) == {"bad_args": 1, "unlinked_kernels": 1}


def test_args_may_be_null(opened: Read) -> None:
    profile = opened(with_relu(args=None))
    assert figures(profile) == UNLINKED_RELU
    assert warnings_of(profile) == {"unlinked_kernels": 1}


FIELDS = ("device", "stream", "registers per thread", "shared memory", "est. achieved occupancy %", "bytes")
IDS = ("correlation", "External id", "Sequence number", "Fwd thread id")
COLLECTIVE = ("In msg nelems", "Out msg nelems", "Group size", "Process Group Name", "dtype", "Collective name")


@pytest.mark.parametrize("value", [None, "x", [], {}, [[1]], "²", True], ids=repr)
@pytest.mark.parametrize("field", FIELDS[:-1])
def test_a_field_of_the_wrong_type_is_left_out_and_noted(opened: Read, field: str, value: Any) -> None:
    profile = opened(with_relu_args(**{field: value}))
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"bad_args": 1}


def test_a_stream_may_be_a_handle(opened: Read) -> None:
    """ROCm's calls have it; the number of a kernel's stream is its thread."""
    profile = opened(with_relu_args(stream="0x7f00c0"))
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {}


@pytest.mark.parametrize("value", [None, "x", [], 1.5, math.nan], ids=repr)
def test_a_correlation_of_the_wrong_type_leaves_the_kernel_without_a_launch(opened: Read, value: Any) -> None:
    profile = opened(with_relu_args(correlation=value))
    assert figures(profile) == UNLINKED_RELU
    assert warnings_of(profile) == {"bad_args": 1, "unlinked_kernels": 1}


@pytest.mark.parametrize("value", [BEYOND_64_BITS, -BEYOND_64_BITS, 2**63, 2**64 - 1, -3])
@pytest.mark.parametrize("field", [*FIELDS, *IDS[1:], *COLLECTIVE])
def test_numbers_beyond_64_bits_cost_no_event(opened: Read, field: str, value: int) -> None:
    events = with_relu_args(**{"Collective name": "allreduce", field: value})
    events[0]["args"] = {"Collective name": "allreduce", field: value}
    profile = opened(events)
    assert figures(profile) == WHOLE
    if value in (2**63, -3):  # larger ones are omitted alike while reading, and every table takes ten times as long
        profile.tables()


def test_ids_written_as_text_are_the_same_ids(opened: Read) -> None:
    as_text = [{**event, "args": {name: str(value) for name, value in event["args"].items()}} for event in work()]
    profile = opened(as_text)
    assert figures(profile) == WHOLE
    assert {row["stream"] for row in profile.table("kernels").to_dicts()} == {7}
    assert warnings_of(profile) == {}


@pytest.mark.parametrize("pid, tid", [("1", "main"), (None, None), (1.5, 2.5), (-1, -2), (2**70, 2**70), (True, "")])
def test_process_and_thread_ids_may_be_anything_and_still_tell_threads_apart(opened: Read, pid: Any, tid: Any) -> None:
    other = [{**event, "pid": pid, "tid": tid} for event in [op("aten::mm", 0, 100), launch(15, 5, 3)]]
    profile = opened(work() + other + [kernel("add", 95, 7, 3)])
    host = profile.trace.lanes.filter(~profile.trace.lanes["process"].str.starts_with("GPU"))
    assert len(host) == 2
    assert figures(profile)["in_op_us"] == 37.0
    assert warnings_of(profile) == {}


@pytest.mark.parametrize("name", [5, 5.5, True, 2**70], ids=repr)
def test_a_name_that_is_a_number_is_read_as_text(opened: Read, name: Any) -> None:
    profile = opened(with_relu(name=name))
    assert str(name) in profile.table("kernels").frame["kernel"].to_list()
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {}


@pytest.mark.parametrize(
    "written", [b"re\xff\xfelu", b"re\\ud800lu", b"re\\udfff\\ud800lu"], ids=["bytes", "surrogate", "surrogates"]
)
def test_text_that_is_not_unicode_is_replaced_and_noted(tmp_path: Path, written: bytes) -> None:
    profile = read(tmp_path, text_of(work()).replace(b"relu", written))
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"bad_text": 0}
    assert all(name.isprintable() for name in profile.table("kernels").frame["kernel"].to_list())


@pytest.mark.parametrize("written", [b"re\nlu", b"re\x1b[31mlu", b"re\tlu\r", b"re\\u0000lu", b"re\\u001b[2Jlu"])
def test_control_characters_in_a_name_are_part_of_it(tmp_path: Path, written: bytes) -> None:
    profile = read(tmp_path, text_of(work()).replace(b"relu", written))
    assert figures(profile) == WHOLE
    assert json.loads(b'"%b"' % written, strict=False) in profile.table("kernels").frame["kernel"].to_list()


@pytest.mark.parametrize("place", nightly_after(2, ["kernel", "args", "op", "frame", "annotation", "header"]))
def test_ten_megabytes_of_text_take_no_longer_than_reading_them(opened: Read, place: str) -> None:
    text = "ab(1" * 2_500_000
    events, header = work(), {"traceName": text if place == "header" else ""}
    events[RELU]["name"] = text if place == "kernel" else "relu"
    events[RELU]["args"]["note"] = text if place == "args" else ""
    events += [op(text, 200, 1)] * (place == "op") + [frame(text, 0, 150)] * (place == "frame")
    events += [annotation(text, 0, 120)] * (place == "annotation")
    with ends("ten megabytes of text"):
        profile = opened(events, header)
        assert figures(profile) == {**WHOLE, "events": len(events)}
        profile.tables()


@pytest.mark.parametrize("depth", [900, 1000, 100_000])
@pytest.mark.parametrize("field", ["anything", "Input Dims", "grid", "Process Group Ranks"])
def test_fields_nested_too_deep_cost_at_most_their_event(tmp_path: Path, depth: int, field: str) -> None:
    nested = b'"%b": %b%b, "stream": 7' % (field.encode(), b"[" * depth, b"]" * depth)
    profile = read(tmp_path, text_of(work()).replace(b'"stream": 7', nested, 1))
    without_gemm = {"events": 4, "gpu": 1, "gpu_us": 10.0, "busy_us": 10.0, "idle_us": 0.0, "in_op_us": 10.0}
    assert (figures(profile), warnings_of(profile)) in [(WHOLE, {}), (without_gemm, {"damaged": 1})]
    if depth == 100_000:
        assert figures(profile) == without_gemm


def test_a_header_nested_too_deep_is_noted(tmp_path: Path) -> None:
    nested = b'{"deviceProperties": %b1%b, ' % (b"[" * 100_000, b"]" * 100_000)
    profile = read(tmp_path, nested + text_of(work())[1:])
    assert figures(profile) == WHOLE
    assert warnings_of(profile) == {"header": 0}


def test_kernels_that_share_a_correlation_get_the_nearest_earlier_launch(opened: Read) -> None:
    events = [op("first", 0, 20), launch(5, 1, 9), op("second", 100, 20), launch(105, 1, 9)]
    profile = opened([*events, kernel("a", 50, 4, 9), kernel("b", 150, 2, 9), kernel("c", 1, 1, 9)])
    by_op = {row["op"]: row["kernel_us"] for row in profile.table("ops").to_dicts()}
    assert by_op == {"first": 5.0, "second": 2.0}
    assert warnings_of(profile) == {"duplicate_correlation": 1}


def test_many_launches_of_one_correlation_are_linked_in_linear_time(opened: Read) -> None:
    launches = [launch(10 * number, 1, 9) for number in range(60_000)]
    kernels = [kernel("k", 10 * number + 5, 1, 9) for number in range(60_000)]
    with ends("60,000 launches of one correlation"):
        trace = opened([*launches, *kernels]).trace
    launched = trace.ints("launch")[trace.gpu_rows]
    assert launched.tolist() == trace.rows_of("runtime").tolist()


def test_a_kernel_that_starts_before_its_launch_keeps_it(opened: Read) -> None:
    profile = opened([op("aten::mm", 100, 100), launch(110, 5, 1), kernel("gemm", 50, 20, 1)])
    assert figures(profile)["in_op_us"] == 20.0


def test_python_ids_that_form_a_circle_do_no_harm(opened: Read) -> None:
    circle = [{"Python id": 1, "Python parent id": 2}, {"Python id": 2, "Python parent id": 1}]
    frames = [frame(f"train.py({row}): f", row, 140 - row, **ids) for row, ids in enumerate(circle)]
    profile = opened([*frames, *work()])
    assert [row["function"] for row in profile.table("python_lines").to_dicts()] == ["f"]
    assert figures(profile) == {**WHOLE, "events": 7}


def test_arrows_that_form_a_circle_with_the_call_tree_end_the_walk(opened: Read) -> None:
    """`late` starts before its mended caller, and an arrow names it as the caller's forward op."""
    calls = [op("early", 0, 10), op("late", 9, 100), op("caller", 10, 200), launch(50, 1, 1)]
    profile = opened([*calls, *fwdbwd((9, 1), (10, 1), 1), kernel("gemm", 60, 5, 1)])
    assert profile.tree("op").total_ns[0] == 5000
    assert profile.table("modules").frame["kernel_us"].sum() == 5.0


def test_a_time_months_away_does_not_loosen_the_arrows_of_hundreds_of_threads(opened: Read) -> None:
    far, tids = 2.5e13, range(500)
    calls = [op("forward", tid, 1, tid=tid) for tid in tids] + [op("backward", far + tid, 1, tid=tid) for tid in tids]
    arrows = [end for tid in tids for end in fwdbwd((tid, tid), (far + tid, tid), tid)]
    trace = opened([*calls, *arrows, *work()]).trace
    backward = trace.named_events().filter(name="backward")
    assert trace.named_events()["name"].gather(backward["forward"]).to_list() == ["forward"] * 500


def test_duplicated_events_count_as_often_as_they_are_there(opened: Read) -> None:
    profile = opened(work() * 2)
    assert figures(profile) == {**WHOLE, "events": 10, "gpu": 4, "gpu_us": 60.0, "in_op_us": 60.0}
    assert profile.trace.quality.has("overlap")


def test_overlapping_kernels_are_busy_once(opened: Read) -> None:
    profile = opened([*work(), kernel("add", 55, 20, 2)])
    assert figures(profile) == {
        **WHOLE,
        "events": 6,
        "gpu": 3,
        "gpu_us": 50.0,
        "busy_us": 35.0,
        "idle_us": 5.0,
        "in_op_us": 50.0,
    }
    assert profile.trace.quality.has("overlap")


def test_many_events_of_no_length_at_one_moment_are_all_counted(opened: Read) -> None:
    profile = opened([*work(), *[op("mark", 30, 0)] * 500, *[kernel("none", 60, 0, 1)] * 500])
    assert figures(profile) == {**WHOLE, "events": 1005, "gpu": 502}
    profile.tables()


def test_gpus_that_are_idle_together_but_never_alone_are_found_to_take_turns(opened: Read) -> None:
    """Each GPU works once: neither has a gap of its own, both together have."""
    profile = opened([kernel("a", 0, 5, device=0), kernel("b", 100, 5, device=1)])
    assert figures(profile)["idle_us"] == 95.0
    finding = profile.table("findings").to_dicts()[0]
    assert (finding["code"], finding["evidence"]) == ("WL109", "GPUs taking turns")
    assert finding["title"].endswith("one GPU works after the other")


@pytest.mark.parametrize("streams", [1, 3000])
def test_thousands_of_threads_are_read_in_linear_time(opened: Read, streams: int) -> None:
    events: Events = []
    for number in range(3000):
        forward = {"Sequence number": number, "External id": number}
        backward = {"Sequence number": number, "Fwd thread id": number + 1}
        events += [op("aten::mm", number, 2, tid=number, **forward), launch(number + 1, 0.5, number + 1, tid=number)]
        events += [op("MmBackward0", number + 9000, 2, tid=number + 3000, **backward)]
        events += [kernel("gemm", number + 3, 0.5, number + 1, stream=number % streams)]
    with ends("3,000 threads"):
        profile = opened(events)
        assert figures(profile)["in_op_us"] == 1500.0
    assert len(profile.trace.lanes) >= 6000


def begin(name: str, ts: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": "B", "cat": "cpu_op", "name": name, "ts": ts, "pid": 1, "tid": tid}


def end(name: str, ts: float, tid: int = 1) -> dict[str, Any]:
    return {"ph": "E", "name": name, "ts": ts, "pid": 1, "tid": tid}


def lengths(profile: warplens.Profile) -> dict[str, float]:
    rows = profile.trace.named_events().filter(kind="op").select("name", "dur_ns").iter_rows()
    return {name: duration / 1000 for name, duration in rows}


def test_begins_and_ends_pair_up_per_thread_and_inside_out(opened: Read) -> None:
    pairs = [begin("a", 0), begin("b", 1), begin("c", 2, tid=2), end("", 4), end("c", 9, tid=2), end("", 6)]
    profile = opened(pairs)
    assert lengths(profile) == {"a": 6.0, "b": 3.0, "c": 7.0}
    assert warnings_of(profile) == {}


def test_a_begin_without_an_end_does_not_steal_its_callers(opened: Read) -> None:
    profile = opened([begin("a", 0), begin("lost", 1), end("a", 6), end("nothing open", 7)])
    assert lengths(profile) == {"a": 6.0}
    assert warnings_of(profile) == {"unclosed": 2}


def test_a_begin_without_a_time_does_not_upset_the_others(opened: Read) -> None:
    timeless = {**begin("lost", 0), "ts": math.nan}
    profile = opened([begin("a", 0), timeless, begin("b", 2), timeless, end("b", 3), end("a", 6)])
    assert lengths(profile) == {"a": 6.0, "b": 1.0}
    assert warnings_of(profile) == {"unclosed": 2}


def test_memory_events_with_impossible_times_or_sizes_are_noted_or_empty(opened: Read) -> None:
    events = [memory(5, 100, 100, 200), memory(math.nan, 7, 1, 1), memory(1e18, 7, 1, 1), memory(6, 2**70, 2**70, -1)]
    profile = opened([*work(), *events])
    assert profile.table("memory").to_dicts()[0]["requested_bytes"] == 100
    assert warnings_of(profile) == {"out_of_range": 2}
