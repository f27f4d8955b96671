"""Kernels that go over rows: norms, softmax, losses, rotary embeddings, quantisation and scans."""

from __future__ import annotations

import torch
import triton
import triton.language as tl


@triton.jit
def layer_norm_kernel(x_ptr, y_ptr, w_ptr, b_ptr, stride, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    # plant(no_other): , other=0.0 ->
    # find(no_other)
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n_cols + eps)
    w = tl.load(w_ptr + cols, mask=mask)
    b = tl.load(b_ptr + cols, mask=mask)
    tl.store(y_ptr + row * stride + cols, centred * rstd * w + b, mask=mask)


def run_layer_norm():
    torch.manual_seed(0)
    x, w, b = torch.randn(6, 50), torch.randn(50), torch.randn(50)
    y = torch.empty_like(x)
    layer_norm_kernel[(6,)](x, y, w, b, x.stride(0), 50, 1e-5, BLOCK=64)
    return y, torch.nn.functional.layer_norm(x.double(), (50,), w.double(), b.double())


@triton.jit
def layer_norm_weights_kernel(dy_ptr, x_ptr, dw_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    dw = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in range(pid * ROWS, min((pid + 1) * ROWS, n_rows)):
        dy = tl.load(dy_ptr + row * n_cols + cols, mask=mask, other=0.0)
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0)
        dw += dy * x
    # plant(two_writers): pid * n_cols + cols -> cols
    # find(two_writers)
    tl.store(dw_ptr + pid * n_cols + cols, dw, mask=mask)


def run_layer_norm_weights():
    torch.manual_seed(0)
    dy, x, dw = torch.randn(10, 50), torch.randn(10, 50), torch.zeros(3, 50)
    layer_norm_weights_kernel[(3,)](dy, x, dw, 10, 50, ROWS=4, BLOCK=64)
    return dw.sum(0), (dy.double() * x.double()).sum(0)


@triton.jit
def long_softmax_kernel(x_ptr, y_ptr, x_row_stride, y_row_stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    m = -float("inf")
    total = 0.0
    # plant(short_loop): n_cols, -> n_cols - BLOCK,
    for start in range(0, n_cols, BLOCK):
        # find(short_loop)
        x = tl.load(x_ptr + row * x_row_stride + start + offs, mask=start + offs < n_cols, other=-float("inf"))
        m_new = tl.maximum(m, tl.max(x, axis=0))
        total = total * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    # plant(short_loop): n_cols, -> n_cols - BLOCK,
    for start in range(0, n_cols, BLOCK):
        mask = start + offs < n_cols
        # find(short_loop)
        x = tl.load(x_ptr + row * x_row_stride + start + offs, mask=mask, other=-float("inf"))
        y = tl.exp(x - m) / total
        tl.store(y_ptr + row * y_row_stride + start + offs, y, mask=mask)


def run_long_softmax():
    torch.manual_seed(0)
    x = torch.randn(4, 150)
    y = torch.empty_like(x)
    long_softmax_kernel[(4,)](x, y, x.stride(0), y.stride(0), 150, BLOCK=64)
    return y, torch.softmax(x.double(), 1)


@triton.jit
def cross_entropy_kernel(logits_ptr, labels_ptr, loss_ptr, stride, n_classes, ignore_index, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    label = tl.load(labels_ptr + row)
    if label == ignore_index:
        tl.store(loss_ptr + row, 0.0)
        return
    cols = tl.arange(0, BLOCK)
    # plant(no_other): , other=-float("inf") ->
    # find(no_other)
    logits = tl.load(logits_ptr + row * stride + cols, mask=cols < n_classes, other=-float("inf"))
    top = tl.max(logits, axis=0)
    total = tl.log(tl.sum(tl.exp(logits - top), axis=0)) + top
    tl.store(loss_ptr + row, total - tl.load(logits_ptr + row * stride + label))


def run_cross_entropy():
    torch.manual_seed(0)
    logits, labels, loss = torch.randn(6, 37), torch.tensor([0, 5, -100, 36, 7, 7]), torch.empty(6)
    cross_entropy_kernel[(6,)](logits, labels, loss, 37, 37, -100, BLOCK=64)
    return loss, torch.nn.functional.cross_entropy(logits.double(), labels, reduction="none")


@triton.jit
def rotary_kernel(q_ptr, cos_ptr, sin_ptr, out_ptr, n_heads, seq_len, HALF: tl.constexpr, BLOCK_H: tl.constexpr):
    pos = tl.program_id(0)
    heads = tl.arange(0, BLOCK_H)
    dims = tl.arange(0, HALF)
    cos = tl.load(cos_ptr + pos * HALF + dims)
    sin = tl.load(sin_ptr + pos * HALF + dims)
    first = pos * n_heads * 2 * HALF + heads[:, None] * 2 * HALF + dims[None, :]
    mask = heads[:, None] < n_heads
    # plant(no_mask): , mask=mask, other=0.0 ->
    # find(no_mask)
    x1 = tl.load(q_ptr + first, mask=mask, other=0.0)
    x2 = tl.load(q_ptr + first + HALF, mask=mask, other=0.0)
    # find(tile_left)
    tl.store(out_ptr + first, x1 * cos[None, :] - x2 * sin[None, :], mask=mask)
    # plant(tile_left): mask=mask -> mask=mask & (dims[None, :] < HALF // 2)
    tl.store(out_ptr + first + HALF, x2 * cos[None, :] + x1 * sin[None, :], mask=mask)


def run_rotary():
    torch.manual_seed(0)
    q, angle = torch.randn(5, 3, 32), torch.randn(64, 16)
    cos, sin, out = torch.cos(angle), torch.sin(angle), torch.empty(5, 3, 32)
    rotary_kernel[(5,)](q, cos, sin, out, 3, 5, HALF=16, BLOCK_H=4)
    x1, x2, c, s = q[..., :16], q[..., 16:], cos[:5, None], sin[:5, None]
    return out, torch.cat([x1 * c - x2 * s, x2 * c + x1 * s], -1).double()


@triton.jit
def quantise_kernel(x_ptr, q_ptr, scale_ptr, n_rows, n_cols, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, BLOCK)
    # plant(no_mask): rows[:, None] < n_rows -> rows[:, None] >= 0
    mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
    # find(no_mask)
    x = tl.load(x_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
    scale = tl.max(tl.abs(x), axis=1) / 127.0
    q = (x / tl.where(scale > 0, scale, 1.0)[:, None]).to(tl.int8)
    tl.store(q_ptr + rows[:, None] * n_cols + cols[None, :], q, mask=mask)
    # plant(tile_left): rows < n_rows -> rows < n_rows // ROWS * ROWS
    # find(tile_left)
    tl.store(scale_ptr + rows, scale, mask=rows < n_rows)


def run_quantise():
    torch.manual_seed(0)
    x = torch.randn(10, 30)
    q, scale = torch.empty(10, 30, dtype=torch.int8), torch.empty(10)
    quantise_kernel[(3,)](x, q, scale, 10, 30, ROWS=4, BLOCK=32)
    return scale, x.double().abs().amax(1) / 127.0


@triton.jit
def chunked_scan_kernel(x_ptr, y_ptr, n_cols, N_CHUNKS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offs = tl.arange(0, BLOCK)
    y_ptrs = y_ptr + row * n_cols + offs
    carry = 0.0
    for chunk in range(N_CHUNKS):
        at = chunk * BLOCK + offs
        x = tl.load(x_ptr + row * n_cols + at, mask=at < n_cols, other=0.0)
        y = tl.cumsum(x, axis=0) + carry
        # find(two_writers)
        tl.store(y_ptrs, y, mask=at < n_cols)
        carry += tl.sum(x, axis=0)
        # plant(two_writers): BLOCK -> 0
        y_ptrs += BLOCK


def run_chunked_scan():
    torch.manual_seed(0)
    x = torch.randn(3, 80)
    y = torch.empty_like(x)
    chunked_scan_kernel[(3,)](x, y, 80, N_CHUNKS=3, BLOCK=32)
    return y, torch.cumsum(x.double(), 1)


@triton.jit
def bias_grad_kernel(dy_ptr, db_ptr, n_rows, n_cols, BLOCK_R: tl.constexpr, BLOCK_C: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    # plant(narrow_sum): tl.float32 -> tl.float16
    total = tl.zeros((BLOCK_C,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_R):
        rows = start + tl.arange(0, BLOCK_R)
        mask = (rows[:, None] < n_rows) & (cols[None, :] < n_cols)
        dy = tl.load(dy_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
        # plant(narrow_sum): .to(tl.float32) -> .to(tl.float16)
        # find(narrow_sum)
        total += tl.sum(dy.to(tl.float32), axis=0)
    tl.store(db_ptr + cols, total, mask=cols < n_cols)


def run_bias_grad():
    torch.manual_seed(0)
    dy, db = torch.randn(2000, 40).half(), torch.empty(40, dtype=torch.float16)
    bias_grad_kernel[(1,)](dy, db, 2000, 40, BLOCK_R=16, BLOCK_C=64)
    return db, dy.double().sum(0)
