"""Steps of as many streams, threads, devices or kinds of work as events: time follows their number, not its square."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from support import Opened, ends, kernel, launch, op
from warplens.analyses.graph import host_waits
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.gpu_order import MOST_OVERLAP, MOST_OVERLAP_NS, _previous_in_stream
from warplens.analyses.graph.host_points import _LatestPoints
from warplens.analyses.graph.records import SYNC
from warplens.analyses.time.timeline import device_work, split_work
from warplens.model.kinds import NONE
from warplens.model.trace import Ints


def test_the_latest_moment_of_other_threads_is_the_same_as_by_looking_at_all() -> None:
    random = Random(3)
    for _ in range(50):
        latest, last = _LatestPoints(), dict[int, tuple[int, int]]()
        for point in range(60):
            thread, moment = random.randrange(6), random.randrange(12)
            expected = NONE
            for other, (end, place) in last.items():
                if other != thread and end <= moment and (expected == NONE or end > last[_thread(last, expected)][0]):
                    expected = place
            assert latest.of_others(thread, moment) == expected
            last[thread] = (random.randrange(12), point)
            latest.put(thread, last[thread][0], point)


def _thread(last: dict[int, tuple[int, int]], point: int) -> int:
    return next(thread for thread, (_, place) in last.items() if place == point)


@pytest.mark.parametrize("longest", [0, 1, 4])
def test_the_event_before_each_is_an_earlier_one_that_has_ended_or_is_about_to(longest: int) -> None:
    random = Random(5)
    for _ in range(100):
        count = random.randrange(1, 25)
        start = np.array(sorted(random.randrange(8) for _ in range(count)), np.int64)
        end = start + np.array([random.randint(0, longest) for _ in range(count)], np.int64)
        lane = np.array([random.randrange(2) for _ in range(count)], np.int64)
        previous = _previous_in_stream(lane, start, end)
        assert previous.tolist() == [_previous(event, lane, start, end) for event in range(count)]


def _previous(event: int, lane: Ints, start: Ints, end: Ints) -> int:
    before = [other for other in range(event) if lane[other] == lane[event]]
    if before and end[before[-1]] < end[event]:
        shorter = min(end[other] - start[other] for other in (before[-1], event))
        if 0 < end[before[-1]] - start[event] <= min(MOST_OVERLAP_NS, MOST_OVERLAP * shorter):
            return before[-1]
    earlier = [other for other in before if end[other] <= start[event]]
    return max(earlier, key=lambda other: (end[other], other), default=NONE)


def test_events_without_duration_at_one_moment_are_ordered_at_once() -> None:
    count = 100_000
    with ends("100,000 events at one moment"):
        previous = _previous_in_stream(*np.zeros((3, count), np.int64))
    assert previous.tolist() == list(range(-1, count - 1))


def synchronised(count: int, streams: int) -> list[dict[str, Any]]:
    """Kernels of several streams in turns, after each of which the host waits for all."""
    events: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        begin = 100 * number
        events += [op("aten::mm", begin, 90), launch(begin + 5, 5, 2 * number)]
        events += [kernel("gemm", begin + 20, 30, 2 * number, stream=number % streams)]
        events += [launch(begin + 40, 15, 2 * number + 1, name="cudaDeviceSynchronize")]
    return events


def test_calls_that_wait_for_many_streams_do_not_wait_for_each_again(opened: Opened) -> None:
    graph = graph_of(opened(synchronised(300, 300)).workspace)
    assert 250 <= (graph.edge_kind == SYNC).sum() <= 300


def test_many_streams_take_as_long_as_few(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step is the same, whether a wait for what was awaited before is in the graph or not."""
    steps = []
    for many in (1000, 4):
        monkeypatch.setattr(host_waits, "MANY_STREAMS", many)
        steps.append(opened(synchronised(60, 20)).table("bounds").to_dicts())
    assert steps[0] == steps[1]


def test_the_work_of_each_device_is_that_of_its_events(opened: Opened) -> None:
    events = [kernel("gemm", 10 * number, 4 + number % 9, device=number % 3, stream=number % 2) for number in range(60)]
    work = opened(events).workspace
    for device in (0, 1, 2, 9):
        by_mask = split_work(work.gpu, (work.gpu["device"] == device).to_numpy())
        for part, expected in zip(device_work(work, device), by_mask, strict=True):
            assert (part.starts.tolist(), part.ends.tolist()) == (expected.starts.tolist(), expected.ends.tolist())


@pytest.mark.parametrize("what", ["stream", "tid", "device"])
def test_as_many_streams_threads_or_devices_as_kernels_have_an_end(opened: Opened, what: str) -> None:
    events: list[dict[str, Any]] = []
    for number in range(1, 4001):
        begin, lane = 100 * number, {"tid": number} if what == "tid" else {}
        events += [op("aten::mm", begin, 90, **lane), launch(begin + 5, 5, number, **lane)]
        events += [kernel("gemm", begin + 20, 30, number, **({} if what == "tid" else {what: number}))]
    with ends(f"4,000 of {what}", cpu_seconds=60):
        profile = opened(events)
        assert profile.table("bounds").to_dicts()
        total = profile.table("timeline").frame.filter(device="all", measure="busy")
    assert total["time_ms"].to_list() == [4000 * 0.03]


def test_more_devices_than_a_trace_can_have_are_counted_together(opened: Opened) -> None:
    profile = opened([kernel("gemm", 10 * number, 4, device=number) for number in range(600)])
    devices = profile.workspace.gpu["device"]
    assert sorted(devices.unique().to_list()) == [-1, *range(512)]
    assert (devices == -1).sum() == 600 - 512
    [note] = [note for note in profile.trace.quality.notes if note.code == "too_many_devices"]
    assert (note.count, note.detail) == (88, "600")
    busy = profile.table("timeline").frame.filter(device="all", measure="busy")
    assert busy["time_ms"].to_list() == [600 * 0.004]


def test_a_note_does_not_list_all_of_many_devices(opened: Opened) -> None:
    listed = [{"id": number, "name": "H100"} for number in range(1000)]
    profile = opened([kernel("gemm", 10, 4)], {"deviceProperties": listed})
    [detail] = [note.detail for note in profile.trace.quality.notes if note.code == "missing_devices"]
    assert detail.startswith("GPUs 1, 2, 3, ")
    assert detail.endswith(" 64, 935 more")
