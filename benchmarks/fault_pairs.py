"""The planted faults: each builds one step, with the fault or repaired. `PAIRS` lists them."""

from __future__ import annotations

import itertools
import random
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

import fault_parts
from fault_parts import (
    Block,
    captured,
    causal_attention,
    compile_for,
    language_training,
    mlp,
    place,
    rounds_per_ms,
    spin,
    training,
)
from gpu_run import CYCLE, Run, Step, need_triton, tf32

ACTIVE = 3


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
            fault_parts.tile_matmul[(tiles,)](a, b, out, cols, depth, block=block, step=64, num_warps=8, num_stages=5)

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
            fault_parts.scale_shift[(programs,)](x, out, count, block=1024)

    return step


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
