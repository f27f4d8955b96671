"""PyTorch where a kernel is compiled: most kernels' files import it for their launches only, and it takes seconds.

`import torch` then costs nothing, and the first use of anything of it loads it. The standard library's `LazyLoader`
would load it at the second `import torch` already, in Python up to 3.11.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

NAME = "torch"


def import_when_used(then: Callable[[Any], None]) -> None:
    """Puts a PyTorch that is not loaded yet where `import torch` finds it; `then` is called once it is loaded."""
    if NAME in sys.modules:
        then(sys.modules[NAME])
        return
    spec = importlib.util.find_spec(NAME)
    if spec is None or spec.loader is None:
        return
    loader, folders = spec.loader, spec.submodule_search_locations

    class Waiting(ModuleType):
        def __getattr__(self, name: str) -> Any:
            self.__class__ = ModuleType  # type: ignore[assignment]
            if folders is not None:
                self.__path__ = folders
            try:
                loader.exec_module(self)
            except BaseException:
                sys.modules.pop(NAME, None)
                raise
            then(self)
            return getattr(self, name)

    module = importlib.util.module_from_spec(spec)
    module.__class__ = Waiting
    if folders is not None:
        # Asked for by `import torch.nn`, which needs the whole of it.
        del module.__path__
    sys.modules[NAME] = module
