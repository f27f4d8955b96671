"""Which executor a text such as that of `--cluster` names."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Final

from warplens.cluster.executor import Executor
from warplens.cluster.local import LocalExecutor
from warplens.errors import MissingExtra, UsageError

ADDRESSES: Final = ("tcp://", "tls://")
HINT: Final = "local, local:4, tcp://host:8786, tls://host:8786, a scheduler file (.json), slurm or slurm:16"


def executor_for(text: str = "") -> Executor:
    """Without a text processes of this machine, else Dask. Nothing starts or connects before the first `map`."""
    if not text:
        return LocalExecutor()
    kind, _, number = text.partition(":")
    is_own = kind in ("local", "slurm") and _is_count(number)
    if not (is_own or text.startswith(ADDRESSES) or text.endswith(".json")):
        raise UsageError(f"{text!r} is not a cluster", hint=HINT)
    if find_spec("distributed") is None:
        raise MissingExtra("distributed", "cluster", "running on Dask")
    from warplens.cluster.on_dask import connecting
    from warplens.cluster.on_dask.executor import DaskExecutor

    count = int(number) if is_own and number else None
    if kind == "local":
        return DaskExecutor("Dask on this machine", lambda items: connecting.start_local(items, count))
    if kind == "slurm":
        return DaskExecutor("SLURM", lambda items: connecting.start_slurm(items, count))
    if text.startswith(ADDRESSES):
        return DaskExecutor(text, lambda _items: connecting.connect_to(text))
    return DaskExecutor(text, lambda _items: connecting.connect_by_file(Path(text)))


def _is_count(text: str) -> bool:
    return not text or (text.isdecimal() and int(text) > 0)
