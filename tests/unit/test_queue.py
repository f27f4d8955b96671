"""The queue of a stream: how many launches wait, for how long, and whether the host had to."""

from __future__ import annotations

import pytest

from support import Opened, kernel, launch
from warplens.analyses.time import queue as queue_module


def test_lengths_are_weighted_by_time_and_an_empty_queue_counts(opened: Opened) -> None:
    # In the queue: the first launch for 10 µs, then the second and third for 20 µs, of which the third for 20 µs more.
    events = [
        *(launch(0, 2, 1), kernel("a", 10, 5, 1)),
        *(launch(20, 2, 2), launch(20, 2, 3), kernel("b", 40, 20, 2), kernel("c", 60, 5, 3)),
    ]
    (row,) = opened(events).table("queue").to_dicts()
    assert (row["device"], row["stream"], row["count"], row["length_max"]) == (0, 7, 3, 2)
    assert row["span_ms"] == pytest.approx(0.06)
    assert row["length_mean"] == pytest.approx((10 + 2 * 20 + 20) / 60)
    assert (row["length_median"], row["length_p90"], row["length_p99"]) == (1, 2, 2)
    assert row["empty_percent"] == pytest.approx(100 * 10 / 60)
    assert (row["wait_us_mean"], row["wait_us_median"]) == (pytest.approx(70 / 3), 20.0)
    assert (row["full_us"], row["blocked_count"]) == (0.0, 0)


def test_streams_have_queues_of_their_own_and_a_graph_is_one_launch(opened: Opened) -> None:
    graph = [launch(0, 5, 1, name="cudaGraphLaunch"), *(kernel("g", 10 + 10 * at, 5, 1) for at in range(4))]
    other = [launch(6, 2, 2), launch(9, 2, 3), *(kernel("o", 50 + at, 1, 2 + at, stream=9) for at in range(2))]
    rows = opened(graph + other).table("queue").to_dicts()
    assert [(row["stream"], row["count"], row["length_max"]) for row in rows] == [(9, 2, 2), (7, 1, 1)]


def test_calls_that_find_the_queue_full_are_counted_with_their_time(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_module, "FULL", 4)
    launches = [launch(at, 1 if at < 3 else 30, at + 1) for at in range(3)]
    launches += [launch(3, 47, 4), launch(50, 50, 5)]
    kernels = [kernel("k", begin, 10, at + 1) for at, begin in enumerate((50, 100, 150, 200, 250))]
    (row,) = opened(launches + kernels).table("queue").to_dicts()
    # The fourth launch fills it until the first kernel begins; the fifth finds it full again.
    assert (row["length_max"], row["blocked_count"], row["blocked_us"]) == (5, 2, 97.0)
    assert row["full_us"] == pytest.approx(47 + 50)


def test_work_without_a_launch_has_no_queue_and_clocks_that_differ_make_no_negative_wait(opened: Opened) -> None:
    profile = opened([kernel("alone", 0, 5)])
    assert profile.table("queue").to_dicts() == []
    assert profile.table("queue").notes == ("no GPU work with a recorded launch",)
    (row,) = opened([launch(10, 2, 1), kernel("early", 8, 5, 1)]).table("queue").to_dicts()
    assert (row["wait_us_mean"], row["span_ms"], row["length_mean"]) == (0.0, 0.0, 0.0)


def test_the_timeline_has_the_same_mean_in_intervals_of_equal_length(opened: Opened) -> None:
    events = [event for at in range(40) for event in (launch(7 * at, 2, at + 1), kernel("k", 300 + 9 * at, 8, at + 1))]
    profile = opened(events)
    frame, (row,) = profile.table("queue_timeline").frame, profile.table("queue").to_dicts()
    assert len(frame) == queue_module.MOMENTS
    assert frame["length_mean"].mean() == pytest.approx(row["length_mean"], rel=1e-3)
    assert frame["length_max"].max() == row["length_max"]
    assert frame["start_ms"].is_sorted()
    assert (frame["length_max"] >= frame["length_mean"]).all()
