"""The softmax of online_softmax with a row of results in place of each sum; a causal loop ends at the last query."""

import triton
import triton.language as tl


@triton.jit
def attention(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, length, WIDTH: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr
):
    head = tl.program_id(1) * length * WIDTH
    first = tl.program_id(0) * BLOCK
    rows = first + tl.arange(0, BLOCK)
    inner = tl.arange(0, WIDTH)
    offsets = head + rows[:, None] * WIDTH + inner[None, :]
    q = tl.load(q_ptr + offsets, mask=rows[:, None] < length, other=0.0)

    highest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    out = tl.zeros((BLOCK, WIDTH), dtype=tl.float32)
    end = tl.minimum(first + BLOCK, length) if CAUSAL else length
    for start in range(0, end, BLOCK):
        keys = start + tl.arange(0, BLOCK)
        k = tl.load(k_ptr + head + keys[None, :] * WIDTH + inner[:, None], mask=keys[None, :] < length, other=0.0)
        v = tl.load(v_ptr + head + keys[:, None] * WIDTH + inner[None, :], mask=keys[:, None] < length, other=0.0)
        visible = keys[None, :] < length
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None])
        score = tl.where(visible, tl.dot(q, k) * scale, -float("inf"))
        higher = tl.maximum(highest, tl.max(score, axis=1))
        weights = tl.exp(score - higher[:, None])
        shrink = tl.exp(highest - higher)
        total = total * shrink + tl.sum(weights, axis=1)
        out = tl.dot(weights, v, out * shrink[:, None])
        highest = higher

    tl.store(out_ptr + offsets, out / total[:, None], mask=rows[:, None] < length)
