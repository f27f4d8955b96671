"""The command line: `main` finds the verb, runs it and turns expected failures into one line and an exit code.

stdout carries data, stderr the rest. Nothing heavy is imported before a verb runs.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
from collections.abc import Sequence

from warplens.cli.config import apply_settings
from warplens.cli.piped_inputs import pipes_as_files
from warplens.cli.rank_choice import choose_rank, join_captures
from warplens.cli.verbs import PLACES
from warplens.interrupts import ending_at_once, ending_in_order
from warplens_run import __version__
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.cli.ending import EXPECTED, fail, failed, flushed, stdout_failed
from warplens_run.cli.printing import note, print_out
from warplens_run.cli.streams import prepare_streams
from warplens_run.cli.verb import HelpText, Verb, VerbParser, add_verbs, with_implied_verb

BLAS_THREADS = "OPENBLAS_NUM_THREADS"
THREADS = "POLARS_MAX_THREADS"
MOST_THREADS = 1024
WHOLE_NUMBER = re.compile(r"[0-9]{1,9}")
POLARS_PANIC = "PanicException"
"""Not a subclass of `Exception`; known by its name, because Polars is not imported before a verb needs it."""
DESCRIPTION = "Warplens opens a GPU trace and shows where the time goes."
EPILOG = """examples:
  warplens report trace.json.gz                    where the time goes, on one screen
  warplens report trace.json.gz -o r.html          the same as a page: timeline, flame graph, roofline, tables
  warplens report trace.json.gz -o out/ -o r.xlsx  every table as CSV, and as a workbook
  warplens advise trace.json.gz                    what to change, and how much time it saves
  warplens show trace.json.gz kernels --top 20     one table
  warplens tree trace.json.gz --context module     GPU time by call path
  warplens flamegraph trace.json.gz -o flame.svg   the same as a picture
  warplens gantt trace.json.gz -o gantt.svg        kernels over time, stream by stream
  warplens report job/                             the ranks of a job: who is late, since when, why
  warplens convert trace.json.gz -o t.perfetto.json.gz   for Perfetto, with findings and the critical path
  warplens diff before.json.gz after.json.gz       what changed, and where it comes from
  warplens sql trace.json.gz "select op, sum(total_us) from kernels group by 1"
  warplens profile train.py                        record a run with all that the other verbs need
  warplens replay plan trace.json.gz -o plan.json  every kernel as a unit that can run alone
  warplens replay run plan.json                    its time and energy alone, on a GPU
  warplens prove trace.json.gz -o proof.json       what the findings win, measured on this GPU
  warplens try --fix WL202,WL208 train.py          what fixes win in a program, switched on and off in turns
  warplens energy -- python3 train.py              the joules of any command
  warplens kernel check matmul.py::kernel --signature "*fp16:16, i32, 128"   what the compiler makes of it
  warplens kernel trace softmax.py -o k.html       what each program of a Triton kernel touches
  warplens explain kernels                         what every column means
"""


def main(argv: Sequence[str] | None = None) -> int:
    return run(parse(sys.argv[1:] if argv is None else argv))


def entry() -> None:
    """What the `warplens` command runs: parse, run, then leave at once.

    Taking the interpreter down in order would free a large trace object by object, 0.1 s in which nothing happens
    for the user; every file is closed and renamed by now.
    """
    prepare_streams()
    try:
        with ending_at_once():
            args = parse(sys.argv[1:])
    except SystemExit as stopped:  # --help, --version, or wrong usage
        sys.exit(flushed(stopped.code if isinstance(stopped.code, int) else 1))
    except OSError as error:
        sys.exit(stdout_failed(error))
    if args.verb is not None and args.verb.runs_programs:
        sys.exit(run(args))
    args.owns_process = True
    ending_in_order()
    # A process this short leaves nothing for the collector of cycles to do but look, 2 % of a large report.
    gc.disable()
    code = run(args)
    sys.stderr.flush()
    os._exit(code)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """The arguments of a command, which loads its verb.

    Numpy, if the verb uses it, starts BLAS with one thread, as `_tune_process` has it; the variable is not left for
    programs that the verb runs.
    """
    is_given = BLAS_THREADS in os.environ
    os.environ.setdefault(BLAS_THREADS, "1")
    try:
        words = with_implied_verb(words, PLACES)
        return build_parser(words).parse_args(words)
    finally:
        if not is_given:
            del os.environ[BLAS_THREADS]


def run(args: argparse.Namespace) -> int:
    """Runs the verb that was parsed; an expected failure is one line and an exit code."""
    verb: Verb | None = args.verb
    if verb is None:
        build_parser(()).print_help()
        return 2
    _tune_process(verb)
    try:
        if not verb.runs_programs:
            _check_threads()
        apply_settings(args)
        if not getattr(args, "no_cache", True):
            _note_unused_cache()
        with pipes_as_files(args, verb.inputs):
            return _run_supervised(args, verb) if verb.runs_queries else _run_here(args, verb)
    except EXPECTED as error:
        return failed(error, runs_programs=verb.runs_programs)
    except BaseException as error:
        if type(error).__name__ != POLARS_PANIC:
            raise
        return fail(WarplensError(f"an internal error of Polars: {error}"))


def _run_here(args: argparse.Namespace, verb: Verb) -> int:
    join_captures(args)
    choose_rank(args, verb)
    return flushed(verb.run(args))


def _note_unused_cache() -> None:
    from warplens.cache.place import refusal

    if problem := refusal():
        note(f"no cache is used: {problem}")


def _run_supervised(args: argparse.Namespace, verb: Verb) -> int:
    from warplens.cli.supervision import supervise

    code = supervise(args)
    return _run_here(args, verb) if code is None else code


def _tune_process(verb: Verb) -> None:
    if verb.runs_programs:
        return
    # No other verb uses BLAS, whose threads cost as much at start as all the rest of numpy.
    os.environ.setdefault(BLAS_THREADS, "1")
    if not verb.uses_threads:
        # Frames are small: waking threads for them costs more than they save, on 64 cores most of all.
        os.environ.setdefault(THREADS, "1")


def _check_threads() -> None:
    """Polars prints a trace of its own stack for a number that it cannot use, and takes any without a limit."""
    threads = os.environ.get(THREADS)
    if threads == "":
        del os.environ[THREADS]
    elif threads is not None and not (WHOLE_NUMBER.fullmatch(threads) and 0 < int(threads) <= MOST_THREADS):
        raise UsageError(f"{THREADS} is {threads[:80]!r}, not a whole number from 1 to {MOST_THREADS}")


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The options of the verbs that the words name, which loads these verbs; without words those of all."""
    parser = VerbParser(
        prog="warplens",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=HelpText,
    )
    parser.add_argument("--version", action=_VersionAction, nargs=0, help="show program's version number and exit")
    parser.set_defaults(verb=None)
    add_verbs(parser, PLACES, words, dest="verb_name", metavar="VERB")
    return parser


class _VersionAction(argparse.Action):
    """The version, and which reader takes PyTorch's traces: looked for when asked, not with every command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from warplens.native_library import reader_name

        print_out(f"warplens {__version__} ({reader_name()})")
        parser.exit()
