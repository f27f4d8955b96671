"""`warplens replay export-cpp`: a plan as a CMake project that runs it with libtorch and writes the same result.

The program is the same for every plan, and reads the plan as data. Only with `readable` are calls also written out as
C++, from checked names and escaped values.
"""

from __future__ import annotations

import filecmp
import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from warplens.errors import UsageError
from warplens.files import check_folder, write_errors, write_whole
from warplens.replay.cpp import readable as readable_units
from warplens.replay.plan_file import ReplayPlan, to_json, with_id

__all__ = ["BUILD_COMMAND", "export"]
BUILD_COMMAND: Final = "cmake -S . -B build && cmake --build build -j2"


def export(plan: ReplayPlan, directory: Path, *, readable: bool = False, force: bool = False) -> list[Path]:
    """Writes the project, with the plan and its id as data, and returns its files."""
    with write_errors(directory):
        _check(directory, force)
    plan = with_id(plan)
    texts = {Path("plan.json"): json.dumps(to_json(plan), indent=1, allow_nan=False) + "\n"}
    if readable:
        texts |= {Path("readable", name): text for name, text in readable_units.files(plan).items()}
    with write_errors(directory):
        return [*_copy_project(directory), *_write(directory, texts, readable)]


def _check(directory: Path, force: bool) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is not a folder")
    check_folder(directory, directory)
    if directory.is_dir() and not force and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty", hint="set force to overwrite its files", options=("force",))


def _copy_project(directory: Path) -> list[Path]:
    with as_file(files(__name__) / "project") as project:
        paths = sorted(path for path in project.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        written = []
        for path in paths:
            target = directory / path.relative_to(project)
            # A file that is the same stays as it is, and need not be compiled again.
            if not (target.is_file() and filecmp.cmp(path, target, shallow=False)):
                write_whole(target, path.read_bytes())
            written.append(target)
    return written


def _write(directory: Path, texts: dict[Path, str], readable: bool) -> list[Path]:
    if not readable:  # those of an earlier export would be built, and be of another plan
        for name in ("units.cpp", "ops.cmake"):
            (directory / "readable" / name).unlink(missing_ok=True)
    written = []
    for relative, text in texts.items():
        target = directory / relative
        if not target.is_file() or target.read_bytes() != text.encode():
            write_whole(target, text.encode())
        written.append(target)
    return written
