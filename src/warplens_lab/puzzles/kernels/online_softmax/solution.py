"""exp(x − old) · exp(old − new) = exp(x − new): one factor makes the sum so far relative to the new maximum."""

import triton
import triton.language as tl


@triton.jit
def online_softmax(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    highest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row + offsets, mask=offsets < columns, other=-float("inf"))
        higher = tl.maximum(highest, tl.max(x, axis=0))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(x - higher), axis=0)
        highest = higher
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        x = tl.load(x_ptr + row + offsets, mask=mask)
        tl.store(out_ptr + row + offsets, tl.exp(x - highest) / total, mask=mask)
