"""Linear layers with weights in 8 bits, as `load_in_8bit` of transformers makes them: LLM.int8() of bitsandbytes.

Transformers can do that only while it loads a checkpoint; here any weights are taken, random ones as well. Layers are
replaced on the meta device or in host memory, and a weight becomes 8 bits on its way from there to the device.
"""

from __future__ import annotations

from typing import Any

from warplens_run.workloads.libraries import load_bitsandbytes, load_torch

OUTLIER = 6.0
"""Columns of the input with larger values are multiplied in 16 bits: the threshold of transformers."""


def replace_layers(module: Any) -> Any:
    """The module with every linear layer in 8 bits but that of its output, which transformers keeps too."""
    torch, bitsandbytes = load_torch(), load_bitsandbytes()
    kept = module.get_output_embeddings()
    for name, layer in list(module.named_modules()):
        is_transposed = type(layer).__name__ == "Conv1D"  # GPT-2's linear layer
        if layer is kept or not (is_transposed or type(layer) is torch.nn.Linear):
            continue
        weight = layer.weight.data.T.contiguous() if is_transposed else layer.weight.data
        made = bitsandbytes.nn.Linear8bitLt(
            weight.shape[1], weight.shape[0], bias=False, has_fp16_weights=False, threshold=OUTLIER, device="meta"
        )
        made.weight = bitsandbytes.nn.Int8Params(weight, requires_grad=False, has_fp16_weights=False)
        made.bias = layer.bias
        module.set_submodule(name, made)
    return module


def is_eight_bit(parameter: Any) -> bool:
    """Whether bitsandbytes made it: its class is imported where that was."""
    return hasattr(parameter, "has_fp16_weights")


def count(module: Any) -> int:
    """How many of the module's parameters have 8 bits."""
    return sum(parameter.numel() for parameter in module.parameters() if is_eight_bit(parameter))


def quantised(drawn: Any, device: Any) -> Any:
    """A weight in 8 bits on its device."""
    parameter = load_bitsandbytes().nn.Int8Params(drawn.cpu(), requires_grad=False, has_fp16_weights=False)
    return parameter.to(device)
