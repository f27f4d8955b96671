"""Warplens: from a GPU trace to a proven fix.

>>> import warplens
>>> profile = warplens.open("samples/kineto/gpt2_train_step.json.gz")
>>> profile.table("kernel_categories").to_dicts()[0]["kernel_category"]
'GEMM'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warplens.lab import NAMES
from warplens_run import HOMES
from warplens_run import __version__ as __version__

if TYPE_CHECKING:
    from warplens.api import diff, open, open_ranks, report
    from warplens.categories import Rule
    from warplens.compat import TreePerfAnalyzer, generate_perf_report_pytorch
    from warplens.model.finding import Finding
    from warplens.model.table import Table
    from warplens.model.trace import Trace
    from warplens.model.tree import Tree
    from warplens.profiles.call_paths import PathsProfile
    from warplens.profiles.comparison import Comparison
    from warplens.profiles.job import JobProfile
    from warplens.profiles.opened import Opened
    from warplens.profiles.replay import OpenedReplay
    from warplens.profiles.trace import Profile
    from warplens_lab.opened.check import OpenedCheck
    from warplens_lab.opened.trace import OpenedKernelTrace, trace_kernel
    from warplens_run.base.errors import FormatError, MissingExtra, UsageError, WarplensError
    from warplens_run.capture.scopes import enter_scope, exit_scope, scope
    from warplens_run.capture.session import activate, deactivate, finalize, profile, start, step
    from warplens_run.meter.window import energy
    from warplens_run.trying.watched import watch

_HOMES = {
    # public name: the module it lives in; nothing is imported before it is asked for
    "open": "warplens.api",
    "open_ranks": "warplens.api",
    "report": "warplens.api",
    "diff": "warplens.api",
    "Opened": "warplens.profiles.opened",
    "Profile": "warplens.profiles.trace",
    "PathsProfile": "warplens.profiles.call_paths",
    "Comparison": "warplens.profiles.comparison",
    "OpenedReplay": "warplens.profiles.replay",
    "JobProfile": "warplens.profiles.job",
    "Rule": "warplens.categories",
    "TreePerfAnalyzer": "warplens.compat",
    "generate_perf_report_pytorch": "warplens.compat",
    "FormatError": "warplens_run.base.errors",
    "MissingExtra": "warplens_run.base.errors",
    "UsageError": "warplens_run.base.errors",
    "WarplensError": "warplens_run.base.errors",
    "Finding": "warplens.model.finding",
    "Table": "warplens.model.table",
    "Trace": "warplens.model.trace",
    "Tree": "warplens.model.tree",
    **NAMES,
    **HOMES,
}

__all__ = [  # noqa: RUF022 - in the order a reader meets them
    "open",
    "open_ranks",
    "report",
    "diff",
    "Opened",
    "Profile",
    "PathsProfile",
    "Comparison",
    "OpenedCheck",
    "OpenedKernelTrace",
    "OpenedReplay",
    "JobProfile",
    "Trace",
    "Table",
    "Tree",
    "Finding",
    "Rule",
    "TreePerfAnalyzer",
    "generate_perf_report_pytorch",
    "WarplensError",
    "FormatError",
    "UsageError",
    "MissingExtra",
    "start",
    "deactivate",
    "activate",
    "finalize",
    "step",
    "profile",
    "scope",
    "enter_scope",
    "exit_scope",
    "energy",
    "watch",
    "trace_kernel",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'warplens' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # else every `warplens.scope` in a hot loop would pay for the search
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
