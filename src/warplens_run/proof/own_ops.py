"""Ops of the project's own, which units of experiments call by name like any other: `torch.ops.warplens.…`.

Replay imports this module before it runs a proof's units. Some are what runs after a change, others what its outputs
are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as nn_functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from warplens_run.proof import own_sequences

LIBRARY = torch.library.Library("warplens", "DEF")
ON_TENSORS = "Tensor query, Tensor key, Tensor value"
CHOICES = "bool is_causal, float scale, str backend"
ADAM = (
    "(Tensor(a!)[] self, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, "
    "Tensor[] max_exp_avg_sqs, Tensor[] state_steps, *, float lr, float beta1, float beta2, float weight_decay, "
    "float eps, bool amsgrad, bool maximize, Tensor? grad_scale=None, Tensor? found_inf=None) -> ()"
)


def attention(query: Any, key: Any, value: Any, is_causal: bool, scale: float, backend: str) -> Any:
    """With the named kernels only; `backend` empty: with PyTorch's own choice."""
    with sdpa_kernel(getattr(SDPBackend, backend)) if backend else nullcontext():
        return nn_functional.scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale)


def attention_in_parts(query: Any, key: Any, value: Any, is_causal: bool, scale: float, backend: str) -> Any:
    scores = (query @ key.transpose(-1, -2)) * scale
    if is_causal:
        future = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(future, float("-inf"))
    return scores.float().softmax(-1).to(value.dtype) @ value


def _with_gradients(function: Any) -> Any:
    def run(query: Any, key: Any, value: Any, gradient: Any, is_causal: bool, scale: float, backend: str) -> list[Any]:
        """The result, and the gradients of what it was made from."""
        if torch.is_inference_mode_enabled():  # whoever runs units tries again without it
            raise RuntimeError("there are no gradients in inference mode")
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
            result = function(*inputs, is_causal, scale, backend)
            return [result.detach(), *torch.autograd.grad(result, inputs, gradient)]

    return run


@dataclass(frozen=True)
class AdamStep:
    """What a step of AdamW is given; `counts` include this step."""

    parameters: list[Any]
    grads: list[Any]
    means: list[Any]
    squares: list[Any]
    counts: list[float]
    lr: float
    beta1: float
    beta2: float
    weight_decay: float
    eps: float

    def root_factors(self) -> list[float]:
        return [(1 - self.beta2**count) ** 0.5 for count in self.counts]

    def rates(self) -> list[float]:
        return [-self.lr / (1 - self.beta1**count) for count in self.counts]


def adamw_in_parts(step: AdamStep) -> None:
    """One parameter after the other, as its definition says."""
    lists = (step.parameters, step.grads, step.means, step.squares, step.root_factors(), step.rates())
    for parameter, grad, mean, square, root, rate in zip(*lists, strict=True):
        parameter.mul_(1 - step.lr * step.weight_decay)
        mean.lerp_(grad, 1 - step.beta1)
        square.mul_(step.beta2).addcmul_(grad, grad, value=1 - step.beta2)
        parameter.addcdiv_(mean, square.sqrt().div_(root).add_(step.eps), value=rate)


def adamw_foreach(step: AdamStep) -> None:
    """Each operation over all parameters at once."""
    torch._foreach_mul_(step.parameters, 1 - step.lr * step.weight_decay)
    torch._foreach_lerp_(step.means, step.grads, 1 - step.beta1)
    torch._foreach_mul_(step.squares, step.beta2)
    torch._foreach_addcmul_(step.squares, step.grads, step.grads, 1 - step.beta2)
    deviations = torch._foreach_sqrt(step.squares)
    torch._foreach_div_(deviations, step.root_factors())
    torch._foreach_add_(deviations, step.eps)
    torch._foreach_addcdiv_(step.parameters, step.means, deviations, step.rates())


def _with_adam_arguments(update: Callable[[AdamStep], None]) -> Any:
    """The update as an op with the arguments of PyTorch's fused step; it has no use for the other ones."""

    def run(
        parameters: list[Any], grads: list[Any], means: list[Any], squares: list[Any], _: list[Any], counts: list[Any],
        *, lr: float, beta1: float, beta2: float, weight_decay: float, eps: float, **unused: Any,
    ) -> None:  # fmt: skip
        steps = [float(count) for count in counts]
        update(AdamStep(parameters, grads, means, squares, steps, lr, beta1, beta2, weight_decay, eps))

    return run


def _define() -> None:
    for name, function in (("attention", attention), ("attention_in_parts", attention_in_parts)):
        LIBRARY.define(f"{name}({ON_TENSORS}, {CHOICES}) -> Tensor")
        LIBRARY.impl(name, function, "CompositeImplicitAutograd")
        LIBRARY.define(f"{name}_with_gradients({ON_TENSORS}, Tensor gradient, {CHOICES}) -> Tensor[]")
        LIBRARY.impl(f"{name}_with_gradients", _with_gradients(function), "CompositeImplicitAutograd")
    updates = [(update.__name__ + ADAM, _with_adam_arguments(update)) for update in (adamw_in_parts, adamw_foreach)]
    for schema, own_op in (*updates, *own_sequences.definitions()):
        LIBRARY.define(schema)
        LIBRARY.impl(schema.partition("(")[0], own_op, "CompositeImplicitAutograd")


_define()
