"""Which executor a text such as that of `--cluster` names."""

from __future__ import annotations

from warplens.cluster.executor import Executor
from warplens.cluster.local import LocalExecutor
from warplens.errors import UsageError


def executor_for(text: str = "") -> Executor:
    """Without a text: processes of this machine."""
    if text:
        raise UsageError(f"{text!r} is not a cluster")
    return LocalExecutor()
