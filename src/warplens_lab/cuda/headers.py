"""Headers that NVRTC does not find: those of the host have nothing for a kernel, others have a counterpart in CUDA.

A `.cu` file mostly holds the program that launches its kernels too, with the headers that this needs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"\n]+)[>"]', re.MULTILINE)
MOST_INCLUDES: Final = 500
MISSING = re.compile(r'(?:cannot|could not) open source file "([^"]+)"')
_STD: Final = "namespace std {}\n"
_INTEGERS: Final = (
    "".join(
        f"typedef {'unsigned ' * (sign == 'u')}{kind} {sign}int{bits}_t;\n"
        for kind, bits in (("char", 8), ("short", 16), ("int", 32), ("long long", 64))
        for sign in ("", "u")
    ).replace("typedef char", "typedef signed char")
    + "typedef unsigned long long uintptr_t;\ntypedef long long intptr_t;\n"
)
_FOR_KERNELS: Final = ("array", "atomic", "bit", "climits", "cfloat", "concepts", "cstddef", "functional", "limits",
                       "numeric", "optional", "ratio", "span", "tuple", "type_traits", "utility")  # fmt: skip
"""Those that CUDA has for kernels, as `cuda/std/…`."""
_FOR_HOSTS: Final = (
    "algorithm", "assert.h", "cassert", "chrono", "climits", "cmath", "cstdio", "cstdlib", "cstring", "ctime",
    "cuda_runtime.h", "cuda_runtime_api.h", "device_launch_parameters.h", "driver_types.h", "cuda_profiler_api.h",
    "exception", "fstream", "iomanip", "ios", "iostream", "iterator", "limits.h", "float.h", "map", "math.h", "memory",
    "mutex", "random", "set", "sstream", "stddef.h", "stdexcept", "stdio.h", "stdlib.h", "string", "string.h",
    "string_view", "sys/time.h", "thread", "time.h", "unistd.h", "unordered_map", "unordered_set", "vector", "iosfwd",
    "initializer_list", "new", "queue", "deque", "list", "stack", "cstdarg", "stdarg.h", "cinttypes", "inttypes.h",
    "helper_cuda.h", "helper_functions.h", "Python.h",
    "cublas_v2.h", "curand.h", "cusparse.h", "nvToolsExt.h", "cuda.h", "omp.h",
)  # fmt: skip


NEVER_NEEDED: Final = frozenset({"cuda.h", "cuda_runtime_api.h", "cuda_profiler_api.h", "cublas_v2.h", "cusparse.h",
                                "curand.h", "nvToolsExt.h"})  # fmt: skip
"""Interfaces of the host that NVRTC cannot read where they are installed."""
_OF_HOSTS: Final = ("torch/", "ATen/", "c10/", "pybind11/", "sys/")
"""Folders of headers that the host's part of an extension needs."""


def stand_in(header: str, *, has_cuda_headers: bool) -> str | None:
    """The text to use for a header that was not found; None for one that nothing can stand in for."""
    if header in ("cstdint", "stdint.h"):
        return f"#pragma once\n{_INTEGERS}namespace std {{\n" + "".join(
            f"using ::{name};\n" for name in re.findall(r"\b(\w{1,60}_t);", _INTEGERS)
        ) + "}\n"  # fmt: skip
    if header in _FOR_KERNELS and has_cuda_headers:
        return f"#pragma once\n#include <cuda/std/{header}>\nnamespace std {{ using namespace cuda::std; }}\n"
    is_known = header in (*_FOR_HOSTS, *_FOR_KERNELS) or header.startswith(_OF_HOSTS)
    return f"#pragma once\n{_STD}" if is_known else None


def included(file: Path, folders: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The user's files that a file includes, directly or through others, itself among them; and names not found."""
    waiting, listed = [file], {file}
    missing: dict[str, None] = {}
    while waiting and len(listed) < MOST_INCLUDES:
        current = waiting.pop()
        for name in _INCLUDE.findall(current.read_text("utf-8", errors="replace")):
            candidates = [folder / name for folder in (current.parent, *map(Path, folders))]
            header = next((path.resolve() for path in candidates if path.is_file()), None)
            if header is None:
                missing[name] = None
            elif header not in listed:
                listed.add(header)
                waiting.append(header)
    return sorted(listed), list(missing)


def missing_header(log: str) -> str | None:
    """
    >>> missing_header('k.cu(1): catastrophic error: cannot open source file "own.h"')
    'own.h'
    """
    match = MISSING.search(log)
    return match[1] if match else None
