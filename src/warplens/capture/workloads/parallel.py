"""Tensor parallelism over the ranks of one mesh, and weights that do not depend on how many there are.

A model is built on the meta device, cut, and only then given memory, so that no rank ever holds more than its shards
and one whole matrix. Each parameter is drawn from a generator seeded with its name: rank by rank these are slices of
the same numbers that a single device gets.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import Any

from warplens.capture.workloads.libraries import load_torch
from warplens.capture.workloads.options import WorkloadPlan
from warplens.capture.workloads.worker import Worker
from warplens.errors import UsageError

DEVIATION = 0.02
"""The standard deviation with which Llama's matrices were first drawn."""


def make_mesh(plan: WorkloadPlan, worker: Worker, config: Any) -> Any:
    """A mesh of all ranks, once every cut is known to be even."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    for name, size in (
        ("heads", heads),
        ("hidden units of an MLP", config.intermediate_size),
        ("words of its vocabulary", config.vocab_size),
    ):
        if size % worker.world:
            raise UsageError(
                f"the {size} {name} of {plan.model.name} cannot be shared evenly by {worker.world} ranks",
                hint="use a tp that divides it",
            )
    return load_torch("distributed.device_mesh").init_device_mesh(worker.device.type, (worker.world,))


def shard(module: Any, shards: Mapping[str, str], mesh: Any) -> Any:
    tensor, parallel = load_torch("distributed.tensor"), load_torch("distributed.tensor.parallel")
    styles = {
        "columns": parallel.ColwiseParallel,
        "rows": parallel.RowwiseParallel,
        "gathered columns": lambda: parallel.ColwiseParallel(output_layouts=tensor.Replicate()),
    }
    return parallel.parallelize_module(module, mesh, {path: styles[style]() for path, style in shards.items()})


def materialise(module: Any, config: Any, worker: Worker, *, seed: int) -> Any:
    """Memory and random weights for a Llama, cut or whole, that is still on the meta device."""
    torch = load_torch()
    # Not torch's own `to_empty`: it swaps tensors, which fails for those that a running profiler refers to.
    for path, owner in module.named_modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            drawn = _draw(torch, f"{path}.{name}", parameter, worker, seed)
            setattr(owner, name, torch.nn.Parameter(drawn))
    with torch.device(worker.device):
        # Its frequencies are computed, not stored.
        module.model.rotary_emb = type(module.model.rotary_emb)(config=config)
    return module


def _draw(torch: Any, name: str, parameter: Any, worker: Worker, seed: int) -> Any:
    """A tensor in the place of one on the meta device, cut like it."""
    drawn = torch.empty(parameter.shape, dtype=parameter.dtype, device=worker.device)
    if parameter.dim() == 1:
        return drawn.fill_(0.0 if name.endswith("bias") else 1.0)
    # 32 bits: of a longer seed the CPU's generator takes no more.
    generator = torch.Generator(worker.device).manual_seed(zlib.crc32(f"{seed} {name}".encode()))
    drawn.normal_(0.0, DEVIATION, generator=generator)
    if not is_shared(parameter):
        return drawn
    mine = drawn.chunk(worker.world, _cut(parameter))[worker.rank].contiguous()
    shared = load_torch("distributed.tensor").DTensor
    return shared.from_local(mine, parameter.device_mesh, parameter.placements, run_check=False)


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
    """Whether each rank holds only a part of it."""
    return hasattr(tensor, "to_local")


def _cut(parameter: Any) -> int:
    """The dimension along which a parameter is shared."""
    return int(parameter.placements[0].dim)


def local(tensor: Any) -> Any:
    """This rank's part of a tensor; the tensor itself where it is whole."""
    return tensor.to_local() if is_shared(tensor) else tensor


def count_local(module: Any) -> int:
    return sum(local(parameter).numel() for parameter in module.parameters())
