"""11. convolution: a one-dimensional convolution with zeros beyond both ends.

    out[i] = Σ w[t] · x[i + t − width // 2]        t = 0 … width − 1, width odd, x is 0 outside 0 … n − 1

Each program computes one block of out. Its elements need neighbours that are in the blocks before and
after it; at the two ends of x there are none.

Launched as   convolution[(cdiv(n, BLOCK),)](x, w, out, n, width, BLOCK)
              x, out: float32 of n elements; w: float32 of width elements
You need      a loop over the weights, a mask with two conditions
Look at       the page of your solution: how often is each element of x read?
"""

import triton
import triton.language as tl


@triton.jit
def convolution(x_ptr, w_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    # TODO: this is the weight in the middle alone. What of the neighbours?
    middle = width // 2
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0)
    total = tl.load(w_ptr + middle) * x
    tl.store(out_ptr + offsets, total, mask=mask)
