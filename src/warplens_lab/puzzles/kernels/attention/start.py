"""14. attention: attention without storing the scores.

    score[i, j] = scale · Σ q[i, t] · k[j, t]                      t = 0 … WIDTH − 1
    out[i, …]   = Σ softmax(score[i, …])[j] · v[j, …]             j = 0 … length − 1

A program takes BLOCK queries of one head and goes along the keys and values, BLOCK at a time. A row of
scores is never complete, so its softmax must grow with it, as in online_softmax: with each block the
maximum may rise, and then both the sum and the results so far are rescaled.

If CAUSAL is true, query i sees the keys j ≤ i only. (Do it without first: two of the cases do not ask
for it.)

Launched as   attention[(cdiv(length, BLOCK), heads)](q, k, v, out, scale, length, WIDTH, BLOCK, CAUSAL)
              q, k, v, out: float32, heads × length × WIDTH, contiguous; WIDTH is a power of two
You need      two tl.dot per step, tl.maximum, tl.where
Goal          a causal program reads no block of keys that none of its queries may see
"""

import triton
import triton.language as tl


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr
):
    head = tl.program_id(1) * length * WIDTH
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inner = tl.arange(0, WIDTH)
    offsets = head + rows[:, None] * WIDTH + inner[None, :]
    q = tl.load(q_ptr + offsets, mask=rows[:, None] < length, other=0.0)

    # TODO: this is the first block of keys only.
    keys = tl.arange(0, BLOCK)
    # k is loaded transposed, WIDTH × BLOCK, as tl.dot needs it.
    k = tl.load(k_ptr + head + keys[None, :] * WIDTH + inner[:, None], mask=keys[None, :] < length, other=0.0)
    v = tl.load(v_ptr + head + keys[:, None] * WIDTH + inner[None, :], mask=keys[:, None] < length, other=0.0)
    score = tl.where(keys[None, :] < length, tl.dot(q, k) * scale, -float("inf"))
    highest = tl.max(score, axis=1)
    weights = tl.exp(score - highest[:, None])
    total = tl.sum(weights, axis=1)
    out = tl.dot(weights, v)

    tl.store(out_ptr + offsets, out / total[:, None], mask=rows[:, None] < length)
