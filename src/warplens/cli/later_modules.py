"""Modules that Polars and numpy import and a report never uses: loaded at their first use.

Polars has `importlib.metadata` for the version of an Iceberg plugin and `subprocess` for credentials of clouds; numpy
has `pickle` for arrays in files. With what each of them imports in turn they take 25 ms, a fifteenth of a warm report.
`numpy.ma` takes 17 ms, and only to find that arrays are not masked.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any, Final

NAMES: Final = ("importlib.metadata", "subprocess", "pickle")
MASKED: Final = "numpy.ma"


def load_later() -> None:
    """Put these modules where imports look first; for a process of our own, before Polars and numpy are imported."""
    for name in NAMES:
        if name not in sys.modules:
            later = _LaterModule(name)
            sys.modules[name] = later
            package, _, child = name.rpartition(".")
            if package:
                setattr(importlib.import_module(package), child, later)


def masks_later() -> None:
    """Answer what Polars and numpy ask of every array without `numpy.ma`; where it is not loaded, none has a mask."""
    import numpy as np

    if MASKED in sys.modules:
        return
    later = _LaterModule(MASKED)
    answers = {
        "nomask": np.False_,
        "getmask": lambda array: np.False_,
        "getdata": lambda array, subok=True: array if isinstance(array, np.ndarray) else np.asanyarray(array),
        "isMaskedArray": lambda array: False,
        "is_masked": lambda array: False,
    }
    vars(later).update(answers)
    sys.modules[MASKED] = later
    vars(np)["ma"] = later


class _LaterModule(ModuleType):
    """Becomes the module of its name when a name of it is asked for."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        loaded = importlib.import_module(self.__name__)
        vars(self).update(vars(loaded))
        return getattr(loaded, name)
