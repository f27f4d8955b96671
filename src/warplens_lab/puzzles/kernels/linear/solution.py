"""GROUP rows of tiles are walked column by column, so neighbours share strips of x and w; the last group is shorter."""

import triton
import triton.language as tl


@triton.jit
def linear(x_ptr, w_ptr, b_ptr, y_ptr, m, n, k, BLOCK: tl.constexpr, GROUP: tl.constexpr):
    tiles_m, tiles_n = tl.cdiv(m, BLOCK), tl.cdiv(n, BLOCK)
    first_row = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    within = tl.program_id(0) % (GROUP * tiles_n)
    height = tl.minimum(tiles_m - first_row, GROUP)
    tile_row = first_row + within % height
    tile_column = within // height

    rows = tile_row * BLOCK + tl.arange(0, BLOCK)
    columns = tile_column * BLOCK + tl.arange(0, BLOCK)
    y = tl.zeros((BLOCK, BLOCK), dtype=tl.float32)
    for start in range(0, k, BLOCK):
        inner = start + tl.arange(0, BLOCK)
        x_mask = (rows[:, None] < m) & (inner[None, :] < k)
        w_mask = (inner[:, None] < k) & (columns[None, :] < n)
        x = tl.load(x_ptr + rows[:, None] * k + inner[None, :], mask=x_mask, other=0.0)
        w = tl.load(w_ptr + inner[:, None] * n + columns[None, :], mask=w_mask, other=0.0)
        y = tl.dot(x, w, y)
    b = tl.load(b_ptr + columns, mask=columns < n, other=0.0)
    y = tl.maximum(y + b[None, :], 0.0)
    y_mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(y_ptr + rows[:, None] * n + columns[None, :], y.to(tl.float16), mask=y_mask)
