"""`warplens kernel layout`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from warplens.cli.options import add_outputs, add_rows, add_theme
from warplens.cli.rows import print_rows
from warplens.cli.showing import show_text, themed
from warplens.outputs import plan_outputs, write
from warplens_lab.checking.checks import check_kernels
from warplens_lab.cli.layout_text import layout_text
from warplens_lab.compiling.request import DEFAULT_TARGETS, CompileRequest
from warplens_lab.facts.saving import load_facts
from warplens_lab.layouts.accesses import AccessOptions
from warplens_lab.layouts.exploring import Exploration, explore
from warplens_lab.layouts.reading import read_tile
from warplens_lab.opened.layout import OpenedLayout
from warplens_lab.opened.shared_layouts import Choice, choices_of_facts, choices_of_trace, chosen
from warplens_lab.tracing import load
from warplens_run.base import bounded
from warplens_run.base.errors import UsageError
from warplens_run.base.units import plural
from warplens_run.cli.options import SEVERAL, positive
from warplens_run.cli.printing import note, report_written, width
from warplens_run.cli.verb import Verb

SHOWN = ("bank", "offset", "thread", "lane", "warp", "register")
MOST_CHOICES = 12


class LayoutVerb(Verb):
    """Show which thread holds which element of a tile, and which bank serves it.

      warplens kernel layout "float[32][32]"                           rows and columns, with padding and swizzle
      warplens kernel layout "float[32][33]" --access "tile[lane][0]"   one access of a warp
      warplens kernel layout "Swizzle<5,0,5> o (32,32):(32,1)"           CuTe; --element bf16 for 16 bits
      warplens kernel layout "composition(Swizzle<5,0,5>{}, make_layout(…))"   its C++
      warplens kernel layout "blocked([1,8],[4,8],[4,1],[1,0])" --shape 64x128   Triton and Gluon
      warplens kernel layout "64x128xbf16 nvmma_shared(128, 16)"         what TMA writes and wgmma reads
      warplens kernel layout "((4,8),(2,2)):((32,1),(16,8))" --tv 16x8   CuTe's threads and values
      warplens kernel layout facts.json -o layout.html                 the tiles of a compiled kernel, as a page

    A layout is written as TTGIR, Gluon or str(LinearLayout) prints it, as CuTe prints it or its C++ has it, or as an
    array of CUDA C++. One in memory is compared with plain, padded and swizzled rows; several layouts are shown side by
    side as they are. Each shows its bases as a linear layout.
    """

    name = "layout"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("layouts", nargs="+", metavar="LAYOUT",
                            help="a layout; or facts (.json), a trace (.wkt) or FILE.py::kernel, which is "
                                 "executed")  # fmt: skip
        parser.add_argument(
            "--shape", default="", metavar="64x128", help="shape of the tile, where the layout does not say it"
        )
        parser.add_argument(
            "--element", default="", metavar="TYPE", help="type of an element: bf16, float, int8 (default f32)"
        )
        parser.add_argument("--access", action="append", default=[], metavar="WHAT",
                            help="row, column, matrix (ldmatrix), an index such as tile[threadIdx.x][0], or a register "
                                 f"layout; {SEVERAL} (default: the first three)")  # fmt: skip
        parser.add_argument("--block", default="32", metavar="X[xY[xZ]]", help="threads of an index (default 32)")
        parser.add_argument(
            "--set", action="append", default=[], metavar="NAME=N", help=f"value of a name in an index; {SEVERAL}"
        )
        parser.add_argument(
            "--vector", type=positive, default=1, metavar="N", help="elements of a row that a lane takes (default 1)"
        )
        parser.add_argument(
            "--tv", default="", metavar="MxN", help="a CuTe layout of threads and values over an M×N tile"
        )
        parser.add_argument("--show", choices=SHOWN, default=None, help="what the grid shows (default bank, or thread)")
        parser.add_argument("--only", action="store_true", help="no comparison with plain, padded and swizzled rows")
        parser.add_argument("--pick", type=positive, default=None, metavar="N", help="which access pattern of a kernel")
        parser.add_argument("--signature", metavar="TYPES", help="of FILE.py::kernel, as for kernel check")
        parser.add_argument("--target", default="", metavar="sm90", help="of FILE.py::kernel (default sm90)")
        parser.add_argument(
            "--table", metavar="NAME", help="one table: layout_conflicts, layout_banks, layout_elements"
        )
        add_outputs(parser, "x.html (tiles side by side), x.xlsx, x.json, x.md or dir/ with a file per table")
        add_theme(parser)
        add_rows(parser, "--table (default layout_conflicts)")

    def run(self, args: argparse.Namespace) -> int:
        from dataclasses import replace

        opened = OpenedLayout(_explored(args))
        names = opened.report_names
        inputs = [text for text in args.layouts if _is_file(text)]
        targets = plan_outputs(args.output, tables="csv", force=args.force, names=names, inputs=inputs)
        for target in targets:
            write(target, themed(opened.document(), args))
        if args.table is not None or args.json or args.csv:
            print_rows(opened.table(args.table or "layout_conflicts"), args)
        else:
            show_text(layout_text(opened.exploration, args.show, width()))
            if any(panel.accesses for panel in opened.exploration.panels):
                table = opened.table("layout_conflicts")
                if not (args.columns or args.where or args.sort):  # the bases stand above, by tile
                    shown = tuple(column for column in table.columns if column.name != "bases")
                    table = replace(table, frame=table.frame.drop("bases"), columns=shown)
                print_rows(table, args, title=False)
        report_written(args.output)
        return 0


def _is_file(text: str) -> bool:
    return text.endswith((".json", ".wkt", ".py")) or ".py::" in text


def _explored(args: argparse.Namespace) -> Exploration:
    from dataclasses import replace

    options = _options(args)
    files = [text for text in args.layouts if _is_file(text)]
    if files:
        if len(args.layouts) > 1:
            raise UsageError(f"{files[0]} is shown alone", hint="give either one file or layouts")
        choice = _picked(_choices(args, files[0]), args, files[0])
        options = replace(options, known=choice.options.known)
        return explore(choice.tiles, args.access or choice.accesses, options, with_variants=not args.only)
    shape, over_threads = _sizes(args.shape, "--shape"), _sizes(args.tv, "--tv")
    tiles = [read_tile(text, shape, args.element, over_threads) for text in args.layouts]
    return explore(tiles, args.access, options, with_variants=not args.only)


def _options(args: argparse.Namespace) -> AccessOptions:
    values: dict[str, int] = {}
    for text in args.set:
        name, equals, number = text.partition("=")
        if not equals or not name.strip().isidentifier() or not bounded.is_whole(number):
            raise UsageError(f"--set {text!r} is not NAME=N", hint="such as --set k=3")
        values[name.strip()] = int(number)
    return AccessOptions(block=_sizes(args.block, "--block"), values=values, vector=args.vector)


def _sizes(text: str, option: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.replace(",", "x").replace("×", "x").split("x")] if text else []
    if not all(bounded.is_whole(part, 1) for part in parts):
        raise UsageError(f"{option} {text!r} is not a size", hint="such as 64x128")
    return tuple(map(int, parts))


def _choices(args: argparse.Namespace, source: str) -> list[Choice]:
    from pathlib import Path

    if source.endswith(".wkt"):
        return choices_of_trace(load(source))
    if source.endswith(".json"):
        return choices_of_facts(load_facts(Path(source)))
    checked = check_kernels(CompileRequest(source, args.signature, targets=args.target or DEFAULT_TARGETS), note)
    for check in checked.checks:
        if check.facts.failure:
            note(f"{check.facts.kernel} does not compile: {check.facts.failure}")
    return choices_of_facts([check.facts for check in checked.checks])


def _picked(choices: Sequence[Choice], args: argparse.Namespace, source: str) -> Choice:
    choice = chosen(choices, args.pick, source)
    if len(choices) > 1 and args.pick is None:
        note(f"{plural(len(choices), 'access pattern')}; shown is {choices.index(choice) + 1}, --pick shows another:")
        for number, other in enumerate(choices[:MOST_CHOICES], start=1):
            note(f"{number}  {other.label}")
    return choice
