"""What runs on a GPU host or inside a user's program: recording, workloads, replay, proofs, meters and counters.

Nothing here needs more than Python, and PyTorch, Triton or JAX where the program has them. `warplens` has the same
functions for programs (`start`, `step`, `scope` …); a program that runs under the one file of `make runner` finds them
here.
"""

from typing import Any

__version__ = "0.1.0"

HOMES = {
    # public name: the module it lives in; nothing is imported before it is asked for
    "start": "warplens_run.capture.session",
    "deactivate": "warplens_run.capture.session",
    "activate": "warplens_run.capture.session",
    "finalize": "warplens_run.capture.session",
    "step": "warplens_run.capture.session",
    "profile": "warplens_run.capture.session",
    "scope": "warplens_run.capture.scopes",
    "enter_scope": "warplens_run.capture.scopes",
    "exit_scope": "warplens_run.capture.scopes",
    "energy": "warplens_run.meter.window",
    "watch": "warplens_run.trying.watched",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'warplens_run' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(HOMES[name]), name)
    globals()[name] = value  # else every `scope` in a hot loop would pay for the search
    return value
