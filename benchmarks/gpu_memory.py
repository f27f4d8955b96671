"""Truth for memory: programs recorded with `memory=True`, and the allocator's own peaks without any recording.

usage: gpu_memory.py JOB --out DIR [--plain] [--device cuda|cpu] [--tiny]

JOB is one of `JOBS`. With --plain the program runs alone and DIR gets JOB.plain.json: `max_memory_allocated` and
`max_memory_reserved` of the same steps, after `reset_peak_memory_stats`; without it DIR gets the bundle JOB.zip and
JOB.json with the same figures of the recorded run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch
from torch import nn
from torch.nn import functional

import warplens
from gpu_models import GPT, TINY, ConvNet, Size
from gpu_run import Run, attempt
from warplens_run.capture.session import marks_own_steps

WAIT, STEPS = 3, 2
Step = Callable[[], Any]


@dataclass(frozen=True)
class Program:
    make: Callable[[Run], Step]
    steps: int = STEPS
    wait: int = WAIT
    is_whole: bool = False
    """Recorded from before the model is made to the end, and not only in its last steps."""


def gpt_adamw(run: Run) -> Step:
    size = TINY if run.tiny else Size(width=768, heads=12, vocabulary=32000)
    model = GPT(size).to(run.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(size.vocabulary, (4, size.length), device=run.device)

    def step() -> None:
        with torch.autocast(run.device, dtype=torch.bfloat16):
            loss = model(tokens, tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def conv_sgd(run: Run) -> Step:
    model = ConvNet(run.size(64, 8)).to(run.device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    side = run.size(128, 32)
    images = run.randn(run.size(64, 2), 3, side, side, dtype=torch.float32).to(memory_format=torch.channels_last)
    labels = torch.randint(100, (len(images),), device=run.device)

    def step() -> None:
        # Gradients stay allocated between steps here.
        optimizer.zero_grad(set_to_none=False)
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()

    return step


class GrowingDecoder(nn.Module):
    """Each token is put behind a cache that is made anew, as a dynamic cache does."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.heads = size.heads
        self.embedding = nn.Embedding(size.vocabulary, size.width)
        self.qkv = nn.ModuleList(nn.Linear(size.width, 3 * size.width) for _ in range(size.layers))
        self.out = nn.ModuleList(nn.Linear(size.width, size.width) for _ in range(size.layers))
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, cache: list[Any]) -> torch.Tensor:
        x = self.embedding(tokens)
        batch, count, width = x.shape
        for number, (qkv, out) in enumerate(zip(self.qkv, self.out, strict=True)):
            query, key, value = qkv(x).view(batch, count, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            if cache[number] is not None:
                key = torch.cat((cache[number][0], key), dim=2)
                value = torch.cat((cache[number][1], value), dim=2)
            cache[number] = key, value
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=count > 1)
            x = x + out(mixed.transpose(1, 2).reshape(batch, count, width))
        return self.head(x[:, -1:]).argmax(-1)


def decode_growing(run: Run) -> Step:
    size = TINY if run.tiny else Size(vocabulary=32000)
    dtype = torch.bfloat16 if run.cuda else torch.float32
    model = GrowingDecoder(size).to(run.device, dtype).eval()
    prompt = torch.zeros((run.size(16, 2), size.length), dtype=torch.long, device=run.device)
    cache: list[Any] = [None] * size.layers
    state = {"tokens": prompt}

    def step() -> None:
        with torch.no_grad():
            state["tokens"] = model(state["tokens"], cache)

    return step


JOBS = {
    "gpt_adamw": Program(gpt_adamw),
    "conv_sgd": Program(conv_sgd),
    "decode_growing": Program(decode_growing, steps=12, wait=0, is_whole=True),
}


def recorded(run: Run, program: Program, path: Path) -> dict[str, Any]:
    window = {} if program.is_whole else {"steps": program.steps, "wait": program.wait}
    session = warplens.start(
        str(path), data="trace", force=True, memory=True, stacks=True, light_steps=0, execution_trace="none", **window
    )
    marks_own_steps()
    result = measured(run, program, warplens.step)
    warplens.finalize(session)
    return result | {"bytes": path.stat().st_size}


def measured(run: Run, program: Program, mark: Step) -> dict[str, Any]:
    """The peaks of the last steps, or of the whole run."""
    result: dict[str, Any] = {}
    if program.is_whole and run.cuda:
        torch.cuda.reset_peak_memory_stats()
    step = program.make(run)
    for number in range(program.wait + program.steps):
        if number == program.wait and not program.is_whole:
            run.sync()
            result["start"] = figures(run, is_reset=True)
        step()
        run.sync()
        if number == program.wait + program.steps - 1:
            result["end"] = figures(run)
        mark()
    return result


def figures(run: Run, *, is_reset: bool = False) -> dict[str, int]:
    if not run.cuda:
        return {}
    if is_reset:
        torch.cuda.reset_peak_memory_stats()
    return {
        "max_memory_allocated": torch.cuda.max_memory_allocated(),
        "max_memory_reserved": torch.cuda.max_memory_reserved(),
        "memory_allocated": torch.cuda.memory_allocated(),
        "memory_reserved": torch.cuda.memory_reserved(),
        "requested_bytes_peak": torch.cuda.memory_stats()["requested_bytes.all.peak"],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--plain", action="store_true", help="run the program alone")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="sizes that prove the code and measure nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    run, program = Run(options.device, options.tiny), JOBS[options.job]
    path = options.out / f"{options.job}.zip"

    def work() -> dict[str, Any]:
        return measured(run, program, lambda: None) if options.plain else recorded(run, program, path)

    result, status = attempt(run, work)
    name = f"{options.job}.plain.json" if options.plain else f"{options.job}.json"
    (options.out / name).write_text(json.dumps({"status": status, **(result or {})}, indent=1))
    print(f"{options.job}{' plain' if options.plain else ''}: {status}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
