"""Which of Nsight Compute's metrics are read, under which names, and the values of a launch.

Metrics that stand in one line mean the same; the first that a launch has is taken. Shares of a peak are never turned
into amounts of work: no metric counts the operations that the tensor cores did.
"""

from __future__ import annotations

import re
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Final

from warplens.readers.ncu.labels import STALL_PER_ISSUE
from warplens.readers.ncu.rows import ProfiledLaunch
from warplens.readers.ncu.values import (
    BYTES,
    BYTES_PER_S,
    HERTZ,
    NS,
    PLAIN,
    BadValueError,
    Cell,
    base_unit,
    value_of,
)

ELAPSED: Final = ".avg.pct_of_peak_sustained_elapsed"
ACTIVE: Final = ".avg.pct_of_peak_sustained_active"
METRICS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    # column: (base unit, metrics by preference)
    "time": (NS, ("gpu__time_duration.sum", "gpu__time_duration.avg", "gpu__time_active.sum", "gpu__time_active.avg")),
    "dram_read": (BYTES, ("dram__bytes_read.sum", "dram__read_bytes.sum")),
    "dram_write": (BYTES, ("dram__bytes_write.sum", "dram__write_bytes.sum")),
    "dram": (BYTES, ("dram__bytes.sum",)),
    "dram_rate": (BYTES_PER_S, ("dram__bytes.sum.per_second",)),
    "dram_percent": (PLAIN, ("gpu__dram_throughput" + ELAPSED, "dram__throughput" + ELAPSED)),
    "memory_percent": (PLAIN, ("gpu__compute_memory_throughput" + ELAPSED,)),
    "l1_hit_percent": (PLAIN, ("l1tex__t_sector_hit_rate.pct",)),
    "l2_hit_percent": (PLAIN, ("lts__t_sector_hit_rate.pct", "lts__average_t_sector_hit_rate.pct")),
    "sm_percent": (PLAIN, ("sm__throughput" + ELAPSED,)),
    # The pipe's own counter also counts work that is not matrix work on some GPUs; the counter by type does not.
    "tensor_percent": (
        PLAIN,
        (
            "sm__pipe_tensor_type_*_cycles_active" + ELAPSED,
            "sm__pipe_tensor_cycles_active" + ELAPSED,
            "sm__pipe_tensor_op_hmma_cycles_active" + ELAPSED,
            "sm__pipe_tensor_cycles_active" + ACTIVE,
            "sm__pipe_tensor_op_hmma_cycles_active" + ACTIVE,
            "sm__inst_executed_pipe_tensor" + ELAPSED,
            "sm__inst_executed_pipe_tensor" + ACTIVE,
        ),
    ),
    "ipc": (PLAIN, ("sm__inst_executed.avg.per_cycle_active",)),
    "instructions": (PLAIN, ("smsp__inst_executed.sum", "sm__inst_executed.sum")),
    "sm_clock": (HERTZ, ("gpc__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second",
                         "smsp__cycles_elapsed.avg.per_second")),
    "occupancy_percent": (PLAIN, ("sm__warps_active" + ACTIVE,)),
    "occupancy_theoretical_percent": (PLAIN, ("sm__maximum_warps_per_active_cycle_pct",)),
    "registers": (PLAIN, ("launch__registers_per_thread",)),
    "shared_dynamic": ("byte/block", ("launch__shared_mem_per_block_dynamic",)),
    "shared_static": ("byte/block", ("launch__shared_mem_per_block_static",)),
    "waves": (PLAIN, ("launch__waves_per_multiprocessor",)),
}  # fmt: skip
LIMITS: Final = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_blocks": "blocks",
    "launch__occupancy_limit_warps": "warps",
    "launch__occupancy_limit_barriers": "barriers",
}
DIMENSIONS: Final = {
    "grid": ("launch__grid_dim_x", "launch__grid_dim_y", "launch__grid_dim_z"),
    "block": ("launch__block_dim_x", "launch__block_dim_y", "launch__block_dim_z"),
}
DEVICE_ATTRIBUTES: Final = {
    # metric: field of `Device`
    "device__attribute_display_name": "name",
    "device__attribute_total_memory": "memory_bytes",
    "device__attribute_multiprocessor_count": "multiprocessors",
    "device__attribute_max_threads_per_multiprocessor": "threads_per_multiprocessor",
    "device__attribute_max_registers_per_multiprocessor": "registers_per_multiprocessor",
    "device__attribute_max_shared_memory_per_multiprocessor": "shared_bytes_per_multiprocessor",
    "device__attribute_warp_size": "warp_size",
    "launch__sm_count": "multiprocessors",
}
STALL_METRICS: Final = (
    # (name of the measure, pattern); the first measure that a launch has gives its shares
    ("warps_per_issue", re.compile(STALL_PER_ISSUE.replace(".", r"\.").format(r"(\w{1,40}?)"))),
    ("percent_of_warps", re.compile(r"smsp__(?:average_)?warps?_issue_stalled_(\w{1,40}?)_per_warp_active\.pct")),
    ("samples", re.compile(r"smsp__pcsamp_warps_issue_stalled_(\w{1,40}?)(?<!_not_issued)")),
)
SAME_STALLS: Final = {"no_instructions": "no_instruction", "warpgroup_arrive": "gmma"}
"""The counters and the samples name these apart."""

LARGEST_SHARE: Final = 101
"""In percent: rounded ratios of two passes may be a little over 100, and count as 100; larger ones are damage."""

_EXACT: Final = frozenset(
    {name for _, names in METRICS.values() for name in names}
    | {*LIMITS, *DEVICE_ATTRIBUTES}
    | {name for names in DIMENSIONS.values() for name in names}
)
_WILD: Final = tuple(name for name in _EXACT if "*" in name)


def wanted(name: str) -> bool:
    """Whether a metric is read at all."""
    return (
        name in _EXACT
        or ("issue_stalled_" in name and stall_of(name) is not None)
        or any(fnmatchcase(name, pattern) for pattern in _WILD)
    )


def stall_of(name: str) -> tuple[str, str] | None:
    """The measure and the reason that a metric of stalls stands for.

    >>> stall_of("smsp__pcsamp_warps_issue_stalled_long_scoreboard")
    ('samples', 'long_scoreboard')
    >>> stall_of("smsp__pcsamp_warps_issue_stalled_wait_not_issued")
    """
    for measure, pattern in STALL_METRICS:
        match = pattern.fullmatch(name)
        if match:
            return measure, SAME_STALLS.get(match[1], match[1])
    return None


@dataclass
class LaunchValues:
    """The numbers of launches; texts that are not numbers are counted, and which metric gave a column."""

    decimal_comma: bool
    bad: Tally[str] = field(default_factory=Tally)
    bad_launches: set[int] = field(default_factory=set)
    used: dict[str, set[str]] = field(default_factory=dict)

    def of(self, launch: ProfiledLaunch) -> dict[str, Decimal]:
        """The columns that a launch has a value for."""
        numbers: dict[str, Decimal] = {}
        for column, (unit, names) in METRICS.items():
            for name in self._present(launch.metrics, names):
                value = self.number(launch, name, unit)
                if value is not None and column.endswith("_percent") and not 0 <= value <= LARGEST_SHARE:
                    self.bad[name] += 1
                    self.bad_launches.add(id(launch))
                elif value is not None:
                    numbers[column] = min(value, Decimal(100)) if column.endswith("_percent") else value
                    self.used.setdefault(column, set()).add(name)
                    break
        return numbers

    def number(self, launch: ProfiledLaunch, name: str, unit: str = PLAIN) -> Decimal | None:
        cell = launch.metrics.get(name)
        if cell is None:
            return None
        try:
            return value_of(_per_block(cell, unit), unit, decimal_comma=self.decimal_comma)
        except BadValueError:
            self.bad[name] += 1
            self.bad_launches.add(id(launch))
            return None

    def stalls(self, launch: ProfiledLaunch) -> dict[str, dict[str, Decimal]]:
        """What the warps of a launch did, by measure and reason."""
        stalls: dict[str, dict[str, Decimal]] = {}
        for name in launch.metrics:
            measure = stall_of(name) if "issue_stalled_" in name else None
            value = self.number(launch, name) if measure else None
            if measure and value is not None and value >= 0:
                stalls.setdefault(measure[0], {})[measure[1]] = value
        return {measure: stalls[measure] for measure, _ in STALL_METRICS if any(stalls.get(measure, {}).values())}

    def limits(self, launch: ProfiledLaunch) -> str:
        """What allows the fewest blocks at a time on a multiprocessor; several where they are equal."""
        blocks = {word: self.number(launch, name) for name, word in LIMITS.items()}
        limits = {word: count for word, count in blocks.items() if count is not None}
        return ", ".join(word for word, count in limits.items() if count == min(limits.values()))

    def sizes(self, launch: ProfiledLaunch, what: str) -> str:
        """Grid or block from the metrics, for files without a column for them."""
        numbers = [self.number(launch, name) for name in DIMENSIONS[what]]
        sizes = [int(number) for number in numbers if number is not None]
        return f"[{', '.join(map(str, sizes))}]" if len(sizes) == 3 else ""

    @staticmethod
    def _present(metrics: Mapping[str, Cell], names: Iterable[str]) -> Iterable[str]:
        for name in names:
            if name in metrics:
                yield name
            elif "*" in name:
                yield from (metric for metric in metrics if fnmatchcase(metric, name))


def _per_block(cell: Cell, unit: str) -> Cell:
    """Sizes per block are given in bytes by some versions and in bytes per block by others."""
    is_plain = unit == "byte/block" and base_unit(cell.unit)[0] == BYTES
    return Cell(cell.text, f"{cell.unit}/block") if is_plain else cell
