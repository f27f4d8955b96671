"""What the kernels of `user_kernels` read from another module."""

from __future__ import annotations

import triton
import triton.language as tl

SCALE = tl.constexpr(3.0)


@triton.jit
def halved(x):
    return x * 0.5


@triton.jit
def doubled(x):
    return x * 2.0
