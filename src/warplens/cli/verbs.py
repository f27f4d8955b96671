"""The verbs of the command line, in the order of the help; a command loads only its own."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, cast

from warplens import lab
from warplens_run.cli.verb import Verb

CLASSES: Final = {
    # verb: its module, and its class
    "report": ("warplens.cli.traces.report", "ReportVerb"),
    "advise": ("warplens.cli.traces.advise", "AdviseVerb"),
    "show": ("warplens.cli.traces.show", "ShowVerb"),
    "tree": ("warplens.cli.traces.tree", "TreeVerb"),
    "flamegraph": ("warplens.cli.traces.flamegraph", "FlamegraphVerb"),
    "gantt": ("warplens.cli.traces.gantt", "GanttVerb"),
    "convert": ("warplens.cli.traces.convert", "ConvertVerb"),
    "diff": ("warplens.cli.traces.diff", "DiffVerb"),
    "sql": ("warplens.cli.traces.sql", "SqlVerb"),
    "profile": ("warplens_run.cli.profile", "ProfileVerb"),
    "workload": ("warplens_run.cli.workload", "WorkloadVerb"),
    "unique": ("warplens.cli.traces.unique", "UniqueVerb"),
    "what-if": ("warplens.cli.traces.what_if", "WhatIfVerb"),
    "replay": ("warplens.cli.replay", "ReplayVerb"),
    "prove": ("warplens.cli.proving", "ProveVerb"),
    "try": ("warplens_run.cli.try_fixes", "TryVerb"),
    "energy": ("warplens_run.cli.energy", "EnergyVerb"),
    **lab.VERBS,
    "explain": ("warplens.cli.explaining.explain", "ExplainVerb"),
    "completion": ("warplens.cli.completion", "CompletionVerb"),
}


@cache
def verb_named(name: str) -> Verb:
    module, class_name = CLASSES[name]
    return cast(Verb, getattr(import_module(module), class_name)())


def all_verbs() -> tuple[Verb, ...]:
    """Every verb, for the help and the completion."""
    return tuple(map(verb_named, CLASSES))
