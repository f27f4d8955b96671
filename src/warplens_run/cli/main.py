"""The command line of what runs beside a program or on a GPU host: `python -m warplens_run VERB`.

`warplens` has the same verbs among its own. Here they need nothing but Python, and what the program or the plan uses;
`make runner` writes all of it into one file.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import ClassVar, Final

from warplens_run import __version__
from warplens_run.cli.ending import EXPECTED, failed, flushed
from warplens_run.cli.streams import prepare_streams
from warplens_run.cli.verb import HelpText, Place, Verb, VerbGroup, VerbParser, add_verbs
from warplens_run.cli.verbs import PROGRAMS, PROVE_RUN, PROVE_SHOW, REPLAY_RUN

DESCRIPTION = "Warplens' runner: records programs, and runs plans on a GPU."
EPILOG = """examples:
  python warplens-run.pyz profile train.py             record a run; `warplens report` opens it, on any machine
  python warplens-run.pyz replay run plan.json         run each kernel of a plan alone, with time and energy
  python warplens-run.pyz prove run proof.plan.json    run the before and the after of findings
  python warplens-run.pyz energy -- python3 train.py   the joules of any command
"""


class ReplayRunner(VerbGroup):
    """Run a plan that `warplens replay plan` made."""

    name = "replay"
    places: ClassVar = {"run": REPLAY_RUN}


class ProveRunner(VerbGroup):
    """Run a plan that `warplens prove plan` made, and show what was measured."""

    name = "prove"
    places: ClassVar = {"run": PROVE_RUN, "show": PROVE_SHOW}


PLACES: Final = {
    **PROGRAMS,
    "replay": Place("warplens_run.cli.main:ReplayRunner", "Run a plan that `warplens replay plan` made"),
    "prove": Place(
        "warplens_run.cli.main:ProveRunner", "Run a plan that `warplens prove plan` made, and show what was measured"
    ),
}


def main(argv: Sequence[str] | None = None) -> int:
    prepare_streams()
    parser = VerbParser(prog="warplens_run", description=DESCRIPTION, epilog=EPILOG, formatter_class=HelpText)
    parser.add_argument("--version", action="version", version=f"warplens_run {__version__}")
    parser.set_defaults(verb=None)
    words = sys.argv[1:] if argv is None else argv
    add_verbs(parser, PLACES, words, dest="verb_name", metavar="VERB")
    args = parser.parse_args(words)
    if args.verb is None:
        parser.print_help()
        return 2
    return run(args)


def run(args: argparse.Namespace) -> int:
    """Runs the verb that was parsed; an expected failure is one line and an exit code."""
    verb: Verb = args.verb
    try:
        return flushed(verb.run(args))
    except EXPECTED as error:
        return failed(error, runs_programs=verb.runs_programs)
