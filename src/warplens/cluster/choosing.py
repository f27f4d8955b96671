"""What runs tasks: an executor of the caller's, or what a text such as that of `--cluster` names."""

from __future__ import annotations

from concurrent.futures import Executor
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from warplens.cluster.runner import LocalRunner, Runner
from warplens_run.base.errors import MissingExtra, UsageError

ADDRESSES: Final = ("tcp://", "tls://")
HINT: Final = "local, local:4, tcp://host:8786, tls://host:8786, a scheduler file (.json), slurm or slurm:16"


def runner_for(cluster: str | Executor = "") -> Runner:
    """Without a text processes of this machine, else Dask. Nothing starts or connects before the first `map`."""
    if not isinstance(cluster, str):
        return Runner(cluster)
    if not (text := cluster):
        return LocalRunner()
    kind, _, number = text.partition(":")
    is_own = kind in ("local", "slurm") and _is_count(number)
    if not (is_own or text.startswith(ADDRESSES) or text.endswith(".json")):
        raise UsageError(f"{text!r} is not a cluster", hint=HINT)
    if find_spec("distributed") is None:
        raise MissingExtra("distributed", "cluster", "running on Dask")
    from warplens.cluster.on_dask import connecting
    from warplens.cluster.on_dask.runner import DaskRunner

    count = int(number) if is_own and number else None
    if kind == "local":
        return DaskRunner(lambda items: connecting.start_local(items, count))
    if kind == "slurm":
        return DaskRunner(lambda items: connecting.start_slurm(items, count))
    if text.startswith(ADDRESSES):
        return DaskRunner(lambda _items: connecting.connect_to(text))
    return DaskRunner(lambda _items: connecting.connect_by_file(Path(text)))


def _is_count(text: str) -> bool:
    return not text or (text.isdecimal() and int(text) > 0)
