"""The options of verbs that open a profile, declared once: the same name, help text and meaning on each.

`opening.py` and `rows.py` are their other halves: what opens a profile, and what chooses and prints rows.
"""

from __future__ import annotations

import argparse

from warplens.settings import THEMES
from warplens_run.cli.options import SEVERAL, about, add_force, add_json, add_top, not_negative, percentage

SHORT = "10us"
MOST_RANKS = 1_000_000
"""In one span of `--ranks`: more are a slip of the keyboard."""
SERVING_PHASES = ("prefill", "decode", "mixed")


def add_trace(
    parser: argparse.ArgumentParser, *, jobs: bool = False, several_ranks: bool = False, has_range: bool = True
) -> None:
    """TRACE, and all options that open it; with `jobs` also several, the ranks of one job."""
    what = "profile or capture bundle to open; - reads stdin"
    parser.add_argument("trace", metavar="TRACE", help=f"{what}; or a folder of ranks" if jobs else what)
    if jobs:
        parser.add_argument("more", nargs="*", metavar="TRACE", help="further ranks of the same job")
    add_opening(parser, several_ranks=several_ranks, has_range=has_range)
    if jobs:
        add_cluster(parser)


def add_opening(parser: argparse.ArgumentParser, *, several_ranks: bool = False, has_range: bool = True) -> None:
    """Without `has_range` for verbs whose own `--range` chooses what is drawn, not what is opened."""
    group = parser.add_argument_group("options for opening the profile")
    add_shared_opening(group)
    group.add_argument("--short", default=SHORT, metavar="TIME",
                       help=f"kernels below this are short (default {SHORT})")  # fmt: skip
    group.add_argument("--gpu", default="", metavar="NAME", help="GPU whose limits apply (default: the trace's own)")
    group.add_argument("--gpu-file", default="", metavar="FILE", help="TOML file that describes the GPU")
    group.add_argument("--min-gain", type=percentage, default=None, metavar="PCT",
                       help="smallest gain of a finding, in %% of a step (default 1)")  # fmt: skip
    add_timeline(group)
    group.add_argument("--step-time", default="", metavar="TIME",
                       help="time of a step without the profiler, for what is simulated: 21.4ms")  # fmt: skip
    group.add_argument("--execution-trace", default="", metavar="FILE", help="ExecutionTrace of the same run")
    group.add_argument("--ncu", action="append", default=[], metavar="FILE",
                       help=f"CSV page or report of Nsight Compute on the same program; {SEVERAL}")  # fmt: skip
    group.add_argument("--memory-snapshot", default="", metavar="FILE",
                       help="memory snapshot of the same run (torch.cuda.memory._dump_snapshot)")  # fmt: skip
    group.add_argument("--replay", default="", metavar="FILE", help="result of a replay of this trace")
    group.add_argument("--proof", default="", metavar="FILE", help="what `prove` measured of this trace's findings")
    add_phase(group)
    if has_range:
        add_range(group)
    else:
        parser.set_defaults(range="")
    add_rank(group, several=several_ranks)


def add_shared_opening(parser: argparse._ActionsContainer) -> None:
    """What also a comparison takes, for both of its traces."""
    parser.add_argument("--rules", action="append", default=[], metavar="FILE",
                        help=f"additional kernel-category rules (TOML); {SEVERAL}")  # fmt: skip
    parser.add_argument("--graph-capture", action="append", default=[], metavar="PATH",
                        help="trace of the capture of this run's CUDA or HIP graphs, or a folder of such traces: "
                             f"kernels of graphs get their ops, shapes and modules; {SEVERAL}")  # fmt: skip
    parser.add_argument("--gap", default="", metavar="TIME", help="shortest idle gap to list (default 10us)")
    parser.add_argument("--no-cache", action="store_true", help="do not read or write the cache of parsed traces")
    parser.add_argument("--max-size", default="", metavar="SIZE",
                        help="largest size that a packed file may unpack to (default 4GiB or 64 times the file, at "
                             "most half of the free memory)")  # fmt: skip


def add_phase(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--phase", choices=SERVING_PHASES, default="",
                        help="only the iterations of a served model that prefill, decode, or do both")  # fmt: skip


def add_range(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--range", default="", metavar="RANGE",
                        help="only what the host began in a range, and the GPU work that it launched: 1.2s-1.5s since "
                             "the start, or calls of an annotation, module or op: NAME, NAME#2 (the third), "
                             "NAME#0-3")  # fmt: skip


def add_rank(parser: argparse._ActionsContainer, *, several: bool = False) -> None:
    if several:
        parser.add_argument("--rank", type=not_negative, action="append", default=[], metavar="N",
                            help=f"only this rank of a folder of ranks; {SEVERAL}")  # fmt: skip
        return
    parser.add_argument("--rank", type=not_negative, default=None, metavar="N",
                        help="open this rank of a folder of ranks, as one trace")  # fmt: skip


def add_ranks(parser: argparse.ArgumentParser, purpose: str) -> None:
    """`--ranks`: several ranks of a job, as the filter of its page takes them."""
    parser.add_argument("--ranks", type=rank_numbers, default=(), metavar="0,4-7", help=f"ranks of a job {purpose}")


def add_cluster(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--cluster", default="", metavar="WHERE",
                        help="read ranks on Dask: local, tcp://host:8786, scheduler.json or slurm "
                             "(default: processes of this machine)")  # fmt: skip


def add_timeline(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--timeline", choices=("recorded", "corrected"), default="recorded",
                        help="times as recorded, or corrected: as they nearly were without the profiler")  # fmt: skip


def add_rows(parser: argparse.ArgumentParser, of: str = "") -> None:
    """For verbs that print tables: which rows and columns, in which order, as text, JSON or CSV."""
    add_top(parser)
    parser.add_argument("--sort", metavar="COLUMN", help="sort by a column, largest first; -COLUMN: smallest first")
    parser.add_argument("--where", metavar="SQL", help="only rows for which this SQL condition holds")
    parser.add_argument("--columns", metavar="A,B,…", help="only these columns")
    add_forms(parser, of)


def add_forms(parser: argparse.ArgumentParser, of: str = "") -> None:
    form = parser.add_mutually_exclusive_group()
    add_json(form, of)
    form.add_argument("--csv", action="store_true", help="print CSV, cells verbatim" + about(of))


def add_outputs(parser: argparse.ArgumentParser, kinds: str, *, tables: bool = False, required: bool = False) -> None:
    """`-o` as often as wanted, and `--force`; with `tables`, also a directory of them."""
    what = f"{kinds} or a directory/ of tables" if tables else kinds
    parser.add_argument("-o", "--output", action="append", default=[], metavar="PATH",
                        help=f"write {what}; {SEVERAL}")  # fmt: skip
    if tables:
        parser.add_argument("--tables", choices=("csv", "csv-safe", "parquet"), default="csv",
                            help="format of the files of a directory/ (default csv); csv-safe: with ' before "
                            "texts that a spreadsheet takes for formulas")  # fmt: skip
    add_force(parser)


def add_theme(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--theme",
        choices=THEMES,
        default="",
        help="colours of pages (default: as the browser prefers) and pictures (default light)",
    )


def rank_numbers(text: str) -> tuple[int, ...]:
    """Numbers and spans of them.

    >>> rank_numbers("3, 17-20")
    (3, 17, 18, 19, 20)
    """
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        if not first.isdecimal() or not (last.isdecimal() if dash else not last):
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of ranks, such as 0,4-7")
        ends = int(first), int(last or first)
        if not 0 <= ends[1] - ends[0] < MOST_RANKS:
            raise argparse.ArgumentTypeError(f"{part.strip()} is not a span of ranks")
        numbers += range(ends[0], ends[1] + 1)
    return tuple(numbers)
