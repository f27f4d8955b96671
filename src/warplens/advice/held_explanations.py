"""What the findings on memory mean; `warplens explain CODE` fills in the thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from warplens.model.rule import Explanation, Thresholds, threshold


class MemoryThresholds(Thresholds):
    activations_percent = threshold(10.0, "below, recomputing costs more time than the memory is worth")
    loss_percent = threshold(10.0, "logits of a small vocabulary are not worth a fused loss")
    gradients_percent = threshold(5.0, "smaller gradients are within the rounding of blocks")
    state_percent = threshold(20.0, "below, another optimizer changes the peak little")
    lost_percent = threshold(10.0, "some free pieces remain between blocks of any program")
    least_gain_percent = threshold(1.0, "where another moment is the peak then, the change wins nothing")
    tensor_percent = threshold(10.0, "a tenth of the peak in one tensor is seldom meant")


THRESHOLDS: Final = MemoryThresholds()
BF16_STATE: Final = 0.5
"""What remains of fp32 states in bf16."""
EXPLANATIONS: Final[Mapping[str, Explanation]] = {
    "WL501": Explanation(
        "Activations that could be recomputed",
        "Activations of repeated modules are kept from the forward pass to the backward pass. Checkpointing a module "
        "keeps its inputs only and runs its forward pass once more in backward. The gain is what its activations hold "
        "at the peak, less one instance of it (or its largest tensor), which is there while it is recomputed, and at "
        "most what the peak falls by without any activations; it is a bound, since inputs stay. The cost is the "
        "module's forward GPU time, where a trace beside the snapshot has it. Reported from "
        "{activations_percent:g} % of the peak.",
    ),
    "WL502": Explanation(
        "Logits held by the loss",
        "A loss over a large vocabulary keeps the logits, often once more in fp32, and their gradient. A fused loss "
        "computes it in chunks and keeps none of them. The gain is bounded by what the loss's code holds at the peak. "
        "Reported from {loss_percent:g} % of the peak.",
    ),
    "WL503": Explanation(
        "Gradients held during the forward pass",
        "Gradients of the step before are still held when most activations are: they are zeroed in place, or cleared "
        "after the forward pass. Set to None before it, they are not there at that time. The gain is bounded by the "
        "gradients held at that moment, and by the peak in the optimizer's step, where they are needed. Programs that "
        "accumulate gradients over several passes need them. Reported from {gradients_percent:g} % of the peak.",
    ),
    "WL504": Explanation(
        "Optimizer state",
        "The optimizer's state is a large part of the peak. The gain is half of it, for fp32 states in bf16; 8-bit "
        "states save three quarters, and sharding it over n ranks all but 1/n. Convergence has to be checked. Reported "
        "from {state_percent:g} % of the peak.",
    ),
    "WL505": Explanation(
        "Memory lost to fragmentation",
        "Segments of the caching allocator that are in use have free parts, which only requests that fit can use. A "
        "pool with a single segment of the usual size (20 MiB) is not counted, nor are expandable segments, whose free "
        "pages are given back. The gain is bounded by the free parts "
        "at the peak of what is allocated, or when an allocation failed "
        "although they add up to more. Expandable segments map memory where it is needed. Reported from "
        "{lost_percent:g} % of the reserved memory, and for every such failure.",
    ),
    "WL506": Explanation(
        "A peak that one tensor makes",
        "A single short-lived allocation makes the peak. It is not an activation. The gain is the difference to the "
        "peak of the same history without the allocations of that place. Reported from {tensor_percent:g} % of the "
        "peak.",
    ),
}
ADVICE: Final[Mapping[str, str]] = {
    "WL501": "checkpoint it: torch.utils.checkpoint.checkpoint(module, x, use_reentrant=False)",
    "WL502": "use a fused or chunked cross entropy (Liger, cut-cross-entropy, torch.compile), and keep logits in bf16",
    "WL503": "call optimizer.zero_grad(set_to_none=True) before the forward pass",
    "WL504": "keep states in bf16 or 8 bits, shard them (FSDP, ZeRO), or use an optimizer with less state",
    "WL505": "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the program starts",
    "WL506": "compute it in parts, in place, or in a smaller type",
}
