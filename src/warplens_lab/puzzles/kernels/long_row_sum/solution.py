"""Each lane sums its own column of blocks; the lanes are added up once, after the loop."""

import triton
import triton.language as tl


@triton.jit
def long_row_sum(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, columns, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * columns + offsets, mask=offsets < columns, other=0.0)
    tl.store(out_ptr + row, tl.sum(total, axis=0))
