"""`warplens replay` and its verbs: plan, run, show, script, export-cpp."""

from __future__ import annotations

from warplens.cli.replay.export_cpp import ExportCppVerb
from warplens.cli.replay.plan import PlanVerb
from warplens.cli.replay.script import ScriptVerb
from warplens.cli.replay.show import ShowResultVerb
from warplens_run.cli.replay_run import RunVerb
from warplens_run.cli.verb import VerbGroup


class ReplayVerb(VerbGroup):
    """Replay the kernels of a trace alone, with time and energy: plan, run, show, script, export-cpp.

    warplens replay plan TRACE -o plan.json        every op call that launched GPU work, as data (no GPU needed)
    warplens replay run plan.json -o result.json   runs them one by one on a GPU (needs PyTorch and the plan only)
    warplens replay show result.json               the tables of a result; report --replay joins them to the trace's
    warplens replay script plan.json --unit u7     one of them as a plain Python file
    warplens replay export-cpp plan.json -o dir/   the same as a C++ project against libtorch
    """

    name = "replay"
    verbs = (PlanVerb(), RunVerb(), ShowResultVerb(), ScriptVerb(), ExportCppVerb())
