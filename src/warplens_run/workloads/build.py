"""Build a model on its device: random weights from a configuration, or the weights the user names.

Nothing is made twice: a first build on torch's meta device takes no memory and says how large the model is; random
weights are then made where they are used, in the data type they are used in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from warplens_run.base.errors import UsageError
from warplens_run.workloads import eight_bit, parallel, weights
from warplens_run.workloads.libraries import load_torch, load_torchvision, load_transformers, transformers_class
from warplens_run.workloads.memory import check_memory
from warplens_run.workloads.options import RANDOM, WorkloadPlan
from warplens_run.workloads.prompt import check_words
from warplens_run.workloads.worker import Worker


@dataclass(frozen=True)
class Built:
    module: Any
    config: Any
    """The configuration of transformers; also where torchvision made the module, for its sizes."""
    parameters: int
    """Of the whole model, not of one rank's share."""
    built_by: str


def build(plan: WorkloadPlan, worker: Worker) -> Built:
    torch = load_torch()
    stored = None if plan.options.weights == RANDOM else weights.find(plan)
    config = stored.config if stored else transformers_class(plan.model.config_class)(**plan.config)
    _check_lengths(plan, config)
    check_words(plan, getattr(config, "vocab_size", 0))
    torch.manual_seed(plan.options.seed)
    with torch.device("meta"), default_dtype(torch, plan.parameter_dtype):
        module, built_by = _construct(plan, config, from_transformers=stored is not None)
    if plan.options.tp > 1:
        mesh = parallel.make_mesh(plan, worker, config)
        module = parallel.shard(module, plan, mesh)
    if plan.options.load_in_8bit:
        module = eight_bit.replace_layers(module)
    parameters, in_8bit = parallel.count_local(module), eight_bit.count(module)
    check_memory(torch, plan, worker, parameters=parameters, in_8bit=in_8bit, config=config)
    if stored:
        module = _with_stored_weights(plan, worker, stored, mesh if plan.options.tp > 1 else None)
    elif plan.model.shards:
        module = parallel.materialise(module, config, worker, seed=plan.options.seed)
    else:
        with torch.device(_first_device(plan, worker)), default_dtype(torch, plan.parameter_dtype):
            module, built_by = _construct(plan, config)
        module = _on_device(plan, module, worker)
    module.train(plan.mode == "train")
    return Built(module, config, count(module), built_by)


def count(module: Any) -> int:
    """Of all ranks together: a shared parameter counts as what it is a part of."""
    return sum(parameter.numel() for parameter in module.parameters())


@contextmanager
def default_dtype(torch: Any, name: str) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _construct(plan: WorkloadPlan, config: Any, *, from_transformers: bool = False) -> tuple[Any, str]:
    """The module and what made it, on the current default device."""
    if plan.model.task == "images" and not from_transformers and (torchvision := load_torchvision()):
        resnet = torchvision.models.resnet
        module = resnet.ResNet(
            resnet.Bottleneck,
            list(config.depths),
            num_classes=config.num_labels,
            width_per_group=config.embedding_size,
        )
        return module, f"torchvision {torchvision.__version__}"
    return transformers_class(plan.model.model_class)(config), f"transformers {load_transformers().__version__}"


def _with_stored_weights(plan: WorkloadPlan, worker: Worker, stored: weights.Stored, mesh: Any) -> Any:
    module = weights.load(plan, stored)
    if mesh is None:
        return _on_device(plan, module, worker)
    # Each rank reads the whole model into host memory; only its shards go to the device.
    return parallel.to_device(parallel.shard(module, plan, mesh), worker.device)


def _first_device(plan: WorkloadPlan, worker: Worker) -> Any:
    """Where weights are made: 8 bits are made of them on their way from host memory."""
    return "cpu" if plan.options.load_in_8bit else worker.device


def _on_device(plan: WorkloadPlan, module: Any, worker: Worker) -> Any:
    return (eight_bit.replace_layers(module) if plan.options.load_in_8bit else module).to(worker.device)


def _check_lengths(plan: WorkloadPlan, config: Any) -> None:
    if not plan.model.absolute_positions:
        return
    tokens, limit = plan.prompt_tokens + plan.new_tokens, config.max_position_embeddings
    if tokens > limit:
        raise UsageError(
            f"{plan.model.name} has {limit} positions, fewer than the {tokens} tokens requested",
            hint="use fewer tokens",
            options=(plan.length_option, "max_new_tokens") if plan.generates else ("prompt_tokens",),
        )
