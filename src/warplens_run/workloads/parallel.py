"""Tensor parallelism over the ranks of one mesh, and weights that do not depend on how many there are.

A model is built on the meta device, cut, and only then given memory, so that no rank ever holds more than its shards
and one whole matrix. Each parameter is drawn from a generator seeded with its name: rank by rank these are slices of
the same numbers that a single device gets.

Heads are cut with the matrices that make them. BLOOM has to be told: its attention counts its heads, and the bias that
stands for positions (ALiBi) comes with those of all ranks.
"""

from __future__ import annotations

import zlib
from math import gcd
from typing import Any

from warplens_run.base.errors import UsageError
from warplens_run.base.units import listed
from warplens_run.workloads.eight_bit import is_eight_bit, quantised
from warplens_run.workloads.libraries import load_torch
from warplens_run.workloads.options import WorkloadPlan
from warplens_run.workloads.worker import Worker

DEVIATION = 0.02
"""The standard deviation with which the matrices of Llama and BLOOM were first drawn."""


def make_mesh(plan: WorkloadPlan, worker: Worker, config: Any) -> Any:
    """A mesh of all ranks, once every cut is known to be even."""
    sizes = {
        "heads": getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
        "hidden units of an MLP": getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        "words of its vocabulary": config.vocab_size,
    }
    uneven = next((name for name, size in sizes.items() if size % worker.world), None)
    if uneven:
        common = gcd(*sizes.values())
        possible = [str(count) for count in range(2, common + 1) if common % count == 0]
        raise UsageError(
            f"the {sizes[uneven]:,} {uneven} of {plan.model.name} cannot be shared evenly by {worker.world} ranks",
            hint=f"use a tp of {listed(possible, 'or')}" if possible else "it runs on one device only",
            options=("tp",),
        )
    return load_torch("distributed.device_mesh").init_device_mesh(worker.device.type, (worker.world,))


def shard(module: Any, plan: WorkloadPlan, mesh: Any) -> Any:
    """The module with its matrices and heads cut; matrices that modules share stay shared."""
    tensor, parallel = load_torch("distributed.tensor"), load_torch("distributed.tensor.parallel")
    styles = {
        "columns": parallel.ColwiseParallel,
        "rows": parallel.RowwiseParallel,
        "gathered columns": lambda: parallel.ColwiseParallel(output_layouts=tensor.Replicate()),
        "words": lambda: parallel.RowwiseParallel(input_layouts=tensor.Replicate()),
    }
    shared = [names for names in _names_of_parameters(module) if len(names) > 1]
    styled = {path: styles[style]() for path, style in plan.model.shards.items()}
    module = parallel.parallelize_module(module, mesh, styled)
    for first, *others in shared:
        for name in others:
            _set_parameter(module, name, module.get_parameter(first))
    if plan.model.alibi:
        for block in module.transformer.h:
            block.self_attention.num_heads //= mesh.size()
        LocalAlibi(mesh).listen(module)
    return module


class LocalAlibi:
    """Gives each attention layer of a BLOOM the bias of this rank's heads; the layers of a pass share one."""

    def __init__(self, mesh: Any) -> None:
        self._rank, self._world = mesh.get_local_rank(), mesh.size()
        self._own: Any = None

    def listen(self, module: Any) -> None:
        module.transformer.register_forward_pre_hook(self._begin)
        for block in module.transformer.h:
            block.self_attention.register_forward_pre_hook(self._choose, with_kwargs=True)

    def _begin(self, model: Any, arguments: Any) -> None:
        # Forgotten here and not compared with the one before, for which a compiled model would be compiled each time.
        self._own = None

    def _choose(self, layer: Any, arguments: Any, named: dict[str, Any]) -> Any:
        if self._own is None:
            # Sequence by sequence it has a row for each head.
            rows = named["alibi"].unflatten(0, (-1, layer.num_heads * self._world))
            self._own = rows.chunk(self._world, 1)[self._rank].flatten(0, 1)
        return arguments, {**named, "alibi": self._own}


def _names_of_parameters(module: Any) -> list[list[str]]:
    """The names of each parameter: several where modules share it."""
    names: dict[int, list[str]] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return list(names.values())


def _set_parameter(module: Any, name: str, parameter: Any) -> None:
    path, _, own = name.rpartition(".")
    setattr(module.get_submodule(path), own, parameter)


def materialise(module: Any, config: Any, worker: Worker, *, seed: int) -> Any:
    """Memory and random weights for a model, cut or whole, that is still on the meta device."""
    torch = load_torch()
    # Not torch's own `to_empty`: it swaps tensors, which fails for those that a running profiler refers to.
    for names in _names_of_parameters(module):
        old = module.get_parameter(names[0])
        drawn = _draw(torch, names[0], old, worker, seed)
        new = quantised(drawn, worker.device) if is_eight_bit(old) else torch.nn.Parameter(drawn)
        for name in names:
            _set_parameter(module, name, new)
    with torch.device(worker.device):
        # Llama's frequencies are computed, not stored.
        for owner in list(module.modules()):
            if hasattr(owner, "rotary_emb"):
                owner.rotary_emb = type(owner.rotary_emb)(config=config)
    return module


def _draw(torch: Any, name: str, parameter: Any, worker: Worker, seed: int) -> Any:
    """A tensor in the place of one on the meta device, cut like it."""
    drawn = torch.empty(parameter.shape, dtype=parameter.dtype, device=worker.device)
    if parameter.dim() == 1:
        drawn.fill_(0.0 if name.endswith("bias") else 1.0)
    else:
        # 32 bits: of a longer seed the CPU's generator takes no more.
        generator = torch.Generator(worker.device).manual_seed(zlib.crc32(f"{seed} {name}".encode()))
        drawn.normal_(0.0, DEVIATION, generator=generator)
    if not is_shared(parameter):
        return drawn
    (placement,) = parameter.placements
    if placement.is_shard():
        drawn = drawn.chunk(worker.world, placement.dim)[worker.rank].contiguous()
    shared = load_torch("distributed.tensor").DTensor
    return shared.from_local(drawn, parameter.device_mesh, parameter.placements, run_check=False)


def to_device(module: Any, device: Any) -> Any:
    """Move what cutting left in host memory; the shards are on the device already."""
    for owner in module.modules():
        for parameter in owner.parameters(recurse=False):
            if not is_shared(parameter):
                parameter.data = parameter.data.to(device)
        for name, buffer in list(owner.named_buffers(recurse=False)):
            setattr(owner, name, buffer.to(device))
    return module


def is_shared(tensor: Any) -> bool:
    """Whether the ranks hold it together: mostly a part of it each."""
    return hasattr(tensor, "to_local")


def local(tensor: Any) -> Any:
    """This rank's part of a tensor; the tensor itself where it is whole."""
    return tensor.to_local() if is_shared(tensor) else tensor


def count_local(module: Any) -> int:
    return sum(local(parameter).numel() for parameter in module.parameters())
