"""For each weight a whole block of neighbours is loaded; the cache serves the elements that were read before."""

import triton
import triton.language as tl


@triton.jit
def convolution(x_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(width):
        near = offsets + t - width // 2
        x = tl.load(x_ptr + near, mask=(near >= 0) & (near < n), other=0.0)
        total += tl.load(w_ptr + t) * x
    tl.store(out_ptr + offsets, total, mask=offsets < n)
