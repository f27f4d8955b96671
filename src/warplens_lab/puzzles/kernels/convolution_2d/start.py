"""20. convolution_2d: a small window over each of several images, with zeros beyond all four edges.

    out[b, i, j] = Σ w[s, t] · x[b, i + s − tall // 2, j + t − wide // 2]

        s = 0 … tall − 1, t = 0 … wide − 1, both odd; x is 0 outside 0 … height − 1 and 0 … width − 1

Each program computes one tile of one image. All images share the weights. The neighbours of a tile's
edge are in other tiles, in the same image: the end of a row is no neighbour of the next row's begin.

Launched as   convolution_2d[(images, cdiv(height, BLOCK_H), cdiv(width, BLOCK_W))](
                  x, w, out, height, width, tall, wide, BLOCK_H, BLOCK_W)
              x, out: float32, images × height × width, contiguous; w: float32, tall × wide, contiguous
You need      a loop in a loop, a mask with four conditions
Look at       the page of your solution: how often is each element of x read?
"""

import triton
import triton.language as tl


@triton.jit
def convolution_2d(x_ptr, w_ptr, out_ptr, height, width, tall, wide, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    image = tl.program_id(0) * height * width
    i = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    j = tl.program_id(2) * BLOCK_W + tl.arange(0, BLOCK_W)
    mask = (i[:, None] < height) & (j[None, :] < width)
    # TODO: this is the weight in the middle alone. What of the neighbours?
    x = tl.load(x_ptr + image + i[:, None] * width + j[None, :], mask=mask, other=0.0)
    total = tl.load(w_ptr + tall // 2 * wide + wide // 2) * x
    tl.store(out_ptr + image + i[:, None] * width + j[None, :], total, mask=mask)
