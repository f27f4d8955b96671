"""The command line: `main` finds the verb, runs it and turns expected failures into one line and an exit code.

stdout carries data, stderr the rest. Nothing heavy is imported before a verb runs.
"""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
from collections.abc import Sequence

from warplens import __version__
from warplens.cli import kernel, replay
from warplens.cli.explaining import explain
from warplens.cli.recording import energy, profile, workload
from warplens.cli.traces import advise, diff, flamegraph, gantt, report, show, sql, tree, unique
from warplens.errors import WarplensError

VERBS = (
    report,
    advise,
    show,
    tree,
    flamegraph,
    gantt,
    diff,
    sql,
    profile,
    workload,
    unique,
    replay,
    energy,
    kernel,
    explain,
)
RUN_PROGRAMS = ("profile", "workload", "replay", "energy", "kernel")
"""Verbs that run a user's program: nothing of the process is tuned for them but what the program itself does."""
POLARS_PANIC = "PanicException"
"""No subclass of `Exception`; told by its name, because Polars is not imported before a verb needs it."""
DESCRIPTION = "Warplens opens a GPU trace and shows where the time goes."
EPILOG = """examples:
  warplens report trace.json.gz                    where the time goes, on one screen
  warplens report trace.json.gz -o r.html          the same as a page: timeline, flame graph, roofline, tables
  warplens report trace.json.gz -o out/ -o r.xlsx  every table as CSV, and as a workbook
  warplens advise trace.json.gz                    what to change, and what it would win
  warplens show trace.json.gz kernels --top 20     one table
  warplens tree trace.json.gz --context module     GPU time by call path
  warplens flamegraph trace.json.gz -o flame.svg   the same as a picture
  warplens gantt trace.json.gz -o gantt.svg        kernels over time, stream by stream
  warplens diff before.json.gz after.json.gz       what changed, and where it comes from
  warplens sql trace.json.gz "select kernel_category, sum(total_us) from kernels group by 1"
  warplens profile train.py                        record a run with all that the other verbs need
  warplens replay plan trace.json.gz -o plan.json  every kernel as a unit that can run alone
  warplens replay run plan.json                    its time and energy alone, on a GPU
  warplens energy -- python3 train.py              the joules of any command
  warplens kernel check matmul.py::kernel --signature "*fp16:16, i32, 128"   what the compiler makes of it
  warplens kernel trace softmax.py -o k.html       what each program of a Triton kernel touches
  warplens explain kernels                         what every column means
"""


def main(argv: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(words[0] if words else None)
    args = parser.parse_args(words)
    if args.verb is None:
        parser.print_help()
        return 2
    if args.verb not in RUN_PROGRAMS:
        # No other verb uses BLAS, whose threads cost as much at start as all the rest of numpy.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if args.verb not in ("sql", *RUN_PROGRAMS):
        # Frames are small: waking threads for them costs more than they save, on 64 cores most of all.
        os.environ.setdefault("POLARS_MAX_THREADS", "1")
    try:
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except WarplensError as error:
        return _fail(error)
    except BrokenPipeError:
        # The reader (head, less) has gone: no more output, and no complaint at exit either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except MemoryError:
        return _fail(WarplensError("not enough memory", hint="a trace needs about five times its unpacked size"))
    except BaseException as error:
        if type(error).__name__ != POLARS_PANIC:
            raise
        return _fail(WarplensError(f"an internal error of Polars: {error}"))


def entry() -> None:
    """What the `warplens` command runs: `main`, then straight out.

    Taking the interpreter down in order would free a large trace object by object, 0.1 s in which nothing happens
    for the user; every file is closed and renamed by now.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that knows no µ and no bars shows question marks instead of a traceback.
            stream.reconfigure(errors="replace")
    if sys.argv[1:2] and sys.argv[1] in RUN_PROGRAMS:
        sys.exit(main())
    # A process this short leaves nothing for the collector of cycles to do but look, 2 % of a large report.
    gc.disable()
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def build_parser(asked: str | None = None) -> argparse.ArgumentParser:
    """The options of every verb, or of the asked one alone: to make all takes 15 ms, which each command would pay."""
    parser = argparse.ArgumentParser(
        prog="warplens",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"warplens {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB")
    named = {verb.__name__.rpartition(".")[2]: verb for verb in VERBS}
    for name, verb in named.items():
        text = (verb.__doc__ or "").strip()
        own = verbs.add_parser(
            name,
            help=text.splitlines()[0].rstrip("."),
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if asked not in named or asked == name:
            verb.add_arguments(own)
            own.set_defaults(run=verb.run)
    return parser


def _fail(error: WarplensError) -> int:
    # A file's name may hold anything, also what would move the cursor of a terminal.
    message = "".join(char if char.isprintable() else "?" for char in " ".join(str(error).split()))
    print(f"error: {message}", file=sys.stderr)
    if error.hint:
        print(f"\nhint: {error.hint}", file=sys.stderr)
    return error.exit_code
