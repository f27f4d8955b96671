"""The verbs of the command line, in the order of the help; a command loads only its own."""

from __future__ import annotations

from typing import Final

from warplens import lab
from warplens_run.cli.verb import Place, Verb
from warplens_run.cli.verbs import PROGRAMS

PLACES: Final = {
    "report": Place(
        "warplens.cli.traces.report:ReportVerb",
        "Report where the time of a trace goes: a summary here, and every table in the files you name",
    ),
    "advise": Place(
        "warplens.cli.traces.advise:AdviseVerb",
        "Advise what to change: findings by gain, each with its location, its evidence and what to do",
    ),
    "show": Place("warplens.cli.traces.show:ShowVerb", "Show one table of a trace"),
    "tree": Place("warplens.cli.traces.tree:TreeVerb", "Show GPU time, and whatever else was recorded, by call path"),
    "flamegraph": Place("warplens.cli.traces.flamegraph:FlamegraphVerb", "Write time by call path as a flame graph"),
    "gantt": Place("warplens.cli.traces.gantt:GanttVerb", "Draw the kernels of each stream over time"),
    "convert": Place(
        "warplens.cli.traces.convert:ConvertVerb",
        "Write a trace for Perfetto, speedscope, Proton's viewer or data frames",
    ),
    "diff": Place(
        "warplens.cli.traces.diff:DiffVerb",
        "Compare two traces of the same work: what changed from A to B, and where",
    ),
    "sql": Place("warplens.cli.traces.sql:SqlVerb", "Ask a trace a question in SQL"),
    "profile": PROGRAMS["profile"],
    "workload": PROGRAMS["workload"],
    "unique": Place(
        "warplens.cli.traces.unique:UniqueVerb",
        "Count the unique kernels of a trace, by several definitions of unique, and show what could replay each",
    ),
    "what-if": Place(
        "warplens.cli.traces.what_if:WhatIfVerb",
        "Simulate the step with changes: how long it would take, and what they win",
    ),
    "replay": Place(
        "warplens.cli.replay:ReplayVerb",
        "Replay the kernels of a trace alone, with time and energy: plan, run, show, script, export-cpp",
    ),
    "prove": Place(
        "warplens.cli.proving:ProveVerb",
        "Put findings to the test on a GPU: the ops before and after the change, their time, energy and outputs",
    ),
    "try": PROGRAMS["try"],
    "energy": PROGRAMS["energy"],
    **{name: Place(*place) for name, place in lab.VERBS.items()},
    "explain": Place(
        "warplens.cli.explaining.explain:ExplainVerb",
        "Explain a table, a column, a measure, a category, a finding code or a quality note",
    ),
    "completion": Place(
        "warplens.cli.completion:CompletionVerb",
        "Print a script that completes verbs, options and their values in a shell; needs shtab",
    ),
}


def all_verbs() -> tuple[Verb, ...]:
    return tuple(place.verb() for place in PLACES.values())
