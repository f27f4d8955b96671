"""The closed list of event kinds; a kind's code in numpy arrays is its place in `KINDS`."""

from __future__ import annotations

from typing import Final

KINDS: Final = (
    "python",
    "module",
    "op",
    "annotation",
    "runtime",
    "kernel",
    "memcpy",
    "memset",
    "comm",
    "sync",
    "gpu_annotation",
    "overhead",
    "counter",
    "other",
)
CODE: Final = {kind: code for code, kind in enumerate(KINDS)}

GPU_WORK: Final = ("kernel", "memcpy", "memset")
"""What occupies a GPU; everything the timeline and the kernel tables count."""

NESTED: Final = ("annotation", "module", "python", "op", "comm", "runtime", "other")
"""Host kinds that form the call tree, outermost first where two cover the same interval."""

NONE: Final = -1
"""Marks "absent" in integer columns (no parent, no stream, no correlation …)."""

OWN_CATEGORIES: Final = "warplens."
"""How the categories of tracks that Warplens adds to a file begin: a reader knows by it what no profiler recorded."""

MODULE_PREFIX: Final = "nn.Module: "
"""How PyTorch's profiler names the call of a module among the Python frames."""

BACKWARD: Final = "(backward)"
"""No caller but a mark on a call path: what hangs below it is the backward pass of what is above it."""
