"""Profiles of runs with one planted performance fault, of the same runs repaired, and what the repair truly gains.

usage: gpu_faults.py --out DIR [--only a,b] [--device cuda|cpu] [--tiny] [--budget-s 480] [--tar]

Every pair builds one training or inference step twice: before (with the fault) and after (repaired). All steps are
timed first and profiled later, each from a fresh build, because a profiler that has run once can slow later launches.
DIR gets PAIR.before.json.gz, PAIR.after.json.gz and truth.json; with --tar all of them go into faults.tar, and into
faults.2.tar and so on where one would pass 15 MiB. The healthy runs have no fault and only an after.
"""

from __future__ import annotations

import argparse
import functools
import gc
import itertools
import json
import platform
import random
import statistics
import tarfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, schedule
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

Step = Callable[[], Any]

CYCLE = 6  # steps after which a run repeats itself: one straggler in each
TIMED_STEPS = 4 * CYCLE
WARM_S = 0.5
WAIT, WARMUP, ACTIVE = 1, 2, 3
PART_BYTES = 15 * 2**20


class NeedsCudaError(Exception):
    """The pair has no meaning without a CUDA device (or without Triton)."""


@dataclass(frozen=True)
class Run:
    """Where a pair runs and at which scale."""

    device: str
    tiny: bool

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    def size(self, full: int, tiny: int) -> int:
        return tiny if self.tiny else full

    def randn(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def sync(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def mark(self) -> Any:
        """A point in time on the device, without making the host wait for it."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_ms(self, first: Any, second: Any) -> float:
        return first.elapsed_time(second) if self.cuda else (second - first) * 1e3


@dataclass(frozen=True)
class Pair:
    build: Callable[[Run, bool], Step]
    description: str
    healthy: bool = False
    stat: str = "median"  # the mean where the fault strikes some steps only
    active: int = ACTIVE

    @property
    def variants(self) -> tuple[str, ...]:
        return ("after",) if self.healthy else ("before", "after")


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

    @triton.jit
    def fma_chain(out, rounds, factor, shift, block: tl.constexpr):
        """Nothing but fused multiply-adds; the store only keeps the compiler from dropping them."""
        at = tl.program_id(0) * block + tl.arange(0, block)
        x = at.to(tl.float32)
        for _ in range(rounds):
            x = x * factor + shift
            x = x * factor + shift
            x = x * factor + shift
            x = x * factor + shift
        tl.store(out + at, x)


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


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    was = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = was


def odd_vocab(run: Run, fixed: bool) -> Step:
    """An odd row length leaves the logits' gradient aligned to 2 bytes, which the fast matrix kernels cannot read."""
    vocab = run.size(32001, 101) if not fixed else run.size(32064, 128)
    return language_training(
        run, vocab, run.size(1024, 64), run.size(4, 1), (run.size(8, 2), run.size(1024, 16)), False
    )


def fp32_matmul(run: Run, fixed: bool) -> Step:
    """Without TF32 an fp32 product runs on the vector units."""
    width = run.size(4096, 64)
    model = place(run, mlp(*[width] * 5), torch.float32)
    x = run.randn(run.size(2048, 32), width, dtype=torch.float32)
    inner = training(model, lambda: F.mse_loss(model(x), x))

    def step() -> None:
        with tf32(fixed):
            inner()

    return step


def unfused_attention(run: Run, fixed: bool) -> Step:
    """The scores travel through memory once for each of product, scale, mask, softmax and product."""
    width, length = run.size(1024, 64), run.size(2048, 32)
    mask = torch.ones(length, length, dtype=torch.bool, device=run.device).triu(1)

    def naive(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        return torch.softmax(scores.masked_fill(mask, float("-inf")), dim=-1) @ v

    attend = causal_attention if fixed else naive
    model = place(run, nn.Sequential(*(Block(width, run.size(8, 2), attend) for _ in range(run.size(3, 1)))))
    x = run.randn(run.size(4, 1), length, width)
    return training(model, lambda: F.mse_loss(model(x), x))


def scaled_gelu(x: Tensor, scale: Tensor, bias: Tensor, residual: Tensor) -> Tensor:
    x = x + bias
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + torch.tanh(inner)) * scale + residual


def pointwise_chain(run: Run, fixed: bool) -> Step:
    """A dozen kernels that each read and write a whole tensor, where one would do."""
    width = run.size(8192, 64)
    x, weight = run.randn(width, width), run.randn(width, width) * width**-0.5
    scale, bias = run.randn(width), run.randn(width)
    activate = compile_for(run, scaled_gelu) if fixed else scaled_gelu

    @torch.no_grad()
    def step() -> Tensor:
        y = x
        for _ in range(3):
            y = activate(y @ weight, scale, bias, x)
        return y

    return step


def cast_pingpong(run: Run, fixed: bool) -> Step:
    """To fp32 and back around every small operation: each way is one more pass over the tensor."""
    width = run.size(4096, 64)

    def up(x: Tensor) -> Tensor:
        return x if fixed else x.float()

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.scale = nn.Linear(width, width, bias=False), nn.Parameter(torch.ones(width))

        def forward(self, x: Tensor) -> Tensor:
            x = F.rms_norm(up(self.linear(x)), (width,)).bfloat16()
            x = F.silu(up(x)).bfloat16()
            return (up(x) * up(self.scale)).bfloat16()

    model = place(run, nn.Sequential(*(Layer() for _ in range(3))))
    x = run.randn(run.size(16384, 32), width)
    return training(model, lambda: F.mse_loss(model(x), x))


def item_sync(run: Run, fixed: bool) -> Step:
    """Statistics read on the host layer by layer, and a boolean mask: the queue of launches runs dry at each."""
    width, rows, parts = run.size(2048, 32), run.size(2048, 16), run.size(6, 2)
    model = place(run, mlp(*[width] * 7))
    x, keep = run.randn(rows, width), torch.rand(rows, device=run.device) < 0.9
    log: list[Any] = []

    def loss_of() -> Tensor:
        h = x
        for layer in model:
            h = layer(h)
            if isinstance(layer, nn.GELU):
                peak = h.detach().abs().max()
                log.append(peak if fixed else peak.item())
        error = (h - x).square().mean(-1)
        return (error * keep).sum() / keep.sum() if fixed else error[keep].mean()

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

    def step() -> None:
        log.clear()
        optimizer.zero_grad(set_to_none=True)
        for _ in range(parts):
            loss = loss_of()
            loss.backward()
            log.append(loss.detach() if fixed else loss.item())
        optimizer.step()

    return step


def single_tensor_optimizer(run: Run, fixed: bool) -> Step:
    """Some eight kernels for each of 300 parameters, where the fused optimizer needs a handful for all."""
    width = run.size(1024, 32)
    layers = run.size(75, 4)
    model = place(
        run, nn.Sequential(*(m for _ in range(layers) for m in (nn.Linear(width, width), nn.LayerNorm(width))))
    )
    x = run.randn(run.size(8192, 16), width)
    chosen = {"fused": True} if fixed else {"foreach": False, "fused": False}
    return training(model, lambda: F.mse_loss(model(x), x), **chosen)


def nchw_conv(run: Run, fixed: bool) -> Step:
    """The tensor-core convolutions want channels last; otherwise layout kernels run around each of them."""
    layout = torch.channels_last if fixed else torch.contiguous_format
    wide = run.size(128, 8)
    layers = ((nn.Conv2d(wide, wide, 3, padding=1, bias=False), nn.BatchNorm2d(wide), nn.ReLU()) for _ in range(5))
    model = nn.Sequential(*itertools.chain.from_iterable(layers))
    model = place(run, model, torch.float16).to(memory_format=layout)
    for module in model:
        if isinstance(module, nn.BatchNorm2d):
            module.float()
    side = run.size(56, 8)
    x = run.randn(run.size(128, 2), wide, side, side, dtype=torch.float16).to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, fused=True)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        (F.mse_loss(model(x), x) * 8192).backward()  # unscaled gradients would be zeros in fp16
        optimizer.step()

    return step


def pageable_copy(run: Run, fixed: bool) -> Step:
    """A copy from pageable memory blocks the host and waits for the stream; a pinned one can hide behind compute."""
    rows, width = run.size(16384, 32), run.size(4096, 64)
    model = place(run, mlp(width // 4, width, width, width, width // 4))
    batch = torch.randn(rows, width // 4)
    pinned = prefetched(batch.pin_memory()) if fixed and run.cuda else None

    def source() -> Tensor:
        return pinned() if pinned else batch.to(run.device)

    def loss_of() -> Tensor:
        x = source().bfloat16()
        return F.mse_loss(model(x), x)

    return training(model, loss_of)


def prefetched(pinned: Tensor) -> Callable[[], Tensor]:
    """Hands out the batch copied during the last step and starts the next copy, one step ahead and no more."""
    side = torch.cuda.Stream()
    ready: list[Tensor] = []

    def fetch() -> None:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            ready.append(pinned.to("cuda", non_blocking=True))

    def take() -> Tensor:
        main = torch.cuda.current_stream()
        main.wait_stream(side)
        batch = ready.pop()
        batch.record_stream(main)
        fetch()
        return batch

    fetch()
    return take


class PackedRecords(Dataset):
    """Records that cost the CPU real work to unpack, as images do to decode."""

    def __init__(self, size: int) -> None:
        chance = random.Random(1)
        words = [chance.randbytes(8) for _ in range(256)]
        self.packed = zlib.compress(b"".join(chance.choice(words)[: chance.randint(2, 8)] for _ in range(size))[:size])

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Tensor:
        return torch.frombuffer(bytearray(zlib.decompress(self.packed)), dtype=torch.uint8)


def dataloader_stall(run: Run, fixed: bool) -> Step:
    """The next batch is unpacked in the training process, while the device has nothing to do."""
    width, records, size = run.size(8192, 64), 16, run.size(2**18, 2**9)
    extra: dict[str, Any] = {"num_workers": 4, "persistent_workers": True, "prefetch_factor": 4} if fixed else {}
    loader = DataLoader(PackedRecords(size), batch_size=records, pin_memory=run.cuda, **extra)
    batches = iter(loader)
    narrow = min(1024, width)
    model = place(run, mlp(narrow, width, width, width, width, narrow))

    def loss_of() -> Tensor:
        x = next(batches).to(run.device, non_blocking=True).view(-1, narrow).bfloat16() / 255
        return F.mse_loss(model(x), x)

    return training(model, loss_of)


def recompute(run: Run, fixed: bool) -> Step:
    """Every forward pass runs twice, though the memory it saves is not needed."""
    width = run.size(2048, 64)
    blocks = place(run, nn.ModuleList(Block(width, run.size(16, 2), causal_attention) for _ in range(run.size(3, 2))))
    x = run.randn(run.size(4, 1), run.size(2048, 16), width)

    def loss_of() -> Tensor:
        h = x.detach().requires_grad_()
        for block in blocks:
            h = block(h) if fixed else checkpoint(block, h, use_reentrant=False)
        return F.mse_loss(h, x)

    return training(blocks, loss_of)


def graph_gaps(run: Run, fixed: bool) -> Step:
    """The host waits for each replay and then computes for 2 ms before it starts the next."""
    width = run.size(8192, 32)
    x, weight = run.randn(run.size(4096, 8), width), run.randn(width, width) * width**-0.5

    @torch.no_grad()
    def body() -> Tensor:
        y = x
        for _ in range(4):
            y = F.gelu(y @ weight) + x
        return y

    launch, rounds = captured(run, body), rounds_per_ms() * run.size(2, 1)

    def step() -> None:
        for _ in range(3):
            launch()
            if not fixed:
                run.sync()
                spin(rounds)

    return step


def straggler_step(run: Run, fixed: bool) -> Step:
    """One step in six sleeps on the host. All of them read their loss, so that no queue hides the sleep."""
    width, count = run.size(4096, 32), 0
    model = place(run, mlp(*[width] * 4))
    x = run.randn(run.size(16384, 16), width)
    loss = torch.zeros(())

    def loss_of() -> Tensor:
        nonlocal loss
        loss = F.mse_loss(model(x), x)
        return loss

    inner = training(model, loss_of)

    def step() -> None:
        nonlocal count
        if not fixed and count % CYCLE == 0:
            time.sleep(0.02)
        count += 1
        inner()
        loss.item()

    return step


def wave_tail(run: Run, fixed: bool) -> Step:
    """Four tiles more than there are SMs cost a whole second wave (3 % more work, near twice the time)."""
    sms = need_triton(run)
    tiles = sms if fixed else sms + 4
    down = max(d for d in range(1, 13) if tiles % d == 0)
    block, depth = 128, run.size(65536, 256)
    rows, cols = down * block, tiles // down * block
    a, b, out = run.randn(rows, depth), run.randn(cols, depth), run.randn(rows, cols)

    def step() -> None:
        for _ in range(8):
            tile_matmul[(tiles,)](a, b, out, cols, depth, block=block, step=64, num_warps=8, num_stages=5)

    return step


def low_occupancy(run: Run, fixed: bool) -> Step:
    """Sixteen programs leave most SMs idle and cannot ask for enough memory at once."""
    sms = need_triton(run)
    width, count = run.size(8192, 64), run.size(2**26, 2**12)
    x, weight = run.randn(count, dtype=torch.float32), run.randn(width, width)
    out = torch.empty_like(x)
    programs = 32 * sms if fixed else 16

    def step() -> None:
        for _ in range(2):
            torch.mm(weight, weight)
            scale_shift[(programs,)](x, out, count, block=1024)

    return step


def need_triton(run: Run) -> int:
    """The number of SMs, where there is a device and a compiler to use them directly."""
    if not run.cuda:
        raise NeedsCudaError("needs a CUDA device")
    if triton is None:
        raise NeedsCudaError("needs Triton")
    return torch.cuda.get_device_properties(0).multi_processor_count


def slow_transpose(run: Run, fixed: bool) -> Step:
    """A transposed copy before a product that can read the transposed layout as it is."""
    width = run.size(16384, 64)
    x, weight = run.randn(width, width), run.randn(width, run.size(2048, 16))

    @torch.no_grad()
    def step() -> Tensor:
        for _ in range(3):
            y = (x.t() if fixed else x.t().contiguous()) @ weight
        return y

    return step


def launch_bound(run: Run, fixed: bool) -> Step:
    """Batch 1 through 24 narrow layers: the host cannot launch as fast as the device finishes."""
    width, heads, past = run.size(512, 64), run.size(8, 2), run.size(256, 8)

    def attend_past() -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        shape = (1, heads, past, width // heads)
        keys, values = run.randn(*shape), run.randn(*shape)
        return lambda q, k, v: F.scaled_dot_product_attention(q, torch.cat([keys, k], 2), torch.cat([values, v], 2))

    model = place(run, nn.Sequential(*(Block(width, heads, attend_past()) for _ in range(run.size(24, 3)))))
    x = run.randn(1, 1, width)

    @torch.no_grad()
    def token() -> Tensor:
        return model(x)

    once = captured(run, token) if fixed else token

    def step() -> None:
        for _ in range(2):
            once()

    return step


def healthy_train(run: Run, fixed: bool) -> Step:
    return healthy_language(run, True)


def healthy_eager(run: Run, fixed: bool) -> Step:
    return healthy_language(run, False)


def healthy_language(run: Run, compiled: bool) -> Step:
    shape = (run.size(4, 1), run.size(2048, 16))
    return language_training(run, run.size(32768, 128), run.size(2048, 128), run.size(3, 1), shape, compiled)


def healthy_infer(run: Run, fixed: bool) -> Step:
    width = run.size(2048, 64)
    model = place(run, nn.Sequential(*(Block(width, run.size(16, 1), causal_attention) for _ in range(run.size(3, 1)))))
    x = run.randn(run.size(16, 1), run.size(2048, 16), width)

    @torch.inference_mode()
    def step() -> Tensor:
        return model(x)

    return step


PAIRS = {
    "odd_vocab": Pair(odd_vocab, "LM head with an odd vocabulary → padded to a multiple of 64"),
    "fp32_matmul": Pair(fp32_matmul, "fp32 products on the vector units → TF32 allowed"),
    "unfused_attention": Pair(unfused_attention, "attention as separate operations → scaled_dot_product_attention"),
    "pointwise_chain": Pair(pointwise_chain, "hand-written GELU, scale, bias and residual in eager → torch.compile"),
    "cast_pingpong": Pair(cast_pingpong, "casts to fp32 and back around every operation → bf16 throughout"),
    "item_sync": Pair(item_sync, ".item() after every layer and a boolean mask → values left on the device"),
    "single_tensor_optimizer": Pair(single_tensor_optimizer, "AdamW(foreach=False), 300 parameters → fused=True"),
    "nchw_conv": Pair(nchw_conv, "fp16 convolutions in NCHW → channels_last"),
    "pageable_copy": Pair(
        pageable_copy, "64 MiB from pageable memory every step → pinned, prefetched on a side stream"
    ),
    "dataloader_stall": Pair(dataloader_stall, "DataLoader(num_workers=0) with slow records → 4 workers"),
    "recompute": Pair(recompute, "every block under checkpoint → none"),
    "graph_gaps": Pair(graph_gaps, "2 ms of host work and a sync between graph replays → back to back"),
    "straggler_step": Pair(straggler_step, "one step in six sleeps 20 ms → none does", stat="mean", active=CYCLE),
    "wave_tail": Pair(wave_tail, "four tiles above one wave of SMs → exactly one wave (3 % less work)"),
    "low_occupancy": Pair(low_occupancy, "elementwise kernel on 16 programs → on 32 for each SM"),
    "slow_transpose": Pair(slow_transpose, "x.t().contiguous() before a product → x.t()"),
    "launch_bound": Pair(launch_bound, "24 narrow layers at batch 1 in eager → one CUDA graph"),
    "healthy_eager": Pair(healthy_eager, "well-made language-model training in eager", healthy=True),
    "healthy_infer": Pair(healthy_infer, "well-made large-batch inference", healthy=True),
    "healthy_train": Pair(healthy_train, "well-made language-model training under torch.compile", healthy=True),
}


def warm(run: Run, step: Step) -> None:
    """Whole cycles until compilers, allocators and clocks have settled."""
    started = time.perf_counter()
    while True:
        for _ in range(CYCLE):
            step()
        run.sync()
        if run.tiny or time.perf_counter() - started > WARM_S:
            return


def measure(run: Run, step: Step, stat: str) -> dict[str, Any]:
    """Step times from marks on the device, with no sync between steps that the run itself does not make."""
    warm(run, step)
    if run.cuda:
        torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    marks = [run.mark()]
    for _ in range(TIMED_STEPS):
        step()
        marks.append(run.mark())
    run.sync()
    wall_ms = (time.perf_counter() - started) * 1e3 / TIMED_STEPS
    times = [run.between_ms(a, b) for a, b in itertools.pairwise(marks)]
    tenths = statistics.quantiles(times, n=10, method="inclusive")
    found = {"median": statistics.median(times), "mean": statistics.fmean(times), "p10": tenths[0], "p90": tenths[-1]}
    result: dict[str, Any] = {"ms": found[stat], **{f"{key}_ms": value for key, value in found.items()}}
    result |= {"wall_mean_ms": wall_ms, "steps": TIMED_STEPS}
    result["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30 if run.cuda else 0.0
    return {key: round(value, 4) for key, value in result.items()}


def record(run: Run, step: Step, active: int, path: Path) -> int:
    """Profile the step into path. The sync before the active steps keeps earlier steps' kernels out of the trace."""
    warm(run, step)
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if run.cuda else [])
    with profile(
        activities=activities,
        schedule=schedule(wait=WAIT, warmup=WARMUP, active=active, repeat=1),
        on_trace_ready=lambda done: done.export_chrome_trace(str(path)),
        record_shapes=True,
        with_stack=True,
    ) as prof:
        for index in range(WAIT + WARMUP + active):
            step()
            if index == WAIT + WARMUP - 1:
                run.sync()
            prof.step()
    return path.stat().st_size


def release(run: Run) -> None:
    """Give back what the last build held, so that no run is measured in the memory of another."""
    torch._dynamo.reset()
    gc.collect()
    if run.cuda:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def attempt(run: Run, what: Callable[[], Any]) -> tuple[Any, str]:
    """The result and "ok", or None and what went wrong: one pair must not end the others."""
    try:
        torch.manual_seed(1)
        return what(), "ok"
    except NeedsCudaError as error:
        return None, f"skipped: {error}"
    except Exception as error:  # noqa: BLE001
        traceback.print_exc(limit=-3)
        return None, f"error: {type(error).__name__}: {str(error)[:300]}"
    finally:
        with suppress(RuntimeError):  # a device that has failed once fails here too
            release(run)


def measure_pair(run: Run, pair: Pair) -> dict[str, Any]:
    result: dict[str, Any] = {"description": pair.description, "stat": pair.stat, "status": "ok", "trace_bytes": {}}
    for variant in pair.variants:
        found, status = attempt(run, lambda v=variant: measure(run, pair.build(run, v == "after"), pair.stat))
        if found is None:
            return result | {"status": f"{status} ({variant})" if status.startswith("error") else status}
        result[variant] = found
        result[f"{variant}_ms"] = found["ms"]
    if not pair.healthy:
        result["gain_ms"] = round(result["before_ms"] - result["after_ms"], 4)
        result["gain_pct"] = round(100 * result["gain_ms"] / result["before_ms"], 2)
    return result


def record_pair(run: Run, name: str, result: dict[str, Any], folder: Path) -> None:
    pair = PAIRS[name]
    for variant in pair.variants:
        path = folder / f"{name}.{variant}.json.gz"
        size, status = attempt(
            run, lambda v=variant, p=path: record(run, pair.build(run, v == "after"), pair.active, p)
        )
        if size is None:
            result["status"] = f"{status} (trace {variant})"
        else:
            result["trace_bytes"][variant] = size


def versions(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {"torch": torch.__version__, "python": platform.python_version(), "device": run.device}
    found |= {"triton": getattr(triton, "__version__", None), "cuda": torch.version.cuda, "tiny": run.tiny}
    if run.cuda:
        card = torch.cuda.get_device_properties(0)
        found |= {"name": card.name, "sms": card.multi_processor_count, "memory_bytes": card.total_memory}
        found |= {"cudnn": torch.backends.cudnn.version(), "l2_bytes": card.L2_cache_size}
    return found


def run_pairs(run: Run, names: list[str], folder: Path, budget_s: float) -> dict[str, Any]:
    """All timings, then all traces. Timing may use 60 % of the budget; truth.json is kept up to date throughout."""
    started = time.perf_counter()
    truth: dict[str, Any] = {**versions(run), "pairs": {}}

    def note(text: str) -> None:
        (folder / "truth.json").write_text(json.dumps(truth, indent=1, ensure_ascii=False))
        print(f"{time.perf_counter() - started:6.1f} s  {text}", flush=True)

    for name in names:
        if time.perf_counter() - started > 0.6 * budget_s:
            truth["pairs"][name] = {"description": PAIRS[name].description, "status": "skipped: time budget"}
        else:
            truth["pairs"][name] = measure_pair(run, PAIRS[name])
        note(f"timed {name}: {truth['pairs'][name]['status']}")
    for name, result in truth["pairs"].items():
        if result["status"] != "ok":
            continue
        if time.perf_counter() - started > budget_s:
            result["status"] = "timed; trace skipped: time budget"
        else:
            record_pair(run, name, result, folder)
        note(f"traced {name}: {result['status']}")
    return truth


def print_table(truth: dict[str, Any]) -> None:
    print(f"\n{'pair':24}{'before ms':>11}{'after ms':>11}{'gain ms':>10}{'gain %':>8}{'kB':>8}  status")
    for name, result in truth["pairs"].items():
        cells = [result.get(key) for key in ("before_ms", "after_ms", "gain_ms", "gain_pct")]
        shown = ["–" if value is None else f"{value:.2f}" for value in cells]
        size = sum(result.get("trace_bytes", {}).values()) / 1e3
        print(f"{name:24}{shown[0]:>11}{shown[1]:>11}{shown[2]:>10}{shown[3]:>8}{size:8.0f}  {result['status']}")


def pack(folder: Path) -> list[Path]:
    """Move the traces and truth.json into as few plain tars as the size limit of one allows."""
    parts: list[Path] = []
    for path in [folder / "truth.json", *sorted(folder.glob("*.json.gz"))]:
        room = parts and parts[-1].stat().st_size + path.stat().st_size + 4096 < PART_BYTES
        if not room:
            parts.append(folder / (f"faults.{len(parts) + 1}.tar" if parts else "faults.tar"))
            parts[-1].unlink(missing_ok=True)
        with tarfile.open(parts[-1], "a") as tar:
            tar.add(path, arcname=path.name)
        path.unlink()
    return parts


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="pairs, separated by commas")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    parser.add_argument("--budget-s", type=float, default=480)
    parser.add_argument("--tar", action="store_true")
    options = parser.parse_args()
    names = [name for name in options.only.split(",") if name]
    unknown = sorted(set(names) - set(PAIRS))
    if unknown:
        parser.error(f"unknown pairs: {', '.join(unknown)}; there are {', '.join(PAIRS)}")
    options.names = names or list(PAIRS)
    return options


def main() -> int:
    options = parse()
    warnings.simplefilter("ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    run = Run(options.device, options.tiny)
    truth = run_pairs(run, options.names, options.out, options.budget_s)
    parts = pack(options.out) if options.tar else []
    print_table(truth)
    for part in parts:
        print(f"{part.name}: {part.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
