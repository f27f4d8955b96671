"""Explain a table, a column, a measure, a category, a finding code or a quality note.

Without an argument: everything that can be explained.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from textwrap import fill

from warplens.cli.common import width, write_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("topic", nargs="?", default="", metavar="TOPIC", help="kernels, total_us, idle, WL101, …")
    parser.add_argument("--json", action="store_true", help="one JSON array of objects with name and meaning")


def run(args: argparse.Namespace) -> int:
    from warplens.errors import UsageError

    lines = list(_explain(args.topic))
    if not lines:
        raise UsageError(f"nothing to explain under {args.topic!r}", hint="warplens explain")
    if args.json:
        import msgspec

        parts = [line.strip().partition(": ") for line in lines]
        write_bytes(msgspec.json.encode([{"name": name, "meaning": meaning} for name, _, meaning in parts]))
        return 0
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        print(fill(line, min(width(), 110), subsequent_indent=indent))
    return 0


def _explain(topic: str) -> Iterator[str]:
    from warplens.cli.explaining import topics

    if topic in ("", "tables", "codes"):
        yield from topics.list_topics()
        return
    for explain in topics.TOPICS:
        yield from explain(topic)
