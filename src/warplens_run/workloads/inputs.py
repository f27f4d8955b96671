"""What a workload reads: random tokens and images, the same for a seed on every device and rank, or the user's text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from warplens_run.workloads.build import Built
from warplens_run.workloads.libraries import load_torch
from warplens_run.workloads.options import WorkloadPlan
from warplens_run.workloads.worker import Worker


@dataclass(frozen=True)
class Feed:
    """One batch, on the device."""

    data: Any
    labels: Any
    unit: str
    amount: int

    @property
    def metrics(self) -> dict[str, int]:
        return {self.unit: self.amount}


def make_feed(plan: WorkloadPlan, built: Built, worker: Worker) -> Feed:
    torch = load_torch()
    generator = torch.Generator().manual_seed(plan.options.seed)
    if plan.model.task == "images":
        side = plan.size.image_size
        pixels = torch.randn((plan.batch, 3, side, side), generator=generator)
        classes = torch.randint(built.config.num_labels, (plan.batch,), generator=generator)
        # In the type of the weights: what training does in another, autocast converts.
        pixels = pixels.to(worker.device, getattr(torch, plan.parameter_dtype))
        return Feed(pixels, classes.to(worker.device), "images", plan.batch)
    if plan.prompt is not None:
        tokens = torch.tensor(plan.prompt.ids).repeat(plan.batch, 1)
    else:
        tokens = torch.randint(built.config.vocab_size, (plan.batch, plan.prompt_tokens), generator=generator)
    tokens = tokens.to(worker.device)
    return Feed(tokens, tokens, "tokens", tokens.numel())
