"""What the planted faults are made of: kernels, layers, a training step, a captured graph, a busy host."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from gpu_run import Run, Step

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

if triton is not None:

    @triton.jit
    def tile_matmul(a, b, out, cols, depth, block: tl.constexpr, step: tl.constexpr):
        """One tile a program; its stages fill the shared memory, so that one program fits on an SM at a time."""
        tile = tl.program_id(0)
        across = cols // block
        rows_at = (tile // across) * block + tl.arange(0, block)
        cols_at = (tile % across) * block + tl.arange(0, block)
        inner = tl.arange(0, step)
        a_at = a + rows_at[:, None].to(tl.int64) * depth + inner[None, :]
        b_at = b + cols_at[None, :].to(tl.int64) * depth + inner[:, None]
        total = tl.zeros((block, block), dtype=tl.float32)
        for _ in range(0, depth, step):
            total = tl.dot(tl.load(a_at), tl.load(b_at), total)
            a_at += step
            b_at += step
        tl.store(out + rows_at[:, None] * cols + cols_at[None, :], total.to(tl.bfloat16))

    @triton.jit
    def scale_shift(x, out, count, block: tl.constexpr):
        """Elementwise with a loop over the grid, so that any number of programs does the same work."""
        stride = tl.num_programs(0) * block
        for start in range(tl.program_id(0) * block, count, stride):
            at = start + tl.arange(0, block)
            tl.store(out + at, tl.load(x + at, mask=at < count) * 1.5 + 0.5, mask=at < count)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class Block(nn.Module):
    """A pre-norm transformer block; attend maps q, k and v (batch, heads, length, width) to the mixed values."""

    def __init__(self, width: int, heads: int, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.heads, self.attend = heads, attend
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.proj = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.proj(self.attend(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    """Embedding, blocks, head and loss: the smallest thing that trains like a GPT."""

    def __init__(self, vocab: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.blocks = nn.Sequential(*(Block(width, heads, causal_attention) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.head(self.norm(self.blocks(self.embed(tokens))))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def place(run: Run, model: nn.Module, dtype: torch.dtype = torch.bfloat16) -> nn.Module:
    return model.to(run.device, dtype)


def mlp(*widths: int) -> nn.Sequential:
    return nn.Sequential(*(m for i, o in itertools.pairwise(widths) for m in (nn.Linear(i, o, bias=False), nn.GELU())))


def training(model: nn.Module, loss_of: Callable[[], Tensor], **adamw: Any) -> Step:
    """The well-made training step, unless adamw says otherwise: fused optimizer, gradients set to None, no sync."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, **(adamw or {"fused": True}))

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        loss_of().backward()
        optimizer.step()

    return step


def language_training(run: Run, vocab: int, width: int, layers: int, shape: tuple[int, int], compiled: bool) -> Step:
    model = place(run, LanguageModel(vocab, width, max(1, width // 128), layers))
    tokens = torch.randint(0, vocab, shape, device=run.device)
    targets = torch.randint(0, vocab, shape, device=run.device)
    forward = compile_for(run, model) if compiled else model
    return training(model, lambda: forward(tokens, targets))


def compile_for(run: Run, what: Callable[..., Any]) -> Callable[..., Any]:
    """torch.compile, whose code generator needs a GPU for Triton; elsewhere only its tracing is exercised."""
    return torch.compile(what) if run.cuda else torch.compile(what, backend="eager")


def captured(run: Run, body: Step) -> Step:
    """The body as a CUDA graph (on a CPU the body itself). The partial keeps alive what the graph reads."""
    if not run.cuda:
        return body
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        body()
    return functools.partial(replay, graph, body)


def replay(graph: torch.cuda.CUDAGraph, _keep: Step) -> None:
    graph.replay()


def spin(rounds: int) -> int:
    """Host work with no calls in it: a profiler that records Python calls must not see thousands of them."""
    total = 0
    for i in range(rounds):
        total += i * i
    return total


@functools.cache
def rounds_per_ms() -> int:
    best = min(_seconds(lambda: spin(20_000)) for _ in range(5))
    return max(1, int(20_000 / (best * 1e3)))


def _seconds(call: Step) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
