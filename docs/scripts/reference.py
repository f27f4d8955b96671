"""The reference pages of the site, written from what the program itself says: its parser, tables, codes and formats.

`site_pages.py` adds them to the site while it is built, so that none is kept in the repository and none can go stale.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from importlib import import_module

from warplens.advice import RULES
from warplens.analyses.time.gaps import CAUSES
from warplens.analyses.time.timeline import MEANINGS
from warplens.cli import build_parser
from warplens.cli.explaining.topics import all_tables
from warplens.model.quality import MESSAGES
from warplens.readers.registry import FORMATS
from warplens_lab.suggesting.rules import RULES as KERNEL_RULES
from warplens_lab.tracing.records import FAULT_KINDS

HELP_COLUMNS = "100"


def pages() -> dict[str, str]:
    """Every generated page, by its path in the site."""
    return {
        "reference/cli.md": command_line(),
        "reference/tables.md": tables(),
        "reference/findings.md": findings(),
        "reference/kernel-codes.md": kernel_codes(),
        "reference/quality-notes.md": quality_notes(),
        "reference/formats.md": formats(),
    }


def command_line() -> str:
    os.environ["COLUMNS"] = HELP_COLUMNS  # argparse wraps help texts at the terminal's width
    parser = build_parser()
    head = "# Command line\n\nWhat `warplens VERB --help` prints. stdout carries data, stderr everything else.\n"
    overview = f"```\n{parser.format_help()}```\n"
    return "\n".join([head, overview, *_verbs(parser, level=2)])


def _verbs(parser: argparse.ArgumentParser, level: int) -> Iterator[str]:
    for action in parser._actions:  # argparse has no public way to list its subcommands
        if not isinstance(action, argparse._SubParsersAction):
            continue
        for verb in dict.fromkeys(action.choices.values()):
            yield f"{'#' * level} {verb.prog}\n\n```\n{verb.format_help()}```\n"
            yield from _verbs(verb, level + 1)


def tables() -> str:
    parts = [
        "# Tables\n\nEvery table and column; `warplens explain NAME` prints the same. CSV, Parquet, JSON and Excel "
        "carry these names verbatim; a column is added, never renamed.\n"
    ]
    for table in all_tables():
        parts.append(f"## {table.name}\n\n{table.meaning[0].upper()}{table.meaning[1:]}.\n")
        rows = [f"| `{column.name}` | {column.unit} | {_cell(column.meaning)} |" for column in table.columns]
        parts.append("\n".join(["| column | unit | meaning |", "|---|---|---|", *rows]) + "\n")
    parts.append(_listing("## Measures of the timeline", MEANINGS))
    parts.append(_listing("## Causes of idle time", CAUSES))
    return "\n".join(parts)


def findings() -> str:
    head = "# Finding codes\n\nWhat `warplens advise` reports; [how gains are estimated](../concepts/findings.md).\n"
    return head + "\n" + "\n".join(f"## {rule.code}\n\n{rule.explain()}\n" for rule in RULES)


def kernel_codes() -> str:
    head = "# Kernel codes\n\nWhat `warplens kernel check` suggests and `warplens kernel trace` reports.\n"
    codes = [f"## {rule.code}\n\n{rule.explain()}\n" for rule in KERNEL_RULES]
    return "\n".join([head, *codes, _listing("## Faults of kernel trace", FAULT_KINDS)])


def quality_notes() -> str:
    notes = {code: f"{message} ({severity})" for code, (severity, message) in MESSAGES.items()}
    return _listing(
        "# Quality notes\n\nThe codes of the table `quality`; [what they are for](../concepts/quality.md).", notes
    )


def formats() -> str:
    """Each format with what its reader says of itself."""
    parts = [
        "# File formats\n\nA file's content decides its format, never its name; gzip and zip are unwrapped first.\n"
    ]
    for entry in FORMATS:
        title = entry.name.removeprefix("an ").removeprefix("a ")
        text = import_module(entry.reader.partition(":")[0]).__doc__
        parts.append(f"## {title}\n\n{(text or '').strip()}\n")
    return "\n".join(parts)


def _listing(title: str, entries: Mapping[str, str]) -> str:
    return f"{title}\n\n" + "\n".join(f"- `{name}`: {text}" for name, text in entries.items()) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
