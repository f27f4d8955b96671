"""`warplens try`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import TYPE_CHECKING, Any

from warplens.cli.options import add_json, positive
from warplens.cli.printing import write_bytes
from warplens.cli.verb import Verb
from warplens.errors import UsageError, WarplensError
from warplens.units import format_bytes, format_ms, listed, plural

if TYPE_CHECKING:
    from warplens.capture.launch import Program
    from warplens.proof.trying.trial import Trial, TrialPlan, TrialResult


class TryVerb(Verb):
    """Run a program and switch fixes on and off in turns of some steps: what they win in it.

      warplens try --fix WL202 script.py [args]
      warplens try --fix WL202,WL208 -- -m package.module [args]

    Nothing is profiled. A step ends with the optimizer's step, or where the program calls warplens.step(). The program
    ends when all turns are done; nothing of it is changed on disk. warplens.watch("loss", loss) compares a value with
    and without the fixes. Fixes that cannot be switched in a running program are refused with the reason.
    """

    name = "try"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "warplens try --fix CODE[,CODE] [options] script.py|-m MODULE [args]"
        parser.add_argument("--fix", required=True, metavar="CODES", help="findings whose fixes are tried together")
        parser.add_argument("--steps", type=positive, default=10, metavar="N", help="steps in a turn (default 10)")
        parser.add_argument("--rounds", type=positive, default=5, metavar="N",
                            help="rounds of a turn without the fixes and one with them (default 5)")  # fmt: skip
        parser.add_argument("--warm-up", type=positive, default=5, metavar="N",
                            help="steps before the first turn (default 5)")  # fmt: skip
        add_json(parser, "the result")
        parser.add_argument("-m", dest="module", nargs=argparse.REMAINDER, metavar="MODULE", help="run a module")
        parser.add_argument(
            "program", nargs=argparse.REMAINDER, metavar="script.py", help="the program and its arguments"
        )

    def run(self, args: argparse.Namespace) -> int:
        from warplens.capture.launch import supervise
        from warplens.capture.session import listen_to_steps
        from warplens.proof.trying.fixes import fixes_for
        from warplens.proof.trying.trial import Trial, TrialPlan, hooks_of, result_of
        from warplens.proof.trying.watched import begin_watching

        torch = _torch()
        fixes = fixes_for([code.strip().upper() for code in args.fix.split(",")], torch)
        plan = TrialPlan(args.steps, args.rounds, args.warm_up)
        trial = Trial(fixes, plan, hooks_of(torch))
        program = _program(args)
        begin_watching()
        with listen_to_steps(trial):
            outcome = supervise(program)
        if trial.refusal is not None:
            raise trial.refusal
        _say_what_is_missing(trial, plan, outcome.status)
        trial.stop()
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        result = result_of(trial.turns, fixes, device)
        if result is None:
            if outcome.exit_code:
                return outcome.exit_code
            raise WarplensError(f"the program made {plural(trial.steps_seen, 'step')}; {plan.all_steps} are needed",
                                hint="fewer --steps or --rounds; warplens.step() marks steps")  # fmt: skip
        if args.json:
            write_bytes((json.dumps([_row(result)], indent=1) + "\n").encode())
        else:
            print("\n".join(result_lines(result)))
        return outcome.exit_code


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise WarplensError("fixes are switched in PyTorch, which is not installed", hint="pip install torch") from None


def _program(args: argparse.Namespace) -> Program:
    from warplens.capture.launch import module, script

    words = args.program[1:] if args.program[:1] == ["--"] else args.program
    named = args.module if args.module is not None else words[1:] if words[:1] == ["-m"] else None
    if named is not None:
        if not named:
            raise UsageError("-m needs the name of a module")
        return module(named[0], named[1:])
    if not words:
        raise UsageError("no program to try the fixes in", hint="warplens try --fix WL202 script.py")
    return script(words[0], words[1:])


def _say_what_is_missing(trial: Trial, plan: TrialPlan, status: str) -> None:
    whole = len(trial.turns) // 2
    if whole < plan.rounds:
        while_on = " while the fixes were on" if status == "crashed" and trial.is_on else ""
        ended = f"the program {status}{while_on} after" if status != "complete" else "the program ended after"
        print(f"note: {ended} {plural(whole, 'round')} of {plan.rounds}", file=sys.stderr)


def _row(result: TrialResult) -> dict[str, object]:
    from dataclasses import asdict

    return asdict(result)


def _won(gain_ms: float) -> str:
    return f"{format_ms(gain_ms)} won" if gain_ms >= 0 else f"{format_ms(-gain_ms)} lost"


def result_lines(result: TrialResult) -> list[str]:
    """Plain text: GPU hosts may have nothing but Python."""
    spread = f"gains of {format_ms(result.low_ms)} to {format_ms(result.high_ms)} in {plural(result.rounds, 'round')}"
    lines = [
        f"{listed(result.fixes)} on {result.device}: {format_ms(result.off_ms)} → {format_ms(result.on_ms)} a step; "
        f"{_won(result.gain_ms)} ({spread} of {result.steps} steps)"
    ]
    if result.off_joules is not None and result.on_joules is not None:
        lines.append(f"energy: {result.off_joules:.3g} → {result.on_joules:.3g} J a step")
    if result.off_peak_bytes:
        lines.append(f"peak memory: {format_bytes(result.off_peak_bytes)} → {format_bytes(result.on_peak_bytes)}")
    lines += [f"{name}: {off:.6g} without, {on:.6g} with" for name, (off, on) in result.watched.items()]
    return lines
