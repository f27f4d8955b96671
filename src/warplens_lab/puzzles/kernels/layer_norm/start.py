"""8. layer_norm: centre and scale each row, then apply weight and bias.

    mean     = Σ x[row, j] / columns
    variance = Σ (x[row, j] − mean)² / columns
    out[row, j] = (x[row, j] − mean) / sqrt(variance + eps) · weight[j] + bias[j]

One program takes one row, and a row fits into a block. Mask the lanes past the end of the row: they
must count neither in the mean nor in the variance. The rows of one case are around 1000.

Launched as   layer_norm[(rows,)](x, weight, bias, out, columns, eps, BLOCK)
              x, out: float32, rows × columns, contiguous; weight, bias: float32 of columns elements
You need      tl.where, tl.sqrt (or tl.rsqrt)
Goal          each row is read once
"""

import triton
import triton.language as tl


@triton.jit
def layer_norm(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    offsets = tl.arange(0, BLOCK)
    mask = offsets < columns
    x = tl.load(x_ptr + row + offsets, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    centred = x - mean
    # TODO: divide by the standard deviation.
    weight = tl.load(weight_ptr + offsets, mask=mask)
    bias = tl.load(bias_ptr + offsets, mask=mask)
    tl.store(out_ptr + row + offsets, centred * weight + bias, mask=mask)
