"""Steps: where they are taken from, what belongs to each, and how they share the GPU's time."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from support import Opened, annotation, kernel, launch, memcpy, op


def marks(profile: warplens.Profile) -> list[tuple[int, str, int, int]]:
    """(number, name, start in µs, end in µs) of every step."""
    return [(number, name, start // 1000, end // 1000) for number, name, start, end in profile.trace.steps.iter_rows()]


def step_of(profile: warplens.Profile) -> dict[str, int]:
    return dict(profile.gpu_events().select("kernel", "step").iter_rows())


def detail_of(profile: warplens.Profile, code: str) -> str | None:
    return next((note.detail for note in profile.trace.quality.notes if note.code == code), None)


def work(ts: float, correlation: int, name: str, gpu_ts: float, gpu_dur: float) -> list[dict[str, Any]]:
    """An op that launches one kernel."""
    return [op("aten::mm", ts, 10), launch(ts + 2, 1, correlation), kernel(name, gpu_ts, gpu_dur, correlation)]


TWO_STEPS = [
    annotation("ProfilerStep#4", 0, 100),
    *work(10, 1, "a", 30, 40),
    *work(50, 2, "b", 90, 60),
    annotation("ProfilerStep#5", 100, 100),
    *work(110, 3, "c", 160, 20),
    *work(120, 4, "d", 200, 30),
    *work(250, 5, "after", 260, 40),
]


def test_profiler_marks_are_steps_with_their_own_numbers(opened: Opened) -> None:
    profile = opened(TWO_STEPS)
    assert marks(profile) == [(4, "ProfilerStep#4", 0, 100), (5, "ProfilerStep#5", 100, 200)]
    assert not profile.trace.quality.has("no_steps")
    assert not profile.trace.quality.has("steps_guessed")


def test_a_kernel_belongs_to_the_step_that_launched_it_not_to_the_one_it_runs_in(opened: Opened) -> None:
    """`b` runs from 90 to 150 and `d` from 200 to 230: launched before, running into or after the next mark."""
    assert step_of(opened(TWO_STEPS)) == {"a": 4, "b": 4, "c": 5, "d": 5, "after": -1}


def on_gpu(name: str, ts: float, dur: float, *, pid: int | str = 0, tid: int | str = 7) -> dict[str, Any]:
    return {**annotation(name, ts, dur, pid=0), "pid": pid, "tid": tid, "cat": "gpu_user_annotation"}


def test_an_annotation_of_a_gpu_belongs_to_the_step_of_the_first_work_in_it(opened: Opened) -> None:
    """`b` was launched in step 4 and runs into step 5; `d` in step 5, and runs after its end. On another stream a kernel
    of step 5 runs at the time of `b`."""
    annotations = [on_gpu("Optimizer.step", 90, 60), on_gpu("forward", 200, 30), on_gpu("later", 260, 40)]
    beside = [*work(101, 9, "beside", 105, 10), on_gpu("beside", 105, 10, tid=8), on_gpu("empty", 231, 5)]
    beside[2]["tid"] = beside[2]["args"]["stream"] = 8
    strange = [on_gpu("strange", 155, 30, pid="a lane", tid="of a tool")]
    events = opened([*TWO_STEPS, *annotations, *beside, *strange]).trace.named_events().filter(kind="gpu_annotation")
    assert dict(events.select("name", "step").rows()) == {
        "Optimizer.step": 4,
        "forward": 5,
        "later": -1,
        "beside": 5,
        "empty": -1,
        "strange": 5,
    }


def test_a_step_holds_its_start_but_not_its_end(opened: Opened) -> None:
    """Launched at 100, where step 5 begins, and at 200, where it ends."""
    edges = [*work(98, 8, "at its start", 300, 1), *work(198, 9, "at its end", 310, 1)]
    found = step_of(opened([*TWO_STEPS, *edges]))
    assert (found["at its start"], found["at its end"]) == (5, -1)


def test_a_kernel_without_a_launch_belongs_to_no_step(opened: Opened) -> None:
    """It may have been launched long before it runs: a guess by time would make steps overlap."""
    assert step_of(opened([*TWO_STEPS, kernel("lost", 120, 1, stream=9)]))["lost"] == -1


def test_the_windows_of_the_steps_tile_the_gpu_time(opened: Opened) -> None:
    """Step 4 lasts from `a` (30) to `c` (160), step 5 to the end of `d` (230), which is its last."""
    rows = opened(TWO_STEPS).table("steps").to_dicts()
    first, second = rows
    assert (first["start_ms"], first["host_ms"]) == (0.0, 0.1)
    assert first["gpu_ms"] == pytest.approx(0.130)
    assert first["busy_ms"] == pytest.approx(0.040 + 0.060)
    assert first["idle_ms"] == pytest.approx(0.030)
    assert first["busy_percent"] == pytest.approx(100 * 100 / 130)
    assert (first["count"], first["kernel_us"]) == (2, 100.0)
    assert second["gpu_ms"] == pytest.approx(0.070)
    assert second["busy_ms"] == pytest.approx(0.020 + 0.030)
    assert (second["count"], second["kernel_us"]) == (2, 50.0)
    assert first["gpu_ms"] + second["gpu_ms"] == pytest.approx(0.230 - 0.030)


def test_work_of_the_step_before_counts_for_the_window_it_reaches_into(opened: Opened) -> None:
    events = [annotation("ProfilerStep#0", 0, 50), annotation("ProfilerStep#1", 50, 50)]
    events += [*work(0, 1, "long", 10, 100), *work(60, 2, "next", 80, 60)]
    rows = opened(events).table("steps").to_dicts()
    assert [row["gpu_ms"] for row in rows] == pytest.approx([0.070, 0.060])
    assert [row["busy_ms"] for row in rows] == pytest.approx([0.070, 0.060])


def even_steps(*, overlap: float = 0) -> list[dict[str, Any]]:
    """Five steps of 100 µs; each ends with a copy on another stream that reaches into the next one."""
    events = []
    for number in range(5):
        at, gpu = 100 * number, 100 * number + 20
        events += [annotation(f"ProfilerStep#{number}", at, 100), *work(at + 5, 2 * number + 1, "mm", gpu, 90)]
        if overlap:
            events += [launch(at + 50, 1, 2 * number + 2)]
            events += [memcpy(gpu + 90, 10 + overlap, 2 * number + 2, stream=9)]
    return events


LATER_WORK = {
    "launched after the last mark": work(600, 90, "evaluation", 620, 5000),
    "on another stream": [launch(505, 1, 90), kernel("evaluation", 511, 5000, 90, stream=3)],
    "without a launch": [kernel("lost", 600, 5000)],
}


@pytest.mark.parametrize("later", LATER_WORK.values(), ids=LATER_WORK)
def test_work_after_the_last_mark_lengthens_no_step(opened: Opened, later: list[dict[str, Any]]) -> None:
    rows = opened([*even_steps(), *later]).table("steps").to_dicts()
    assert [row["gpu_ms"] for row in rows] == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.09])
    assert [row["busy_ms"] for row in rows] == pytest.approx([0.09] * 5)
    assert all(1000 * row["busy_ms"] <= row["kernel_us"] + 1e-6 for row in rows)


def test_what_is_launched_after_the_last_mark_is_not_busy_time_of_the_last_step(opened: Opened) -> None:
    """Step 4's second kernel waits until 560; the evaluation runs on another stream from 540 on."""
    events = [event for event in even_steps() if event.get("args", {}).get("correlation") != 9]
    events += [launch(405, 1, 9), kernel("mm", 420, 30, 9), launch(407, 1, 10), kernel("mm", 560, 50, 10)]
    rows = opened([*events, launch(505, 1, 90), kernel("evaluation", 540, 400, 90, stream=3)]).table("steps").to_dicts()
    last = rows[-1]
    assert (last["gpu_ms"], last["busy_ms"], last["idle_ms"]) == pytest.approx((0.19, 0.08, 0.11))
    assert 1000 * last["busy_ms"] <= last["kernel_us"] + 1e-6


def test_the_last_step_is_cut_where_the_next_one_would_have_begun(opened: Opened) -> None:
    """Copies reach 40 µs into the next step: the last step's copy, too, lies past the cut."""
    rows = opened(even_steps(overlap=40)).table("steps").to_dicts()
    assert [row["gpu_ms"] for row in rows] == pytest.approx([0.1] * 5)
    assert all(1000 * row["busy_ms"] <= row["kernel_us"] + 1e-6 for row in rows)


def test_a_last_step_shorter_than_the_usual_overlap_keeps_its_work(opened: Opened) -> None:
    """The copies reach 240 µs past the cut, and the last step holds only a kernel of 50 µs."""
    events = [event for event in even_steps(overlap=240) if event.get("args", {}).get("correlation") not in (9, 10)]
    rows = opened([*events, launch(410, 1, 99), kernel("mm", 420, 50, 99)]).table("steps").to_dicts()
    assert rows[-1]["gpu_ms"] == pytest.approx(0.05)


def test_a_step_without_gpu_work_has_no_window(opened: Opened) -> None:
    events = [annotation("ProfilerStep#0", 0, 50), annotation("ProfilerStep#1", 50, 50), *work(0, 1, "a", 10, 20)]
    rows = opened(events).table("steps").to_dicts()
    assert [(row["gpu_ms"], row["count"]) for row in rows] == [(0.02, 1), (0.0, 0)]


def seconds_of_work() -> list[dict[str, Any]]:
    """3,000 short kernels in 3 s, which leave the GPU idle for 99.4 % of the time."""
    return [event for number in range(3000) for event in work(1000 * number, number + 1, "mm", 1000 * number + 15, 6)]


SHORT_MARKS = {
    "between two launches": [annotation("ProfilerStep#1", 1_500_500, 0), annotation("ProfilerStep#2", 1_500_510, 4)],
    "with one launch": [annotation("ProfilerStep#1", 1_500_000, 0), annotation("ProfilerStep#2", 1_500_001, 4)],
    "after the work": [annotation("ProfilerStep#1", 3_000_000, 0), annotation("ProfilerStep#2", 3_000_001, 4)],
}


@pytest.mark.parametrize("short", SHORT_MARKS.values(), ids=SHORT_MARKS)
def test_marks_that_hold_next_to_nothing_of_the_run_are_no_steps(opened: Opened, short: list[dict[str, Any]]) -> None:
    """Of steps of 0 and 4 µs the GPU was busy 100 %."""
    profile = opened([*seconds_of_work(), *short])
    assert marks(profile) == []
    assert [(note.code, note.count) for note in profile.trace.quality.notes if "steps" in note.code] == [
        ("short_steps", 2)
    ]
    answer = profile.answer()
    assert answer.clock is not None
    assert (answer.clock.whole, answer.clock.step_ms > 2500) == ("run", True)
    assert answer.bound == "Host-bound"
    assert sum(part.percent for part in answer.parts if part.part == "computation") < 1
    assert not any("ProfilerStep" in part.cause for part in answer.parts)


def test_a_mark_around_the_only_launch_of_a_long_run_is_no_step(opened: Opened) -> None:
    """4 µs, and a kernel of 2 ms in 3 s of the host."""
    loop = [op("aten::add", 1000 * number, 990) for number in range(3000)]
    profile = opened(
        [*loop, annotation("ProfilerStep#1", 2_000_995, 4), launch(2_000_996, 2, 1), kernel("mm", 2_001_005, 2000, 1)]
    )
    assert marks(profile) == []
    assert profile.answer().bound == "Host-bound"


@pytest.mark.parametrize("first", [0, 2])
def test_a_short_mark_without_work_among_steps_is_no_step(opened: Opened, first: int) -> None:
    """Before the first of three steps, and before the last."""
    edges = [0, 1e6, 2e6, 3e6]
    steps = [annotation(f"ProfilerStep#{number}", edges[number], 1e6 - 10) for number in range(3)]
    profile = opened([*seconds_of_work(), *steps, annotation("ProfilerStep#9", edges[first] - 8, 4)])
    assert [number for number, *_ in marks(profile)] == [0, 1, 2]
    assert profile.trace.quality.has("short_steps")
    assert profile.clock is not None
    assert profile.clock.step_ms == pytest.approx(1000, rel=0.01)


def test_marks_of_work_that_the_gpu_runs_long_after_are_steps_however_short(opened: Opened) -> None:
    """Three marks of 20 µs, each with one launch of 900 ms: the host runs ahead."""
    events = [launch(3_000_000, 5, 0, name="cudaDeviceSynchronize")]
    for number in range(3):
        events += [
            annotation(f"ProfilerStep#{number}", 30 * number, 20),
            *work(30 * number + 2, number + 1, "mm", 50 + 9e5 * number, 9e5),
        ]
    profile = opened(events)
    assert len(marks(profile)) == 3
    assert not profile.trace.quality.has("short_steps")


def test_steps_of_a_program_without_a_gpu_are_steps(opened: Opened) -> None:
    events = [
        event
        for number in range(300)
        for event in (annotation(f"ProfilerStep#{number}", 100 * number, 100), op("aten::mm", 100 * number, 90))
    ]
    assert len(marks(opened(events))) == 300


def test_an_annotation_that_repeats_and_covers_its_thread_is_the_step(opened: Opened) -> None:
    events = [
        event
        for number in range(3)
        for event in (
            annotation(f"iteration {number}", 100 * number, 80),
            *work(100 * number + 5, number + 1, f"k{number}", 100 * number + 20, 10),
        )
    ]
    profile = opened(events)
    assert marks(profile) == [(0, "iteration 0", 0, 80), (1, "iteration 1", 100, 180), (2, "iteration 2", 200, 280)]
    assert step_of(profile) == {"k0": 0, "k1": 1, "k2": 2}
    assert detail_of(profile, "steps_guessed") == "the annotation 'iteration 0'"


def test_a_repeating_annotation_that_covers_less_than_half_is_no_step(opened: Opened) -> None:
    events = [
        event
        for number in range(3)
        for event in (annotation("loss", 100 * number, 40), op("aten::mm", 100 * number, 95))
    ]
    profile = opened(events)
    assert marks(profile) == []
    assert profile.trace.quality.has("no_steps")


def test_annotations_that_frameworks_add_are_no_steps(opened: Opened) -> None:
    events = [annotation(f"## Call CompiledFxGraph {number} ##", 100 * number, 95) for number in range(3)]
    assert marks(opened([*events, op("aten::mm", 0, 10)])) == []


def test_profiler_marks_win_over_a_repeating_annotation(opened: Opened) -> None:
    repeated = [annotation("batch", 50 * number, 48) for number in range(4)]
    assert [name for _, name, _, _ in marks(opened([*repeated, *TWO_STEPS]))] == ["ProfilerStep#4", "ProfilerStep#5"]


def test_without_marks_a_step_ends_where_the_optimizer_step_ends(opened: Opened) -> None:
    name = "Optimizer.step#AdamW.step"
    events = [annotation(name, 80, 20), annotation(name, 180, 20)]
    events += [
        *work(10, 1, "first", 30, 20),
        *work(85, 2, "update", 95, 20),
        *work(110, 3, "second", 130, 20),
        *work(220, 4, "after", 240, 5),
    ]
    profile = opened(events)
    assert marks(profile) == [(0, name, 0, 90), (1, name, 90, 190)]
    assert step_of(profile) == {"first": 0, "update": 0, "second": 1, "after": -1}
    assert detail_of(profile, "steps_guessed") == f"the ends of '{name}'"


def test_a_single_optimizer_step_says_nothing_about_steps(opened: Opened) -> None:
    profile = opened([op("aten::mm", 0, 10), annotation("Optimizer.step#SGD.step", 80, 20)])
    assert marks(profile) == []


def test_without_any_mark_there_are_no_steps_and_the_notes_say_so(opened: Opened) -> None:
    profile = opened(work(10, 1, "k", 30, 20))
    assert profile.trace.quality.has("no_steps")
    assert step_of(profile) == {"k": -1}
    table = profile.table("steps")
    assert len(table) == 0
    assert any("no steps marked" in note for note in table.notes)


def test_a_mark_recorded_on_two_threads_is_one_step(opened: Opened) -> None:
    profile = opened(
        [
            annotation("ProfilerStep#1", 0, 50),
            annotation("ProfilerStep#1", 5, 40, tid=2),
            annotation("ProfilerStep#2", 50, 50),
        ]
    )
    assert [number for number, *_ in marks(profile)] == [1, 2]


def test_a_number_that_comes_again_is_noted(opened: Opened) -> None:
    events = [annotation(f"ProfilerStep#{number}", 100.0 * place, 90) for place, number in enumerate([5, 6, 5, 6, 7])]
    profile = opened([*events, op("aten::mm", 10, 20), launch(12, 5, 1), kernel("k", 30, 10, 1)])
    assert [note.count for note in profile.trace.quality.notes if note.code == "repeated_steps"] == [2]
    assert profile.trace.steps["step"].to_list() == [5, 6, 7]


def test_generations_of_a_diffusion_model_are_steps_and_have_a_rate(opened: Opened) -> None:
    one = opened([annotation("execute_diffusion_2_256x512", 0, 4000), *work(10, 1, "a", 30, 40)])
    assert marks(one) == [(0, "execute_diffusion_2_256x512", 0, 4000)]
    assert detail_of(one, "generations") == "2 images of 256x512 in 4.000 ms as recorded, 500 images/s"
    assert not one.trace.quality.has("no_steps")
    assert "iterations" not in one.table_names or not one.table("iterations").frame.height
    without_batch = opened([annotation("execute_diffusion_1024x768_bf16", 0, 100), *work(10, 1, "a", 30, 40)])
    assert detail_of(without_batch, "generations") == "1024x768 in 100.0 µs as recorded"


def test_a_generation_inside_a_marked_step_is_noted_and_the_program_marks_the_steps(opened: Opened) -> None:
    profile = opened([*TWO_STEPS, annotation("execute_diffusion_1_256x256", 5, 90)])
    assert [number for number, *_ in marks(profile)] == [4, 5]
    assert profile.trace.quality.has("generations")


def test_the_host_s_time_before_the_first_launch_of_a_step_is_in_the_table(opened: Opened) -> None:
    table = opened(TWO_STEPS).table("steps")
    assert table.frame["before_launch_ms"].to_list() == [pytest.approx(0.012), pytest.approx(0.012)]
    assert [note for note in table.notes if "before its first launch" in note] == [
        "12.00 µs of step 4 pass on the host before its first launch: in no table of the GPU's time"
    ]
    without_gpu = opened([*TWO_STEPS, annotation("ProfilerStep#6", 400, 10)]).table("steps").frame
    assert without_gpu["before_launch_ms"][2] is None


def test_without_steps_the_timeline_names_what_the_host_does_before_the_first_launch(opened: Opened) -> None:
    events = [op("aten::copy", 0, 900), *work(1000, 1, "a", 1030, 2000)]
    assert opened(events).table("timeline").notes == (
        "the host works for 1.002 ms before the first launch, which is in no measure",
    )
    assert opened(work(0, 1, "a", 30, 2000)).table("timeline").notes == ()


def test_marks_of_old_files_are_steps_though_their_category_is_that_of_ops(opened: Opened) -> None:
    """Before PyTorch 1.12, what `record_function` marks is an "Operator" too."""
    spelling = {"user_annotation": "Operator", "cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    loader = annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 1, 4)
    optimizer = annotation("Optimizer.step#SGD.step", 60, 5)
    old = [{**event, "cat": spelling[event["cat"]]} for event in [*TWO_STEPS, loader, optimizer]]
    profile = opened(old)
    assert marks(profile) == [(4, "ProfilerStep#4", 0, 100), (5, "ProfilerStep#5", 100, 200)]
    assert step_of(profile) == {"a": 4, "b": 4, "c": 5, "d": 5, "after": -1}
    assert profile.table("ops").to_polars()["op"].to_list() == ["aten::mm"]
