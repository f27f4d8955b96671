"""Reference models that run anywhere: something known to profile, with random weights and no network.

`run_workload(Options("gpt2", tiny=True))` builds the model, runs it and returns what it measured. Its phases are
scopes of the capture session, if one is active. torch and transformers are imported when a workload runs, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warplens_run.workloads.models import MODEL_NAMES, MODELS
from warplens_run.workloads.options import WorkloadOptions

if TYPE_CHECKING:
    from warplens_run.workloads.run import run_workload

__all__ = ["MODELS", "MODEL_NAMES", "WorkloadOptions", "run_workload"]


def __getattr__(name: str) -> Any:
    if name == "run_workload":
        from warplens_run.workloads.run import run_workload

        return run_workload
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
