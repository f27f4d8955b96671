"""Where one step goes: parts that do not overlap, add up to the step, and have names."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from finding_traces import ALL_REDUCE, GEMM
from support import SAMPLES, Opened, annotation, each_case, frame, kernel, launch, memcpy, op
from warplens.analyses.graph.breakdown import (
    AFTER,
    BEFORE,
    COMPUTATION,
    EXPOSED_COMMUNICATION,
    EXPOSED_COPIES,
    IDLE,
    PARTS,
)
from warplens.profiles.trace import Profile

Event = dict[str, Any]
RELU = "void at::native::vectorized_elementwise_kernel<4, at::native::relu_kernel>"


def parts_of(profile: Profile) -> dict[tuple[str, str], float]:
    rows = profile.table("breakdown").to_dicts()
    return {(row["part"], row["cause"]): row["time_ms"] for row in rows}


@each_case(SAMPLES)
def test_the_parts_add_up_to_the_step_of_every_sample(path: Any) -> None:
    profile = warplens.open(path)
    if not isinstance(profile, Profile):
        return
    rows, clock = profile.table("breakdown").to_dicts(), profile.clock
    if clock is None:
        assert not profile.answer().parts
        return
    assert sum(row["time_ms"] for row in rows) == pytest.approx(clock.step_ms, rel=1e-6)
    assert sum(row["percent"] for row in rows) == pytest.approx(100)
    assert all(row["time_ms"] >= 0 and row["part"] in PARTS for row in rows)
    assert len({(row["part"], row["cause"]) for row in rows}) == len(rows), "one row per part and cause"


def one_step(*events: Event, length: float = 1000) -> list[Event]:
    return [annotation("ProfilerStep#1", 0, length), *events]


def test_work_that_runs_at_once_is_counted_once(opened: Opened) -> None:
    """Communication and copies count where nothing computes, and two categories share the time in which both run."""
    parts = parts_of(
        opened(
            one_step(
                launch(0, 1, 1), kernel(GEMM, 10, 100, 1), launch(2, 1, 2), kernel(RELU, 50, 60, 2, stream=8),
                launch(4, 1, 3), kernel(ALL_REDUCE, 60, 100, 3, stream=9), launch(6, 1, 4),
                memcpy(100, 100, correlation=4, stream=10),
            )
        )
    )  # fmt: skip
    assert parts[COMPUTATION, "GEMM"] == pytest.approx(0.07)
    assert parts[COMPUTATION, "Elementwise"] == pytest.approx(0.03)
    assert parts[EXPOSED_COMMUNICATION, "Communication"] == pytest.approx(0.05)
    assert parts[EXPOSED_COPIES, "memcpy HtoD pinned"] == pytest.approx(0.04)


def test_kernels_of_a_category_share_its_part_of_the_step(opened: Opened) -> None:
    """Kernels of two GPUs at once take no more of the step than the time in which any of them runs."""
    answer = opened(
        one_step(
            launch(0, 1, 1), kernel(GEMM, 10, 300, 1), launch(2, 1, 2), kernel(GEMM, 10, 300, 2, device=1, stream=8),
            launch(4, 1, 3), kernel(RELU, 310, 100, 3), launch(6, 1, 4), kernel(ALL_REDUCE, 310, 200, 4, stream=9),
        )
    ).answer()  # fmt: skip
    assert [each.time_ms for each in answer.kernels] == pytest.approx([0.3, 0.1, 0.1])
    assert sorted(each.count for each in answer.kernels) == [1, 1, 2]


def test_what_the_host_does_before_between_and_after_is_named(opened: Opened) -> None:
    """Large parts of a step in a function of the user's, in a module and behind the last kernel."""
    events = one_step(
        frame("train.py(1): main", 0, 1000), frame("images.py(7): resize", 10, 300),
        frame("nn.Module: Net_0", 400, 300), launch(320, 5, 1), kernel(GEMM, 330, 20, 1),
        op("aten::mm", 635, 15), launch(640, 5, 2), kernel(GEMM, 650, 20, 2), frame("log.py(3): write", 700, 250),
    )  # fmt: skip
    parts = parts_of(opened(events))
    assert parts[BEFORE, "host: images.py"] == pytest.approx(0.3, rel=0.05)
    assert parts[IDLE, "host: forward"] == pytest.approx(0.24, rel=0.05)
    assert parts[AFTER, "host: log.py"] == pytest.approx(0.25, rel=0.05)
    answer = opened(events).answer()
    assert answer.largest[0].cause == "host: images.py"
    assert answer.largest[0].place == "images.py:7 resize"
    assert "images.py" in answer.verdict, "the largest cost stands in the verdict"


def test_host_time_is_in_the_function_that_spends_it_where_marks_cross_frames(opened: Opened) -> None:
    """A mark that begins in one call of `step` and ends in the next takes nothing of what the second one does."""
    events = [frame("train.py(30): <module>", 0, 4200)]
    for start in (0, 2000):
        key = start + 1
        events += [
            frame("train.py(8): step", start + 20, 1980), launch(start + 30, 5, key),
            kernel(GEMM, start + 40, 50, key), frame("numpy/_core/_methods.py(115): _mean", start + 100, 1500),
            launch(start + 1700, 5, key + 1), kernel(GEMM, start + 1710, 50, key + 1),
        ]  # fmt: skip
    events += [annotation("ProfilerStep#1", 10, 1980), annotation("ProfilerStep#2", 1990, 2005)]
    rows = opened(events).table("breakdown").to_dicts()
    (idle,) = (row for row in rows if (row["part"], row["cause"]) == (IDLE, "host: train.py"))
    assert idle["place"] == "train.py:8 step", "numpy is what the function computes with"
    assert idle["place_ms"] == pytest.approx(idle["time_ms"]) == pytest.approx(1.6, rel=0.05)


def test_causes_of_idle_time_are_told_apart(opened: Opened) -> None:
    events = one_step(
        op("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", 0, 200), launch(205, 5, 1),
        kernel(GEMM, 215, 100, 1), launch(212, 300, 2, name="cudaStreamSynchronize"),
        launch(520, 5, 3), kernel(GEMM, 530, 100, 3), launch(540, 200, 4, name="cudaMalloc"),
        launch(745, 5, 5), kernel(GEMM, 755, 100, 5), length=860,
    )  # fmt: skip
    parts = parts_of(opened(events))
    assert parts[BEFORE, "host: data loading"] == pytest.approx(0.2, rel=0.1)
    assert parts[IDLE, "host: memory allocation"] > 0.1
    assert parts[IDLE, "synchronisation"] > 0.15


def test_a_step_without_gpu_work_is_all_host(opened: Opened) -> None:
    """The GPU works before the steps only."""
    before = [op("aten::mm", 0, 20), launch(5, 5, 1), kernel(GEMM, 20, 50, 1)]
    profile = opened([*before, annotation("ProfilerStep#1", 100, 1000)])
    rows = profile.table("breakdown").to_dicts()
    assert profile.clock is not None
    assert sum(row["time_ms"] for row in rows) == pytest.approx(profile.clock.step_ms, rel=0.01)
    assert {row["part"] for row in rows} <= {BEFORE, AFTER, IDLE}


def test_first_steps_that_take_long_are_not_in_the_parts(opened: Opened) -> None:
    """The first of six does not count, and the second waits 40 ms for other work: a usual one takes 1 ms."""
    events = []
    for number, at in enumerate((0, 1_000, 41_000, 42_000, 43_000, 44_000), 1):
        events += [annotation(f"ProfilerStep#{number}", at, 1_000), launch(at + 100, 5, number)]
        events.append(kernel(GEMM, at + 110, 800, number))
    parts = parts_of(opened(events))
    assert parts[COMPUTATION, "GEMM"] == pytest.approx(0.8, rel=0.02)
    assert sum(parts.values()) == pytest.approx(1.0, rel=0.02)


def test_a_slow_step_in_between_is_not_in_the_parts(opened: Opened) -> None:
    """The fourth of seven writes a checkpoint for 9 ms; a usual one takes 1 ms and has nothing of it."""
    events = []
    for number, at in enumerate((0, 1_000, 2_000, 3_000, 13_000, 14_000, 15_000), 1):
        later = 9_000 if number == 4 else 0
        events += [annotation(f"ProfilerStep#{number}", at, 1_000 + later), launch(at + 100 + later, 5, number)]
        events.append(kernel(GEMM, at + 110 + later, 800, number))
    parts = parts_of(opened(events))
    assert parts[COMPUTATION, "GEMM"] == pytest.approx(0.8, rel=0.02)
    assert sum(parts.values()) == pytest.approx(1.0, rel=0.02)


def test_a_run_ends_with_the_gpu_when_only_waits_follow(opened: Opened) -> None:
    """A profiler synchronises before it stops, and the call may return long after the GPU is done."""
    events = [
        op("aten::mm", 0, 100), launch(50, 5, 1), kernel(GEMM, 60, 900, 1),
        launch(110, 8_000, 2, name="cudaDeviceSynchronize"), launch(8_200, 40, 3, name="cudaDeviceSynchronize"),
    ]  # fmt: skip
    clock = opened(events).clock
    assert clock is not None
    assert clock.recorded_ms == pytest.approx(0.96)
    followed = opened([*events, op("aten::copy_", 8_300, 700)]).clock
    assert followed is not None
    assert followed.recorded_ms == pytest.approx(9.0)


def test_work_from_before_the_recording_holds_a_run_up_from_its_begin(opened: Opened) -> None:
    """The first kernel waits for 50 ms although it was launched after 5: the host did not delay it."""
    events = [op("aten::mm", 0, 6_000), launch(5_000, 5, 1), kernel(GEMM, 50_000, 900, 1)]
    assert parts_of(opened(events)) == {
        (COMPUTATION, "GEMM"): pytest.approx(0.9),
        (BEFORE, "earlier work"): pytest.approx(50.0),
    }


def test_a_gpu_that_is_never_idle_has_no_other_parts(opened: Opened) -> None:
    parts = parts_of(opened([launch(0, 1, 1), kernel(GEMM, 0, 100, 1)]))
    assert parts == {(COMPUTATION, "GEMM"): pytest.approx(0.1)}


def test_without_launches_idle_time_has_no_cause(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 0, 100, 0), kernel(GEMM, 400, 100, 0)])
    assert parts_of(profile) == {(COMPUTATION, "GEMM"): pytest.approx(0.2), (IDLE, "not recorded"): pytest.approx(0.3)}
    assert profile.answer().verdict.startswith("Cannot tell what limits it")


def test_a_run_without_steps_is_all_that_its_host_does(opened: Opened) -> None:
    events = [op("setup", 0, 500), launch(600, 5, 1), kernel(GEMM, 610, 100, 1), op("finish", 720, 280)]
    profile = opened(events)
    assert profile.clock is not None
    assert (profile.clock.whole, profile.clock.recorded_ms) == ("run", pytest.approx(1.0))


def test_a_capture_of_graphs_is_called_so(opened: Opened) -> None:
    events = [
        op("warm", 0, 10), launch(2, 5, 1), kernel(GEMM, 10, 10, 1), launch(100, 5, 2, name="cudaStreamBeginCapture"),
        *(op("aten::mm", at, 40) for at in range(110, 900, 50)), launch(900, 5, 3, name="cudaStreamEndCapture"),
    ]  # fmt: skip
    assert opened(events).verdict().startswith("A capture of CUDA or HIP graphs, which takes 89 %")


def test_work_outside_of_the_marked_steps_is_broken_down_too(opened: Opened) -> None:
    profile = opened([annotation("ProfilerStep#1", 1_000, 50), kernel(GEMM, 0, 100), kernel(GEMM, 400, 100)])
    assert parts_of(profile) == {(COMPUTATION, "GEMM"): pytest.approx(0.2), (IDLE, "not recorded"): pytest.approx(0.3)}
    assert profile.answer().verdict


def test_a_run_in_which_the_gpu_always_works_has_no_idle_parts(opened: Opened) -> None:
    profile = opened([launch(0, 5, 1), kernel(GEMM, 0, 900, 1)])
    assert parts_of(profile) == {(COMPUTATION, "GEMM"): pytest.approx(0.9)}


def test_gpu_events_of_no_length_have_no_parts(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 5, 0), kernel(GEMM, 5, 0)])
    assert parts_of(profile) == {}
    assert profile.answer().verdict
