"""The verbs of the command line, in the order of the help; a command loads only its own."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final, cast

from warplens.cli.verb import Verb

CLASSES: Final = {
    # verb: its module below warplens.cli, and its class
    "report": ("traces.report", "ReportVerb"),
    "advise": ("traces.advise", "AdviseVerb"),
    "show": ("traces.show", "ShowVerb"),
    "tree": ("traces.tree", "TreeVerb"),
    "flamegraph": ("traces.flamegraph", "FlamegraphVerb"),
    "gantt": ("traces.gantt", "GanttVerb"),
    "convert": ("traces.convert", "ConvertVerb"),
    "diff": ("traces.diff", "DiffVerb"),
    "sql": ("traces.sql", "SqlVerb"),
    "profile": ("recording.profile", "ProfileVerb"),
    "workload": ("recording.workload", "WorkloadVerb"),
    "unique": ("traces.unique", "UniqueVerb"),
    "what-if": ("traces.what_if", "WhatIfVerb"),
    "replay": ("replay", "ReplayVerb"),
    "prove": ("proving", "ProveVerb"),
    "try": ("proving.try_fixes", "TryVerb"),
    "energy": ("recording.energy", "EnergyVerb"),
    "kernel": ("kernel", "KernelVerb"),
    "explain": ("explaining.explain", "ExplainVerb"),
    "completion": ("completion", "CompletionVerb"),
}


@cache
def verb_named(name: str) -> Verb:
    module, class_name = CLASSES[name]
    return cast(Verb, getattr(import_module(f"warplens.cli.{module}"), class_name)())


def all_verbs() -> tuple[Verb, ...]:
    """Every verb, for the help and the completion."""
    return tuple(map(verb_named, CLASSES))
