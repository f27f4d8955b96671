"""Sources of a plan as modules: Triton reads a kernel's text from its file."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from warplens_run.base.files import write_whole
from warplens_run.formats.replay_plan import KernelSource
from warplens_run.replay.faults import BadUnit


def written(source: KernelSource, folder: Path) -> Path:
    path = folder / f"{source.sha256[:24]}.py"
    write_whole(path, source.text.encode())
    return path


def imported(path: Path) -> ModuleType:
    """Anew each time: compiling changes what it defines."""
    spec = importlib.util.spec_from_file_location(f"warplens_kernel_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise BadUnit("its source cannot be imported")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise BadUnit(f"its source cannot be imported: {type(error).__name__}: {error}") from error
    return module
