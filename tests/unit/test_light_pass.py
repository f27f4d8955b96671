"""Steps recorded without ops give the host's times to the steps recorded with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support import Opened, annotation, kernel, launch, op
from warplens import Profile
from warplens.analyses.graph.building import graph_of
from warplens.analyses.graph.light_pass import light_pass
from warplens.analyses.graph.records import CALL, MARK, StepGraph

KERNELS = ("gemm_a", "gemm_b", "gemm_c")


def steps(
    gap_us: float, count: int = 3, *, names: tuple[str, ...] = KERNELS, call_us: float = 5
) -> list[dict[str, Any]]:
    """Steps of three launches each, this long apart."""
    events: list[dict[str, Any]] = []
    for step in range(count):
        begin = step * gap_us * (len(names) + 1)
        events.append(annotation(f"ProfilerStep#{step}", begin, gap_us * (len(names) + 1)))
        for index, name in enumerate(names):
            at, number = begin + gap_us * (index + 1), step * len(names) + index + 1
            events += [
                op("aten::mm", at - 2, call_us + 4),
                launch(at, call_us, number),
                kernel(name, at + 8, 2, number),
            ]
    return events


def host_edges(graph: StepGraph) -> np.ndarray[Any, Any]:
    """Those between marks and calls."""
    between = np.isin(graph.kind[graph.source], (CALL, MARK)) & np.isin(graph.kind[graph.target], (CALL, MARK))
    return np.flatnonzero(graph.on_host & between)


def joined(full: Profile, light: Profile) -> tuple[StepGraph, np.ndarray[Any, Any], str]:
    graph = graph_of(full.workspace)
    host_ns, note = light_pass(full.trace, graph, light.trace)
    return graph, host_ns, note


def test_each_part_of_the_hosts_time_takes_its_length_from_the_light_steps(opened: Opened) -> None:
    graph, host_ns, note = joined(opened(steps(100)), opened(steps(40)))
    edges = host_edges(graph)
    assert graph.lag_ns[edges] == pytest.approx(100_000)
    assert host_ns[edges] == pytest.approx(40_000)
    assert np.isnan(host_ns[~np.isin(np.arange(len(host_ns)), edges)]).all(), "launches and the GPU keep theirs"
    assert note == "the host's times of 3 of 3 steps are those of 3 steps recorded without ops"


def test_a_call_that_waited_for_room_in_the_queue_is_not_the_hosts_pace(opened: Opened) -> None:
    """Each light call lasts 35 of 40 µs: 20 are its own at most, and 5 pass until the next."""
    graph, host_ns, _ = joined(opened(steps(100)), opened(steps(40, call_us=35)))
    edges = host_edges(graph)
    after_call = edges[graph.kind[graph.source[edges]] == CALL]
    assert host_ns[after_call] == pytest.approx(25_000)


@pytest.mark.parametrize("names", [("gemm_a", "gemm_c", "gemm_b"), ("gemm_a", "gemm_b"), (*KERNELS, "gemm_d")])
def test_steps_with_other_launches_are_not_used(names: tuple[str, ...], opened: Opened) -> None:
    _, host_ns, note = joined(opened(steps(100)), opened(steps(40, names=names)))
    assert np.isnan(host_ns).all()
    assert note.startswith("the host's times of 0 of 3 steps")
