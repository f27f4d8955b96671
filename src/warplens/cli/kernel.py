"""Look inside a Triton kernel without a GPU: what the compiler makes of it, what each program does.

  warplens kernel check FILE.py::kernel --signature "*fp16:16, *fp16:16, i32:16, 1024"   facts and suggestions
  warplens kernel check script.py [args]                                               of every launch of a script
  warplens kernel check … --profile x.hatchet                                          beside what a profile measured
  warplens kernel trace script.py [args]                                               bytes, FLOPs, faults, a page
  warplens kernel diff before.json after.json                                          facts of two compilations
  warplens kernel puzzles                                                              learn Triton: exercises

Files and scripts are your own code: they are imported and run. Needs `pip install 'warplens[triton]'`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warplens.cli import kernel_puzzles
from warplens.cli.common import positive, show_text, width, write_bytes
from warplens.cli.kernel_profiles import add_profile_arguments, card_of, joined_with, opened_profiles, target_of
from warplens.errors import UsageError, WarplensError

if TYPE_CHECKING:
    from warplens.kernel_lab.checking import Checked
    from warplens.model.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, text, add, run_action in (
        ("check", "compile for GPUs that are not here: facts and suggestions", _check_arguments, _check),
        ("trace", "run a script's kernels in the interpreter: what each program does", _trace_arguments, _trace),
        ("diff", "compare the facts of two compilations", _diff_arguments, _diff),
        ("puzzles", "exercises, with a checker that explains", kernel_puzzles.add_arguments, kernel_puzzles.run),
    ):
        own = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        add(own)
        own.set_defaults(run_action=run_action)


def run(args: argparse.Namespace) -> int:
    code: int = args.run_action(args)
    return code


def _check_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="FILE.py::kernel", help="a kernel; or a script, whose launches are checked")
    parser.add_argument("script_args", nargs="*", metavar="args", help="of the script")
    parser.add_argument("--signature", metavar="TYPES", help="one entry per parameter, as '*fp16:16, i32, 1024'")
    parser.add_argument("--num-warps", type=positive, metavar="N", help="warps of a block (4)")
    parser.add_argument("--num-stages", type=positive, metavar="N", help="stages of the pipeline (3)")
    parser.add_argument("--target", default="", metavar="sm80,sm90,…",
                        help="sm80, sm90, sm100, gfx942, gfx950 (the profile's GPU, else sm90)")  # fmt: skip
    parser.add_argument("--config", action="append", default=[], metavar="BLOCK=128,num_warps=8",
                        help="instead of the signature's values; may be given several times")  # fmt: skip
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="blocks of a launch: tells how the last wave fills the GPU")
    parser.add_argument("--card", metavar="NAME", help="the GPU of that target whose size and limits count for it")
    add_profile_arguments(parser)
    parser.add_argument("--sweep", action="store_true", help="rank the configs by what is known without running them")
    parser.add_argument("--table", metavar="NAME",
                        help="one table: kernel_facts, kernel_lines, kernel_accesses, kernel_remarks, kernel_layouts, "
                        "kernel_suggestions, kernel_measured, kernel_stalls")  # fmt: skip
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows of a table")
    parser.add_argument("-o", "--output", action="append", default=[], metavar="PATH",
                        help="x.html (Python beside what the compiler made of it), facts.json for kernel diff; "
                        "or tables: dir/, .xlsx, .md")  # fmt: skip
    parser.add_argument("--force", action="store_true", help="overwrite existing outputs")
    parser.add_argument("--json", action="store_true", help="suggestions (or the table) as one JSON array")
    parser.add_argument("--no-cache", action="store_true", help="compile anew")
    parser.add_argument("--slow", action="store_true", help="try suggested changes also where compiling takes long")


def _check(args: argparse.Namespace) -> int:
    from warplens.kernel_lab.checking import check_launches, check_signature, suggestions_table
    from warplens.kernel_lab.facts.tables import facts_tables
    from warplens.outputs import rows_to_json

    options = {name: value for name in ("num_warps", "num_stages") if (value := getattr(args, name)) is not None}
    _refuse_existing(args)
    profiles = opened_profiles(args)
    target = target_of(args, profiles)
    common: dict[str, Any] = {"targets": target, "options": options, "cache": not args.no_cache}
    if args.sweep:
        return _sweep(args, common)
    common |= {"slow": args.slow, "card": card_of(args, profiles, target)}
    if args.signature is not None:
        grid = _grid(args.grid)
        found = check_signature(args.kernel, args.signature, configs=args.config, grid=grid, **common)
    elif "::" in args.kernel:
        raise UsageError("a kernel needs its signature", hint="--signature '*fp16:16, *fp16:16, i32:16, 1024'")
    else:
        found = check_launches(args.kernel, args.script_args, **common)
    found = joined_with(found, profiles, args)
    tables = [*facts_tables([each.facts for each in found.checks]), suggestions_table(found)]
    if profiles:
        from warplens.kernel_lab.measured_tables import measured_tables

        tables[-1:-1] = measured_tables(found.checks)
    _write(args, tables, found)
    if args.table is not None:
        _show(_named(tables, args.table), args)
    elif args.json:
        write_bytes(rows_to_json(tables[-1]))
    else:
        from warplens.cli.kernel_text import check_lines

        for line in check_lines(found, min(width(), 120)):
            print(line)
    return 1 if all(not each.facts.is_compiled for each in found.checks) else 0


def _sweep(args: argparse.Namespace, common: dict[str, Any]) -> int:
    from warplens.kernel_lab.checking import sweep_signature

    if args.signature is None:
        raise UsageError("--sweep needs a kernel and its signature", hint="--signature '*fp16:16, i32, 1024'")
    for table in sweep_signature(args.kernel, args.signature, configs=args.config, **common):
        _show(table, args)
    return 0


def _grid(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdigit() and int(part) for part in parts):
        raise UsageError(f"--grid {text!r} is no grid", hint="one to three numbers, as 64,2")
    return tuple(int(part) for part in parts)


def _named(tables: Sequence[Table], name: str) -> Table:
    for table in tables:
        if table.name == name:
            return table
    raise UsageError(f"no table {name!r}", hint=f"one of: {', '.join(table.name for table in tables)}")


def _show(table: Table, args: argparse.Namespace) -> None:
    from dataclasses import replace

    from warplens.outputs import render_table, rows_to_json

    if args.json:
        write_bytes(rows_to_json(table if args.top is None else replace(table, frame=table.frame.head(args.top))))
    else:
        show_text(render_table(table, top=args.top, width=width()))


def _write(args: argparse.Namespace, tables: Sequence[Table], found: Checked) -> None:
    """Tables as everywhere; a .json holds the facts that `kernel diff` compares, an .html the texts side by side."""
    from warplens.kernel_lab.facts.saving import save_facts
    from warplens.outputs import Document, plan_outputs, write

    plain = [path for path in args.output if not path.endswith((".json", ".html"))]
    targets = plan_outputs(plain, tables="csv", force=args.force, names=tuple(table.name for table in tables))
    for path in (Path(each) for each in args.output if each not in plain):
        if path.suffix == ".json":
            save_facts(path, [each.facts for each in found.checks])
        else:
            from warplens.kernel_lab.code_view import kernel_code
            from warplens.outputs.html.code_page import code_page_bytes

            path.write_bytes(code_page_bytes(kernel_code(found)))
    for target in targets:
        write(target, Document("Warplens kernel check", args.kernel, {}, tables))
    if args.output:
        print(f"wrote {', '.join(args.output)}", file=sys.stderr)


def _trace_arguments(parser: argparse.ArgumentParser) -> None:
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
    parser.add_argument("script", metavar="script.py", help="a script that launches kernels, or a trace (x.wkt)")
    parser.add_argument("script_args", nargs=argparse.REMAINDER, metavar="args", help="of the script")


def _trace(args: argparse.Namespace) -> int:
    from warplens.kernel_lab.script import traced_script
    from warplens.kernel_lab.tracing import TABLES, load, save

    _refuse_existing(args)
    failures: list[str] = []
    if args.script.endswith(".wkt"):
        found = load(args.script)
    else:
        programs = [program for text in args.pdb if (program := _program(text)) is not None]
        found = traced_script(
            Path(args.script), args.script_args, mode="count" if args.count else "record", sample=args.sample,
            seed=args.seed, checks=not args.no_checks, values=args.values, stop_at_fault=args.stop, programs=programs,
            failures=failures,
        )  # fmt: skip
    if not found.launches:
        raise WarplensError(f"{args.script} launched no Triton kernel")
    tables = [made(found) for made in TABLES.values()]
    for path in (Path(each) for each in args.output if each.endswith((".wkt", ".html"))):
        if path.suffix == ".wkt":
            save(found, path)
        else:
            from warplens.kernel_lab.tracing.scene import kernel_scene
            from warplens.outputs.html.kernel_page import kernel_page_bytes

            path.write_bytes(kernel_page_bytes(kernel_scene(found)))
    others = [path for path in args.output if not path.endswith((".wkt", ".html"))]
    if others:
        from warplens.outputs import Document, plan_outputs, write

        for target in plan_outputs(others, tables="csv", force=args.force, names=tuple(table.name for table in tables)):
            write(target, Document("Warplens kernel trace", args.script, {}, tables))
    if args.table is not None or args.json:
        _show(_named(tables, args.table or "kernel_launches"), args)
    else:
        from warplens.cli.kernel_trace_text import trace_lines

        for line in trace_lines(found, min(width(), 120)):
            print(line)
    if args.output:
        print(f"wrote {', '.join(args.output)}", file=sys.stderr)
    for failure in failures:
        print(f"warplens: the script failed, what it launched before is shown: {failure}", file=sys.stderr)
    return 1 if failures or any(launch.faults for launch in found.launches) else 0


def _refuse_existing(args: argparse.Namespace) -> None:
    for each in args.output:
        if each.endswith((".wkt", ".html", ".json")) and Path(each).exists() and not args.force:
            raise UsageError(f"{each} exists", hint="give --force to overwrite it")


def _program(text: str) -> tuple[int, ...] | None:
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdigit() for part in parts):
        raise UsageError(f"--pdb {text!r} is no program id", hint="one to three numbers, as 3 or 1,2")
    return tuple(int(part) for part in parts)


def _diff_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A.json", help="facts, as kernel check -o A.json wrote them")
    parser.add_argument("after", metavar="B.json", help="those that it is compared with")
    parser.add_argument("--all", action="store_true", help="also what did not change")
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="first N rows")
    parser.add_argument("--json", action="store_true", help="one JSON array of row objects")


def _diff(args: argparse.Namespace) -> int:
    """Status 1 where something got worse: a gate for CI."""
    from dataclasses import replace

    import polars as pl

    from warplens.kernel_lab.checking import compare_files
    from warplens.kernel_lab.comparing import regressions

    worse = 0
    for table in compare_files(Path(args.before), Path(args.after)):
        worse += len(regressions(table))
        shown = table if args.all else replace(table, frame=table.frame.filter(pl.col("verdict") != "same"))
        _show(shown, args)
    if worse:
        print(f"{worse} regressions", file=sys.stderr)
    return 1 if worse else 0
