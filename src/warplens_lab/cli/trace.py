"""`warplens kernel trace`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

from warplens.cli.options import add_outputs, add_rows, add_theme
from warplens.cli.rows import print_rows
from warplens.cli.showing import themed
from warplens.outputs import plan_outputs, write
from warplens_lab.cli.script_options import add_script_args, check_outputs, take_options_after_script
from warplens_lab.cli.trace_text import trace_lines
from warplens_lab.compiling.targets import target_named
from warplens_lab.opened.trace import OpenedKernelTrace
from warplens_lab.tracing import load
from warplens_lab.tracing.records import is_failure
from warplens_lab.tracing.watching.recorder import RecordingOptions
from warplens_lab.tracing.watching.script import traced_script
from warplens_run.base import bounded
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.cli.options import SEVERAL, above_zero
from warplens_run.cli.printing import note, print_line, report_written, width
from warplens_run.cli.verb import Verb


class TraceVerb(Verb):
    """Run a script's kernels in the interpreter: what each program does.

    The script is executed, with your rights, as Python does it; trace only scripts that you would run. A trace (x.wkt)
    is only read.
    """

    name = "trace"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "script", metavar="script.py", help="a script that launches kernels, which is executed; or a trace (x.wkt)"
        )
        add_script_args(parser)
        add_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        take_options_after_script(args, add_options)
        check_outputs(args, [args.script])
        if args.count and any(path.endswith(".html") for path in args.output):
            raise UsageError("a page needs more than counts", hint="omit --count")
        configs: Mapping[int, str] = {}
        failure = ""
        if args.script.endswith(".wkt"):
            trace = load(args.script)
        else:
            programs = [_program(text) for text in args.pdb]
            # The output of the script is not part of the JSON.
            with redirect_stdout(sys.stderr) if args.json else nullcontext():
                traced = traced_script(
                    Path(args.script),
                    args.script_args,
                    options=_recording(args),
                    programs=programs,
                    partial=True,
                    target=target_named(args.target).name,
                )
            trace, configs, failure = traced.trace, traced.configs, traced.failure
            for message in traced.messages:
                note(message)
            for program in programs:
                if not any(_has_program(launch.grid, program) for launch in trace.launches):
                    note(f"no launch has a program {','.join(map(str, program))}")
        if not trace.launches:
            raise WarplensError(f"{args.script} launches no Triton kernel")
        opened = OpenedKernelTrace(trace, args.script)
        trace_files = [path for path in args.output if path.endswith(".wkt")]
        others = [path for path in args.output if path not in trace_files]
        names, inputs = opened.report_names, [args.script]
        targets = plan_outputs(others, tables="csv", force=args.force, names=names, inputs=inputs)
        for path in trace_files:
            opened.save(path, force=args.force)
        for target in targets:
            write(target, themed(opened.document(), args))
        if args.table is not None or args.json or args.csv:
            print_rows(opened.table(args.table or "kernel_launches"), args)
        else:
            for line in trace_lines(trace, width(120), configs, strict=args.strict):
                print_line(line, 120)
        report_written(args.output)
        if failure:
            note(f"the script failed; what it launched before is shown: {failure}")
        is_faulty = any(is_failure(fault, strict=args.strict) for launch in trace.launches for fault in launch.faults)
        return 1 if failure or is_faulty else 0


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", action="store_true", help="only count bytes and FLOPs: faster, without a page")
    parser.add_argument("--values", action="store_true", help="keep the values of tensors, for the page")
    parser.add_argument(
        "--sample", type=above_zero, metavar="N|SHARE", help="trace only this number or share of programs"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the sample (default 0)")
    parser.add_argument("--no-checks", action="store_true", help="do not check for faults")
    parser.add_argument("--strict", action="store_true", help="notes are faults too: unread inputs, lost bits, …")
    parser.add_argument("--shadow", choices=("fp64",), metavar="fp64",
                        help="compare all floating values with fp64: errors of outputs in ulps (slow)")  # fmt: skip
    parser.add_argument("--stop", action="store_true", help="stop at the statement of the first fault")
    parser.add_argument("--target", default="sm90", metavar="sm90",
                        help="GPU that the script sees: sm80, sm90, sm100, gfx942, gfx950 (default sm90)")  # fmt: skip
    parser.add_argument("--pdb", metavar="X[,Y,Z]", action="append", default=[],
                        help=f"open the debugger in this program; {SEVERAL}")  # fmt: skip
    add_outputs(parser, "x.html (the page), x.wkt (the trace), x.xlsx, x.json, x.md or dir/ with a file per table")
    add_theme(parser)
    parser.add_argument("--table", metavar="NAME", help="one table: kernel_launches, kernel_accesses_traced, "
                        "kernel_tensors_traced, kernel_faults, kernel_numbers")  # fmt: skip
    add_rows(parser, "--table (default kernel_launches)")


def _recording(args: argparse.Namespace) -> RecordingOptions:
    return RecordingOptions(
        mode="count" if args.count else "record",
        sample=args.sample,
        seed=args.seed,
        checks=not args.no_checks,
        values=args.values,
        stop_at_fault=args.stop,
        strict=args.strict,
        shadow=args.shadow,
    )


def _has_program(grid: Sequence[int], program: Sequence[int]) -> bool:
    return all(index < size for index, size in zip(program, grid, strict=False))


def _program(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(bounded.is_whole(part, 0) for part in parts):
        raise UsageError(f"--pdb {text!r} is not a valid program id", hint="one to three numbers: 3 or 1,2")
    return tuple(int(part) for part in parts)
