"""Findings on launches, copies, communication and steps, and on the trace itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest

import warplens
from finding_traces import (
    ALL_REDUCE,
    ELEMENTWISE,
    GEMM,
    H200,
    LINK_TBPS,
    NAMELESS,
    PLACE,
    REACHABLE,
    Call,
    back_to_back,
    by_code,
    filler,
    geometry,
    rows_gain_ms,
    step_marks,
)
from support import Opened, annotation, frame, kernel, launch, memcpy, op
from warplens.model.finding import Finding


def graph(share_us: float) -> list[dict[str, Any]]:
    """A graph with this much GPU time beside 100 µs outside."""
    inside = [kernel(GEMM, 100, share_us * 3 / 4, 9), kernel(ALL_REDUCE, 100 + share_us * 3 / 4, share_us / 4, 9)]
    outside = [op("aten::mm", 10, 5), launch(11, 1, 1), kernel(GEMM, 0, 100, 1)]
    return [launch(0, 2, 9, name="cudaGraphLaunch"), *inside, *outside]


def test_wl102_fires_when_graphs_hold_half_of_the_gpu_time_and_no_gain_is_asked_for(opened: Opened) -> None:
    assert "WL102" not in by_code(opened(graph(300)))
    finding = by_code(opened(graph(300), min_gain_percent=0))["WL102"]
    assert finding.title == "75 % of GPU time is inside graph launches; GEMM dominates them (75 %)"
    assert (finding.place, finding.evidence) == ("cudaGraphLaunch", "2 kernels in graphs")
    assert (finding.gain_ms, finding.bound) == (0.0, False)


def test_wl102_is_silent_when_graphs_hold_less(opened: Opened) -> None:
    assert "WL102" in by_code(opened(graph(100), min_gain_percent=0))
    assert "WL102" not in by_code(opened(graph(99), min_gain_percent=0))


def unknown(dur: float) -> list[dict[str, Any]]:
    return back_to_back(Call("mine::work", GEMM, 1000 - dur), Call("mine::odd", NAMELESS, dur))


def test_wl103_fires_above_one_percent_of_unknown_kernels_though_it_wins_nothing(opened: Opened) -> None:
    finding = by_code(opened(unknown(20)))["WL103"]
    assert finding.title.startswith("kernels of unknown category")
    assert (finding.place, finding.evidence) == (NAMELESS, "1 kernel name, 1 launch")
    assert (finding.gain_ms, finding.gain_percent, finding.bound) == (0.0, 0.0, False)
    assert [(row.what, row.place, row.time_ms) for row in finding.rows] == [(NAMELESS, "mine::odd", 0.02)]


def test_wl103_is_silent_below_one_percent_and_once_a_rule_names_the_kernel(opened: Opened) -> None:
    assert "WL103" in by_code(opened(unknown(10.1)))
    assert "WL103" not in by_code(opened(unknown(10)))
    assert "WL103" not in by_code(opened(unknown(20), rules=[warplens.Rule("Mine", contains="zzqx")]))


def exposing(event: dict[str, Any], computed: float) -> list[dict[str, Any]]:
    return [kernel(GEMM, 0, computed), {**event, "ts": computed}]


def test_wl105_fires_when_a_tenth_is_communication_that_nothing_hides(opened: Opened) -> None:
    finding = by_code(opened(exposing(kernel(ALL_REDUCE, 0, 10, stream=20), 90)))["WL105"]
    assert finding.gain_ms == pytest.approx(0.010)
    assert (finding.gain_percent, finding.bound) == (pytest.approx(10.0), True)
    assert finding.evidence == "0.01 ms as recorded"
    assert finding.place == "nccl AllReduce sum bf16 RING_LL"  # of a group that the trace does not name
    assert [(row.count, row.time_ms, row.gain_ms) for row in finding.rows] == [(1, 0.01, 0.01)]


def test_wl105_is_silent_below_a_tenth_and_when_computation_hides_the_communication(opened: Opened) -> None:
    assert "WL105" not in by_code(opened(exposing(kernel(ALL_REDUCE, 0, 9.9, stream=20), 90.1)))
    assert "WL105" not in by_code(opened([kernel(GEMM, 0, 100), kernel(ALL_REDUCE, 10, 50, stream=20)]))


def test_wl106_fires_when_a_twentieth_is_copies_that_nothing_hides(opened: Opened) -> None:
    events = [op("aten::to", 0, 9), launch(1, 1, 3, name="cudaMemcpyAsync")]
    finding = by_code(opened([*events, *exposing(memcpy(0, 5, 3, stream=20), 95)]))["WL106"]
    assert finding.gain_ms == pytest.approx(0.005)
    assert (finding.gain_percent, finding.bound, finding.place) == (pytest.approx(5.0), True, "aten::to")
    assert [(row.place, row.count, row.time_ms) for row in finding.rows] == [("aten::to", 1, 0.005)]


def test_wl106_is_silent_below_a_twentieth_when_hidden_and_for_copies_within_the_gpu(opened: Opened) -> None:
    within = ("Memcpy DtoD (Device -> Device)", "CopyDeviceToDevice")
    cases = [exposing(memcpy(0, 4.9, stream=20), 95.1), [kernel(GEMM, 0, 100), memcpy(10, 50, stream=20)],
             *(exposing(memcpy(0, 10, stream=20, name=name), 90) for name in within)]  # fmt: skip
    for events in cases:
        assert "WL106" not in by_code(opened(events))


def multiplied(blocks: int, dur: float = 100, name: str = GEMM) -> list[dict[str, Any]]:
    return back_to_back(Call("mine::work", name, dur, kernel_args=geometry(blocks)))


def test_wl209_fires_when_a_quarter_is_lost_in_the_last_wave(opened: Opened) -> None:
    """198 blocks of one per multiprocessor are 1.5 waves of 132: of two waves' time a quarter is unused."""
    finding = by_code(opened(multiplied(198), H200))["WL209"]
    assert finding.gain_ms == pytest.approx(0.1 / 4)
    assert (finding.bound, finding.place) == (True, PLACE)
    assert "198 blocks in 1.50 waves, 1 at a time on each multiprocessor (limited by registers)" in finding.evidence
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)


def test_wl209_is_silent_for_full_waves_short_kernels_and_work_that_memory_limits(opened: Opened) -> None:
    for events in (multiplied(199), multiplied(264), multiplied(133, 19.9), multiplied(133, name=ELEMENTWISE)):
        assert "WL209" not in by_code(opened(events, H200))
    assert "WL209" in by_code(opened(multiplied(133, 20), H200))


def test_wl210_fires_when_half_of_the_multiprocessors_have_no_block(opened: Opened) -> None:
    finding = by_code(opened(multiplied(66), H200))["WL210"]
    assert finding.gain_ms == pytest.approx(0.1 / 2)
    assert (finding.bound, finding.place) == (True, PLACE)
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)


def test_wl210_is_silent_for_more_blocks_short_kernels_communication_and_unknown_gpus(opened: Opened) -> None:
    for events in (multiplied(67), multiplied(16, 19.9), multiplied(16, name=ALL_REDUCE)):
        assert "WL210" not in by_code(opened(events, H200))
    assert "WL210" not in by_code(opened(multiplied(16)))


def beside(start: float, dur: float, **place: int) -> list[dict[str, Any]]:
    """A kernel of 66 blocks that runs for 100 µs from 10 µs on, and another one on a second stream."""
    return [*multiplied(66), kernel(GEMM, start, dur, stream=20, **place)]


def test_wl210_counts_only_time_in_which_nothing_else_runs_on_that_gpu(opened: Opened) -> None:
    profile = opened(beside(70, 140), H200)
    assert by_code(profile)["WL210"].gain_ms == pytest.approx(0.06 / 2)
    assert profile.table("launches").frame["alone_us"].to_list() == [100, 60]
    assert by_code(opened(beside(70, 140, device=1), H200))["WL210"].gain_ms == pytest.approx(0.1 / 2)


def test_wl210_is_silent_where_other_streams_run_all_the_time(opened: Opened) -> None:
    assert "WL210" not in by_code(opened(beside(5, 120), H200))


def recomputed(dur: float, function: str = "recompute_fn") -> list[dict[str, Any]]:
    events = back_to_back(filler(1000 - dur), Call("aten::gelu", ELEMENTWISE, dur))
    return [*events, frame(f"torch/utils/checkpoint.py(1124): {function}", 10.5, 9)]


def test_wl212_fires_for_forward_work_inside_a_checkpoint_s_backward(opened: Opened) -> None:
    finding = by_code(opened(recomputed(150)))["WL212"]
    assert (finding.gain_ms, finding.gain_percent) == (pytest.approx(0.15), pytest.approx(15.0))
    assert (finding.title, finding.bound) == ("activations are recomputed in the backward pass", True)
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)


def test_wl212_is_silent_for_the_first_forward_and_below_one_percent(opened: Opened) -> None:
    assert "WL212" not in by_code(opened(recomputed(150, "checkpoint")))
    assert "WL212" not in by_code(opened(recomputed(9.9)))


MESSAGE = 1 << 26
COPY_US = MESSAGE / (REACHABLE * LINK_TBPS) / 1e6
"""64 MiB over the host link: 1.25 ms."""


def copied(dur: float, memory: str = "Pageable") -> list[dict[str, Any]]:
    copy = memcpy(20, dur, 1, name=f"Memcpy HtoD ({memory} -> Device)", bytes=MESSAGE)
    events = back_to_back(filler(1000), ts=20 + dur - 10, first=2)
    return [frame("data.py(3): move", 0, 12), op("aten::copy_", 1, 8), launch(2, 2, 1, name="cudaMemcpyAsync"), copy, *events]  # fmt: skip


def test_wl302_fires_for_pageable_copies_slower_than_the_link(opened: Opened) -> None:
    found = by_code(opened(copied(5000), H200))
    finding = found["WL302"]
    assert finding.gain_ms == pytest.approx((5000 - COPY_US) / 1e3)
    assert finding.gain_percent == pytest.approx(100 * finding.gain_ms / 6)
    assert (finding.bound, finding.place) == (False, "data.py:3 move")
    assert "64.0 MiB each at 13.4 GB/s" in finding.evidence
    assert "WL106" not in found


def test_wl302_is_silent_for_pinned_memory_and_for_copies_at_the_link_s_speed(opened: Opened) -> None:
    pinned = by_code(opened(copied(5000, "Pinned"), H200))
    assert "WL302" not in pinned
    assert pinned["WL106"].gain_ms == pytest.approx(5.0)
    assert "WL302" not in by_code(opened(copied(COPY_US), H200))


def steps_of(*durations: float) -> list[dict[str, Any]]:
    """Steps whose GPU work takes so long; the host is far ahead of the GPU."""
    events = step_marks(*(20 * number for number in range(len(durations) + 1)))
    begin = 1000.0
    for number, dur in enumerate(durations):
        events += [op("mine::work", 20 * number + 5, 8), launch(20 * number + 6, 2, number + 1)]
        events.append(kernel(GEMM, begin, dur, number + 1))
        begin += dur
    return events


def test_wl305_fires_for_one_step_that_takes_longer(opened: Opened) -> None:
    finding = by_code(opened(steps_of(100, 100, 140, 100)))["WL305"]
    assert finding.title == "1 of 4 steps takes 1.4× as long as usual"
    assert finding.gain_ms == pytest.approx(0.040 / 4)
    assert (finding.bound, finding.place) == (True, "ProfilerStep#2")
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)


def test_wl305_names_the_step_whose_host_part_took_long(opened: Opened) -> None:
    """Step 2 sleeps before its first launch: on the GPU step 1 lasts until then."""
    events = []
    starts = [0, 100, 200, 400, 500]
    for number, (start, end) in enumerate(pairwise([*starts, 600])):
        at = start + (100 if number == 2 else 0)
        events += [annotation(f"ProfilerStep#{number}", start, end - start), op("aten::mm", at + 1, 20)]
        events += [launch(at + 2, 1, number + 1), kernel(GEMM, at + 10, 80, number + 1)]
    finding = by_code(opened(events))["WL305"]
    assert finding.place == "ProfilerStep#2"
    assert finding.rows[0].detail.startswith("ProfilerStep#1: 0.20 ms on the GPU")


def host_bound_steps(*ops: int, stall: float = 0.0, stalled: int = -1) -> list[dict[str, Any]]:
    """Steps of so many ops of 20 µs, each with a kernel of 2; one may stall before its last op."""
    events: list[dict[str, Any]] = []
    edges, at = [0.0], 0.0
    for number, count in enumerate(ops):
        for place in range(count):
            at += stall if number == stalled and place == count - 1 else 0.0
            correlation = 1000 * number + place + 1
            events += [op("aten::mm", at, 19), launch(at + 10, 3, correlation), kernel(GEMM, at + 15, 2, correlation)]
            at += 20
        edges.append(at)
    return [*step_marks(*edges), *events]


def slow_step(profile: warplens.Profile) -> Finding:
    """With its gain of the step without the profiler."""
    return next(finding for finding in profile.findings() if finding.code == "WL305")


def test_wl305_takes_the_recording_of_its_ops_off_a_slow_step(opened: Opened) -> None:
    """A step of 100 ops among steps of 20: recorded it takes 1.6 ms longer, without the profiler half of that."""
    finding = slow_step(opened(host_bound_steps(20, 20, 20, 100, 20, 20), step_ms=0.2))
    assert finding.gain_ms == pytest.approx(0.5 * 1.6 / 6, rel=0.05)
    assert (finding.bound, finding.gain_low_ms, finding.gain_high_ms) == (True, 0.0, finding.gain_ms)
    assert finding.evidence.startswith("ProfilerStep#3: 2.00 ms on the GPU")


def test_wl305_keeps_a_stall_in_which_nothing_is_recorded(opened: Opened) -> None:
    profile = opened(host_bound_steps(20, 20, 20, 20, 20, 20, stall=900, stalled=3), step_ms=0.2)
    finding = slow_step(profile)
    assert finding.gain_ms == pytest.approx(0.9 / 6, rel=0.02)
    model = profile.step_model
    assert model is not None
    # Lightly recorded steps have no such stall: nothing of theirs counts.
    lightly = np.full(len(model.graph.lag_ns), 100.0)
    light = msgspec.structs.replace(model, graph=msgspec.structs.replace(model.graph, light_host_ns=lightly))
    assert light.excess_kept(finding.slow_steps) == model.excess_kept(finding.slow_steps)


def test_wl305_is_silent_for_even_steps_few_steps_and_many_slow_ones(opened: Opened) -> None:
    for durations in ((100, 100, 130, 100), (100, 140, 100), (100, 140, 100, 140, 100, 100)):
        assert "WL305" not in by_code(opened(steps_of(*durations)))


def test_wl305_is_silent_about_a_last_step_that_only_nothing_cuts(opened: Opened) -> None:
    """After the last mark comes an evaluation; and copies that reach past every step's end."""
    evaluation = [op("mine::work", 205, 8), launch(206, 2, 99), kernel(GEMM, 1500, 5000, 99)]
    assert "WL305" not in by_code(opened([*steps_of(*[100] * 5), *evaluation]))
    copies = [
        event
        for number in range(5)
        for event in (
            launch(20 * number + 9, 1, 50 + number),
            memcpy(1090 + 100 * number, 80, 50 + number, stream=9),
        )
    ]
    assert "WL305" not in by_code(opened([*steps_of(*[100] * 5), *copies]))


def test_wl305_fires_for_a_last_step_whose_own_work_takes_longer(opened: Opened) -> None:
    finding = by_code(opened(steps_of(100, 100, 100, 140)))["WL305"]
    assert finding.place == "ProfilerStep#3"
    assert finding.gain_ms == pytest.approx(0.040 / 4)


def collectives(count: int, elements: int, *, hidden: bool = False) -> list[dict[str, Any]]:
    args = {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "dtype": "BFloat16",
            "Group size": 8, "Process Group Name": "0"}  # fmt: skip
    sent = [kernel(ALL_REDUCE, 100 + 5 * number, 5, stream=20, **args) for number in range(count)]
    return [kernel(GEMM, 0, 1000 if hidden else 100), *sent]


def test_wl401_fires_for_eight_small_collectives(opened: Opened) -> None:
    """1 MiB less one element of 2 B each."""
    found = by_code(opened(collectives(8, (1 << 19) - 1)))
    assert found["WL401"].gain_ms == pytest.approx(8 * 0.005)
    assert found["WL401"].bound is True
    assert found["WL401"].rows[0].place == "group 0"
    assert rows_gain_ms(found["WL401"]) == pytest.approx(found["WL401"].gain_ms)
    assert found["WL401"].gain_ms <= found["WL105"].gain_ms + 1e-9


def test_wl401_is_silent_for_few_large_or_hidden_collectives(opened: Opened) -> None:
    for events in (collectives(7, 1000), collectives(8, 1 << 19), collectives(8, 1000, hidden=True)):
        assert "WL401" not in by_code(opened(events))


def unlinked(share: float) -> list[dict[str, Any]]:
    events = back_to_back(filler(1000 - 10 * share))
    return [*events, kernel(GEMM, 2000, 10 * share), annotation("x", 0, 5)]


def test_wl901_fires_when_a_twentieth_of_gpu_time_has_no_launch(opened: Opened) -> None:
    finding = by_code(opened(unlinked(5)))["WL901"]
    assert (
        finding.evidence
        == "5 % of GPU time has no recorded launch although other work has, so it has no op, line or step"
    )
    assert (finding.place, finding.gain_ms, finding.gain_percent, finding.bound) == ("quality", 0.0, 0.0, False)


def test_wl901_fires_for_events_that_cannot_be_right(opened: Opened) -> None:
    finding = by_code(opened([*unlinked(0.1), annotation("backwards", 3, -1)]))["WL901"]
    assert "negative" in finding.evidence


def test_wl901_is_silent_for_work_queued_before_the_recording_began(opened: Opened) -> None:
    """Half of the GPU time, but before the first launch that is recorded."""
    profile = opened(
        [kernel(GEMM, 0, 1000), *([{**event, "ts": event["ts"] + 2000} for event in back_to_back(filler(1000))])]
    )
    assert "WL901" not in by_code(profile)
    phases = {row["phase"]: row["percent"] for row in profile.table("phases").to_dicts()}
    assert phases == {"earlier": 50.0, "forward": 50.0}


def test_wl901_is_silent_for_a_few_launches_missing_and_for_gpu_only_traces(opened: Opened) -> None:
    assert "WL901" not in by_code(opened(unlinked(4.9)))
    assert "WL901" not in by_code(opened([kernel(GEMM, 0, 100)]))
