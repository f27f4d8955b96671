"""`warplens kernel trace`: what each program of a script's kernels does, on the CPU."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

from warplens.cli.common import positive, width
from warplens.cli.kernel.shared import add_script_args, check_outputs, named, settle, show
from warplens.errors import UsageError, WarplensError
from warplens.files import write_whole


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("script", metavar="script.py", help="a script that launches kernels, or a trace (x.wkt)")
    add_script_args(parser)
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", action="store_true", help="only count: quicker, and no page")
    parser.add_argument("--values", action="store_true", help="keep the values, to see them on the page")
    parser.add_argument("--sample", type=float, metavar="N|SHARE", help="trace so many programs of a launch")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="which ones (0)")
    parser.add_argument("--no-checks", action="store_true", help="do not look for faults")
    parser.add_argument("--stop", action="store_true", help="stop at the first fault, at its statement")
    parser.add_argument("--pdb", metavar="X[,Y,Z]", action="append", default=[],
                        help="open the debugger in this program; may be given several times")  # fmt: skip
    parser.add_argument("-o", "--output", action="append", default=[], metavar="PATH",
                        help="x.html (the page), x.wkt (the trace), or tables: dir/, .xlsx, .json, .md")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")
    parser.add_argument("--table", metavar="NAME", help="one table: kernel_launches, kernel_accesses_traced, "
                        "kernel_tensors_traced, kernel_faults")  # fmt: skip
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows of a table")
    parser.add_argument("--json", action="store_true", help="the table (kernel_launches) as one JSON array")


def run(args: argparse.Namespace) -> int:
    from warplens.kernel_lab.tracing import TABLES, load, save
    from warplens.kernel_lab.tracing.records import MAY_BE_MEANT
    from warplens.kernel_lab.tracing.watching.script import traced_script

    settle(args, add_options)
    check_outputs(args, [args.script])
    if args.count and any(path.endswith(".html") for path in args.output):
        raise UsageError("a page needs more than counts", hint="leave --count out")
    failures: list[str] = []
    configs: dict[int, str] = {}
    if args.script.endswith(".wkt"):
        found = load(args.script)
    else:
        programs = [_program(text) for text in args.pdb]
        # What the script prints is no part of the JSON.
        with redirect_stdout(sys.stderr) if args.json else nullcontext():
            found = traced_script(
                Path(args.script), args.script_args, mode="count" if args.count else "record", sample=args.sample,
                seed=args.seed, checks=not args.no_checks, values=args.values, stop_at_fault=args.stop,
                programs=programs, failures=failures, configs=configs,
            )  # fmt: skip
        for program in programs:
            if not any(_holds(launch.grid, program) for launch in found.launches):
                print(f"warplens: no launch has a program {','.join(map(str, program))}", file=sys.stderr)
    if not found.launches:
        raise WarplensError(f"{args.script} launched no Triton kernel")
    tables = [made(found) for made in TABLES.values()]
    for path in (Path(each) for each in args.output if each.endswith((".wkt", ".html"))):
        if path.suffix == ".wkt":
            save(found, path)
        else:
            from warplens.kernel_lab.tracing.scene import kernel_scene
            from warplens.outputs.html.kernel_page import kernel_page_bytes

            write_whole(path, kernel_page_bytes(kernel_scene(found)))
    others = [path for path in args.output if not path.endswith((".wkt", ".html"))]
    if others:
        from warplens.outputs import Document, plan_outputs, write

        names = tuple(table.name for table in tables)
        for target in plan_outputs(others, tables="csv", force=args.force, names=names, inputs=[args.script]):
            write(target, Document("Warplens kernel trace", args.script, {}, tables))
    if args.table is not None or args.json:
        show(named(tables, args.table or "kernel_launches"), args)
    else:
        from warplens.cli.kernel.trace_text import trace_lines

        for line in trace_lines(found, min(width(), 120), configs):
            print(line)
    if args.output:
        print(f"wrote {', '.join(args.output)}", file=sys.stderr)
    for failure in failures:
        print(f"warplens: the script failed, what it launched before is shown: {failure}", file=sys.stderr)
    is_faulty = any(fault.kind not in MAY_BE_MEANT for launch in found.launches for fault in launch.faults)
    return 1 if failures or is_faulty else 0


def _holds(grid: Sequence[int], program: Sequence[int]) -> bool:
    return all(place < size for place, size in zip(program, grid, strict=False))


def _program(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdigit() for part in parts):
        raise UsageError(f"--pdb {text!r} is no program id", hint="one to three numbers, as 3 or 1,2")
    return tuple(int(part) for part in parts)
