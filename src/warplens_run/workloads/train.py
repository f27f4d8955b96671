"""Training steps: forward with loss, backward, AdamW; autocast where the data type is not float32."""

from __future__ import annotations

from typing import Any

from warplens_run.workloads.build import Built
from warplens_run.workloads.forward import logits_of
from warplens_run.workloads.graphs import Work, captured
from warplens_run.workloads.inputs import Feed, make_feed
from warplens_run.workloads.libraries import load_torch
from warplens_run.workloads.options import WorkloadPlan
from warplens_run.workloads.phases import PhaseScopes
from warplens_run.workloads.worker import Worker

LEARNING_RATE = 1e-4


def make_training(plan: WorkloadPlan, built: Built, worker: Worker, phases: PhaseScopes) -> Work:
    """An iteration that returns the loss."""
    trainer = Trainer(plan, built, worker)
    if not plan.options.cuda_graph:
        return lambda: trainer.step(phases)
    replay = captured(load_torch(), trainer.graph_step)

    def iterate() -> Any:
        with phases("graph_replay", **trainer.feed.metrics):
            return replay()

    return iterate


class Trainer:
    def __init__(self, plan: WorkloadPlan, built: Built, worker: Worker) -> None:
        self._torch = load_torch()
        self._plan, self._device_type = plan, worker.device.type
        self.feed = make_feed(plan, built, worker)
        self._module = self._torch.compile(built.module) if plan.options.compile else built.module
        self._optimizer = self._make_optimizer(built.module, worker)
        # A factor of 1 where fp16 is not used: the same four calls for every data type.
        self._scaler = self._torch.amp.GradScaler(self._device_type, enabled=plan.dtype == "float16")

    def step(self, phases: PhaseScopes) -> Any:
        with phases("forward", **self.feed.metrics):
            loss = self._loss()
        with phases("backward"):
            self._scaler.scale(loss).backward()
        with phases("optimizer"):
            self._scaler.step(self._optimizer)
            self._scaler.update()
            self._optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def graph_step(self) -> Any:
        """The same without scaling, whose decisions a graph cannot hold."""
        # Gradients made while capturing belong to the graph, so that a replay overwrites and never adds.
        self._optimizer.zero_grad(set_to_none=True)
        loss = self._loss()
        loss.backward()
        self._optimizer.step()
        return loss.detach()

    def _loss(self) -> Any:
        torch, plan = self._torch, self._plan
        with torch.autocast(
            self._device_type,
            dtype=getattr(torch, plan.dtype),
            enabled=plan.dtype != "float32",
            # Copies of weights kept between calls would be outside a graph.
            cache_enabled=not plan.options.cuda_graph,
        ):
            return self._forward(self.feed)

    def _forward(self, feed: Feed) -> Any:
        if self._plan.model.task == "images":
            return self._torch.nn.functional.cross_entropy(logits_of(self._module(feed.data)), feed.labels)
        causal = {"use_cache": False} if self._plan.model.task == "generate" else {}
        return self._module(feed.data, labels=feed.labels, **causal).loss

    def _make_optimizer(self, module: Any, worker: Worker) -> Any:
        graph = self._plan.options.cuda_graph
        if worker.world > 1:
            # The grouped forms take no mixture of whole and shared parameters.
            how = {"foreach": False, "fused": False}
        else:
            how = {"fused": True, "capturable": graph} if worker.gpu else {}
        return self._torch.optim.AdamW(module.parameters(), lr=LEARNING_RATE, **how)
