"""Does the model fit: the least it needs, against what is free, before anything is built.

Weights, gradients, optimiser state, the KV cache and the scores over the vocabulary are counted; other activations and
workspaces are not, so a run that passes may still run out, and then `troubles.py` says so with the same hint.
"""

from __future__ import annotations

from typing import Any

from warplens_run.base.errors import WarplensError
from warplens_run.base.machine import free_ram
from warplens_run.base.units import format_bytes, listed
from warplens_run.workloads.options import BYTES_PER_ELEMENT, WorkloadPlan
from warplens_run.workloads.worker import Worker

TRAIN_BYTES_PER_PARAMETER = 16
"""float32 weight, its gradient, and the two moments of AdamW."""
LOSS_BYTES_PER_SCORE = 8
"""The loss is computed in float32, and each score has a gradient."""


def check_memory(
    torch: Any, plan: WorkloadPlan, worker: Worker, *, parameters: int, config: Any, in_8bit: int = 0
) -> None:
    """`parameters` are those of one rank, `in_8bit` those of them that have 8 bits."""
    needed = least_bytes(plan, parameters=parameters, config=config, world=worker.world, in_8bit=in_8bit)
    free = torch.cuda.mem_get_info(worker.device)[0] if worker.gpu else free_ram()
    if free is not None and needed > free:
        where = torch.cuda.get_device_name(worker.device) if worker.gpu else "this machine"
        raise out_of_memory(
            f"too little memory: {plan.model.name} ({plan.mode}, {plan.dtype}) needs at least {format_bytes(needed)}"
            f"{' per rank' if worker.world > 1 else ''}, and {format_bytes(free)} are free on {where}",
            plan,
        )


def least_bytes(plan: WorkloadPlan, *, parameters: int, config: Any, world: int, in_8bit: int = 0) -> int:
    scores = 0 if plan.model.task == "images" else plan.batch * plan.prompt_tokens * config.vocab_size
    if plan.mode == "train":
        return parameters * TRAIN_BYTES_PER_PARAMETER + scores * LOSS_BYTES_PER_SCORE
    element = BYTES_PER_ELEMENT[plan.dtype]
    weights = parameters * element - in_8bit * (element - 1)
    if plan.generates:
        # Of the scores only those of the last token are made.
        return weights + cache_elements(plan, config) * element // world
    return weights + scores * element


def cache_elements(plan: WorkloadPlan, config: Any) -> int:
    """Numbers in the KV cache when the last token is made."""
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    tokens = plan.batch * (plan.prompt_tokens + plan.new_tokens)
    return int(2 * config.num_hidden_layers * heads * head_dim * tokens)


def out_of_memory(message: str, plan: WorkloadPlan) -> WarplensError:
    """The error, with the options of the plan that reduce its memory."""
    remedies: dict[str, str] = {"batch": "a smaller batch"} if plan.batch > 1 else {}
    if plan.prompt_tokens:
        remedies[plan.length_option] = "fewer prompt tokens"
    if plan.dtype == "float32":
        remedies["dtype"] = "dtype bf16"
    if plan.model.shards and not plan.options.load_in_8bit:
        remedies["tp"] = f"tp {2 * plan.options.tp} over more GPUs"
    remedies["tiny"] = "the tiny model"
    hint = f"stop other programs on the device, or use {listed(list(remedies.values()), 'or')}"
    return WarplensError(message, hint=hint, options=tuple(remedies))
