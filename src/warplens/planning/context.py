"""What comes with a trace: the settings of its run, and the sources of its generated kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Final

from warplens.planning.kernel_archive import python_files
from warplens.readers import bundle, inputs
from warplens.readers.bundle.launches import Launches
from warplens.readers.kineto.triton_calls import TritonCall, triton_calls
from warplens_run.base import bounded
from warplens_run.base.torch_switches import VARIABLE, VARIABLES
from warplens_run.formats.bundle_files import ENVIRONMENT, KERNELS, LAUNCHED

SHOWN_VERSIONS: Final = ("torch", "triton")


@dataclass(frozen=True)
class Context:
    settings: dict[str, str | int | float | bool] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    """By file name: texts of generated kernels."""
    launches: dict[int, TritonCall] = field(default_factory=dict)
    """By external id: how generated kernels were launched."""
    recorded: Launches | None = None
    """The launches of the program's own Triton kernels."""
    texts: dict[str, str] = field(default_factory=dict)
    """By file name: what else the capture kept of those kernels."""


def context_of(path: Path, kernel_files: Path | None = None, *, max_bytes: int = 0) -> Context:
    """`max_bytes`: what the trace may unpack to, and what the archive of kernel files may."""
    opened = bundle.find(path, max_bytes)
    files = {**opened.files, **opened.folder(f"{KERNELS}/")} if opened is not None else {}
    settings, versions = _environment(files.get(ENVIRONMENT, b"{}"))
    packed = _in_folder(files, "inductor")
    launched = _in_folder(files, LAUNCHED)
    packed |= {name: text for name, text in launched.items() if name.endswith(".py")}
    if kernel_files is not None:
        packed |= python_files(kernel_files, max_bytes)
    text, _ = inputs.find(path, max_bytes=max_bytes).profile.unwrap()
    recorded = opened.launches if opened is not None else None
    return Context(settings, versions, _decoded(packed), triton_calls(text), recorded, _decoded(launched))


def _in_folder(files: Mapping[str, bytes], folder: str) -> dict[str, bytes]:
    """The kernels' files in a folder of the bundle, by name."""
    start = f"{KERNELS}/{folder}/"
    return {PurePosixPath(name).name: text for name, text in files.items() if name.startswith(start)}


def _decoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: content.decode("utf-8", "replace") for name, content in files.items()}


def _environment(text: bytes) -> tuple[dict[str, Any], dict[str, str]]:
    try:
        environment = bounded.decoded(text)
        settings = environment.get("torch", {}).get("settings", {})
        packages = environment.get("packages", {})
        plain = {str(name): value for name, value in settings.items() if isinstance(value, (str, int, float, bool))}
        variables = environment.get("variables", {})
        plain |= {VARIABLE + name: str(variables[name]) for name in VARIABLES if name in variables}
        return plain, {name: packages[name] for name in SHOWN_VERSIONS if isinstance(packages.get(name), str)}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return {}, {}  # the trace's notes name what is wrong
