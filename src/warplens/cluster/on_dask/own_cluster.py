"""A Dask cluster of this machine, in a process of its own that leads its group: ending it ends all.

Ctrl-C of a terminal does not reach it, it ends with the process that asked for it even where that is killed, and Dask's
way of starting workers, which imports the main script anew, never meets the user's script.
"""

from __future__ import annotations

import logging
from concurrent.futures import BrokenExecutor
from dataclasses import dataclass
from typing import Any, Final

from warplens.cluster.attempt import attempt
from warplens.cluster.processes import LocalProcesses
from warplens.cluster.records import Outcome
from warplens_run.base.errors import WarplensError
from warplens_run.base.temporary import temporary_folder

LOOPBACK: Final = "127.0.0.1"
_started: list[Any] = []
"""In the process of the cluster: kept from the garbage collector."""


@dataclass(frozen=True)
class ClusterPlan:
    workers: int
    memory_limit_bytes: int | None
    folder: str
    """For what workers write."""


class OwnCluster:
    """Runs until it is closed; `address` is its scheduler's."""

    def __init__(self, workers: int, memory_limit_bytes: int | None) -> None:
        self._folder = temporary_folder()
        self._process = LocalProcesses(1, cores=1)
        try:
            self.address = self._begin(ClusterPlan(workers, memory_limit_bytes, self._folder.name))
        except BaseException:
            self.close()
            raise

    def _begin(self, plan: ClusterPlan) -> str:
        try:
            outcome: Outcome[str] = self._process.submit(attempt, start, plan).result()
        except BrokenExecutor:
            outcome = Outcome(reason=self._process.ending())
        if outcome.value is None:
            raise WarplensError(f"a Dask cluster could not be started on this machine: {outcome.reason}")
        return outcome.value

    def close(self) -> None:
        self._process.end()
        self._folder.cleanup()


def start(plan: ClusterPlan) -> str:
    """The task of that process: it returns, and the cluster goes on."""
    from distributed import LocalCluster

    cluster = LocalCluster(
        n_workers=plan.workers,
        threads_per_worker=1,
        processes=True,
        host=LOOPBACK,
        dashboard_address=f"{LOOPBACK}:0",
        worker_dashboard_address=f"{LOOPBACK}:0",  # some releases of Dask serve it on all networks otherwise
        memory_limit=plan.memory_limit_bytes,
        local_directory=plan.folder,
        silence_logs=logging.CRITICAL,
        scheduler_kwargs={"allowed_failures": 0},  # the executor itself tries again
    )
    _started.append(cluster)
    return str(cluster.scheduler_address)
