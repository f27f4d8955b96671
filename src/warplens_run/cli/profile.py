"""`warplens profile`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.files import check_replaced_folder
from warplens_run.capture.backends import guess
from warplens_run.capture.launch import Program, ProgramOutcome, leave, program_of, rank, supervise, undisturbed
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.recording_session import Ending, Session
from warplens_run.capture.session import abandon, begin, end
from warplens_run.cli.options import add_output
from warplens_run.cli.printing import note, print_err
from warplens_run.cli.programs import add_program, program_words
from warplens_run.cli.verb import Verb, VerbParser, add_verbs
from warplens_run.cli.verbs import PROGRAMS
from warplens_run.formats.bundle import of_rank

SUFFIX = ".warplens"
STEPS = 3
"""Two could differ by chance, and which is usual only a third shows; each makes the bundle larger."""
FIRST_STEPS = 2
"""Before them, recorded as well and dropped: much of a program runs for the first time in these."""
WAIT, WORKLOAD_WAIT = 6, 2
"""Steps before those of a tree, enough to time some of a program, and before those of a workload, which is short."""
SYNC_EVENTS = "WARPLENS_SYNC_EVENTS"
"""Set to 0 it omits the records of what waits wait for, to measure what they cost."""
ENDINGS = {
    # status: how it is reported
    "failed": "the program failed",
    "crashed": "the program crashed",
    "interrupted": "the program was interrupted",
    "terminated": "the program was terminated",
}


class ProfileVerb(Verb):
    """Run a program and record it as a capture bundle, which every other verb opens.

      warplens profile [options] script.py [args]
      warplens profile [options] -m package.module [args]
      warplens profile [options] workload gpt2 --tiny

    The bundle contains the profile, the sources of its generated kernels, and the versions and settings of the run; for
    PyTorch also the ExecutionTrace that a replay needs. Options of warplens go before the program, the program's own
    options after it. The exit status is the program's (1 where that is 0 and the bundle could not be written), and what
    was recorded before a crash is kept.

    Three steps are recorded, from the program's third on; of a program that ends earlier, what there was. A step ends
    where the program calls warplens.step(), else with the optimizer's step; without either it begins where the
    outermost module is called again. Of a program without any of these 2 s are recorded, from its first op on. Steps
    after the recorded ones are timed without the profiler, so that reports know what recording costs; --wait N times
    steps before them as well, which is more exact. --steps all records everything.
    Child processes are not recorded; of the threads, the main one and autograd's are, or all with --threads.
    """

    name = "profile"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.usage = "warplens profile [options] script.py|-m MODULE|workload NAME [args]"
        add_output(parser, "the bundle: a directory, or x.zip")
        parser.add_argument(
            "--steps", metavar="N|all", help=f"record N steps (default {STEPS}; the whole run of a tree or of Proton)"
        )
        parser.add_argument("--wait", type=int, metavar="N", help="time N steps first, without recording them")
        parser.add_argument(
            "--warmup",
            type=int,
            default=0,
            metavar="N",
            help="run N steps after those with the profiler ready (default 0)",
        )
        parser.add_argument("--light-steps", type=int, default=3, metavar="N",
                            help="N more steps after those with GPU activity only, which show when launches come "
                                 "without the cost of recording ops (default 3; 0: none)")  # fmt: skip
        parser.add_argument("--graph-captures", type=int, default=4096, metavar="N",
                            help="maximum number of CUDA or HIP graph captures to record, whenever they happen "
                                 "(default 4096; 0: none)")  # fmt: skip
        parser.add_argument("--ranks", default="all", metavar="all|0,1", help="which ranks of a torchrun job record")
        parser.add_argument(
            "--threads", action="store_true", help="record ops of every thread; recording cannot pause then"
        )
        parser.add_argument("--no-shapes", action="store_true", help="do not record the shapes of op arguments")
        parser.add_argument("--stacks", action="store_true", help="record Python frames and nn.Modules (slower)")
        parser.add_argument(
            "--memory", action="store_true", help="record memory allocations, and the CUDA allocator's snapshot"
        )
        parser.add_argument("--counters", action=argparse.BooleanOptionalAction, default=False,
                            help="sample the GPU's power, clocks, utilisation, temperature and memory with NVML while "
                                 "steps are recorded or timed")  # fmt: skip
        parser.add_argument("--execution-trace", choices=("step", "all", "none"), default="step",
                            help="record PyTorch's ExecutionTrace: of one extra step (default), or of all steps, which "
                                 "makes them several times slower")  # fmt: skip
        parser.add_argument(
            "--backend", choices=("auto", "torch", "proton", "jax"), default="auto", help="profiler to use"
        )
        parser.add_argument("--mode", default="", metavar="MODE",
                            help="record inside kernels with Proton: pcsampling (what warps wait for, by source line) "
                                 "or instrumentation (regions that kernels mark with triton.profiler.language); "
                                 "Proton's own options follow a colon")  # fmt: skip
        parser.add_argument(
            "--data",
            choices=("trace", "tree"),
            help="record every event (default), or only sums by call path, whose size does not grow (default with "
            "--mode)",
        )
        add_program(parser)

    def run(self, args: argparse.Namespace) -> int:
        program = _program(args)
        number, world = rank()
        if not _is_chosen(args.ranks, number):
            note(f"rank {number} is not recorded (--ranks {args.ranks})")
            return supervise(program).exit_code
        plan = RecordingPlan(
            context="python" if args.stacks else "shadow",
            data=args.data or ("tree" if args.mode else "trace"),
            backend=args.backend,
            mode=args.mode,
            shapes=not args.no_shapes,
            stacks=args.stacks,
            memory=args.memory,
            threads=args.threads,
            execution_trace=args.execution_trace,
            light_steps=args.light_steps,
            graph_captures=args.graph_captures,
            counters=args.counters,
            sync_events=os.environ.get(SYNC_EVENTS) != "0",
        )
        plan = _with_steps(plan, args, program)
        target = of_rank(Path(args.output or program.name + SUFFIX), number, world)
        check_replaced_folder(target, [*args.program, *(args.module or [])])
        command = ["warplens", *sys.argv[1:]]
        session = begin(target, plan, force=args.force, source=program.source, command=command)
        process = os.getpid()
        try:
            outcome = supervise(program)
        except WarplensError:
            abandon(session)
            raise
        if os.getpid() != process:  # a child that the program forked, and that came to its end as well
            leave(outcome.exit_code)
        return _finish(session, outcome, target)


def _finish(session: Session, outcome: ProgramOutcome, target: Path) -> int:
    if outcome.status == "interrupted":
        print_err(f"writing {target} (Ctrl-C again discards it)")
    facts = Ending(outcome.status, outcome.exit_code, outcome.error)
    try:
        with undisturbed():
            path = end(session, facts)
    except WarplensError as error:
        _print_notes(session, [])
        if outcome.exit_code == 0:
            raise
        print_err(f"error: {error}" + (f" ({error.hint})" if error.hint else ""))
        return outcome.exit_code
    written = target if path == session.staging.target else path
    ending = f" ({ENDINGS[outcome.status]}, status {outcome.exit_code})" if outcome.status in ENDINGS else ""
    is_empty = not session.staging.has_profile
    _print_notes(session, [
        f"wrote {written}{ending}" + (", which contains no profile" if is_empty else ""),
        *([] if is_empty else [f"next: warplens report {_quoted(written)}"]),
    ])  # fmt: skip
    return outcome.exit_code


def _print_notes(session: Session, lines: Sequence[str]) -> None:
    for line in (*(f"note: {text}" for text in session.backend.notes), *lines):
        print_err(line)


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))


def _program(args: argparse.Namespace) -> Program:
    words = program_words(args, "profile", "warplens profile script.py, -m MODULE, or workload NAME")
    return _workload(words) if _is_workload(words) else program_of(words)


def _with_steps(plan: RecordingPlan, args: argparse.Namespace, program: Program) -> RecordingPlan:
    """The plan with the steps that are to be recorded."""
    steps = _number_of_steps(args.steps)
    if steps == 0 or args.wait is not None or args.warmup:
        return replace(plan, steps=STEPS if steps is None else steps, wait=args.wait or 0, warmup=args.warmup)
    if steps and _is_workload(args.program):  # it marks its steps and is short: the ExecutionTrace comes before them
        return replace(plan, steps=steps, wait=WORKLOAD_WAIT)
    is_proton = plan.mode or (guess(program.source) if plan.backend == "auto" else plan.backend) == "proton"
    if plan.data == "trace" and not is_proton:
        return replace(plan, steps=steps or STEPS, wait=FIRST_STEPS, early=True)
    # A tree and Proton's profile stay small however long the run: it is recorded whole, or the steps asked for.
    return replace(plan, steps=steps, wait=WAIT) if steps else plan


def _number_of_steps(word: str | None) -> int | None:
    """0 for the whole run, None where the option is not given."""
    if word is None or word == "all":
        return None if word is None else 0
    if not (word.isascii() and word.isdecimal()):
        raise UsageError(f"--steps {word!r}", hint="a number of steps, or all")
    return int(word)


def _is_workload(words: list[str]) -> bool:
    return words[:1] == ["workload"] and not Path("workload").exists()


def _workload(words: list[str]) -> Program:
    # Parsed now, so that errors in them are reported before anything is recorded.
    parser = VerbParser(prog="warplens")
    add_verbs(parser, PROGRAMS, words, dest="verb_name", metavar="VERB")
    args = parser.parse_args(words)
    args.before = sys.argv[1 : -len(words)] if sys.argv[-len(words) :] == words else ["profile"]
    return Program(words[1], "import torch", lambda: int(args.verb.run(args)), is_own=True)


def _is_chosen(ranks: str, rank: int) -> bool:
    if ranks == "all":
        return True
    try:
        return rank in {int(word) for word in ranks.split(",")}
    except ValueError:
        raise UsageError(f"--ranks {ranks!r}", hint="all, 0, or a list such as 0,1") from None
