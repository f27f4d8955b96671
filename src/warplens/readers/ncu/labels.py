"""What Nsight Compute's details page calls the metrics that are read here."""

from __future__ import annotations

import re
from typing import Final

_MAX_CHARS: Final = 400  # the longest metric names have half of that
_METRIC: Final = re.compile(r"(?=\w+?__[\w.])[A-Za-z_][\w.]+")
_LABEL_AND_METRIC: Final = re.compile(r".{1,200} \(((?=\w+?__[\w.])[A-Za-z_][\w.]+)\)")
_STALL: Final = re.compile(r"(?:Stall (?P<reason>[A-Za-z/ ]{1,40})|Selected)")

STALL_PER_ISSUE: Final = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"

LABELS: Final = {
    "Duration": "gpu__time_duration.sum",
    "SM Frequency": "gpc__cycles_elapsed.avg.per_second",
    "DRAM Throughput": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "SOL DRAM": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "SM [%]": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory [%]": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "L1/TEX Hit Rate": "l1tex__t_sector_hit_rate.pct",
    "L2 Hit Rate": "lts__t_sector_hit_rate.pct",
    "Executed Ipc Active": "sm__inst_executed.avg.per_cycle_active",
    "Executed Instructions": "smsp__inst_executed.sum",
    "Registers Per Thread": "launch__registers_per_thread",
    "Dynamic Shared Memory Per Block": "launch__shared_mem_per_block_dynamic",
    "Static Shared Memory Per Block": "launch__shared_mem_per_block_static",
    "Waves Per SM": "launch__waves_per_multiprocessor",
    "# SMs": "launch__sm_count",
    "Block Limit Barriers": "launch__occupancy_limit_barriers",
    "Block Limit SM": "launch__occupancy_limit_blocks",
    "Block Limit Registers": "launch__occupancy_limit_registers",
    "Block Limit Shared Mem": "launch__occupancy_limit_shared_mem",
    "Block Limit Warps": "launch__occupancy_limit_warps",
    "Theoretical Occupancy": "sm__maximum_warps_per_active_cycle_pct",
    "Achieved Occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "SM: Pipe Tensor Cycles Active": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
}
MEMORY_THROUGHPUT: Final = "Memory Throughput"
"""Two metrics share this label: a share of the peak, and a rate."""


def metric_of_label(label: str, unit: str) -> str:
    """The metric's own name, empty for a label that is not read here.

    >>> metric_of_label("Duration", "us"), metric_of_label("Memory Throughput", "Gbyte/s")
    ('gpu__time_duration.sum', 'dram__bytes.sum.per_second')
    >>> metric_of_label("Duration (gpu__time_duration.sum)", "us")
    'gpu__time_duration.sum'
    """
    if len(label) > _MAX_CHARS:
        return ""
    if label == MEMORY_THROUGHPUT:
        share = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
        return share if unit == "%" else "dram__bytes.sum.per_second"
    metric = LABELS.get(label)
    if metric or _METRIC.fullmatch(label):
        return metric or label
    both = _LABEL_AND_METRIC.fullmatch(label)
    if both:
        return both[1]
    stall = _STALL.fullmatch(label)
    reason = (stall["reason"] or "selected") if stall else ""
    return STALL_PER_ISSUE.format(reason.lower().replace(" ", "_")) if reason else ""
