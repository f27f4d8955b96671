"""19. outer_multiply_backward: the gradients of outer_multiply, both in one pass over dout.

    dx[i] = Σ dout[i, j] · y[j]        over all j with x[i] · y[j] > 0
    dy[j] = Σ dout[i, j] · x[i]        over all i with x[i] · y[j] > 0

dout is the gradient of a loss by the result of outer_multiply. That step did not store its product,
so this one computes it again, tile by tile: that is cheaper than reading it. Each program takes one
tile of dout and adds its part to dx and to dy, which are 0 everywhere before the launch.

Launched as   outer_multiply_backward[(cdiv(rows, BLOCK_ROWS), cdiv(columns, BLOCK_COLUMNS))](
                  x, y, dout, dx, dy, rows, columns, BLOCK_ROWS, BLOCK_COLUMNS)
              x, dx: float32 of rows elements; y, dy: float32 of columns elements
              dout: float32, rows × columns, contiguous
You need      tl.where, tl.sum along either axis, tl.atomic_add
Goal          each element of dout is read once, for both gradients
"""

import triton
import triton.language as tl


@triton.jit
def outer_multiply_backward(
    x_ptr, y_ptr, dout_ptr, dx_ptr, dy_ptr, rows, columns, BLOCK_ROWS: tl.constexpr, BLOCK_COLUMNS: tl.constexpr
):
    i = tl.program_id(0) * BLOCK_ROWS + tl.arange(0, BLOCK_ROWS)
    j = tl.program_id(1) * BLOCK_COLUMNS + tl.arange(0, BLOCK_COLUMNS)
    mask = (i[:, None] < rows) & (j[None, :] < columns)
    x = tl.load(x_ptr + i, mask=i < rows, other=0.0)
    y = tl.load(y_ptr + j, mask=j < columns, other=0.0)
    dout = tl.load(dout_ptr + i[:, None] * columns + j[None, :], mask=mask, other=0.0)
    # TODO: these are the gradients of the product alone. Where relu gave 0, no gradient passes.
    tl.atomic_add(dx_ptr + i, tl.sum(dout * y[None, :], axis=1), mask=i < rows)
    tl.atomic_add(dy_ptr + j, tl.sum(dout * x[:, None], axis=0), mask=j < columns)
