"""Turns with and without fixes, in one process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pipe
from pathlib import Path

import pytest

import warplens
from support import HANG_SECONDS
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.processes.child import environment
from warplens_run.trying import wire
from warplens_run.trying.known import FixName
from warplens_run.trying.processes import CHILD
from warplens_run.trying.results import result_of
from warplens_run.trying.syntax import FixVariant, parse_variant, parse_variants
from warplens_run.trying.trial import (
    MOST_TIMINGS,
    PLAIN,
    SETTLING_STEPS,
    Order,
    Recorded,
    Refused,
    Report,
    Trial,
    TrialHooks,
    TrialOver,
    TrialPlan,
    Turn,
)
from warplens_run.trying.watched import begin_watching, take_watched


class FakeFix:
    """A step takes 3 ms with it, 5 ms without."""

    def __init__(self, name: str = "a fix", needs_op: str = "") -> None:
        self.name, self.needs_op = name, needs_op
        self.is_on = False
        self.switches: list[bool] = []

    def switch(self, on: bool) -> None:
        self.is_on = on
        self.switches.append(on)


class Impossible(FakeFix):
    def switch(self, on: bool) -> None:
        super().switch(on)
        if on:
            raise WarplensError("there is nothing to switch", hint="nothing")


def orders(sides: Sequence[int], rounds: int) -> list[Order]:
    return [Order(side) for number in range(rounds) for side in (sides if number % 2 == 0 else reversed(sides))]


class Run:
    """A program of steps that take 5 ms, or 3 with a fix; the machine may grow slower all the while."""

    def __init__(
        self, plan: TrialPlan, sides: dict[int, list[FakeFix]], todo: list[Order], drift: float = 0.0, **hooks: object
    ) -> None:
        self.now = 0.0
        self.reports: list[Report] = []
        self.sides_seen: list[int] = []
        clock = TrialHooks(clock=lambda: self.now, **hooks)  # type: ignore[arg-type]
        self.trial = Trial(sides, plan, todo, self.reports.append, clock)
        for number in range(10_000):
            self.sides_seen.append(self.trial.side)
            is_on = any(fix.is_on for fixes in sides.values() for fix in fixes)
            self.now += (0.003 if is_on else 0.005) + drift * number
            warplens.watch("loss", float(number))
            try:
                self.trial.step()
            except TrialOver:
                return
        raise AssertionError("it never ends")

    @property
    def turns(self) -> list[Turn]:
        return [report for report in self.reports if isinstance(report, Turn)]


def test_turns_alternate_and_drift_favours_neither_side() -> None:
    plan, fix = TrialPlan(steps=4, rounds=4, warm_up=3), FakeFix()
    run = Run(plan, {1: [fix]}, orders([PLAIN, 1], 4), drift=1e-6)
    assert [turn.side for turn in run.turns] == [0, 1, 1, 0, 0, 1, 1, 0]
    assert fix.switches == [True, False, True, False]
    assert run.trial.steps_seen == plan.all_steps(2) + 1
    result = result_of(run.turns, 1, "WL202", ["a fix"])
    assert result.gain_ms == pytest.approx(2.0, abs=0.02)
    assert result.low_ms is not None
    assert result.high_ms is not None
    assert result.low_ms < result.gain_ms < result.high_ms
    assert (result.rounds, result.fix, result.fixes) == (4, "WL202", ("a fix",))


def test_only_timed_steps_count() -> None:
    begin_watching()
    plan = TrialPlan(steps=2, rounds=1, warm_up=3)
    run = Run(plan, {1: [FakeFix()]}, orders([PLAIN, 1], 1))
    first = plan.warm_up + SETTLING_STEPS
    assert run.turns[0].watched == {"loss": first + 0.5}
    assert [round(turn.step_ms, 6) for turn in run.turns] == [5.0, 3.0]
    assert take_watched() != {}  # the step after the last turn


def test_each_variant_is_alone_in_its_turns_and_none_is_left_on() -> None:
    one, two = FakeFix("one"), FakeFix("two")
    seen: list[tuple[bool, bool]] = []
    plan = TrialPlan(steps=1, rounds=1, warm_up=1)
    run = Run(plan, {1: [one], 2: [two]}, orders([PLAIN, 1, 2], 2),
              device=lambda: seen.append((one.is_on, two.is_on)) or "cpu")  # fmt: skip
    assert seen == [(False, False), (True, False), (False, True), (False, True), (True, False), (False, False)]
    assert run.trial.side == PLAIN
    assert not one.is_on
    assert not two.is_on


def test_a_program_that_ends_too_soon_has_no_figures_or_fewer_rounds() -> None:
    reports: list[Report] = []
    trial = Trial({1: [FakeFix()]}, TrialPlan(steps=2, rounds=3, warm_up=1), orders([PLAIN, 1], 3), reports.append)
    for _ in range(4):
        trial.step()
    assert result_of([], 1, "x", []).off_ms is None
    for _ in range(10):
        trial.step()
    turns = [report for report in reports if isinstance(report, Turn)]
    assert result_of(turns, 1, "x", []).rounds == 1


def test_a_refused_side_is_reported_and_its_other_fixes_are_off_again() -> None:
    first = FakeFix()
    run = Run(TrialPlan(1, 1, 1), {1: [first, Impossible()], 2: [FakeFix()]}, orders([PLAIN, 1, 2], 1))
    assert [report for report in run.reports if isinstance(report, Refused)] == [
        Refused(1, "there is nothing to switch", "nothing")
    ]
    assert [turn.side for turn in run.turns] == [0, 2]
    assert first.switches == [True, False]


def test_a_fix_for_an_op_that_no_step_calls_is_refused() -> None:
    fix = FakeFix("flash attention", needs_op="aten::attention")
    run = Run(TrialPlan(1, 1, 2), {1: [fix]}, orders([PLAIN, 1], 1),
              observe_ops=lambda: lambda: frozenset({"aten::mm"}))  # fmt: skip
    (refused,) = [report for report in run.reports if isinstance(report, Refused)]
    assert refused.reason == "flash attention: no step of the program calls attention (outside compiled code)"
    assert fix.switches == []


def test_steps_settle_until_nothing_is_compiled_any_more() -> None:
    counts = iter([*range(20), *[20] * 100])
    run = Run(TrialPlan(steps=2, rounds=1, warm_up=1), {1: [FakeFix()]}, [Order(1)],
              compilations=lambda: next(counts))  # fmt: skip
    plain = Run(TrialPlan(steps=2, rounds=1, warm_up=1), {1: [FakeFix()]}, [Order(1)])
    assert run.trial.steps_seen > plain.trial.steps_seen + 5
    assert len(run.turns) == 1


def test_a_turn_in_which_something_is_compiled_is_timed_again_but_not_for_ever() -> None:
    numbers = iter(range(10_000))
    run = Run(TrialPlan(steps=2, rounds=1, warm_up=1), {1: [FakeFix()]}, [Order(1)],
              compilations=lambda: next(numbers))  # fmt: skip
    assert len(run.turns) == 1
    assert run.trial.steps_seen >= MOST_TIMINGS * 2


def test_a_side_is_recorded_with_its_fixes_on() -> None:
    fix, during = FakeFix(), []

    def record(path: str) -> object:
        during.append(fix.is_on)
        return lambda: path

    run = Run(TrialPlan(1, 1, 1), {1: [fix]}, [Order(PLAIN, "a", 2), Order(1, "b", 2)], record=record)
    assert run.reports == [Recorded(0, "a"), Recorded(1, "b")]
    assert during == [False, True]


def test_a_program_that_goes_on_after_its_end_is_ended_again() -> None:
    run = Run(TrialPlan(1, 1, 1), {}, [Order(PLAIN)])
    with pytest.raises(TrialOver):
        run.trial.step()


def test_fixes_of_one_option_are_tried_together_and_options_apart() -> None:
    together, alone = parse_variants(["wl202, WL208=foreach", "WL205=Block"])
    assert together.fixes == (FixName("WL202"), FixName("WL208", "foreach"))
    assert alone == FixVariant("WL205=Block", (FixName("WL205", "Block"),))
    assert not alone.is_fresh


def test_commas_of_a_variable_belong_to_its_value_unless_a_fix_follows() -> None:
    variant = parse_variant("env:CONF=a:True,b:2,WL202,env:OTHER=")
    assert variant.variables == {"CONF": "a:True,b:2", "OTHER": ""}
    assert variant.fixes == (FixName("WL202"),)
    assert variant.is_fresh


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no fix is named"),
        (" , ", "no fix is named"),
        ("WL202,WL201", "WL201 cannot be tried: sizes are part of the program"),
        ("WL202=fp16", r"WL202=fp16 cannot be tried: fp16 needs gradients that are scaled"),
        ("WL999", "WL999 cannot be tried: it cannot be switched"),
        ("WL208=fast", "WL208 has no variant 'fast'"),
        ("env:NAME", "'env:NAME' sets no variable"),
        ("env:=1", "'env:=1' sets no variable"),
        ("env:SET_ALREADY=1", "SET_ALREADY has this value already"),
        ("attention=", "attention= names nothing"),
    ],
)
def test_what_cannot_be_tried_is_refused_before_anything_runs(
    text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SET_ALREADY", "1")
    with pytest.raises(UsageError, match=reason):
        parse_variant(text)


@pytest.mark.parametrize(
    "message",
    [
        wire.Job(("a.py", "-x"), TrialPlan(1, 2, 3), (wire.SideFixes(1, (FixName("WL205", "Block"),), "sdpa"),)),
        wire.Ready({"1": ["a"]}),
        wire.Go(stop=True),
        wire.Ended("crashed", 1, 2, 30, "ValueError: boom"),
        Order(1, "x.warplens", 3),
        Turn(1, 10, 0.5, 7, 1.5, {"loss": 2.0}, "H200"),
        Refused(1, "no", "why"),
        Recorded(0, "a"),
    ],
)
def test_messages_arrive_as_they_were_sent(message: wire.Message) -> None:
    assert wire.decode(wire.encode(message)) == message


def test_results_are_rows_of_json(tmp_path: Path) -> None:
    from dataclasses import asdict

    turns = [Turn(0, 1, 0.2, watched={"loss": 1.0}), Turn(1, 1, 0.1, watched={"loss": 2.0})]
    row = json.loads(json.dumps(asdict(result_of(turns, 1, "WL202", ["TF32"], failure="boom"))))
    assert row["gain_ms"] == pytest.approx(100.0)
    assert row["watched"] == {"loss": [1.0, 2.0]}
    assert row["failure"] == "boom"


def test_an_interrupt_before_the_program_runs_ends_its_process_without_a_word(tmp_path: Path) -> None:
    """It was the traceback of whatever was being imported."""
    (tmp_path / "torch.py").touch()
    ours, theirs = Pipe()
    with ours, theirs:
        command = [sys.executable, "-m", CHILD, str(theirs.fileno())]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, pass_fds=[theirs.fileno()],
                              env=environment(PYTHONPATH=str(tmp_path))) as process:  # fmt: skip
            ours.send_bytes(wire.encode(wire.Job(("train.py",), TrialPlan(), ())))
            assert wire.decode(ours.recv_bytes()) == wire.Ready()
            process.send_signal(signal.SIGINT)  # it waits for the word to begin
            _, errors = process.communicate(timeout=HANG_SECONDS)
    assert (process.returncode, errors) == (-signal.SIGINT, "")
