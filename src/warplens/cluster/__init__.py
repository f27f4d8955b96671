"""One task per rank, on any `concurrent.futures.Executor`: processes of this machine, Dask, or the caller's own.

Tasks are functions of modules with one small argument and a small value; what they read and cache stays on disk.
"""

from __future__ import annotations

from warplens.cluster.choosing import runner_for
from warplens.cluster.records import Item, OnProgress, Outcome, Progress
from warplens.cluster.runner import Runner
from warplens.cluster.sizes import unpacked_bytes

__all__ = [
    "Item",
    "OnProgress",
    "Outcome",
    "Progress",
    "Runner",
    "runner_for",
    "unpacked_bytes",
]
