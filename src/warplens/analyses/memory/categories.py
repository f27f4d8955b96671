"""What allocations are for."""

from __future__ import annotations

from typing import Final

PARAMETERS, GRADIENTS, STATE, ACTIVATIONS, KV_CACHE, WORKSPACES, TEMPORARY, BEFORE, UNKNOWN = (
    "parameters", "gradients", "optimizer state", "activations", "kv cache", "workspace", "temporary", "held before",
    "unknown",
)  # fmt: skip
CATEGORIES: Final = {
    PARAMETERS: "parameters and buffers of the model",
    GRADIENTS: "made in the backward pass and kept after it",
    STATE: "made by the optimizer and kept after its step",
    ACTIVATIONS: "made in the forward pass (or recomputed) and kept, as a rule for the backward pass",
    KV_CACHE: "keys and values of earlier tokens",
    WORKSPACES: "scratch memory that libraries keep, such as cuBLAS",
    TEMPORARY: "made and freed within one pass",
    BEFORE: "held since before the recording and to its end, without a name: parameters, state or caches",
    UNKNOWN: "nothing on record says what for",
}
