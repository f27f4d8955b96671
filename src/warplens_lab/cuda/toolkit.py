"""Where NVRTC, CUDA's headers and its disassembler are installed: nothing is loaded or run to find out."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens_run.base.errors import MissingExtra

PURPOSE: Final = "compiling CUDA C++"
_HOMES: Final = ("CUDA_HOME", "CUDA_PATH")
_SYSTEM: Final = "/usr/local/cuda"
_LIBRARIES: Final = ("lib/libnvrtc.so.*", "lib64/libnvrtc.so.*", "targets/*/lib/libnvrtc.so.*", "bin/nvrtc64_*.dll",
                     "bin/*/nvrtc64_*.dll")  # fmt: skip
_NOT_THE_LIBRARY: Final = re.compile(r"builtins|\.alt\.")


@dataclass(frozen=True)
class Toolkit:
    """What is needed to compile and to look at the result; empty where it was not found."""

    nvrtc: str
    nvdisasm: str = ""
    includes: tuple[str, ...] = ()
    """Folders with CUDA's own headers."""
    spare_includes: tuple[str, ...] = ()
    """Those of an installed CUDA and of Triton, which may be older."""

    def identity(self) -> str:
        """Changes when another library is installed in its place."""
        state = Path(self.nvrtc).stat()
        return f"{self.nvrtc} {state.st_size} {state.st_mtime_ns} {self.nvdisasm} {self.includes}"


def require_toolkit() -> Toolkit:
    """One clear error where NVRTC is missing."""
    library = next(_libraries(), None)
    if library is None:
        raise MissingExtra("NVRTC", "cuda", PURPOSE)
    return Toolkit(
        str(library),
        _tool("nvdisasm"),
        tuple(str(folder) for folder in _includes()),
        tuple(str(folder) for folder in _spare_includes() if _has_headers(folder)),
    )


def _package_folders(name: str) -> list[Path]:
    """Where a package is installed; of a namespace package, such as NVIDIA's, every place."""
    spec = importlib.util.find_spec(name)
    return [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []


def _wheels() -> Iterator[Path]:
    """The folders of NVIDIA's wheels: `nvidia/cu13` for all of CUDA 13, `nvidia/cuda_nvrtc` and others for CUDA 12."""
    for folder in _package_folders("nvidia"):
        yield from sorted((path for path in folder.iterdir() if path.is_dir()), reverse=True)


def _installations() -> Iterator[Path]:
    yield from (Path(os.environ[name]) for name in _HOMES if os.environ.get(name))
    yield Path(_SYSTEM)


def _libraries() -> Iterator[Path]:
    for folder in (*_wheels(), *_installations()):
        listed = (path for pattern in _LIBRARIES for path in sorted(folder.glob(pattern), reverse=True))
        yield from (path for path in listed if not _NOT_THE_LIBRARY.search(path.name))


def _includes() -> Iterator[Path]:
    """Headers of the wheels: of the same CUDA as the library."""
    for folder in _wheels():
        yield from (path for path in (folder / "include", folder / "include" / "cccl") if path.is_dir())


def _spare_includes() -> Iterator[Path]:
    for folder in _installations():
        yield from (folder / "include", folder / "include" / "cccl")
    for folder in _package_folders("triton"):
        yield folder / "backends" / "nvidia" / "include"


def _has_headers(folder: Path) -> bool:
    return any((folder / name).exists() for name in ("cuda_fp16.h", "cuda_runtime.h", "cuda/std/version"))


def _tool(name: str) -> str:
    folders = [folder / "backends" / "nvidia" / "bin" for folder in _package_folders("triton")]
    folders += [folder / "bin" for folder in _installations()]
    listed = [folder / name for folder in folders if (folder / name).exists()]
    return str(listed[0]) if listed else shutil.which(name) or ""
