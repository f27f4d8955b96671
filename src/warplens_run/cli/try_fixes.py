"""`warplens try`."""

from __future__ import annotations

import argparse
import importlib.util
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from warplens_run.base.errors import WarplensError
from warplens_run.base.files import check_replaced_folder
from warplens_run.base.units import format_bytes, format_ms, listed, plural
from warplens_run.capture.launch import program_of
from warplens_run.cli.options import SEVERAL, add_force, add_json, positive
from warplens_run.cli.printing import note, print_err, print_out, write_bytes
from warplens_run.cli.programs import add_program, program_words
from warplens_run.cli.verb import Verb
from warplens_run.formats.bundle import check_free
from warplens_run.trying.syntax import parse_variants
from warplens_run.trying.trial import PLAIN, TrialPlan
from warplens_run.trying.turns import TrialRecord, TurnTaker, first_refusal

if TYPE_CHECKING:
    from warplens_run.trying.results import TrialResult


class TryVerb(Verb):
    """Run a program and switch fixes on and off in turns of some steps: what they win in it.

      warplens try --fix WL202 script.py [args]
      warplens try --fix WL202,WL208=foreach --fix WL205=Block -- -m package.module [args]
      warplens try --fix env:PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True script.py [args]

    Fixes in one option are tried together; each further option is a variant of its own, against the program as it is.
    CODE=VARIANT chooses among several fixes of a finding. env:NAME=VALUE and attention=NAME (of transformers' models)
    run in a second process that takes turns with the first. Nothing is profiled. A step ends with the optimizer's step,
    or where the program calls warplens.step(). The program ends when all turns are done; nothing of it is changed on
    disk. warplens.watch("loss", loss) compares a value with and without the fixes. Fixes that cannot be tried are
    refused with the reason.
    """

    name = "try"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "warplens try --fix CODE[=VARIANT][,…] [options] script.py|-m MODULE [args]"
        parser.add_argument("--fix", action="append", required=True, metavar="FIXES",
                            help=f"findings whose fixes are tried together; {SEVERAL}")  # fmt: skip
        parser.add_argument("--steps", type=positive, default=10, metavar="N", help="steps in a turn (default 10)")
        parser.add_argument("--rounds", type=positive, default=5, metavar="N",
                            help="rounds of a turn without fixes and one with each variant (default 5)")  # fmt: skip
        parser.add_argument("--warm-up", type=positive, default=5, metavar="N",
                            help="steps before the first turn (default 5)")  # fmt: skip
        parser.add_argument("--profile", default="", metavar="DIR",
                            help="also record some steps of each side, as bundles for `warplens diff`")  # fmt: skip
        add_force(parser)
        add_json(parser, "the results")
        add_program(parser)

    def run(self, args: argparse.Namespace) -> int:
        variants = parse_variants(args.fix)
        words = program_words(args, "try the fixes in", "warplens try --fix WL202 script.py")
        program_of(words)  # what cannot be run at all is refused here
        if importlib.util.find_spec("torch") is None:
            raise WarplensError("fixes are switched in PyTorch, which is not installed", hint="pip install torch")
        plan = TrialPlan(args.steps, args.rounds, args.warm_up)
        taker = TurnTaker(words, variants, plan, quiet=args.json, progress=_print_progress)
        folder = Path(args.profile) if args.profile else None
        _check_bundles(taker, folder, args)
        record = taker.run(folder)
        if len(record.refusals) == len(variants):
            raise first_refusal(record)
        _print_problems(taker, record)
        return _finish(taker, record, plan, is_json=args.json)


def _print_progress(text: str) -> None:
    """Whole lines: the program prints to the same terminal."""
    if sys.stderr.isatty():
        print_err(text)


def _check_bundles(taker: TurnTaker, folder: Path | None, args: argparse.Namespace) -> None:
    for path in taker.bundle_paths(folder).values() if folder is not None else ():
        check_replaced_folder(path, [*args.program, *(args.module or [])])
        check_free(path, force=args.force)


def _finish(taker: TurnTaker, record: TrialRecord, plan: TrialPlan, *, is_json: bool) -> int:
    results = taker.results()
    exit_code = record.ending.exit_code if record.ending is not None else 0
    _print_missing(record, results, plan)
    if not any(result.rounds for result in results) and not exit_code and not record.failures:
        steps = record.ending.steps if record.ending is not None else 0
        needed = plan.all_steps(1 + len(results))
        raise WarplensError(f"the program made {plural(steps, 'step')}; {needed} are needed",
                            hint="fewer --steps or --rounds; warplens.step() marks steps")  # fmt: skip
    if is_json:
        from dataclasses import asdict

        write_bytes((json.dumps([asdict(result) for result in results], indent=1) + "\n").encode())
    else:
        print_out("\n".join(line for result in results if result.rounds for line in result_lines(result)))
    _print_bundles(record)
    return exit_code or int(bool(record.failures or record.refusals))


def _print_problems(taker: TurnTaker, record: TrialRecord) -> None:
    for side, refused in record.refusals.items():
        hint = f" ({refused.hint})" if refused.hint else ""
        print_err(f"error: {taker.text(side)} cannot be tried: {refused.reason}{hint}")
    for side, failure in record.failures.items():
        print_err(f"error: the program failed with {taker.text(side)}: {failure}")
    for text in record.notes:
        note(text)


def _print_missing(record: TrialRecord, results: list[TrialResult], plan: TrialPlan) -> None:
    if record.ending is not None:
        whole = min((result.rounds for result in results if not result.failure), default=0)
        status = "ended" if record.ending.status == "complete" else record.ending.status
        note(f"the program {status} after {plural(whole, 'round')} of {plan.rounds}")


def _print_bundles(record: TrialRecord) -> None:
    plain = record.bundles.get(PLAIN)
    for side, path in record.bundles.items():
        if plain is not None and side != PLAIN:
            print_err(f"next: warplens diff {shlex.quote(plain)} {shlex.quote(path)}")


def _won(gain_ms: float) -> str:
    return f"{format_ms(gain_ms)} won" if gain_ms >= 0 else f"{format_ms(-gain_ms)} lost"


def result_lines(result: TrialResult) -> list[str]:
    """Plain text: GPU hosts may have nothing but Python."""
    times = (result.off_ms, result.on_ms, result.gain_ms, result.low_ms, result.high_ms)
    off, on, gain, low, high = (0.0 if value is None else value for value in times)
    spread = f"gains of {format_ms(low)} to {format_ms(high)} in {plural(result.rounds, 'round')}"
    lines = [
        f"{listed(result.fixes)} on {result.device}: {format_ms(off)} → {format_ms(on)} a step; "
        f"{_won(gain)} ({spread} of {plural(result.steps, 'step')})"
    ]
    if result.off_joules is not None and result.on_joules is not None:
        lines.append(f"energy: {result.off_joules:.3g} → {result.on_joules:.3g} J a step")
    if result.off_peak_bytes:
        lines.append(f"peak memory: {format_bytes(result.off_peak_bytes)} → {format_bytes(result.on_peak_bytes)}")
    lines += [
        f"{name}: {_value(before)} without, {_value(after)} with" for name, (before, after) in result.watched.items()
    ]
    return lines


def _value(value: float | None) -> str:
    return "no number" if value is None else f"{value:.6g}"
