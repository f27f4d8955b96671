"""Which clock a comparison of two traces is of, when its steps show a difference, and what they would not show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import annotation, kernel, launch, op, write_trace
from warplens.advice.compared_steps import change_of_steps, ratio_of
from warplens.model.answer import CANNOT_TELL
from warplens.model.clock import ESTIMATED, GIVEN, MEASURED, Clock

MS = 1_000.0


def run(
    path: Path, lengths: list[float], *, busy: float = 0.5, host_us: float = 5.0, step_ms: float = 0.0, **header: Any
) -> warplens.Profile:
    """Steps of these lengths (ms), of which the GPU works this share, each launched by one op of this length."""
    events, at = [], 0.0
    for number, length in enumerate(lengths):
        us = length * MS
        events += [annotation(f"ProfilerStep#{number}", at, us)]
        if busy:
            events += [op("aten::mm", at + 1, host_us), launch(at + 2, 1, number + 1)]
            events += [kernel("gemm", at + 10, busy * us - 10, number + 1)]
        else:
            events += [op("aten::mm", at + 1, us / 2)]
        at += us
    return warplens.open(write_trace(path, events, **header), cache=False, step_ms=step_ms)


def verdict(a: warplens.Profile, b: warplens.Profile) -> str:
    return warplens.diff(a, b).verdict()


def test_steps_that_are_all_longer_are_a_difference_however_few(tmp_path: Path) -> None:
    a = run(tmp_path / "a.json", [40.0, 76.0, 95.0], busy=0)
    b = run(tmp_path / "b.json", [97.0, 116.0, 160.0], busy=0)
    text = verdict(a, b)
    assert text.startswith("Neither trace has GPU work; B is 1.77× slower: 70.3 → 124 ms per recorded step.")
    assert "Every step of B is longer than every step of A." in text
    back = verdict(b, a)
    assert "B is 1.77× faster" in back
    assert "Every step of B is shorter than every step of A." in back


def test_steps_that_overlap_show_no_difference_and_what_they_would_not_show_is_said(tmp_path: Path) -> None:
    a = run(tmp_path / "a.json", [90.0, 110.0, 100.0, 95.0])
    b = run(tmp_path / "b.json", [95.0, 115.0, 103.0, 97.0])
    text = verdict(a, b)
    assert text.startswith("No difference in step time is shown: ")
    assert "a change of less than " in text
    assert "% would not be seen with 3 and 3 steps" in text


def test_the_same_trace_twice_is_no_difference(tmp_path: Path) -> None:
    a = run(tmp_path / "a.json", [90.0, 110.0, 100.0])
    assert verdict(a, a).startswith("No difference: ")


def test_the_verdict_names_its_clock_and_how_sure_it_is(tmp_path: Path) -> None:
    a = run(tmp_path / "a.json", [90.0, 90.1, 90.2])
    b = run(tmp_path / "b.json", [45.0, 45.1, 45.2])
    assert "per unprofiled step (estimated)" in verdict(a, b).partition(". ")[0]
    without = [run(tmp_path / f"{name}.json", lengths, busy=0) for name, lengths in
               (("c", [90.0, 90.1, 90.2]), ("d", [45.0, 45.1, 45.2]))]  # fmt: skip
    assert "per recorded step." in verdict(*without)


def test_steps_are_compared_and_not_how_much_of_them_the_gpu_works(tmp_path: Path) -> None:
    """A GPU that works 50 and 38 % of steps that hardly differ."""
    a = run(tmp_path / "a.json", [375.0, 376.0, 374.0, 375.0], busy=0.5)
    b = run(tmp_path / "b.json", [382.0, 383.0, 381.0, 382.0], busy=0.38)
    text = verdict(a, b)
    steps = "375.0 ms (360.0 to 375.0) → 382.0 ms (366.7 to 382.0) (estimated)"
    assert text.startswith(
        f"Cannot tell which unprofiled step is longer: {steps}. "
        "As recorded, B is 1.02× slower: 375.0 → 382.0 ms per recorded step."
    )


def test_steps_with_hardly_any_gpu_work_are_compared_by_their_length(tmp_path: Path) -> None:
    """The only kernel of a step takes 4 µs in A and 58 ms in B; the steps take the same."""
    a = run(tmp_path / "a.json", [60.0, 60.1, 59.9, 60.0], busy=14.0 / 60_000)
    b = run(tmp_path / "b.json", [60.0, 60.1, 59.9, 60.0], busy=58.0 / 60)
    text = verdict(a, b)
    step = "60.0 ms (57.6 to 60.0)"
    assert text.startswith(f"No difference in step time is shown: {step} → {step} per unprofiled step (estimated)")
    assert "But B's GPU work is more than 100× slower: 0 → 58.0 ms per step." in text


def test_one_step_that_takes_longer_is_no_difference_of_the_usual_one_but_is_named(tmp_path: Path) -> None:
    a = run(tmp_path / "a.json", [10.0, 10.0, 10.0, 10.0], busy=0.9)
    b = run(tmp_path / "b.json", [10.0, 10.0, 10.0, 20.0], busy=0.9)
    assert verdict(a, b).startswith(
        "No difference: 10.0 ms (9.6 to 10.0) → 10.0 ms (9.6 to 10.0) per unprofiled step (estimated). Step 3 of B takes"
    )


def test_estimates_that_leave_open_which_step_is_longer_are_no_verdict_and_the_recorded_steps_are_named(
    tmp_path: Path,
) -> None:
    a = run(tmp_path / "a.json", [100.0, 100.1, 100.2, 100.0], busy=0.9)
    b = run(tmp_path / "b.json", [104.0, 104.1, 104.2, 104.0], busy=0.9)
    comparison = warplens.diff(a, b)
    answer = comparison.answer()
    assert answer.certainty == CANNOT_TELL
    assert answer.verdict.startswith("Cannot tell which unprofiled step is longer: 100.1 ms (96.1 to 100.1) → ")
    assert "As recorded, B is 1.04× slower: 100.1 → 104.1 ms per recorded step." in answer.verdict
    given = warplens.diff(*(run(tmp_path / f"{name}.json", lengths, busy=0.9, step_ms=ms) for name, lengths, ms in
                            (("c", [100.0] * 4, 99.0), ("d", [104.0] * 4, 103.0))))  # fmt: skip
    assert given.answer().certainty == MEASURED
    assert given.verdict().startswith("B is 1.04× slower: 99.0 → 103.0 ms per unprofiled step (measured)")


def test_the_answer_of_a_comparison_has_the_clocks_of_both_answers(tmp_path: Path) -> None:
    a = run(tmp_path / "a.json", [90.0, 90.1, 90.2])
    b = run(tmp_path / "b.json", [45.0, 45.1, 45.2])
    comparison = warplens.diff(a, b)
    assert comparison.answer().compared == (a.clock, b.clock)
    assert comparison.answer().certainty == ESTIMATED
    for label, clock in zip("AB", comparison.answer().compared, strict=True):
        assert f"{label} {clock.text}" in comparison.facts()["step"]


def test_a_ratio_is_as_sure_as_both_of_its_steps() -> None:
    a, b = Clock(100, 90, 120, ESTIMATED, 150), Clock(110, 100, 130, ESTIMATED, 160)
    ratio = ratio_of(a, b)
    assert not ratio.is_decided
    assert b.low_ms / a.high_ms < ratio.low < min(b.low_ms / a.step_ms, b.step_ms / a.high_ms)
    assert max(b.high_ms / a.step_ms, b.step_ms / a.low_ms) < ratio.high < b.high_ms / a.low_ms
    given = Clock(50, 50, 50, GIVEN, 60)
    assert ratio_of(given, Clock(75, 70, 80, ESTIMATED, 90)).text == "1.50× slower (1.40 to 1.60)"
    assert ratio_of(Clock(75, 60, 80, ESTIMATED, 90), given).text == "1.20 to 1.60× faster"
    assert ratio_of(given, replace(given, step_ms=25, low_ms=25, high_ms=25)).text == "2.00× faster"


def test_lengths_of_a_jobs_steps_are_judged_by_the_same_rules() -> None:
    assert change_of_steps([60, 76, 94], [98, 116, 134], "").is_apart
    unlike = change_of_steps([90, 110, 100], [95, 115, 103], "")
    assert not unlike.is_shown
    assert unlike.unseen_percent == pytest.approx(22, abs=5)
    once = change_of_steps([90], [45], "")
    assert once.is_shown
    assert once.unseen.startswith("cannot tell how much steps differ anyway, with one step each")


def test_each_side_of_an_estimated_and_a_measured_step_has_its_own_word(tmp_path: Path) -> None:
    a = run(tmp_path / "a.json", [90.0, 90.1, 90.2])
    b = run(tmp_path / "b.json", [45.0, 45.1, 45.2], step_ms=44.0)
    text = verdict(a, b).partition(". ")[0]
    assert f"{a.clock.text} → {b.clock.text} per unprofiled step" in text
    assert (a.clock.certainty, b.clock.certainty) == (ESTIMATED, MEASURED)


def test_recorded_steps_are_those_of_both_reports(tmp_path: Path) -> None:
    """The tables have the mean of other steps: of those that a next one ends, without this short last one."""
    a = run(tmp_path / "a.json", [100.0, 100.2, 90.0], busy=0.9)
    b = run(tmp_path / "b.json", [103.0, 103.2, 93.0], busy=0.9)
    comparison = warplens.diff(a, b)
    recorded = " → ".join(f"{profile.clock.recorded_ms:.1f}" for profile in (a, b))
    assert f"As recorded, B is 1.03× slower: {recorded} ms per recorded step." in comparison.verdict()
    assert comparison.table("diff_timeline").frame["a_us"][0] / MS - a.clock.recorded_ms > 1
