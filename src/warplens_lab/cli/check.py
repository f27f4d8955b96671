"""`warplens kernel check`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from warplens.cli.options import add_outputs, add_rows, add_theme
from warplens.cli.rows import choose_rows, print_rows, shown_rows
from warplens.cli.showing import show_text, themed
from warplens.outputs import plan_outputs, render_table, write
from warplens_lab.checking.checks import CheckResult, check_kernels, merged
from warplens_lab.checking.config_ranking import ranking_tables
from warplens_lab.cli.check_json import checks_json
from warplens_lab.cli.check_run import check_recorded, is_run, show_run
from warplens_lab.cli.check_text import check_lines
from warplens_lab.cli.cuda import add_cuda_arguments, cuda_request, refuse_others
from warplens_lab.cli.profiles import add_profile_arguments, card_of, joined_with, opened_profiles, target_of
from warplens_lab.cli.propose import show_proposal
from warplens_lab.cli.script_options import add_script_args, check_outputs, take_options_after_script
from warplens_lab.cli.script_progress import script_progress
from warplens_lab.compiling.records import ScriptLimits
from warplens_lab.compiling.request import CompileRequest
from warplens_lab.cuda.checking import check_cuda
from warplens_lab.cuda.request import is_cuda
from warplens_lab.facts.saving import save_facts
from warplens_lab.opened.check import OpenedCheck
from warplens_run.base import bounded
from warplens_run.base.errors import UsageError
from warplens_run.cli.options import SEVERAL, positive
from warplens_run.cli.printing import note, print_err, print_line, report_written, width, write_bytes
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.model.measured import Measured
    from warplens.model.table import Table


class CheckVerb(Verb):
    """Compile for GPUs that are not here: facts and suggestions.

    FILE.py is executed, with your rights, as Python does it: of FILE.py::kernel what the file does when it is imported,
    of a script all of it. Check only files that you would run. FILE.cu is only compiled: a kernel of CUDA C++,
    FILE.cu::kernel<float, 256> too, or all of the file's.
    """

    name = "check"
    runs_programs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "kernel",
            metavar="FILE.py::kernel",
            help="a kernel; or a script whose launches are checked, which is executed; or FILE.cu[::kernel]; or a "
            "bundle of warplens profile, whose Triton kernels are checked",
        )
        add_script_args(parser)
        add_options(parser)

    def run(self, args: argparse.Namespace) -> int:
        take_options_after_script(args, add_options)
        if is_run(args.kernel) and not is_cuda(args.kernel):
            return _check_run(args)
        if "::" in args.kernel and args.script_args and not args.like:
            raise UsageError(f"unknown argument: {args.script_args[0]}", hint="only a script takes arguments")
        check_outputs(args, _inputs(args))
        if "::" in args.kernel and args.signature is None and args.like is None and not is_cuda(args.kernel):
            return show_proposal(args.kernel, ["--target", args.target] if args.target else [])
        profiles = opened_profiles(args)
        refuse_others(args, is_cuda=is_cuda(args.kernel))
        if is_cuda(args.kernel):
            result = _checked_cuda(args, profiles)
        else:
            request = _request(args, profiles)
            if args.sweep:
                return _sweep(args, request)
            with script_progress() as progress:
                result = check_kernels(request, note, progress)
        # A profile knows each grid's own time.
        result = joined_with(result, profiles, args) if profiles else merged(result)
        opened = OpenedCheck(result, args.kernel)
        _write(args, opened)
        if args.table is not None or args.csv:
            print_rows(opened.table(args.table or "kernel_suggestions"), args)
        elif args.json:
            write_bytes(checks_json(opened.checks[: args.top]))
        else:
            for line in check_lines(result, width(120)):
                print_line(line, 120)
            _say_how_to_time(args, opened)
        is_failed = result.failure is not None or all(not check.facts.is_compiled for check in result.checks)
        has_fault = any(barrier.fault for check in result.checks for barrier in check.facts.barriers)
        return 1 if is_failed or has_fault else 0


def _checked_cuda(args: argparse.Namespace, profiles: Sequence[Measured]) -> CheckResult:
    if args.script_args:
        raise UsageError(f"unknown argument: {args.script_args[0]}", hint="only a script takes arguments")
    return check_cuda(cuda_request(args, profiles, _grid(args.grid)))


def _check_run(args: argparse.Namespace) -> int:
    check_outputs(args, [args.kernel])
    opened = check_recorded(args)
    _write(args, opened)
    if args.table is not None or args.csv or args.json:
        print_rows(opened.table(args.table or "kernel_run"), args)
    else:
        show_run(opened)
    return 1 if all(not check.facts.is_compiled for check in opened.checks) else 0


def _say_how_to_time(args: argparse.Namespace, opened: OpenedCheck) -> None:
    """The commands that time the compiled changes of a script's kernels on a GPU."""
    suggestions = [suggestion for check in opened.checks for suggestion in check.suggestions]
    if "::" in args.kernel or not any(suggestion.counterfactual for suggestion in suggestions):
        return
    program = shlex.join([args.kernel, *args.script_args])
    print_err(
        "next, to time the changes on a host with a GPU: "
        f"warplens profile -o run.warplens {program} && warplens prove run.warplens --allow-source",
    )


def _inputs(args: argparse.Namespace) -> list[str]:
    return [args.kernel.partition("::")[0], *args.profile, args.traced or "", args.like or ""]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--signature", metavar="TYPES",
                        help="one entry per parameter: '*fp16:16, i32, 1024', or by name: 'x_ptr=*fp16:16, n=i32'; "
                        "without it one is proposed")  # fmt: skip
    parser.add_argument("--like", metavar="SCRIPT.py",
                        help="take the signature from this script's own launches; the script is run")  # fmt: skip
    parser.add_argument("--launches", type=positive, metavar="N", help="stop a script after N launches")
    parser.add_argument("--seconds", type=positive, metavar="S", help="stop a script after S seconds (default 600)")
    parser.add_argument("--num-warps", type=positive, metavar="N", help="warps per block (default 4)")
    parser.add_argument("--num-stages", type=positive, metavar="N", help="pipeline stages (default 3)")
    parser.add_argument("--target", "--arch", default="", metavar="sm80,sm90,…",
                        help="sm80, sm90, sm100, gfx942, gfx950 (default: the profile's GPU, else sm90)")  # fmt: skip
    parser.add_argument("--config", action="append", default=[], metavar="BLOCK=128,num_warps=8",
                        help=f"values that replace those of the signature; {SEVERAL}")  # fmt: skip
    parser.add_argument("--grid", metavar="X[,Y[,Z]]", help="grid of a launch: shows how full the last wave is")
    parser.add_argument("--card", metavar="NAME", help="GPU of the target whose size and limits apply")
    add_cuda_arguments(parser)
    add_profile_arguments(parser)
    parser.add_argument("--sweep", action="store_true", help="rank the configs by their facts, without running them")
    parser.add_argument("--table", metavar="NAME",
                        help="one table: kernel_facts, kernel_lines, kernel_accesses, kernel_remarks, kernel_layouts, "
                        "kernel_schedule, kernel_branches, kernel_barriers, kernel_suggestions, kernel_measured, "
                        "kernel_stalls; of a bundle kernel_run, kernel_autotune")  # fmt: skip
    add_outputs(
        parser,
        "x.html (the source next to the compiler's code), facts.json for kernel diff, x.xlsx, x.md or "
        "dir/ with a file per table",
    )
    add_theme(parser)
    add_rows(parser, "compilations with facts and suggestions, or of --table")
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the cache of compilations")
    parser.add_argument("--allow-source", action="store_true",
                        help="compile the kernels of a bundle, which runs their recorded sources")  # fmt: skip
    parser.add_argument("--slow", action="store_true", help="try suggested changes even where compiling takes long")


def _request(args: argparse.Namespace, profiles: Sequence[Measured]) -> CompileRequest:
    targets = target_of(args, profiles)
    return CompileRequest(
        args.kernel,
        args.signature,
        tuple(args.script_args),
        targets,
        {name: value for name in ("num_warps", "num_stages") if (value := getattr(args, name)) is not None},
        tuple(args.config),
        _grid(args.grid),
        card_of(args, profiles, targets),
        not args.no_cache,
        args.slow,
        args.like,
        ScriptLimits(args.launches, float(args.seconds or ScriptLimits().seconds)),
    )


def _sweep(args: argparse.Namespace, request: CompileRequest) -> int:
    """The configs that are given, else those of the kernels' autotuners."""
    from dataclasses import replace

    with script_progress() as progress:
        tables = ranking_tables(request, note, progress)
    if args.json or args.csv:
        import polars as pl

        frames = [table.frame if args.top is None else table.frame.head(args.top) for table in tables]
        tables = [replace(tables[0], frame=pl.concat(frames, how="vertical_relaxed"))]
        args.top = None  # of each kernel and target
    for table in tables:
        if args.json or args.csv or args.columns:
            print_rows(table, args)
        else:
            _show_sweep(choose_rows(table, args), shown_rows(args))
    return 0


def _show_sweep(table: Table, top: int | None) -> None:
    """As many columns as fit, and of each config only what differs; the title names kernel and target."""
    from dataclasses import replace

    import polars as pl

    configs = [text.split(", ") for text in table.frame["config"]]
    shared = [part for part in configs[0] if len(configs) > 1 and all(part in parts for parts in configs)]
    own = [", ".join(part for part in parts if part not in shared) for parts in configs]
    table = replace(table, frame=table.frame.with_columns(pl.Series("config", own, dtype=pl.String)))
    names = [name for name in table.frame.columns if name not in ("kernel", "target") and table.frame[name].count()]
    shown = list(names)
    while len(shown) > 3 and _widest(replace(table, notes=()), shown) > width():
        shown.pop()
    hidden = ", ".join(name for name in names if name not in shown)
    common = [f"in every config: {', '.join(shared)}"] if shared else []
    notes = (*common, *([f"{hidden}: hidden to fit, --json has them"] if hidden else []), *table.notes)
    show_text(render_table(replace(table, notes=notes), top=top, width=width(), columns=shown))


def _widest(table: Table, columns: Sequence[str]) -> int:
    return max(len(line) for line, _ in render_table(table, top=None, width=1000, columns=columns, title=False).lines)


def _grid(text: str | None) -> tuple[int, ...] | None:
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 3 or not all(bounded.is_whole(part, 1) for part in parts):
        raise UsageError(f"--grid {text!r} is not a valid grid", hint="one to three numbers: 64,2")
    return tuple(int(part) for part in parts)


def _write(args: argparse.Namespace, opened: OpenedCheck) -> None:
    """Outputs as everywhere, except that a .json contains the facts that `kernel diff` compares."""
    facts_files = [path for path in args.output if path.endswith(".json")]
    others = [path for path in args.output if path not in facts_files]
    inputs = _inputs(args)
    targets = plan_outputs(others, tables="csv", force=args.force, names=opened.report_names, inputs=inputs)
    for path in facts_files:
        save_facts(Path(path), [check.facts for check in opened.checks], force=args.force)
    for target in targets:
        write(target, themed(opened.document(), args))
    report_written(args.output)
