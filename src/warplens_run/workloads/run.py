"""Run a workload: choose its device, build it, warm it up, time it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from warplens_run.capture.session import marks_own_steps
from warplens_run.workloads.build import Built, build
from warplens_run.workloads.forward import make_forward
from warplens_run.workloads.generate import make_generation
from warplens_run.workloads.graphs import Work
from warplens_run.workloads.libraries import load_bitsandbytes, load_torch, load_transformers
from warplens_run.workloads.options import WorkloadOptions, WorkloadPlan, check, resolve
from warplens_run.workloads.phases import PhaseScopes
from warplens_run.workloads.prompt import with_prompt
from warplens_run.workloads.result import WorkloadResult
from warplens_run.workloads.shape_log import ShapeLog, check_log, log_path
from warplens_run.workloads.train import make_training
from warplens_run.workloads.troubles import explained
from warplens_run.workloads.worker import Worker, default_dtype, device_name, open_worker


def run_workload(options: WorkloadOptions, say: Callable[[str], None] = lambda text: None) -> WorkloadResult | None:
    """Run it and return what was measured; None on every rank but the first. `say` gets remarks on the way."""
    check(options)
    torch = load_torch()
    load_transformers()
    if options.load_in_8bit:
        load_bitsandbytes()
    with open_worker(torch, options, say) as worker:
        plan = with_prompt(resolve(options, default_dtype=default_dtype(torch, worker, options)))
        if options.shape_log:
            check_log(log_path(options.shape_log, worker), force=options.force)
        with explained(plan):
            built = build(plan, worker)
            if worker.rank == 0:
                say(f"{plan.model.name} from {built.built_by}, {options.weights} weights")
            with _logged(plan, built, worker) as log:
                seconds, made = _measure(torch, plan, built, worker, PhaseScopes(log))
        return _result(torch, plan, built, worker, seconds, made) if worker.rank == 0 else None


def make_iteration(plan: WorkloadPlan, built: Built, worker: Worker, phases: PhaseScopes) -> Work:
    if plan.mode == "train":
        return make_training(plan, built, worker, phases)
    make = make_generation if plan.generates else make_forward
    return make(plan, built, worker, phases)


@contextmanager
def _logged(plan: WorkloadPlan, built: Built, worker: Worker) -> Iterator[ShapeLog | None]:
    if not plan.options.shape_log:
        yield None
        return
    with ShapeLog(log_path(plan.options.shape_log, worker), built.module, force=plan.options.force) as log:
        yield log


def _measure(torch: Any, plan: WorkloadPlan, built: Built, worker: Worker, phases: PhaseScopes) -> tuple[float, Any]:
    """Mean seconds of an iteration after the warm-up, each with all its work on the device done, and what one made."""
    marks_own_steps()
    iterate = make_iteration(plan, built, worker, phases)
    for _ in range(plan.options.warmup):
        with phases.iteration(None):
            iterate()
    spent = 0.0
    for number in range(plan.options.iterations):
        _synchronize(torch, worker)
        start = time.perf_counter()
        with phases.iteration(number):
            made = iterate()
            _synchronize(torch, worker)
            spent += time.perf_counter() - start
    return spent / plan.options.iterations, made


def _synchronize(torch: Any, worker: Worker) -> None:
    if worker.gpu:
        torch.cuda.synchronize(worker.device)


def _result(torch: Any, plan: WorkloadPlan, built: Built, worker: Worker, seconds: float, made: Any) -> WorkloadResult:
    rate, images = plan.items_per_iteration / seconds, plan.model.task == "images"
    return WorkloadResult(
        model=plan.model.name,
        tiny=plan.options.tiny,
        parameters=built.parameters,
        device=device_name(torch, worker),
        dtype=plan.dtype,
        mode=plan.mode,
        batch=plan.batch,
        prompt_tokens=plan.prompt_tokens or None,
        new_tokens=plan.new_tokens or None,
        prompt=plan.options.prompt,
        text=plan.prompt.text_of(made[0].tolist()) if plan.prompt is not None else None,
        tp=plan.options.tp,
        compile=plan.options.compile,
        cuda_graph=plan.options.cuda_graph,
        weights=plan.options.weights,
        load_in_8bit=plan.options.load_in_8bit,
        built_by=built.built_by,
        iterations=plan.options.iterations,
        mean_ms=seconds * 1e3,
        tokens_per_s=None if images else rate,
        images_per_s=rate if images else None,
        peak_memory_bytes=torch.cuda.max_memory_allocated(worker.device) if worker.gpu else None,
    )
