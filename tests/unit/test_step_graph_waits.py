"""Waits in the step's graph: of streams for each other and of the host for the GPU, recorded or inferred."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warplens
from support import Opened, annotation, kernel, launch, op, sync
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.records import EDGE_KINDS, NODE_KINDS, StepGraph
from warplens.analyses.graph.simulating import simulate

Events = list[dict[str, Any]]


def graph(profile: warplens.Profile) -> StepGraph:
    own = graph_of(profile.workspace)
    assert np.abs(simulate(own) - own.recorded_ns).max() <= 1.0, "nanoseconds"
    return own


def edges(profile: warplens.Profile, wanted: str) -> list[tuple[str, str, float]]:
    """(source, target, lag in µs) of the edges of a kind."""
    own, trace = graph(profile), profile.trace
    names = [trace.names[trace.ints("name")[row]] for row in own.row]
    return [
        (names[source], names[target], round(lag / 1e3, 3))
        for source, kind, target, lag in zip(own.source, own.edge_kind, own.target, own.lag_ns, strict=True)
        if EDGE_KINDS[kind] == wanted
    ]


def wait_call(ts: float, correlation: int) -> dict[str, Any]:
    return launch(ts, 2, correlation, name="cudaStreamWaitEvent")


def bounds_ms(profile: warplens.Profile) -> dict[str, float]:
    return {row["case"]: row["step_ms"] for row in profile.table("bounds").to_dicts()}


def two_collectives() -> Events:
    """Two collectives on stream 20; computation waits for the first of them, and launched the second before."""
    return [
        launch(0, 5, 1), kernel("compute 1", 8, 20, 1),
        launch(10, 5, 2), kernel("collective 1", 30, 100, 2, stream=20), launch(16, 2, 3, name="cudaEventRecord"),
        launch(20, 5, 4), kernel("collective 2", 131, 100, 4, stream=20),
        wait_call(30, 5), launch(40, 5, 6), kernel("compute 2", 300, 20, 6),
    ]  # fmt: skip


def test_a_recorded_wait_names_the_event_before_the_record(opened: Opened) -> None:
    """It did not hold `compute 2` up for as long as it waited, so the rest stays unexplained."""
    events = [*two_collectives(), sync("Stream Wait Event", 30, 5, stream=7, awaited=20, record=3)]
    profile = opened(events)
    assert edges(profile, "wait") == [("collective 1", "compute 2", 5.0)]
    assert graph(profile).residual_ns.max() == pytest.approx(165_000)


def test_a_recorded_wait_without_a_recorded_call_is_for_all_that_was_launched_before(opened: Opened) -> None:
    events = [*two_collectives(), sync("Stream Wait Event", 30, 5, stream=7, awaited=20)]
    assert [pair[:2] for pair in edges(opened(events), "wait")] == [("collective 2", "compute 2")]


def test_a_recorded_wait_that_held_nothing_up_counts_when_times_change(opened: Opened) -> None:
    """The host is late; with a fast one the second kernel still follows the first."""
    events = [
        launch(0, 5, 1), kernel("first", 8, 100, 1, stream=20), launch(12, 2, 2, name="cudaEventRecord"),
        wait_call(20, 3), sync("Stream Wait Event", 20, 3, stream=7, awaited=20, record=2),
        op("slow", 30, 400), launch(450, 5, 4), kernel("second", 458, 100, 4),
    ]  # fmt: skip
    profile = opened(events)
    assert edges(profile, "wait") == [("first", "second", 5.0)]
    assert bounds_ms(profile)["fast host"] == pytest.approx(0.1 + 0.1)


@pytest.mark.parametrize(
    ("recorded", "awaited"),
    [
        (sync("Event Sync", 50, 5, awaited=20, record=3), ["early"]),
        (sync("Stream Sync", 50, 5, stream=7), ["other"]),
        (sync("Context Sync", 50, 5), ["early", "late", "other"]),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_a_recorded_synchronisation_waits_for_its_event_or_its_stream_only(
    opened: Opened, recorded: dict[str, Any], awaited: list[str]
) -> None:
    events = [
        launch(0, 5, 1), kernel("early", 8, 100, 1, stream=20), launch(6, 2, 3, name="cudaEventRecord"),
        launch(10, 5, 2), kernel("late", 109, 20, 2, stream=20), launch(20, 5, 4), kernel("other", 28, 110, 4),
        launch(50, 100, 5, name="cudaEventSynchronize"), recorded, launch(160, 5, 6), kernel("last", 168, 5, 6),
    ]  # fmt: skip
    sources = {source for source, _, _ in edges(opened(events), "sync")}
    assert sources == set(awaited) - ({"early"} if "late" in awaited else set()), "the last of each stream"


def test_an_event_synchronisation_returns_after_the_event_that_ended_just_before(opened: Opened) -> None:
    """What was launched last into the stream goes on: the call waits for something earlier."""
    events = [
        launch(0, 5, 1), kernel("awaited", 8, 100, 1), launch(10, 5, 2), kernel("next", 109, 500, 2),
        launch(20, 110, 3, name="cudaEventSynchronize"), launch(140, 5, 4), kernel("last", 610, 5, 4),
    ]  # fmt: skip
    profile = opened(events)
    assert edges(profile, "sync") == [("awaited", "cudaEventSynchronize", 22.0)]
    returned = NODE_KINDS.index("return")
    assert (graph(profile).kind == returned).sum() == 1


def test_a_call_that_begins_when_another_one_returns_comes_after_it(opened: Opened) -> None:
    """As in traces with whole microseconds: the kernel ends, the first call returns and the second begins at once."""
    events = [
        launch(0, 5, 1), kernel("long", 8, 100, 1), launch(10, 98, 2, name="cudaStreamSynchronize"),
        launch(108, 4, 3, name="cudaStreamSynchronize"), launch(112, 5, 4), kernel("last", 120, 10, 4),
    ]  # fmt: skip
    own = graph(opened(events))
    assert (np.diff(own.first_edge) == 0).sum() == 1, "all but the first depend on something"
    without = simulate(own, np.zeros(len(own)))
    assert without.max() - without.min() < 50_000, "no moment is fixed"


def test_work_from_before_the_steps_ends_earlier_if_it_takes_less_time(opened: Opened) -> None:
    events = [
        launch(0, 5, 1), kernel("before", 8, 300, 1, stream=20), annotation("ProfilerStep#1", 50, 100),
        launch(60, 5, 2), kernel("within", 68, 10, 2),
    ]  # fmt: skip
    own = graph(opened(events))
    assert own.recorded_ns.max() == pytest.approx(308_000)
    assert simulate(own, np.zeros(len(own))).max() < 200_000


def test_the_host_waits_for_work_from_before_the_steps(opened: Opened) -> None:
    events = [
        launch(0, 5, 1), kernel("before", 8, 300, 1), annotation("ProfilerStep#1", 50, 400),
        launch(60, 270, 2, name="cudaEventSynchronize"), launch(340, 5, 3), kernel("within", 348, 10, 3),
    ]  # fmt: skip
    assert edges(opened(events), "sync") == [("before", "cudaEventSynchronize", 22.0)]


def test_a_launch_into_a_queue_of_a_thousand_waits_for_room(opened: Opened) -> None:
    """It returns 50 µs after the end of the long kernel; with a shorter queue that would not count."""

    def program(queued: int) -> Events:
        events = [launch(0, 5, 1), kernel("long", 8, 2000, 1)]
        for number in range(2, queued + 2):
            events += [launch(5 + number, 1, number), kernel("short", 2100 + 2 * number, 1, number)]
        return [*events, launch(1100, 958, 9999), kernel("last", 9000, 1, 9999)]

    assert edges(opened(program(1000)), "queue") == [("long", "cudaLaunchKernel", 50.0)]
    assert edges(opened(program(900)), "queue") == []


def graph_launches(*lengths_us: float) -> Events:
    """Graphs of two long kernels, launched by calls that take this long."""
    events, called, at = [], 0.0, 100.0
    for number, length in enumerate(lengths_us, 1):
        events.append(launch(called, length, number, name="cudaGraphLaunch"))
        events += [kernel("a", at, 1000, number), kernel("b", at + 1001, 1000, number)]
        called, at = called + length + 5, at + 2002
    return events


def test_the_launch_of_a_graph_that_takes_much_longer_than_others_waits_for_an_earlier_graph(opened: Opened) -> None:
    """The third call returns at 1,160 µs, 60 µs after the end of the first kernel."""
    assert edges(opened(graph_launches(50, 50, 1050)), "queue") == [("a", "cudaGraphLaunch", 60.0)]
    assert edges(opened(graph_launches(400, 400, 350)), "queue") == [], "graphs of this size take that long to launch"


def test_work_from_before_the_steps_holds_up_what_follows_it(opened: Opened) -> None:
    """Neither its launch nor what its stream did before is recorded; a fast GPU would have done with it."""
    events = [
        annotation("ProfilerStep#1", 0, 100), kernel("before", 300, 50), launch(60, 5, 2), kernel("within", 351, 10, 2),
    ]  # fmt: skip
    profile = opened(events)
    own = graph(profile)
    assert own.lag_ns[own.edge_kind == EDGE_KINDS.index("earlier")].tolist() == [300_000]
    assert [row["kind"] for row in profile.table("critical_path").to_dicts()] == ["earlier", "work", "pause", "work"]
    assert bounds_ms(profile)["fast GPU"] == pytest.approx(0.1, abs=0.005)


def slow_to_go_on(*calls: dict[str, Any]) -> Events:
    """A kernel that begins 20 µs after the end of a collective, as on AMD's GPUs, among many short ones of a third
    stream."""
    events = [launch(0, 5, 1), kernel("collective", 8, 292, 1, stream=20), *calls]
    for number in range(25):
        events += [launch(40 + number, 1, 100 + number), kernel("short", 60 + 13 * number, 2, 100 + number, stream=9)]
    return [*events, launch(80, 5, 3), kernel("compute", 320, 50, 3)]


def test_after_a_wait_call_a_stream_may_go_on_later(opened: Opened) -> None:
    pairs = edges(opened(slow_to_go_on(wait_call(20, 2))), "wait")
    assert ("collective", "compute", 20.0) in pairs


def test_without_a_wait_call_ends_of_a_busy_stream_say_nothing(opened: Opened) -> None:
    """A kernel of the third stream ends every 13 µs, so that one ended 11 µs before is chance."""
    profile = opened(slow_to_go_on())
    assert edges(profile, "wait") == []
    assert graph(profile).residual_ns.max() > 200_000


def test_without_a_wait_call_the_only_end_in_a_long_stall_is_what_was_awaited(opened: Opened) -> None:
    events = [
        launch(0, 5, 1), kernel("collective", 8, 2000, 1, stream=20), launch(10, 5, 2), kernel("compute", 2025, 50, 2),
    ]  # fmt: skip
    assert edges(opened(events), "wait") == [("collective", "compute", 17.0)]


def test_the_next_launch_after_a_wait_call_follows_the_other_stream(opened: Opened) -> None:
    """The collective waits for the computation before it, though its launch came later than that ended."""
    events = [
        launch(0, 5, 1), kernel("compute", 8, 20, 1), wait_call(40, 2), op("slow", 50, 400),
        launch(460, 5, 3), kernel("collective", 468, 100, 3, stream=20), launch(480, 5, 4), kernel("next", 488, 20, 4),
    ]  # fmt: skip
    assert edges(opened(events), "wait") == [("compute", "collective", 5.0)]


def test_a_graph_that_is_launched_in_pieces_waits_for_its_call(opened: Opened) -> None:
    """The second kernel begins 300 µs after the first one ended, while the call still runs."""
    events = [
        launch(0, 500, 1, name="cudaGraphLaunch"), kernel("first", 20, 10, 1), kernel("second", 330, 10, 1),
        launch(510, 5, 2), kernel("last", 518, 10, 2),
    ]  # fmt: skip
    profile = opened(events)
    assert graph(profile).residual_ns.max() == 0
    assert ("cudaGraphLaunch", "second", 330.0) in edges(profile, "launch")


def test_before_the_first_event_the_gpu_was_busy_with_earlier_work(opened: Opened) -> None:
    events = [launch(0, 5, 1), kernel("first", 3000, 10, 1), launch(10, 5, 2), kernel("second", 3011, 10, 2)]
    profile = opened(events)
    assert not graph(profile).unexplained_ns
    notes = profile.table("bounds").notes
    assert any(note.startswith("2.97 of 3.02 ms pass before the first GPU event") for note in notes)
    (row,) = [row for row in profile.table("critical_path").to_dicts() if row["kind"] == "earlier"]
    assert (row["name"], row["time_us"]) == ("first", pytest.approx(2970))


def test_what_synchronisations_wait_for_is_read(opened: Opened) -> None:
    events = [
        launch(0, 5, 1), kernel("first", 8, 100, 1, stream=20), launch(6, 2, 3, name="cudaEventRecord"),
        wait_call(10, 4), sync("Stream Wait Event", 10, 4, stream=7, awaited=20, record=3),
        sync("Context Sync", 20, 5), launch(20, 100, 5, name="cudaDeviceSynchronize"),
    ]  # fmt: skip
    trace = opened(events).trace
    waits = trace.waits.join(trace.events.select("id", "correlation", "stream"), on="id", suffix="_waiting")
    assert waits.select("correlation", "stream_waiting", "stream", "record").rows() == [(4, 7, 20, 3)]


@pytest.mark.parametrize(("duration_us", "waits"), [(400, 1), (300, 0)])
def test_a_long_launch_waits_for_room_only_where_work_is_outstanding(
    opened: Opened, duration_us: float, waits: int
) -> None:
    """Both calls return when a kernel has just ended; in the second trace that is the call's own."""
    events = [launch(0, 5, 1), kernel("first", 8, duration_us, 1), launch(310, 200, 2)]
    ends_us = 8 + duration_us if waits else 495
    events.append(kernel("second", ends_us + 1, 10, 2))
    if waits:
        events[2] = launch(310, ends_us + 5 - 310, 2)
    assert len(edges(opened(events), "queue")) == waits
