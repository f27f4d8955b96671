"""Programs with several faults each, and what mending one of them wins, beside capture bundles of the faulty programs.

usage: gpu_gains.py --out DIR [--only a,b] [--tiny] [--device cpu]

Each program runs in a process of its own. It and its variants, each with one fault mended, are timed in turns without a
profiler, then the faulty one is recorded by `warplens.start` with stacks. DIR gets PROGRAM.zip each and truth.json: the
rounds of `faulty` and of each fix, named after the finding that should propose it. On a CPU `--tiny` proves the code.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from gpu_bundles import record
from gpu_plain_steps import timed_ms
from gpu_run import Run

Step = Callable[[], Any]
ROUNDS, ACTIVE, LIGHT, CHILD_S = 5, 3, 3, 90


class Layer(nn.Module):
    """A layer of a transformer whose attention is computed in parts, or fused."""

    def __init__(self, width: int, heads: int, is_fused: bool) -> None:
        super().__init__()
        self.heads, self.is_fused = heads, is_fused
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if self.is_fused:
            mixed = F.scaled_dot_product_attention(query, key, value)
        else:
            mixed = (query @ key.transpose(-1, -2) * (width // self.heads) ** -0.5).softmax(-1) @ value
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def optimizer_of(run: Run, model: nn.Module, is_fused: bool) -> torch.optim.Optimizer:
    return torch.optim.AdamW(
        model.parameters(), 1e-4, **({"fused": True} if is_fused and run.cuda else {"foreach": False})
    )


def speech(run: Run, fix: str) -> Step:
    """An encoder in fp32: attention in parts, products without TF32."""
    width = run.size(512, 32)
    layers = [Layer(width, 8, fix == "WL204") for _ in range(run.size(6, 1))]
    model = nn.Sequential(*layers).to(run.device)
    optimizer = optimizer_of(run, model, True)
    sound = torch.randn(8, run.size(1024, 16), width, device=run.device)

    def step() -> None:
        torch.backends.cuda.matmul.allow_tf32 = fix == "WL202"
        optimizer.zero_grad()
        model(sound).square().mean().backward()
        optimizer.step()

    return step


def words(run: Run, fix: str) -> Step:
    """A language model with an odd vocabulary, an optimizer in a loop and norms that the host reads."""
    width, count = run.size(1024, 32), run.size(32000 if fix == "WL201" else 31999, 99)
    layers = [Layer(width, 16, True) for _ in range(run.size(4, 1))]
    model = nn.Sequential(nn.Embedding(count, width), *layers, nn.Linear(width, count)).to(run.device)
    optimizer = optimizer_of(run, model, fix == "WL208")
    tokens = torch.randint(0, 99, (8, run.size(512, 8)), device=run.device)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(run.device, torch.bfloat16):
            loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
        if fix != "WL301":
            [norm.item() for norm in norms]
        optimizer.step()

    return step


def small_words(run: Run, fix: str) -> Step:
    """The host decides: an optimizer in a loop."""
    model = nn.Sequential(*(Layer(run.size(256, 32), 4, True) for _ in range(run.size(8, 1)))).to(run.device)
    optimizer = optimizer_of(run, model, fix == "WL208")
    inputs = torch.randn(4, 64, run.size(256, 32), device=run.device)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def pictures(run: Run, fix: str) -> Step:
    """Crops and scales in numpy in each step, from memory that is not pinned."""
    draw, side = np.random.RandomState(0), run.size(224, 32)
    stored = draw.randint(0, 255, (32, side, side, 3), dtype=np.uint8)
    channels = run.size(64, 8)
    model = nn.Sequential(
        nn.Conv2d(3, channels, 7, 4, 3), nn.ReLU(), nn.Conv2d(channels, 2 * channels, 3, 2, 1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * channels, 100),
    ).to(run.device)  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def transformed(picture: Any) -> Any:
        scaled = picture.astype(np.float32) / 255.0
        return (scaled[:, ::-1] - scaled.mean((0, 1))) / (scaled.std((0, 1)) + 1e-3)

    def batch() -> Tensor:
        whole = np.stack([transformed(each) for each in stored]).transpose(0, 3, 1, 2)
        return torch.from_numpy(np.ascontiguousarray(whole))

    ready = batch().to(run.device)

    def step() -> None:
        images = ready if fix == "WL306" else batch().to(run.device)
        optimizer.zero_grad()
        model(images).logsumexp(1).mean().backward()
        optimizer.step()

    return step


def layout(run: Run, fix: str) -> Step:
    """Convolutions in NCHW under fp16."""
    wide = run.size(192, 8)
    parts = [
        layer
        for _ in range(run.size(8, 1))
        for layer in (nn.Conv2d(wide, wide, 3, 1, 1), nn.BatchNorm2d(wide), nn.ReLU())
    ]
    form = torch.channels_last if fix == "WL207" else torch.contiguous_format
    model = nn.Sequential(*parts).to(run.device).to(memory_format=form)
    images = torch.randn(64, wide, run.size(56, 8), run.size(56, 8), device=run.device).to(memory_format=form)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)

    def step() -> None:
        optimizer.zero_grad()
        with torch.autocast(run.device, torch.float16 if run.cuda else torch.bfloat16):
            loss = model(images).float().square().mean()
        loss.backward()
        optimizer.step()

    return step


def cells(run: Run, fix: str) -> Step:
    """A GRU of cells in a Python loop."""
    width, count = run.size(320, 8), run.size(50, 3)
    cell, whole = nn.GRUCell(width, width).to(run.device), nn.GRU(width, width).to(run.device)
    model = whole if fix == "WL215" else cell
    optimizer = optimizer_of(run, model, True)
    inputs = torch.randn(count, 48, width, device=run.device)

    def step() -> None:
        optimizer.zero_grad()
        if fix == "WL215":
            state = whole(inputs)[0][-1]
        else:
            state = torch.zeros(48, width, device=run.device)
            for moment in inputs:
                state = cell(moment, state)
        state.square().mean().backward()
        optimizer.step()

    return step


def copies(run: Run, fix: str) -> Step:
    """Batches from memory that is not pinned, and a loss that is read in each step."""
    wide, rows = run.size(2048, 16), run.size(16384, 8)
    model = nn.Sequential(nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU(), nn.Linear(wide, 1))
    model = model.to(run.device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    stored = torch.randn(rows, wide, dtype=torch.bfloat16)
    stored = stored.pin_memory() if fix == "WL302" and run.cuda else stored

    def step() -> None:
        loss = model(stored.to(run.device, non_blocking=fix == "WL302")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if fix != "WL301":
            loss.item()

    return step


def launches(run: Run, fix: str) -> Step:
    """Inference of many narrow layers: as a graph, its launches are gone."""
    model = nn.Sequential(*(Layer(run.size(128, 32), 4, True) for _ in range(run.size(16, 1)))).to(run.device).eval()
    inputs = torch.randn(4, 32, run.size(128, 32), device=run.device)
    if fix != "WL104" or not run.cuda:
        return torch.no_grad()(lambda: model(inputs))
    with torch.no_grad():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            model(inputs)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            model(inputs)
    return graph.replay


def chain(run: Run, fix: str) -> Step:
    """An activation written as a formula over large tensors: eight ops that could be one."""
    x = torch.randn(run.size(64, 1), 1024, run.size(1024, 8), device=run.device, dtype=torch.bfloat16)

    def formula(value: Tensor) -> Tensor:
        inner = 0.79788456 * (value + 0.044715 * value * value * value)
        return 0.5 * value * (1.0 + torch.tanh(inner))

    return (lambda: F.gelu(x, approximate="tanh")) if fix == "WL205" else (lambda: formula(x))


def tables(run: Run, fix: str) -> Step:
    """Embedding tables of which a step touches few rows, with dense gradients."""
    count = run.size(2_000_000, 99)
    model = nn.ModuleList(nn.Embedding(count, 64, sparse=fix == "WL214") for _ in range(4)).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    rows = torch.randint(0, count, (4, 4096), device=run.device)

    def step() -> None:
        optimizer.zero_grad()
        sum(table(each).square().mean() for table, each in zip(model, rows, strict=True)).backward()
        optimizer.step()

    return step


def healthy(run: Run, fix: str) -> Step:
    """Nothing to win: large products in bf16, fused everything."""
    width = run.size(1536, 32)
    model = nn.Sequential(*(Layer(width, 16, True) for _ in range(run.size(6, 1)))).to(run.device, torch.bfloat16)
    optimizer = optimizer_of(run, model, True)
    inputs = torch.randn(16, run.size(1024, 8), width, device=run.device, dtype=torch.bfloat16)

    def step() -> None:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


def thirty(run: Run, fix: str) -> Step:
    """Thirty layers in fp32 with attention in parts: many findings to prove."""
    width = run.size(768, 32)
    model = nn.Sequential(*(Layer(width, 16, False) for _ in range(run.size(30, 2)))).to(run.device)
    optimizer = optimizer_of(run, model, False)
    inputs = torch.randn(4, run.size(512, 8), width, device=run.device)

    def step() -> None:
        torch.backends.cuda.matmul.allow_tf32 = fix == "WL202"
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()

    return step


PROGRAMS: dict[str, tuple[Callable[[Run, str], Step], tuple[str, ...]]] = {
    "speech": (speech, ("WL202", "WL204")),
    "words": (words, ("WL201", "WL208", "WL301")),
    "small_words": (small_words, ("WL208",)),
    "pictures": (pictures, ("WL306",)),
    "layout": (layout, ("WL207",)),
    "cells": (cells, ("WL215",)),
    "copies": (copies, ("WL301", "WL302")),
    "launches": (launches, ("WL104",)),
    "chain": (chain, ("WL205",)),
    "tables": (tables, ("WL214",)),
    "healthy": (healthy, ()),
    "thirty": (thirty, ("WL202",)),
}


def one_program(run: Run, name: str, out: Path) -> None:
    torch.manual_seed(0)
    build, fixes = PROGRAMS[name]
    steps = {fix or "faulty": build(run, fix) for fix in ("", *fixes)}
    rounds: dict[str, list[float]] = {variant: [] for variant in steps}
    for number in range(ROUNDS + 1):  # the first warms up
        for variant, step in steps.items():
            ms = timed_ms(run, step)
            rounds[variant] += [ms] * (number > 0)
    record(run, steps["faulty"], ACTIVE, out / f"{name}.zip", LIGHT)
    (out / f"{name}.rounds.json").write_text(json.dumps(rounds))
    medians = {variant: round(statistics.median(times), 3) for variant, times in rounds.items()}
    print(name, medians, flush=True)
    os._exit(0)  # a program's own threads and contexts need no orderly end


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default=",".join(PROGRAMS), help="programs, separated by commas")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    forked = multiprocessing.get_context("fork")
    for name in options.only.split(","):
        run = Run(options.device, options.tiny)
        process = forked.Process(target=one_program, args=(run, name, options.out))
        process.start()
        process.join(CHILD_S)
        process.kill()
    truth = {
        path.name.split(".")[0]: json.loads(path.read_text()) for path in sorted(options.out.glob("*.rounds.json"))
    }
    (options.out / "truth.json").write_text(json.dumps(truth, indent=1))


if __name__ == "__main__":
    main()
