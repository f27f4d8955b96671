"""How verbs that open a profile show tables and documents: styled on a terminal, with the theme that is asked for."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Literal

from warplens_run.cli.printing import print_out

if TYPE_CHECKING:
    from warplens.outputs import Document
    from warplens.outputs.grid import GridText
    from warplens.outputs.terminal import TableText


def is_styled() -> bool:
    """Whether text is coloured: not with NO_COLOR; else with FORCE_COLOR; else on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def show_text(text: TableText | GridText) -> None:
    """Finished lines to stdout: styled on a terminal, plain where piped (and then without importing rich)."""
    # Without style no escape code at all is sent; rich alone would still send those for bold.
    if not is_styled():
        print_out(text)
        return
    from rich.console import Console

    forced = None if sys.stdout.isatty() else True
    Console(highlight=False, soft_wrap=True, force_terminal=forced, color_system=_colours()).print(text.cleaned())


def _colours() -> Literal["auto", "standard"]:
    """Forced colours are those that every terminal has: nothing is known of the one that shows them."""
    return "auto" if sys.stdout.isatty() else "standard"


def themed(document: Document, args: argparse.Namespace) -> Document:
    """The document with the colours that `--theme` or a file of settings asks for."""
    from dataclasses import replace

    return replace(document, theme=args.theme)
