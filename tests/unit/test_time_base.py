"""Shares of the time have one base: the mean step on the GPU, or the whole trace where no steps are marked."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from finding_traces import ALL_REDUCE, GEMM, by_code, step_marks
from support import Opened, kernel, launch, op
from warplens.cli.traces.advise import advice_text
from warplens.model.time_base import time_base
from warplens.outputs.summary import render_summary

STEPS, LENGTH, COMPUTING, EXCHANGING, WAITING = 4, 1000, 500, 250, 250
"""Each step computes, exchanges data, and waits for the next one's launch; times in µs."""
OUTSIDE = 10_000


def stepping(*, marked: bool = True) -> list[dict[str, Any]]:
    """A kernel, a long wait outside the steps, and then steps of one length."""
    edges = [OUTSIDE + LENGTH * number for number in range(STEPS + 1)]
    events = [op("mine::work", 0, 5), launch(1, 2, 1), kernel(GEMM, 5, 100, 1)]
    for number, start in enumerate(edges[:-1]):
        for place, (name, length) in enumerate(((GEMM, COMPUTING), (ALL_REDUCE, EXCHANGING))):
            correlation = 2 + 2 * number + place
            events += [op("mine::work", start + 10 * place, 5), launch(start + 10 * place + 1, 2, correlation)]
            events.append(kernel(name, start + 10 + COMPUTING * place, length, correlation))
    return [*events, *(step_marks(*edges) if marked else [])]


def summary(profile: warplens.Profile, width: int = 200) -> list[str]:
    return [text for text, _ in render_summary(profile.document(), width=width).lines]


def test_verdict_findings_and_summary_share_the_step_as_their_base(opened: Opened) -> None:
    profile = opened(stepping())
    found = by_code(profile)
    assert profile.verdict().startswith("Host-bound: GEMM takes ")
    assert "Removing all host time would save up to " in profile.verdict()
    exposed = found["WL105"]
    assert exposed.title == "communication is exposed: nothing computes meanwhile"
    assert (exposed.gain_ms, exposed.gain_percent) == (pytest.approx(0.25), pytest.approx(25))
    assert exposed.evidence == "0.25 ms per step as recorded"
    (line,) = [text for text in summary(profile) if text.startswith("exposed communication")]
    assert line.split()[-3:] == ["25.1%", "250.0", "µs"], "of the step without the profiler, which is a little shorter"


def test_a_wait_for_the_next_step_is_no_larger_in_a_finding_than_in_the_verdict(opened: Opened) -> None:
    waiting = by_code(opened(stepping()))["WL101"]
    assert waiting.gain_percent == pytest.approx(25)


def test_without_steps_the_whole_trace_is_the_base(opened: Opened) -> None:
    profile = opened(stepping(marked=False))
    measures = {row["measure"]: row for row in profile.table("timeline").to_dicts() if row["device"] == "all"}
    assert " of a run of 13.2 to 13.8 ms (estimated)." in profile.verdict()
    assert time_base(profile.table("steps"), profile.table("timeline")).whole_ms == measures["total"]["time_ms"]


def test_the_shares_of_the_base_add_up_to_all_of_it(opened: Opened) -> None:
    profile = opened(stepping())
    base = time_base(profile.table("steps"), profile.table("timeline"))
    parts = ("computation", "exposed_communication", "exposed_memcpy", "idle")
    assert sum(base.percent(base.measures_ms[part]) for part in parts) == pytest.approx(100)
    assert base.steps == STEPS - 1  # the last one lacks its wait


def test_the_base_is_said_once_in_each_output(opened: Opened) -> None:
    """It is the clock of the Answer: no other step's time is named."""
    profile = opened(stepping())
    clock = profile.clock
    assert clock is not None
    advice = " ".join(text for text, _ in advice_text(profile, 200).lines)
    assert advice.count(f"Gains are of one step: {clock.text}.") == 1
    assert "Shares are of" not in advice
    assert sum("where one step goes" in text for text in summary(profile)) == 1


def test_without_gpu_work_no_base_is_named(opened: Opened) -> None:
    profile = opened([op("aten::mm", 0, 5)])
    assert "Gains are of" not in " ".join(text for text, _ in advice_text(profile, 200).lines)
