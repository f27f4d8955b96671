"""Every number that decides whether a rule speaks, in one place; `warplens explain CODE` fills them in."""

from __future__ import annotations

from typing import Final

THRESHOLDS: Final = {
    "min_gain_percent": 1.0,
    # idle time
    "idle_percent": 10.0,
    "short_share_percent": 50.0,
    "stall_percent_of_idle": 10.0,
    "cause_percent": 1.0,
    # what is inside graphs, or unknown
    "graph_percent": 50.0,
    "other_percent": 1.0,
    "unlinked_percent": 5.0,
    # communication and copies
    "exposed_communication_percent": 10.0,
    "exposed_memcpy_percent": 5.0,
    "small_message_kib": 1024.0,
    "small_messages_per_step": 8.0,
    # how close to a measured ceiling a well-made kernel comes, and to a data sheet's
    "reachable_of_measured": 0.85,
    "reachable_of_datasheet": 0.7,
    "reachable_bandwidth": 0.8,
    "reachable_norm": 0.5,
    "reachable_attention": 0.5,
    # matrix work
    "slow_matrix_percent": 50.0,
    "least_matrix_us": 5.0,
    # memory-bound work
    "slow_memory_percent": 40.0,
    "least_memory_us": 10.0,
    "layout_percent": 2.0,
    "chain_length": 3.0,
    # launches
    "tail_percent": 25.0,
    "few_blocks_percent": 50.0,
    "least_tail_us": 20.0,
    "optimizer_launches": 50.0,
    # steps
    "straggler_ratio": 1.3,
    "straggler_steps": 4.0,
}
LONG_GAP_US: Final = 1000.0
"""A gap no launch explains."""
IDLE_BOUND_PERCENT: Final = 40.0
"""From this share of idle time on a run is called host-bound."""
ALIGNMENT: Final = {"bf16": 8, "fp16": 8, "fp8": 16, "int8": 16, "fp32": 4}
"""Elements in 16 bytes: what the fast matrix kernels load at once, so what every contiguous size must divide by."""
GOOD_MULTIPLE: Final = 64
"""A size of which tiles leave no rest."""
