"""For each weight the tile's neighbours are a tile of their own, moved by a row and a column offset."""

import triton
import triton.language as tl


@triton.jit
def convolution_2d(x_ptr, w_ptr, out_ptr, height, width, tall, wide, BLOCK_H: tl.constexpr, BLOCK_W: tl.constexpr):
    image = tl.program_id(0) * height * width
    i = tl.program_id(1) * BLOCK_H + tl.arange(0, BLOCK_H)
    j = tl.program_id(2) * BLOCK_W + tl.arange(0, BLOCK_W)
    total = tl.zeros((BLOCK_H, BLOCK_W), dtype=tl.float32)
    for s in range(tall):
        row = i[:, None] + s - tall // 2
        for t in range(wide):
            column = j[None, :] + t - wide // 2
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            x = tl.load(x_ptr + image + row * width + column, mask=inside, other=0.0)
            total += tl.load(w_ptr + s * wide + t) * x
    mask = (i[:, None] < height) & (j[None, :] < width)
    tl.store(out_ptr + image + i[:, None] * width + j[None, :], total, mask=mask)
