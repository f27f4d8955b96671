"""What a step waits for work from before it is no part of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import warplens
from support import Opened, annotation, kernel, launch
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.simulating import simulate

Events = list[dict[str, Any]]
EARLIER = kernel("earlier", 0, 10_000, 3)
"""Launched before the recording: its number is lower than any other."""


def step_ms(profile: warplens.Profile, case: str = "recorded") -> float:
    graph = graph_of(profile.workspace)
    assert np.abs(simulate(graph) - graph.recorded_ns).max() <= 1.0, "nanoseconds"
    return {row["case"]: row["step_ms"] for row in profile.table("bounds").to_dicts()}[case]


def waiting_step(begin: float = 0, number: int = 10, *, until: float = 10_000, work: float = 20_000) -> Events:
    """A step that synchronises until a moment, then launches a kernel."""
    return [
        annotation(f"ProfilerStep#{number}", begin, until + 1000 - begin),
        launch(begin + 50, until - begin - 40, number, name="cudaDeviceSynchronize"),
        launch(until + 100, 10, number + 1),
        kernel("own", until + 120, work, number + 1),
    ]


def test_a_step_begins_when_the_work_that_it_synchronises_for_has_ended(opened: Opened) -> None:
    """The host marks 11 ms and the GPU is done after 30.12; of these, 10 are work of the step before."""
    profile = opened([EARLIER, *waiting_step()])
    assert step_ms(profile) == pytest.approx(20.12)
    busy = sum(part.percent for part in profile.answer().parts if part.part == "computation")
    assert busy == pytest.approx(100 * 20 / 20.12, abs=0.5)
    assert step_ms(profile, "fast GPU") < 1.2, "what it waits for takes no time then, and is not subtracted"
    assert step_ms(profile, "fast host") == pytest.approx(20.0, abs=0.02)


def test_the_report_says_what_is_not_counted(opened: Opened) -> None:
    profile = opened([EARLIER, *waiting_step()])
    note = "10.00 ms of 30.12 ms are waits for work from before the step: not counted in it"
    assert note in profile.table("bounds").notes


def test_a_step_whose_stream_is_still_busy_begins_when_it_is_free(opened: Opened) -> None:
    events = [annotation("ProfilerStep#1", 0, 2000), launch(50, 10, 11), kernel("own", 10_001, 20_000, 11)]
    assert step_ms(opened([EARLIER, *events])) == pytest.approx(20.001)


def test_a_host_that_does_not_wait_keeps_its_time(opened: Opened) -> None:
    """It takes 40 ms for a step, whatever the GPU did when it began."""
    events = [annotation("ProfilerStep#1", 0, 40_000), launch(12_000, 10, 11), kernel("own", 12_020, 20_000, 11)]
    assert step_ms(opened([EARLIER, *events])) == pytest.approx(40.0)


def test_an_event_whose_launch_is_lost_is_not_taken_for_earlier_work(opened: Opened) -> None:
    """Launches are numbered in their order: 10 comes after the first of the step, 0 is no number."""
    for number in (12, 0):
        lost = kernel("lost", 60, 9_940, number)
        events = [annotation("ProfilerStep#1", 0, 11_000), launch(20, 5, 9, name="cudaStreamSynchronize")]
        events += [launch(10_100, 10, 13), kernel("own", 10_120, 20_000, 13)]
        assert step_ms(opened([*events, lost])) == pytest.approx(30.12)


def test_work_launched_before_the_mark_is_earlier_work(opened: Opened) -> None:
    before = [launch(-500, 10, 3), kernel("earlier", -400, 10_400, 3)]
    assert step_ms(opened([*before, *waiting_step()])) == pytest.approx(20.12)


def test_a_synchronisation_before_the_first_launch_waits_for_work_that_is_not_recorded(opened: Opened) -> None:
    profile = opened(waiting_step())
    assert step_ms(profile) == pytest.approx(30.12 - 10.01)
    short = [annotation("ProfilerStep#1", 0, 11_000), launch(50, 60, 10, name="cudaDeviceSynchronize")]
    short += [launch(10_100, 10, 11), kernel("own", 10_120, 20_000, 11)]
    assert step_ms(opened(short)) == pytest.approx(30.12), "a short one finds nothing to wait for: all is the host's"


def test_of_two_steps_the_first_is_counted_without_its_waits(opened: Opened) -> None:
    """The GPU takes 20 ms for each; the marks of the host are 100.2 and 21.1 ms apart."""
    earlier = kernel("earlier", 0, 100_000, 3)
    second = waiting_step(100_200, 20, until=120_120)
    profile = opened([earlier, *waiting_step(until=100_000), *second])
    assert step_ms(profile) == pytest.approx(20.12, abs=0.01)
