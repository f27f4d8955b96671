"""Headers that NVRTC does not find: those of the host have nothing for a kernel, others have a counterpart in CUDA.

A `.cu` file mostly holds the program that launches its kernels too, with the headers that this needs.
"""

from __future__ import annotations

import re
from typing import Final

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
    "helper_cuda.h", "helper_functions.h", "cublas_v2.h", "curand.h", "cusparse.h", "nvToolsExt.h", "cuda.h", "omp.h",
)  # fmt: skip


def stand_in(header: str, *, has_cuda_headers: bool) -> str | None:
    """The text to use for a header that was not found; None for one that nothing can stand in for."""
    if header in ("cstdint", "stdint.h"):
        return f"#pragma once\n{_INTEGERS}namespace std {{\n" + "".join(
            f"using ::{name};\n" for name in re.findall(r"(\w+_t);", _INTEGERS)
        ) + "}\n"  # fmt: skip
    if header in _FOR_KERNELS and has_cuda_headers:
        return f"#pragma once\n#include <cuda/std/{header}>\nnamespace std {{ using namespace cuda::std; }}\n"
    return f"#pragma once\n{_STD}" if header in _FOR_HOSTS or header in _FOR_KERNELS else None


def missing_header(log: str) -> str | None:
    """
    >>> missing_header('k.cu(1): catastrophic error: cannot open source file "own.h"')
    'own.h'
    """
    match = MISSING.search(log)
    return match[1] if match else None
