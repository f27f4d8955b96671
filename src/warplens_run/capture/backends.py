"""Which profiler records: the one of the framework that the program uses."""

from __future__ import annotations

import ast
import importlib.util
import sys
from typing import Any, Final, Protocol

from warplens_run.base.errors import WarplensError
from warplens_run.capture.backend_facts import BackendFacts
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.scopes import Metrics
from warplens_run.capture.triton_launches import LaunchRecorder
from warplens_run.formats.bundle import Staging

FRAMEWORKS: Final = {
    # backend: the packages whose import says that a program uses it, in the order in which they are looked for
    "jax": ("jax", "flax", "haiku", "equinox", "maxtext"),
    "torch": ("torch", "transformers", "torchvision", "lightning", "vllm", "accelerate"),
    "proton": ("triton",),
}


class Backend(Protocol):
    """What a session needs of a profiler; it says in `notes` what it cannot do."""

    name: str
    notes: list[str]

    def __init__(self, plan: RecordingPlan, staging: Staging) -> None: ...

    @property
    def records_scopes(self) -> bool:
        """Whether a scope that begins now is recorded."""

    def is_measuring(self) -> bool:
        """Whether what the GPU is given now is in the trace that a replay is planned from."""

    def is_timing(self) -> bool:
        """Whether what runs now is recorded, or timed without a profiler."""

    def watch_launches(self, recorder: LaunchRecorder) -> None:
        """Launches of Triton kernels are recorded by this, those into a graph as well."""

    def start(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def step(self) -> None: ...

    def stop(self) -> BackendFacts: ...

    def forget(self) -> None: ...

    def enter(self, name: str, metrics: Metrics) -> Any: ...

    def exit(self, handle: Any, depth: int) -> None: ...


def make_backend(plan: RecordingPlan, staging: Staging, source: str = "") -> Backend:
    """The backend that was asked for, or that the program's imports suggest."""
    name = plan.backend
    if name == "auto":
        name = "proton" if plan.mode else guess(source)
    if name == "proton":
        from warplens_run.capture.proton_backend import ProtonBackend

        return ProtonBackend(plan, staging)
    if name == "jax":
        from warplens_run.capture.jax_backend import JaxBackend

        return JaxBackend(plan, staging)
    from warplens_run.capture.torch_backend import TorchBackend

    return TorchBackend(plan, staging)


def guess(source: str) -> str:
    """The backend for a program: by what it imports, then by what is loaded, then by what is installed.

    >>> guess("import jax.numpy as jnp")
    'jax'
    >>> guess("from torch import nn\\nimport triton")
    'torch'
    """
    imported = _imports(source)
    # A program that imports both is most likely PyTorch's, with JAX somewhere behind.
    for backend in ("torch", "jax", "proton"):
        if imported & set(FRAMEWORKS[backend]):
            return backend
    for backend in ("torch", "jax"):
        if backend in sys.modules:
            return backend
    for backend in ("torch", "jax", "proton"):
        if importlib.util.find_spec("triton" if backend == "proton" else backend):
            return backend
    raise WarplensError("none of PyTorch, JAX and Triton is installed here", hint="pip install torch (or jax)")


def _imports(source: str) -> set[str]:
    """The top packages that a program imports anywhere in its text."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
