"""`warplens explain`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from warplens.cli.explaining import topics
from warplens.settings import explain_lines
from warplens_run.base.errors import UsageError
from warplens_run.cli.options import add_json
from warplens_run.cli.printing import print_line, write_bytes
from warplens_run.cli.verb import Verb


class ExplainVerb(Verb):
    """Explain a table, a column, a measure, a category, a finding code or a quality note.

    Without an argument: everything that can be explained.
    """

    name = "explain"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("topic", nargs="?", default="", metavar="TOPIC", help="kernels, total_us, idle, WL101, …")
        add_json(parser, "name and meaning")

    def run(self, args: argparse.Namespace) -> int:
        lines = list(_explain(args.topic))
        if not lines:
            raise UsageError(f"no topic {args.topic!r}", hint="warplens explain lists all topics")
        if args.json:
            import msgspec

            parts = [line.strip().partition(": ") for line in lines]
            write_bytes(msgspec.json.encode([{"name": name, "meaning": meaning} for name, _, meaning in parts]))
            return 0
        for line in lines:
            print_line(line, 110)
        return 0


def _explain(topic: str) -> Iterator[str]:
    if topic == "config":
        yield from explain_lines()
        return
    if topic in ("", "tables", "codes"):
        yield from topics.list_topics()
        return
    for explain in topics.TOPICS:
        yield from explain(topic)
