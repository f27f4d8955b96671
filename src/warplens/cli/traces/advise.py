"""`warplens advise`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from warplens.advice.thresholds import JOB_THRESHOLDS
from warplens.cli.opening import open_profile, timeline_of
from warplens.cli.options import add_trace
from warplens.cli.rank_choice import names_job
from warplens.cli.showing import show_text
from warplens.model.finding import ranked
from warplens.outputs.advice_text import AdviceScope, advice_json, render_advice
from warplens.outputs.furthest import furthest_text
from warplens_run.cli.options import add_json, add_top
from warplens_run.cli.printing import width, write_bytes
from warplens_run.cli.verb import Verb

if TYPE_CHECKING:
    from warplens.outputs.terminal import TableText
    from warplens.profiles.opened import Opened
    from warplens.profiles.trace import Profile

SILENCING = ("no_shapes", "no_host", "graph_mode", "unknown_gpu", "chrome", "no_op_shapes", "callers_only", "no_hlo_op",
             "no_programs")  # fmt: skip
"""Quality notes that mean that whole groups of rules cannot apply."""


class AdviseVerb(Verb):
    """Advise what to change: findings by gain, each with its location, its evidence and what to do."""

    name = "advise"
    inputs = ("trace",)
    reads_jobs = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_trace(parser, jobs=True)
        add_top(parser)
        add_json(parser)

    def run(self, args: argparse.Namespace) -> int:
        profile = open_profile(args)
        if not (names_job(args) or "memory_peak" in profile.table_names):
            profile = timeline_of(profile)
        if args.json:
            write_bytes(advice_json(ranked(profile.findings())[: args.top]))
        else:
            show_text(advice_text(profile, width(120), args.min_gain, args.top))
        return 0


def advice_text(profile: Opened, columns: int, min_gain: float | None = None, top: int | None = None) -> TableText:
    """The findings of a profile as text, with all that applies to them as a whole."""
    if profile.has_timeline:
        scope = _scope(profile.with_timeline())
    else:
        scope = _memory_scope(profile) if "memory_peak" in profile.table_names else _job_scope(profile, min_gain)
    gains = [finding.gain for finding in profile.answer().findings]
    return render_advice(ranked(profile.findings())[:top], gains[:top], scope, width=columns)


def _memory_scope(profile: Opened) -> AdviceScope:
    notes = [row["message"] for row in profile.table("quality").to_dicts() if row["severity"] == "warning"]
    return AdviceScope(profile.verdict(), False, 0.0, notes)


def _job_scope(profile: Opened, min_gain: float | None) -> AdviceScope:
    notes = [row["message"] for row in profile.table("quality").to_dicts() if row["severity"] == "warning"]
    least = JOB_THRESHOLDS.min_gain_percent if min_gain is None else min_gain
    clock = profile.answer().clock
    step = f"the job's step: {clock.text}" if clock else ""
    return AdviceScope(profile.verdict(), True, least, notes, step)


def _scope(profile: Profile) -> AdviceScope:
    per_step = bool(len(profile.table("steps")))
    notes = [row["message"] for row in profile.table("quality").to_dicts() if _limits_advice(row)]
    model = profile.step_model
    clock = profile.clock
    gains_of = f"one {clock.whole}: {clock.text}" if clock else ""
    notes += [model.cost.note, *model.graph.notes] if model is not None else []
    furthest = furthest_text(profile.table("roofline"), profile.table("kernel_categories"))
    return AdviceScope(profile.verdict(), per_step, profile.min_gain_percent, notes, gains_of, furthest)


def _limits_advice(note: dict[str, str]) -> bool:
    return note["severity"] == "warning" or note["code"] in SILENCING
