"""Modules that Polars and numpy import and a report never uses: loaded at their first use.

Polars has `importlib.metadata` for the version of an Iceberg plugin and `subprocess` for credentials of clouds; numpy
has `pickle` for arrays in files. With what each of them imports in turn they take 25 ms, a fifteenth of a warm report.
Polars' readers of lake formats, databases and workbooks take 32 ms more, its pool of threads 7 ms; `numpy.ma` takes
17 ms, only to find that arrays are not masked. The texts of numpy's help and the types of its annotations take 20 ms.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Final

NAMES: Final = ("importlib.metadata", "subprocess", "pickle")
READERS: Final = {
    "polars.io.iceberg": ("delete_iceberg", "scan_iceberg"),
    "polars.io.delta": ("read_delta", "scan_delta"),
    "polars.io.lance": ("scan_lance",),
    "polars.io.database": ("read_database", "read_database_uri"),
    "polars.io.spreadsheet": ("read_excel", "read_ods"),
    "polars.catalog.unity": ("Catalog",),
}
"""Packages whose names Polars passes on. With other names in another version of it they are loaded, as ever."""
THREADS: Final = "concurrent.futures"
"""Polars makes a pool of threads when it is imported, for batches that are collected one by one."""
MASKED: Final = "numpy.ma"
NUMPY_HELP: Final = ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars")
"""Modules without a name of their own, which give numpy's functions in C their docstrings."""
NUMPY_OWN_TYPES: Final = "numpy._typing"
NUMPY_TYPES: Final = "numpy.typing"
"""For annotations, numpy's own and ours, which nothing reads while a verb runs."""


def load_later() -> None:
    """Put these modules where imports look first; for a process of our own, before Polars and numpy are imported."""
    for name in NAMES:
        if name not in sys.modules:
            later = _LaterModule(name)
            sys.modules[name] = later
            package, _, child = name.rpartition(".")
            if package:
                setattr(importlib.import_module(package), child, later)
    if "polars" not in sys.modules:
        from warplens.cli.later_signatures import signatures_later

        vars(_later_package(THREADS))["ThreadPoolExecutor"] = _LaterThreads
        for package, names in READERS.items():
            reader = _later_package(package)
            vars(reader).update({name: _later_call(reader, name) for name in names})
        signatures_later()
    if "numpy" not in sys.modules:
        sys.modules.update({name: ModuleType(name) for name in NUMPY_HELP})
        vars(_later_package(NUMPY_OWN_TYPES))["NDArray"] = list


def _later_package(package: str) -> ModuleType:
    top, *inner = package.split(".")
    found = find_spec(top)
    roots = (found and found.submodule_search_locations) or ()
    later = _LaterModule(package)
    # An import of any name asks a package for its path first, which must not load it.
    vars(later)["__path__"] = ["/".join((root, *inner)) for root in roots]
    sys.modules[package] = later
    return later


def _later_call(later: ModuleType, name: str) -> Callable[..., Any]:
    def call(*args: Any, **named: Any) -> Any:
        vars(later).pop(name, None)
        return getattr(later, name)(*args, **named)

    return call


def numpy_parts_later() -> None:
    """Load `numpy.typing` and `numpy.ma` only where they are used; to be called before our modules import numpy."""
    import numpy as np

    if NUMPY_TYPES not in sys.modules:
        types = _later_package(NUMPY_TYPES)
        vars(types)["NDArray"] = list
        vars(np)["typing"] = types
    if MASKED not in sys.modules:
        vars(np)["ma"] = sys.modules[MASKED] = _masks(np.False_)


class _LaterThreads:
    """Polars' pool of threads, made when something is to be run in it; who asks for another one gets a pool at once."""

    def __init__(self, *args: Any, **named: Any) -> None:
        self._given = args, named
        vars(sys.modules[THREADS]).pop("ThreadPoolExecutor", None)

    def __getattr__(self, name: str) -> Any:
        args, named = self._given
        pool = sys.modules[THREADS].ThreadPoolExecutor(*args, **named)
        vars(self)["submit"] = pool.submit
        return getattr(pool, name)


def _masks(none: Any) -> ModuleType:
    """What Polars and numpy ask of every array, without `numpy.ma`: where that is not loaded, none has a mask."""
    import numpy as np

    later = _LaterModule(MASKED)
    answers = {
        "nomask": none,
        "getmask": lambda array: none,
        "getdata": lambda array, subok=True: array if isinstance(array, np.ndarray) else np.asanyarray(array),
        "isMaskedArray": lambda array: False,
        "is_masked": lambda array: False,
    }
    vars(later).update(answers)
    return later


class _LaterModule(ModuleType):
    """Becomes the module of its name when a name of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        loaded = importlib.import_module(self.__name__)
        vars(self).update(vars(loaded))
        return getattr(loaded, name)
