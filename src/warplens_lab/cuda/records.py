"""What passes between this process and the one that runs NVRTC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CudaJob:
    """One kernel to compile; the results are left in a folder named by the index."""

    index: int
    name: str
    """As C++ names it, with its namespaces and a template's arguments."""
    architecture: str
    options: tuple[str, ...]


@dataclass(frozen=True)
class CudaWork:
    """Kernels of one file; `out` is the folder that the worker makes."""

    file: str
    out: str
    nvrtc: str
    nvdisasm: str
    includes: tuple[str, ...]
    spare_includes: tuple[str, ...]
    """Folders with CUDA's headers that may be of another version."""
    headers: str
    """A folder where NVRTC may unpack the headers that it brings; "" for none."""
    jobs: tuple[CudaJob, ...]
