"""Advise what to change: findings by gain, each with its place, its evidence and what to do."""

from __future__ import annotations

import argparse

from warplens.cli.common import add_trace_options, open_timeline, positive, show_text, width, write_bytes


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_trace_options(parser)
    parser.add_argument("--top", type=positive, default=None, metavar="N", help="only the N largest findings")
    parser.add_argument("--json", action="store_true", help="findings with their evidence rows as JSON")


def run(args: argparse.Namespace) -> int:
    from warplens.outputs.advice_text import Setting, advice_json, render_advice

    profile = open_timeline(args)
    found = profile.findings()[: args.top]
    if args.json:
        write_bytes(advice_json(found))
        return 0
    per_step = bool(len(profile.table("steps")))
    notes = [row["message"] for row in profile.table("quality").to_dicts() if _limits_advice(row)]
    setting = Setting(profile.verdict(), per_step, profile.min_gain_percent, notes)
    show_text(render_advice(found, setting, width=min(width(), 120)))
    return 0


SILENCING = ("no_shapes", "no_host", "graph_mode", "unknown_gpu", "chrome", "no_op_shapes", "callers_only", "no_hlo_op",
             "no_programs")  # fmt: skip
"""Notes that mean that whole groups of rules cannot speak."""


def _limits_advice(note: dict[str, str]) -> bool:
    return note["severity"] == "warning" or note["code"] in SILENCING
