"""From a cluster's name to a Dask client: an own cluster on this machine, the user's scheduler, or SLURM jobs.

What is started here listens on 127.0.0.1 only, unless the user's Dask configuration names a network. Whoever reaches a
scheduler can run code on its workers.
"""

from __future__ import annotations

import math
import shutil
import signal
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import dask.config
import msgspec
from distributed import Client, Security

from warplens.cluster.on_dask.own_cluster import LOOPBACK, OwnCluster
from warplens.cluster.on_dask.task import own_versions
from warplens.cluster.records import Item
from warplens.cluster.sizes import MEMORY_SHARE, fitting_processes, needed_bytes
from warplens_run.base.errors import MissingExtra, UsageError, WarplensError
from warplens_run.base.machine import free_ram
from warplens_run.base.units import parse_bytes

CONNECT_SECONDS: Final = 10
MOST_JOBS: Final = 8
"""Of SLURM, where no number is given."""
ONE_THREAD: Final = {"POLARS_MAX_THREADS": "1"}
CONFIGURE: Final = "set it under jobqueue.slurm in ~/.config/dask/jobqueue.yaml"


@dataclass(frozen=True)
class Connection:
    client: Client
    address: str
    cluster: Any = None
    """Where it was started here; it ends with the connection."""
    is_queued: bool = False
    """Workers are started by a batch system, in its own time."""

    def close(self) -> None:
        with suppress(OSError, RuntimeError, TimeoutError):  # one that is gone already
            self.client.close()
        if self.cluster is not None:
            self.cluster.close()


def connect_to(address: str) -> Connection:
    """A scheduler of the user's; certificates of a `tls://` one are in the user's Dask configuration."""
    return _connected(f"at {address}", address=address)


def connect_by_file(path: Path) -> Connection:
    """A file that `dask scheduler --scheduler-file` writes."""
    try:
        address = msgspec.json.decode(path.read_bytes(), type=_SchedulerFile).address
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except msgspec.DecodeError as error:
        raise UsageError(f"{path} is not a scheduler file: {error}") from error
    return _connected(f"at {address}, named by {path}", address=address)


class _SchedulerFile(msgspec.Struct):
    address: str


def start_local(items: Sequence[Item[Any]], workers: int | None) -> Connection:
    """A cluster of this machine; a process per core, as far as memory allows."""
    count = workers or fitting_processes(items)
    free = free_ram()
    cluster = OwnCluster(count, None if free is None else int(free * MEMORY_SHARE / count))
    return _connected_to_own(cluster, cluster.address)


def start_slurm(items: Sequence[Item[Any]], jobs: int | None) -> Connection:
    """Jobs as the user's configuration of dask-jobqueue describes them; they are cancelled at the end."""
    before = signal.getsignal(signal.SIGINT)
    try:
        from dask_jobqueue import SLURMCluster
    except ImportError as error:
        raise MissingExtra("dask-jobqueue", "cluster", "running on SLURM") from error
    finally:
        # Importing it makes Ctrl-C a silent end of the process, with status 0.
        with suppress(ValueError, TypeError):  # outside the main thread, or not set by Python
            signal.signal(signal.SIGINT, before)

    if shutil.which("sbatch") is None:
        raise UsageError("SLURM's sbatch is not on this machine", hint="run it on a login node of the cluster")
    options = _slurm_options(dask.config.get("jobqueue.slurm"), items)
    cluster = SLURMCluster(**options)
    connection = _connected_to_own(cluster, cluster, is_queued=True)
    cluster.scale(jobs=jobs or min(MOST_JOBS, math.ceil(len(items) / options["processes"])))
    return connection


def _slurm_options(settings: dict[str, Any], items: Sequence[Item[Any]]) -> dict[str, Any]:
    """One thread per worker, and no more workers in a job than its memory holds."""
    scheduler = settings.get("scheduler-options") or {}
    if not (settings.get("interface") or scheduler.get("host") or scheduler.get("interface")):
        raise UsageError(
            "SLURM's nodes cannot reach a scheduler on 127.0.0.1, and no network is named",
            hint=f"interface: eth0, ib0 … ; {CONFIGURE}",
        )
    for name, lacks in (("cores", "cores of a SLURM job are"), ("memory", "memory of a SLURM job is")):
        if not settings.get(name):
            raise UsageError(f"the {lacks} not known", hint=CONFIGURE)
    fitting = parse_bytes(str(settings["memory"])) // needed_bytes(max(item.size_bytes for item in items))
    processes = settings.get("processes") or max(1, min(int(settings["cores"]), fitting))
    return {
        "processes": int(processes),
        "job_script_prologue": [
            *(settings.get("job-script-prologue") or []),
            *(f"export {name}={value}" for name, value in ONE_THREAD.items()),
        ],
        "worker_extra_args": ["--nthreads", "1", "--no-dashboard", *(settings.get("worker-extra-args") or [])],
        "scheduler_options": {
            "dashboard_address": f"{LOOPBACK}:0",
            "allowed_failures": 0,
            **scheduler,
        },
        "silence_logs": "critical",
    }


def _connected_to_own(cluster: Any, target: Any, *, is_queued: bool = False) -> Connection:
    """A cluster that was started here ends where the connection fails."""
    try:
        client = Client(target, set_as_default=False)
        return Connection(client, client.scheduler.address, cluster, is_queued)
    except BaseException:
        cluster.close()
        raise


def _connected(place: str, **arguments: str) -> Connection:
    if arguments["address"].startswith("tls://"):
        _check_certificates()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of versions: named below, in one line
            client = Client(**arguments, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError, RuntimeError) as error:
        text = " ".join(str(error).split())
        raise WarplensError(f"no Dask scheduler answers {place}: {text}") from error
    connection = Connection(client, arguments["address"])
    try:
        _check_scheduler(client)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_certificates() -> None:
    """Before the attempt: a client that has none would wait for its own end."""
    hint = "name ca-file, client.cert and client.key under distributed.comm.tls in ~/.config/dask/distributed.yaml"
    try:
        has_some = Security().get_connection_args("client")["ssl_context"] is not None
    except (OSError, ValueError) as error:
        raise UsageError(f"the certificates for TLS cannot be used: {error}", hint=hint) from error
    if not has_some:
        raise UsageError("a tls:// scheduler needs certificates, and Dask's configuration names none", hint=hint)


def _check_scheduler(client: Client) -> None:
    packages = client.get_versions()["scheduler"]["packages"]
    own, its = own_versions()["distributed"], packages["distributed"]
    if own != its:
        raise UsageError(
            f"the scheduler has distributed {its}, this process {own}",
            hint="install the same version on every machine of the cluster",
        )
