"""`warplens replay export-cpp`: a plan as a CMake project that runs it with libtorch and writes the same result.

The program is the same for every plan, and reads the plan as data. Only with `readable` are calls also written out as
C++, from checked names and escaped values.
"""

from __future__ import annotations

import json
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from warplens.replay.cpp import readable as readable_units
from warplens_run.base.errors import UsageError
from warplens_run.base.files import check_folder, whole_files, write_errors
from warplens_run.formats.replay_plan import ReplayPlan, to_json, with_id

__all__ = ["BUILD_COMMAND", "export"]
BUILD_COMMAND: Final = "cmake -S . -B build && cmake --build build -j2"


def export(plan: ReplayPlan, directory: Path, *, readable: bool = False, force: bool = False) -> list[Path]:
    """Writes the project, with the plan and its id as data, and returns its files."""
    with write_errors(directory):
        _check(directory, force)
    plan = with_id(plan)
    contents = {Path("plan.json"): (json.dumps(to_json(plan), indent=1, allow_nan=False) + "\n").encode()}
    if readable:
        contents |= {Path("readable", name): text.encode() for name, text in readable_units.files(plan).items()}
    return _written(directory, _project() | contents, readable, force)


def _check(directory: Path, force: bool) -> None:
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is not a folder")
    check_folder(directory, directory)
    if directory.is_dir() and not force and any(directory.iterdir()):
        raise UsageError(f"{directory} is not empty", hint="set force to overwrite its files", options=("force",))


def _project() -> dict[Path, bytes]:
    """The files that are the same for every plan."""
    with as_file(files(__name__) / "project") as project:
        paths = sorted(path for path in project.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        return {path.relative_to(project): path.read_bytes() for path in paths}


def _written(directory: Path, contents: dict[Path, bytes], readable: bool, force: bool) -> list[Path]:
    """All of them, or none where the disk is full. A file that is the same stays, and need not be compiled again."""
    targets = {directory / relative: content for relative, content in contents.items()}
    changed = {path: each for path, each in targets.items() if not (path.is_file() and path.read_bytes() == each)}
    if changed:
        with whole_files(list(changed), force=force) as staged:
            for path, content in zip(staged, changed.values(), strict=True):
                path.write_bytes(content)
    if not readable:  # those of an earlier export would be built, and be of another plan
        with write_errors(directory):
            for name in ("units.cpp", "ops.cmake"):
                (directory / "readable" / name).unlink(missing_ok=True)
    return list(targets)
