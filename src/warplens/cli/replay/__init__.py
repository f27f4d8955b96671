"""`warplens replay` and its verbs: plan, run, show, script, export-cpp."""

from __future__ import annotations

from typing import ClassVar

from warplens_run.cli.verb import Place, VerbGroup
from warplens_run.cli.verbs import REPLAY_RUN


class ReplayVerb(VerbGroup):
    """Replay the kernels of a trace alone, with time and energy: plan, run, show, script, export-cpp.

    warplens replay plan TRACE -o plan.json        every op call that launched GPU work, as data (no GPU needed)
    warplens replay run plan.json -o result.json   runs them one by one on a GPU (needs PyTorch and the plan only)
    warplens replay show result.json               the tables of a result; report --replay joins them to the trace's
    warplens replay script plan.json --unit u7     one of them as a plain Python file
    warplens replay export-cpp plan.json -o dir/   the same as a C++ project against libtorch
    """

    name = "replay"
    places: ClassVar = {
        "plan": Place("warplens.cli.replay.plan:PlanVerb", "Make a plan of a trace; needs neither PyTorch nor a GPU"),
        "run": REPLAY_RUN,
        "show": Place("warplens.cli.replay.show:ShowResultVerb", "Show the tables of a result"),
        "script": Place(
            "warplens.cli.replay.script:ScriptVerb",
            "Write one unit of a plan as a plain Python file: for a bug report or a notebook",
        ),
        "export-cpp": Place("warplens.cli.replay.export_cpp:ExportCppVerb", "Write a plan as a C++ project"),
    }
