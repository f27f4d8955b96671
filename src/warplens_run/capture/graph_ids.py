"""What PyTorch and CUPTI call a graph that was captured: its handle, the id in records of kernels, its memory pool."""

from __future__ import annotations

import contextlib
import ctypes
import os
from typing import Any, Final

CUPTI: Final = ("libcupti.so.14", "libcupti.so.13", "libcupti.so.12", "libcupti.so")
SUCCESS: Final = 0


def exec_handle(graph: Any) -> int:
    """The `cudaGraphExec_t` of a graph that is instantiated; 0 where this PyTorch does not say it."""
    with contextlib.suppress(Exception):  # a graph that was not instantiated raises what it likes
        return int(graph.raw_cuda_graph_exec())
    return 0


def graph_id(handle: int) -> int | None:
    """The id that CUPTI gives an executable graph, where a profiler has loaded CUPTI and it has the function."""
    function = _id_function() if handle else None
    if function is None:
        return None
    number = ctypes.c_uint32(0)
    return number.value if function(handle, ctypes.byref(number)) == SUCCESS else None


def pool(graph: Any) -> list[int]:
    """The id of the memory pool that a graph allocates from; [] where it is not known."""
    with contextlib.suppress(Exception):
        return [int(part) for part in graph.pool()]
    return []


def _id_function() -> Any:
    """CUPTI's function, of the library that is loaded already: a second one would not know the graph."""
    if not hasattr(os, "RTLD_NOLOAD"):
        return None
    for name in CUPTI:
        with contextlib.suppress(OSError, AttributeError):
            function = ctypes.CDLL(name, mode=os.RTLD_NOLOAD | os.RTLD_NOW).cuptiGetGraphExecId
            function.argtypes = (ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32))
            function.restype = ctypes.c_int
            return function
    return None
