"""`gaps` and `idle`: one gap of 100 µs each time, from 20 to 120, and what the host did meanwhile decides the cause."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from support import Opened, annotation, frame, kernel, launch, op
from warplens.analyses.time.gaps import CAUSES

BEFORE = [op("aten::mm", 0, 10), launch(2, 1, 1), kernel("before", 10, 10, 1)]


def after(launch_ts: float = 117, launch_dur: float = 2) -> list[dict[str, Any]]:
    """The kernel that ends the gap and its launch, in an op that spans the whole wait."""
    return [op("aten::add", 11, 110), launch(launch_ts, launch_dur, 2), kernel("after", 120, 10, 2)]


def runtime_call(name: str, ts: float, dur: float, tid: int = 1) -> dict[str, Any]:
    return launch(ts, dur, 1000 + int(ts), name=name, tid=tid)


def gap(profile: warplens.Profile) -> dict[str, Any]:
    (row,) = profile.table("gaps").to_dicts()
    assert row["gap_us"] == 100.0
    return row


CASES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "nothing but Python and ops": ("host busy", after()),
    "queued before the gap began": ("dependency", after(launch_ts=15)),
    "the launch call itself lasts": ("launch call", after(launch_ts=15, launch_dur=100)),
    "the launch call begins with the gap": ("launch call", after(launch_ts=20, launch_dur=90)),
    "queued by the first event of the trace": ("dependency", [launch(-5, 1, 2), kernel("after", 120, 10, 2)]),
    "the stream is drained first": ("host sync", [*after(), runtime_call("cudaStreamSynchronize", 12, 10)]),
    "the device is drained first": ("host sync", [*after(), runtime_call("hipDeviceSynchronize", 12, 10)]),
    "a copy that blocks": ("host sync", [*after(), runtime_call("cudaMemcpy", 12, 10)]),
    "an allocation for half of the gap": ("memory allocation", [*after(), runtime_call("cudaMalloc", 30, 50)]),
    "a free for half of the gap": ("memory allocation", [*after(), runtime_call("hipFree", 30, 50)]),
    "a long and then a short allocation": ("memory allocation", [*after(), runtime_call("cudaMalloc", 30, 50), runtime_call("cudaMalloc", 90, 1)]),
    "many allocations for half of the gap": ("memory allocation", [*after(), *(runtime_call("cudaMalloc", ts, 5) for ts in range(25, 115, 9))]),
    "an allocation for a tenth of the gap": ("host busy", [*after(), runtime_call("cudaMalloc", 30, 10)]),
    "a kernel is loaded": ("kernel loading", [*after(), runtime_call("cuModuleLoadData", 30, 50)]),
    "the data loader is asked": ("data loading", [*after(), frame("torch/utils/data/dataloader.py(708): __next__", 12, 100)]),
    "the data loader's own mark": ("data loading", [*after(), annotation("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 12, 100)]),
    "no launch recorded": ("unknown", [kernel("after", 120, 10, 99)]),
    "another thread drains the device": ("host busy", [*after(), runtime_call("cudaDeviceSynchronize", 12, 10, tid=9)]),
    "an asynchronous copy": ("host busy", [*after(), runtime_call("cudaMemcpyAsync", 12, 10)]),
    "a wait that was over before": ("host busy", [*after(), runtime_call("cudaStreamSynchronize", 12, 7)]),
}  # fmt: skip


NOT_HOST = ("dependency", "launch call", "unknown")


@pytest.mark.parametrize("case", CASES)
def test_the_cause_of_a_gap(opened: Opened, case: str) -> None:
    cause, events = CASES[case]
    profile = opened([*BEFORE, *events])
    assert gap(profile)["cause"] == cause
    # Causes of the host end when the launch is issued, 3 µs before the kernel begins.
    parts = [(cause, 1, 100.0)] if cause in NOT_HOST else [(cause, 1, 97.0), ("launch call", 1, 3.0)]
    assert [(row["cause"], row["count"], row["total_us"]) for row in profile.table("idle").to_dicts()] == parts


def test_every_cause_has_a_case() -> None:
    assert {cause for cause, _ in CASES.values()} == set(CAUSES) - {"short gaps"}


def test_a_gap_says_what_the_host_was_doing_and_what_stood_around_it(opened: Opened) -> None:
    events = [
        annotation("ProfilerStep#3", 0, 130),
        frame("train.py(9): step", 10.5, 115),
        frame("torch/nn/functional.py(7): add", 10.6, 114),
        runtime_call("cudaStreamIsCapturing", 60, 30),
    ]
    row = gap(opened([*BEFORE, *after(), *events]))
    assert row == {
        "device": 0,
        "start_ms": 0.020,
        "gap_us": 100.0,
        "cause": "host busy",
        "host_activity": "cudaStreamIsCapturing",
        "host_op": "aten::add",
        "host_frame": "train.py(9): step",
        "before": "before",
        "after": "after",
        "after_op": "aten::add",
        "step": 3,
        "percent_of_idle": 100.0,
        "phase": "forward",
        "between_steps": False,
        "in_graph": False,
        "host_us": 97.0,
        "launch_us": 3.0,
        "dependency_us": 0.0,
        "host_cause": "host busy",
    }


def parts(profile: warplens.Profile) -> tuple[float | None, float | None, float | None]:
    row = gap(profile)
    return row["host_us"], row["launch_us"], row["dependency_us"]


def test_a_gap_is_split_where_its_launch_was_issued_and_where_its_work_could_begin(opened: Opened) -> None:
    """Issued after 30 µs by a call of 10; 3 µs after its return the kernel could begin."""
    profile = opened([*BEFORE, *after(launch_ts=50, launch_dur=10)])
    assert parts(profile) == (30.0, 13.0, 57.0)
    row = gap(profile)
    assert (row["cause"], row["host_cause"], row["host_op"]) == ("dependency", "host busy", "aten::add")
    assert [(row["cause"], row["count"], row["total_us"]) for row in profile.table("idle").to_dicts()] == [
        ("dependency", 1, 57.0),
        ("host busy", 1, 30.0),
        ("launch call", 1, 13.0),
    ]


def test_the_host_part_has_the_cause_that_is_found_in_it(opened: Opened) -> None:
    """30 of 100 µs until the launch are mostly an allocation; what the host does after the launch does not count."""
    events = [*after(launch_ts=50, launch_dur=10), runtime_call("cudaMalloc", 25, 20)]
    row = gap(opened([*BEFORE, *events, runtime_call("cudaStreamSynchronize", 62, 70)]))
    assert (row["host_cause"], row["host_us"]) == ("memory allocation", 30.0)


def test_a_few_microseconds_more_than_usual_are_still_the_launch(opened: Opened) -> None:
    assert parts(opened([*BEFORE, *after(launch_ts=107, launch_dur=2)])) == (87.0, 13.0, 0.0)


def test_a_launch_before_the_gap_leaves_it_to_the_rest(opened: Opened) -> None:
    assert parts(opened([*BEFORE, *after(launch_ts=12, launch_dur=3)])) == (0.0, 0.0, 100.0)
    assert gap(opened([*BEFORE, *after(launch_ts=12, launch_dur=3)]))["host_cause"] == ""


def test_a_gap_without_a_recorded_launch_has_no_parts(opened: Opened) -> None:
    assert parts(opened([*BEFORE, kernel("after", 120, 10, 99)])) == (None, None, None)


def three_gaps() -> list[dict[str, Any]]:
    """Gaps of 5, 12 and 40 µs on GPU 0, one of 20 µs on GPU 1; nothing has a launch."""
    starts = [(0, 10), (15, 10), (37, 10), (87, 13)]
    first = [kernel("k", ts, dur) for ts, dur in starts]
    return [*first, kernel("k", 0, 30, device=1), kernel("k", 50, 30, device=1)]


def test_gaps_below_the_threshold_are_summed_but_not_listed(opened: Opened) -> None:
    profile = opened(three_gaps(), gap_us=10)
    assert [(row["device"], row["gap_us"]) for row in profile.table("gaps").to_dicts()] == [
        (0, 40.0),
        (1, 20.0),
        (0, 12.0),
    ]
    assert [row["percent_of_idle"] for row in profile.table("gaps").to_dicts()] == pytest.approx(
        [4000 / 57, 100, 1200 / 57], abs=1e-6
    )
    columns = ("device", "cause", "count", "total_us", "percent_of_idle", "percent")
    assert profile.table("idle").frame.select(columns).rows() == [
        (0, "unknown", 2, 52.0, pytest.approx(100 * 52 / 57, abs=1e-6), 52.0),
        (0, "short gaps", 1, 5.0, pytest.approx(100 * 5 / 57, abs=1e-6), 5.0),
        (1, "unknown", 1, 20.0, 100.0, 25.0),
    ]


@pytest.mark.parametrize(("threshold", "listed"), [(5, 4), (12, 3), (12.001, 2), (41, 0)])
def test_the_threshold_is_the_shortest_gap_listed(opened: Opened, threshold: float, listed: int) -> None:
    profile = opened(three_gaps(), gap_us=threshold)
    assert len(profile.table("gaps")) == listed
    assert profile.table("idle").frame["total_us"].sum() == 57 + 20


def test_work_on_any_stream_fills_a_gap(opened: Opened) -> None:
    profile = opened([*BEFORE, *after(), kernel("filler", 20, 100, stream=9)])
    assert len(profile.table("gaps")) == 0
    assert len(profile.table("idle")) == 0


def test_kernels_that_touch_leave_no_gap(opened: Opened) -> None:
    assert len(opened([kernel("a", 0, 10), kernel("b", 10, 10)], gap_us=0.001).table("gaps")) == 0


def test_a_gap_after_a_sync_names_the_call_that_synchronised_and_its_line(opened: Opened) -> None:
    events = [
        frame("train.py(7): log_loss", 11, 12),
        runtime_call("cudaStreamSynchronize", 12, 10),
        frame("train.py(40): prepare", 24, 90),
    ]
    row = gap(opened([*BEFORE, launch(117, 2, 2), kernel("after", 120, 10, 2), *events]))
    assert (row["cause"], row["host_activity"], row["host_frame"]) == (
        "host sync",
        "cudaStreamSynchronize",
        "train.py(7): log_loss",
    )


def test_a_gap_in_backward_names_the_forward_line(opened: Opened) -> None:
    forward = [frame("model.py(3): forward", 0, 9), op("aten::mm", 1, 7, **{"Sequence number": 5, "Fwd thread id": 0})]
    number = {"Sequence number": 5, "Fwd thread id": 1}
    backward = [op("MmBackward0", 15, 105, tid=2, **number), launch(117, 2, 2, tid=2)]
    row = gap(opened([*forward, launch(2, 1, 1), kernel("before", 10, 10, 1), *backward, kernel("after", 120, 10, 2)]))
    assert (row["host_op"], row["host_frame"]) == ("MmBackward0", "model.py(3): forward")


def test_a_wait_between_recorded_events_is_called_that(opened: Opened) -> None:
    row = gap(opened([*BEFORE, launch(117, 2, 2), kernel("after", 120, 10, 2)]))
    assert row["host_activity"] == "(between recorded events)"
