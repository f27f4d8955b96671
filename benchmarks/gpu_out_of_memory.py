"""Truth for memory that runs out: a GPT trains on longer and longer sequences until it does.

usage: gpu_out_of_memory.py OUT.pickle.gz [--expandable]

OUT gets the allocator's snapshot of the moment at which an allocation failed, OUT.json what PyTorch itself said then:
peaks, allocated, reserved and free memory, and its counts of failures and retries. The process may use 5 % of the GPU.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

if "--expandable" in sys.argv:  # before PyTorch reads it
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch

from gpu_models import GPT, Size

FRACTION = 0.05
MOST_STEPS = 60
LONGEST = 4000


def said() -> dict[str, Any]:
    statistics = torch.cuda.memory_stats()
    return {
        "max_memory_allocated": torch.cuda.max_memory_allocated(),
        "max_memory_reserved": torch.cuda.max_memory_reserved(),
        "allocated": torch.cuda.memory_allocated(),
        "reserved": torch.cuda.memory_reserved(),
        "free": torch.cuda.mem_get_info()[0],
        **{name: statistics[name] for name in ("num_ooms", "num_alloc_retries")},
    }


def observe(path: Path) -> None:
    """Write the first failure, when it happens."""

    def failed(device: int, requested: int, allowed: int, free: int) -> None:
        facts = path.with_name(f"{path.name}.json")
        if not facts.exists():
            facts.write_text(
                json.dumps({**said(), "device": device, "segment": requested, "allowed": allowed}, indent=1)
            )
            with gzip.open(path, "wb") as stream:
                pickle.dump(torch.cuda.memory._snapshot(), stream)

    torch._C._cuda_attach_out_of_memory_observer(failed)


def train() -> int:
    """How many steps had memory enough."""
    size = Size(layers=6, width=768, heads=12, vocabulary=50304, length=LONGEST)
    model = GPT(size).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    kept = []
    for step in range(MOST_STEPS):
        # No two steps have tensors of one size, so that free blocks seldom fit.
        shape = (2 + step // 6, min(128 + 61 * step, LONGEST))
        tokens = torch.randint(size.vocabulary, shape, device="cuda")
        try:
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(tokens, tokens)
            loss.backward()
            optimizer.step()
        except torch.OutOfMemoryError:
            return step
        optimizer.zero_grad()
        if step % 3 == 0:
            kept.append(torch.empty(1_000_003 * (1 + step % 5), device="cuda"))
    return MOST_STEPS


def main() -> None:
    path = Path(sys.argv[1])
    torch.cuda.set_per_process_memory_fraction(FRACTION)
    torch.cuda.memory._record_memory_history("all", context="all", stacks="python", max_entries=100_000)
    observe(path)
    print(f"out of memory in step {train()}")


if __name__ == "__main__":
    main()
