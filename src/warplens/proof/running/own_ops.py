"""Ops of the project's own, which units of experiments call by name like any other: `torch.ops.warplens.…`.

Replay imports this module before it runs a proof's units. Some are what runs after a change, others what its outputs
are compared with.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as nn_functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from warplens.proof.running import own_sequences

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


def adamw_in_parts(
    parameters: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any],
    state_steps: list[Any],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    """AdamW's step, one parameter after the other, as its definition says; `state_steps` count this step already."""
    for parameter, grad, mean, square, step in zip(parameters, grads, exp_avgs, exp_avg_sqs, state_steps, strict=True):
        parameter.mul_(1 - lr * weight_decay)
        mean.lerp_(grad, 1 - beta1)
        square.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        count = float(step)
        deviation = square.sqrt().div_((1 - beta2**count) ** 0.5).add_(eps)
        parameter.addcdiv_(mean, deviation, value=-lr / (1 - beta1**count))


def adamw_foreach(
    parameters: list[Any],
    grads: list[Any],
    exp_avgs: list[Any],
    exp_avg_sqs: list[Any],
    max_exp_avg_sqs: list[Any],
    state_steps: list[Any],
    *,
    lr: float,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    """The same, each operation over all parameters at once."""
    counts = [float(step) for step in state_steps]
    torch._foreach_mul_(parameters, 1 - lr * weight_decay)
    torch._foreach_lerp_(exp_avgs, grads, 1 - beta1)
    torch._foreach_mul_(exp_avg_sqs, beta2)
    torch._foreach_addcmul_(exp_avg_sqs, grads, grads, 1 - beta2)
    deviations = torch._foreach_sqrt(exp_avg_sqs)
    torch._foreach_div_(deviations, [(1 - beta2**count) ** 0.5 for count in counts])
    torch._foreach_add_(deviations, eps)
    torch._foreach_addcdiv_(parameters, exp_avgs, deviations, [-lr / (1 - beta1**count) for count in counts])


def _define() -> None:
    for name, function in (("attention", attention), ("attention_in_parts", attention_in_parts)):
        LIBRARY.define(f"{name}({ON_TENSORS}, {CHOICES}) -> Tensor")
        LIBRARY.impl(name, function, "CompositeImplicitAutograd")
        LIBRARY.define(f"{name}_with_gradients({ON_TENSORS}, Tensor gradient, {CHOICES}) -> Tensor[]")
        LIBRARY.impl(f"{name}_with_gradients", _with_gradients(function), "CompositeImplicitAutograd")
    steps = [(step.__name__ + ADAM, step) for step in (adamw_in_parts, adamw_foreach)]
    for schema, own_op in (*steps, *own_sequences.definitions()):
        LIBRARY.define(schema)
        LIBRARY.impl(schema.partition("(")[0], own_op, "CompositeImplicitAutograd")


_define()
