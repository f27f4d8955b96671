"""Inference of a model that answers in one call: BERT on tokens, ResNet on images."""

from __future__ import annotations

from typing import Any

from warplens_run.workloads.build import Built
from warplens_run.workloads.graphs import Work, captured
from warplens_run.workloads.inputs import make_feed
from warplens_run.workloads.libraries import load_torch
from warplens_run.workloads.options import WorkloadPlan
from warplens_run.workloads.phases import PhaseScopes
from warplens_run.workloads.worker import Worker


def make_forward(plan: WorkloadPlan, built: Built, worker: Worker, phases: PhaseScopes) -> Work:
    """An iteration that returns the logits."""
    torch = load_torch()
    feed = make_feed(plan, built, worker)
    module = torch.compile(built.module) if plan.options.compile else built.module

    def call() -> Any:
        with torch.no_grad():
            return logits_of(module(feed.data))

    work = captured(torch, call) if plan.options.cuda_graph else call

    def iterate() -> Any:
        with phases("forward", **feed.metrics):
            return work()

    return iterate


def logits_of(output: Any) -> Any:
    """torchvision returns them, transformers an object that has them."""
    return getattr(output, "logits", output)
