"""`carry` is the sum of all blocks before this one: added to the block's own running sum, then moved on."""

import triton
import triton.language as tl


@triton.jit
def running_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    carry = 0.0
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        mask = offsets < columns
        x = tl.load(x_ptr + row + offsets, mask=mask, other=0.0)
        tl.store(out_ptr + row + offsets, carry + tl.cumsum(x, axis=0), mask=mask)
        carry += tl.sum(x, axis=0)
