"""One task per rank, on this machine's processes or on Dask, behind one interface (`Executor`).

Tasks are functions of modules with one small argument and a small value; what they read and cache stays on disk.
"""

from __future__ import annotations

from warplens.cluster.choosing import executor_for
from warplens.cluster.executor import Executor, Item, OnProgress, Outcome, Progress
from warplens.cluster.local import LocalExecutor
from warplens.cluster.sizes import unpacked_bytes

__all__ = [
    "Executor",
    "Item",
    "LocalExecutor",
    "OnProgress",
    "Outcome",
    "Progress",
    "executor_for",
    "unpacked_bytes",
]
