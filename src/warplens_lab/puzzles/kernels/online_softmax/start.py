"""7. online_softmax: softmax of rows longer than a block, reading each row twice only.

    out[row, j] = exp(x[row, j] − highest) / Σ exp(x[row, …] − highest),   highest = the row's maximum

A row does not fit into a block. Three loops would do: one for the maximum, one for the sum, one that
writes. The first two can be one: keep the maximum of what was seen so far and the sum relative to it,
and when a block raises the maximum, make the sum so far relative to the new one.

Launched as   online_softmax[(rows,)](x, out, columns, BLOCK)
              x, out: float32, rows × columns, contiguous
You need      tl.maximum, and what exp(a + b) = exp(a) · exp(b) gives
Goal          each row is read twice, not three times
"""

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
        highest = tl.maximum(highest, tl.max(x, axis=0))
        # TODO: total was summed relative to the maximum of the blocks before this one.
        total += tl.sum(tl.exp(x - highest), axis=0)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        x = tl.load(x_ptr + row + offsets, mask=mask)
        tl.store(out_ptr + row + offsets, tl.exp(x - highest) / total, mask=mask)
