"""Programs recorded by `warplens profile`, and what their bundles have."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import textwrap
from pathlib import Path
from typing import Any

import warm_python
import warplens


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1]), "OMP_NUM_THREADS": "1"}


def run(
    folder: Path,
    text: str,
    *options: str,
    args: tuple[str, ...] = (),
    libraries: tuple[str, ...] = warm_python.TORCH,
) -> subprocess.CompletedProcess[str]:
    """Profile a program, as the bundle `out`, in a process that starts with these libraries."""
    (folder / "program.py").write_text(textwrap.dedent(text))
    words = ["-m", "warplens", "profile", "-o", "out", *options, "program.py", *args]
    return warm_python.run(words, folder, environment(), libraries)


def notes(folder: Path) -> str:
    return "\n".join(manifest(folder)["notes"])


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return found


def events(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress((folder / "trace.json.gz").read_bytes()))["traceEvents"]
    return found


def names(folder: Path) -> list[str]:
    return [event["name"] for event in events(folder) if event.get("cat") == "user_annotation"]
