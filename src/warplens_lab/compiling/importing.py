"""Imports a user's file for one kernel of it, in a process of its own: nothing is launched, and no GPU is needed.

A file in a package is imported under its dotted name, with the folder of the outermost package on the search path and
never its own, whose `copy.py` or `queue.py` would stand in for the standard library's. One that raises after it has
defined the kernel, as a script without `if __name__ == "__main__"` may do where no launch computes anything, will do.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from warplens_lab.compiling.changing import changed
from warplens_lab.compiling.gpu_stand_in import gpu_stand_in
from warplens_lab.compiling.unfilled_tensors import UnfilledTensors, unfilled_tensors

MADE_BY = "{} is made by {}({}): check a script that launches it"
_failures: dict[Path, BaseException] = {}
_imported: dict[Path, Any] = {}
_made: list[Any] = []
"""Every kernel that was made meanwhile."""


def imported_kernel(file: Path, name: str) -> Any:
    """What the file calls by that name; raises what its import raised where that kept the name from being defined."""
    module = _module(file)
    try:
        return _find(module, name)
    except AttributeError:
        made = _made_inside(file, module, name)
        if made is not None:
            return made
        if file in _failures:
            raise _failures[file] from None
        raise


def _module(file: Path) -> Any:
    if file in _imported:
        return _imported[file]
    module, dotted = _prepared(file)
    with gpu_stand_in(file, lazy_torch=True, also=_unfilled), no_launches():
        try:
            _execute(file, dotted, module)
        except BaseException as error:  # noqa: BLE001 - a script may leave by any way, SystemExit too
            _failures[file] = error
    _imported[file] = sys.modules.get(dotted, module)
    return _imported[file]


def _unfilled() -> AbstractContextManager[None]:
    """What a script without a main guard does at import costs no more than where its launches are noted."""
    return unfilled_tensors(UnfilledTensors())


def package_root(file: Path) -> tuple[Path, str]:
    """The folder that holds the outermost package around the file, and the file's dotted name from there."""
    parts, folder = [] if file.name == "__init__.py" else [file.stem], file.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts) or file.stem


def _prepared(file: Path) -> tuple[ModuleType, str]:
    """An empty module for the file under its name, with the search path that its imports need."""
    root, dotted = package_root(file)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    sys.argv = [str(file)]
    spec = importlib.util.spec_from_file_location(dotted, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is not a Python file")
    return importlib.util.module_from_spec(spec), dotted


def _execute(file: Path, dotted: str, module: ModuleType) -> None:
    parent = dotted.rpartition(".")[0]
    if parent:
        _import_package(parent, file.parent)
        imported = sys.modules.get(dotted)
        if imported is not None and Path(getattr(imported, "__file__", None) or "").resolve() == file:
            return
    sys.modules[dotted] = module
    assert module.__spec__ is not None and module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)


def _import_package(name: str, folder: Path) -> None:
    """The package around the file; one that cannot be imported is taken as if its `__init__.py` were empty."""
    try:
        importlib.import_module(name)
    except Exception:  # noqa: BLE001 - a package may need what its kernels do not
        parts = name.split(".")
        for count in range(1, len(parts) + 1):
            dotted = ".".join(parts[:count])
            if dotted not in sys.modules:
                bare = ModuleType(dotted)
                levels_up = len(parts) - count
                bare.__path__ = [str([folder, *folder.parents][levels_up])]
                sys.modules[dotted] = bare


def _find(module: Any, dotted: str) -> Any:
    value = module
    for part in dotted.split("."):
        if not hasattr(value, part):
            raise AttributeError(f"{Path(module.__file__).name} has no {dotted}")
        value = getattr(value, part)
    return value


def _made_inside(file: Path, module: Any, name: str) -> Any:
    """A kernel that a function of the file makes: one made at import, else what a call without arguments makes."""
    made = _last_made(file, name)
    maker, inside, _ = name.partition(".<locals>.")
    if made is not None or not inside:
        return made
    with suppress(AttributeError):
        function = inspect.unwrap(_find(module, maker))
        required = [p.name for p in inspect.signature(function).parameters.values() if p.default is p.empty]
        if required:
            raise LookupError(MADE_BY.format(name.rpartition(".")[2], maker, ", ".join(required)))
        with gpu_stand_in(file, lazy_torch=True, also=_unfilled), no_launches(), suppress(Exception):
            function()
    return _last_made(file, name)


def _last_made(file: Path, name: str) -> Any:
    for kernel in reversed(_made):
        function = kernel.fn
        if name in (function.__qualname__, function.__name__):
            with suppress(OSError):
                if Path(function.__code__.co_filename).resolve() == file:
                    return kernel
    return None


@contextmanager
def no_launches() -> Iterator[None]:
    """Meanwhile nothing is launched, and every kernel that is made is kept."""
    from triton.runtime.autotuner import Autotuner, Heuristics
    from triton.runtime.jit import JITFunction

    original = JITFunction.__init__

    def keep(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        _made.append(self)

    def nothing(*args: Any, **kwargs: Any) -> None:
        return None

    kinds = (JITFunction, Autotuner, Heuristics)
    with changed((JITFunction, "__init__", keep), *((kind, "run", nothing) for kind in kinds)):
        yield
