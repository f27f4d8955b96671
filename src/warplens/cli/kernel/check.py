"""`warplens kernel check`: facts and suggestions of a kernel, or of every launch of a script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warplens.cli.common import positive, width, write_bytes
from warplens.cli.kernel.profiles import add_profile_arguments, card_of, joined_with, opened_profiles, target_of
from warplens.cli.kernel.shared import add_script_args, check_outputs, named, settle, show
from warplens.errors import UsageError
from warplens.files import write_whole

if TYPE_CHECKING:
    from warplens.kernel_lab.checking import Checked
    from warplens.model.table import Table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("kernel", metavar="FILE.py::kernel", help="a kernel; or a script, whose launches are checked")
    add_script_args(parser)
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> int:
    from warplens.kernel_lab.checking import check_launches, check_signature, merged, suggestions_table
    from warplens.kernel_lab.facts.tables import facts_tables
    from warplens.outputs import rows_to_json

    settle(args, add_options)
    if "::" in args.kernel and args.script_args:
        raise UsageError(f"no option or argument of a kernel: {args.script_args[0]}")
    options = {name: value for name in ("num_warps", "num_stages") if (value := getattr(args, name)) is not None}
    check_outputs(args, _inputs(args))
    profiles = opened_profiles(args)
    target = target_of(args, profiles)
    common: dict[str, Any] = {"targets": target, "options": options, "cache": not args.no_cache}
    if args.sweep:
        return _sweep(args, common)
    common |= {"slow": args.slow, "card": card_of(args, profiles, target)}
    common["grid"] = _grid(args.grid)
    if args.signature is not None:
        found = check_signature(args.kernel, args.signature, configs=args.config, **common)
    elif "::" in args.kernel:
        raise UsageError("a kernel needs its signature", hint="--signature '*fp16:16, *fp16:16, i32:16, 1024'")
    else:
        found = check_launches(args.kernel, args.script_args, **common)
    # A profile knows each grid's own time.
    found = joined_with(found, profiles, args) if profiles else merged(found)
    tables = [*facts_tables([each.facts for each in found.checks]), suggestions_table(found)]
    if profiles:
        from warplens.kernel_lab.measured.tables import measured_tables

        tables[-1:-1] = measured_tables(found.checks)
    _write(args, tables, found)
    if args.table is not None:
        show(named(tables, args.table), args)
    elif args.json:
        write_bytes(rows_to_json(tables[-1]))
    else:
        from warplens.cli.kernel.check_text import check_lines

        for line in check_lines(found, min(width(), 120)):
            print(line)
    is_failed = found.failure is not None or all(not each.facts.is_compiled for each in found.checks)
    return 1 if is_failed else 0


def _inputs(args: argparse.Namespace) -> list[str]:
    return [args.kernel.partition("::")[0], *args.profile, args.traced or ""]


def _sweep(args: argparse.Namespace, common: dict[str, Any]) -> int:
    """The configs that are given, else those of the kernels' autotuners."""
    from warplens.kernel_lab.sweeping import sweep_launches, sweep_signature
    from warplens.outputs import rows_to_json

    if args.signature is not None:
        tables = sweep_signature(args.kernel, args.signature, configs=args.config, **common)
    elif "::" in args.kernel:
        raise UsageError("a kernel needs its signature", hint="--signature '*fp16:16, *fp16:16, i32:16, 1024'")
    else:
        tables = sweep_launches(args.kernel, args.script_args, configs=args.config, **common)
    if args.json:
        import polars as pl

        rows = [table.frame if args.top is None else table.frame.head(args.top) for table in tables]
        write_bytes(rows_to_json(replace(tables[0], frame=pl.concat(rows, how="vertical_relaxed"))))
        return 0
    for table in tables:
        _show_sweep(table, args.top)
    return 0


def _show_sweep(table: Table, top: int | None) -> None:
    """As many columns as fit beside what each config has of its own; the title tells kernel and target."""
    import polars as pl

    from warplens.cli.common import show_text
    from warplens.outputs import render_table

    configs = [text.split(", ") for text in table.frame["config"]]
    shared = [part for part in configs[0] if len(configs) > 1 and all(part in each for each in configs)]
    own = [", ".join(part for part in each if part not in shared) for each in configs]
    table = replace(table, frame=table.frame.with_columns(pl.Series("config", own, dtype=pl.String)))
    names = [name for name in table.frame.columns if name not in ("kernel", "target") and table.frame[name].count()]
    shown = list(names)
    while len(shown) > 3 and _widest(replace(table, notes=()), shown) > width():
        shown.pop()
    hidden = ", ".join(name for name in names if name not in shown)
    said = [f"in every config: {', '.join(shared)}"] if shared else []
    notes = (*said, *([f"{hidden}: hidden to fit, --json has them"] if hidden else []), *table.notes)
    show_text(render_table(replace(table, notes=notes), top=top, width=width(), columns=shown))


def _widest(table: Table, columns: Sequence[str]) -> int:
    from warplens.outputs import render_table

    return max(len(line) for line, _ in render_table(table, top=None, width=1000, columns=columns, title=False).lines)


def _grid(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(part.isdigit() and int(part) for part in parts):
        raise UsageError(f"--grid {text!r} is no grid", hint="one to three numbers, as 64,2")
    return tuple(int(part) for part in parts)


def _write(args: argparse.Namespace, tables: Sequence[Table], found: Checked) -> None:
    """Tables as everywhere; a .json holds the facts that `kernel diff` compares, an .html the texts side by side."""
    from warplens.kernel_lab.facts.saving import save_facts
    from warplens.outputs import Document, plan_outputs, write

    plain = [path for path in args.output if not path.endswith((".json", ".html"))]
    names = tuple(table.name for table in tables)
    targets = plan_outputs(plain, tables="csv", force=args.force, names=names, inputs=_inputs(args))
    for path in (Path(each) for each in args.output if each not in plain):
        if path.suffix == ".json":
            save_facts(path, [each.facts for each in found.checks])
        else:
            from warplens.kernel_lab.code.view import kernel_code
            from warplens.outputs.html.code_page import code_page_bytes

            write_whole(path, code_page_bytes(kernel_code(found)))
    for target in targets:
        write(target, Document("Warplens kernel check", args.kernel, {}, tables))
    if args.output:
        print(f"wrote {', '.join(args.output)}", file=sys.stderr)
