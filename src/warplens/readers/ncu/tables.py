"""The tables that only Nsight Compute's files have: `counters`, `counter_stalls` and `counter_rules`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

import polars as pl

from warplens.model.measured import ISSUED, STALL_MEANINGS
from warplens.model.table import Column, Table
from warplens.readers.ncu.counters import STALL_METRICS, LaunchValues
from warplens.readers.ncu.rows import MachineInstruction, ProfiledLaunch
from warplens.readers.ncu.values import BadValueError, parse_number

ID: Final = (
    Column("id", "number of the profiled launch, as the report counts them", "", pl.Int64),
    Column("process", "process that launched it", "", pl.Int64),
    Column("kernel", "name as Nsight Compute writes it", "", pl.String),
)
COUNTERS: Final = (
    *ID,
    Column("device", "GPU number", "", pl.Int64),
    Column("stream", "CUDA stream", "", pl.Int64),
    Column("grid", "blocks", "", pl.String),
    Column("block", "threads of a block", "", pl.String),
    Column("time_us", "duration, measured alone", "us", pl.Float64),
    Column("dram_read_bytes", "bytes read from the GPU's memory", "bytes", pl.Int64),
    Column("dram_write_bytes", "bytes written to it", "bytes", pl.Int64),
    Column("dram_bytes", "read and written", "bytes", pl.Int64),
    Column("dram_tbps", "rate of both; where the file has none, dram_bytes over the time", "TB/s", pl.Float64),
    Column("dram_percent", "share of the memory's peak rate", "%", pl.Float64),
    Column(
        "memory_percent", "use of the busiest part of the memory system: caches, their links, DRAM", "%", pl.Float64
    ),
    Column("l1_hit_percent", "share of L1 accesses that the cache answers", "%", pl.Float64),
    Column("l2_hit_percent", "share of L2 accesses that the cache answers", "%", pl.Float64),
    Column("sm_percent", "use of the busiest part of the multiprocessors", "%", pl.Float64),
    Column("tensor_percent", "use of the tensor pipe: time, not a count of operations", "%", pl.Float64),
    Column("ipc", "instructions a multiprocessor executes per active cycle", "", pl.Float64),
    Column("instructions", "instructions that warps executed", "", pl.Int64),
    Column("sm_ghz", "clock of the multiprocessors while it was measured", "GHz", pl.Float64),
    Column("occupancy_percent", "warps resident on average, of the most that fit", "%", pl.Float64),
    Column("occupancy_theoretical_percent", "the most that this launch's resources allow", "%", pl.Float64),
    Column(
        "occupancy_limit",
        "what keeps that below 100 %: registers, shared memory, blocks, warps or barriers",
        "",
        pl.String,
    ),
    Column("registers", "registers per thread", "", pl.Int64),
    Column("shared_memory_bytes", "shared memory of a block, static and dynamic", "bytes", pl.Int64),
    Column("waves", "how often all multiprocessors are filled with blocks", "", pl.Float64),
    Column("top_stall", "what warps waited for most; counter_stalls has all reasons", "", pl.String),
    Column("top_stall_percent", "share of the warps' time", "%", pl.Float64),
)
STALLS: Final = (
    *ID,
    Column("stall", "what the warps were doing", "", pl.String),
    Column("percent", "share of the warps' time", "%", pl.Float64),
    Column(
        "warps_per_issue",
        "warps in that state per issued instruction: a warp's cycles in it per instruction",
        "",
        pl.Float64,
    ),
    Column("samples", "samples of warps in that state", "", pl.Int64),
    Column("meaning", "what that state is", "", pl.String),
)
INSTRUCTIONS: Final = (
    Column("line", "line of the source that it was compiled from; empty where that is not recorded", "", pl.Int64),
    Column("file", "source file", "", pl.String),
    Column("instruction", "machine instruction", "", pl.String),
    Column("percent", "share of the launch's samples", "%", pl.Float64),
    Column("top_stall", "what warps waited for most there", "", pl.String),
    Column("top_stall_percent", "share of that among its waits", "%", pl.Float64),
    Column("samples", "samples of warps on it", "count", pl.Int64),
    Column("stalled_percent", "stalled share of its samples", "%", pl.Float64),
    Column("executed", "how often warps executed it", "", pl.Int64),
    Column("threads", "threads of a warp that took part, on average", "", pl.Float64),
    Column("access", "memory that it accesses, with the bits of a thread", "", pl.String),
    Column("excess_sectors", "sectors of the L2 cache beyond what its bytes need", "", pl.Float64),
    Column("excess_wavefronts", "passes through shared memory beyond the least: bank conflicts", "", pl.Float64),
    *ID,
    Column("address", "address in the GPU's memory", "", pl.String),
)
RULES: Final = (
    *ID,
    Column("section", "section of the report", "", pl.String),
    Column("rule", "name of Nsight Compute's rule", "", pl.String),
    Column("kind", "OPT: to improve, INF: to know, WRN: a warning", "", pl.String),
    Column("text", "what the rule says", "", pl.String),
    Column("estimated_speedup_percent", "time that Nsight Compute thinks can be won", "%", pl.Float64),
    Column("speedup_type", "global: of the kernel's time, local: of the part that the rule looks at", "", pl.String),
)

MEASURES: Final = {
    "warps_per_issue": "warps per issued instruction (smsp__average_warps_issue_stalled_*_per_issue_active)",
    "percent_of_warps": "percentages of active warps (smsp__warp_issue_stalled_*_per_warp_active)",
    "samples": "samples of the program counter (smsp__pcsamp_warps_issue_stalled_*)",
}


@dataclass(frozen=True)
class MeasuredLaunch:
    """A launch with its numbers."""

    launch: ProfiledLaunch
    numbers: dict[str, Decimal]
    stalls: dict[str, dict[str, Decimal]]
    limit: str

    @property
    def dram_bytes(self) -> Decimal | None:
        read, write = self.numbers.get("dram_read"), self.numbers.get("dram_write")
        return self.numbers.get("dram") if read is None or write is None else read + write

    @property
    def shares(self) -> dict[str, float]:
        """Percent of the warps' time by what they did."""
        states = next(iter(self.stalls.values()), {})
        whole = sum(states.values())
        return {state: float(100 * value / whole) for state, value in states.items()} if whole else {}

    @property
    def top_stall(self) -> tuple[str | None, float | None]:
        waits = {state: share for state, share in self.shares.items() if state != ISSUED}
        top = max(sorted(waits), key=lambda state: waits[state], default=None)
        return (top, waits[top]) if top is not None and waits[top] > 0 else (None, None)


def counters_table(measured: Sequence[MeasuredLaunch], values: LaunchValues) -> Table:
    used = values.used.get("tensor_percent", set())
    notes = [f"tensor_percent is {', '.join(sorted(used))}"] if used else []
    notes += _stall_notes(measured, "top_stall")
    rows = [_counters_row(result) for result in measured]
    return Table.from_rows("counters", "one row per profiled kernel launch", COUNTERS, rows, *notes)


def _counters_row(result: MeasuredLaunch) -> dict[str, object]:
    launch, numbers = result.launch, result.numbers
    theoretical = numbers.get("occupancy_theoretical_percent")
    stall, stall_percent = result.top_stall
    shared = [numbers[key] for key in ("shared_dynamic", "shared_static") if key in numbers]
    row: dict[str, object] = {column.name: _float(numbers.get(column.name)) for column in COUNTERS}
    return row | {
        **_id(launch),
        "device": _recorded(launch.device),
        "stream": _recorded(launch.stream),
        "grid": launch.grid or None,
        "block": launch.block or None,
        "time_us": _float(numbers.get("time"), -3),
        "dram_read_bytes": _whole(numbers.get("dram_read")),
        "dram_write_bytes": _whole(numbers.get("dram_write")),
        "dram_bytes": _whole(result.dram_bytes),
        "dram_tbps": _dram_tbps(result),
        "instructions": _whole(numbers.get("instructions")),
        "sm_ghz": _float(numbers.get("sm_clock"), -9),
        "occupancy_limit": result.limit if result.limit and (theoretical is None or theoretical < 100) else None,
        "registers": _whole(numbers.get("registers")),
        "shared_memory_bytes": _whole(sum(shared, Decimal())) if shared else None,
        "top_stall": stall,
        "top_stall_percent": stall_percent,
    }


def _dram_tbps(result: MeasuredLaunch) -> float | None:
    rate, moved, time = result.numbers.get("dram_rate"), result.dram_bytes, result.numbers.get("time")
    if rate is not None:
        return _float(rate, -12)
    return float(moved / time / 1000) if moved is not None and time else None


def stalls_table(measured: Sequence[MeasuredLaunch]) -> Table:
    rows = [
        {
            **_id(result.launch),
            "stall": state,
            "percent": share,
            "warps_per_issue": _float(result.stalls.get("warps_per_issue", {}).get(state)),
            "samples": _whole(result.stalls.get("samples", {}).get(state)),
            "meaning": STALL_MEANINGS.get(state, ""),
        }
        for result in measured
        for state, share in sorted(result.shares.items(), key=lambda pair: (-pair[1], pair[0]))
    ]
    notes = _stall_notes(measured, "percent")
    return Table.from_rows("counter_stalls", "one row per profiled launch and what its warps did", STALLS, rows, *notes)


def instructions_table(launches: Sequence[ProfiledLaunch]) -> Table:
    """Every machine instruction of the launches, those with most samples first."""
    rows = [
        {
            **_id(launch),
            "instruction": instruction.text,
            "line": instruction.line or None,
            "file": instruction.file or None,
            "address": f"{instruction.address:#x}",
            "samples": instruction.samples,
            "executed": instruction.executed,
            "access": instruction.access or None,
            **dict(instruction.numbers),
            **_waits(instruction, sum(other.samples for other in launch.instructions)),
        }
        for launch in launches
        for instruction in launch.instructions
    ]
    rows.sort(key=lambda row: -int(str(row["samples"])))  # bounded: a count of ours
    return Table.from_rows(
        "counter_instructions", "one row per profiled launch and machine instruction", INSTRUCTIONS, rows
    )


def _waits(instruction: MachineInstruction, samples: int) -> dict[str, object]:
    if not instruction.samples:
        return {"percent": 0.0 if samples else None}
    waits = {reason: count for reason, count in instruction.stalls if reason != ISSUED}
    stalled = sum(waits.values())
    top = max(sorted(waits), key=lambda reason: waits[reason], default=None)
    return {
        "percent": 100 * instruction.samples / samples,
        # A damaged page can have more samples by reason than in all.
        "stalled_percent": 100 * stalled / instruction.samples if stalled <= instruction.samples else None,
        "top_stall": top,
        "top_stall_percent": 100 * waits[top] / sum(waits.values()) if top else None,
    }


def rules_table(launches: Sequence[ProfiledLaunch], *, decimal_comma: bool) -> Table:
    rows = [
        {
            **_id(launch),
            "section": rule.section,
            "rule": rule.name,
            "kind": rule.kind,
            "text": rule.text,
            "estimated_speedup_percent": _speedup(rule.speedup, decimal_comma),
            "speedup_type": rule.speedup_type or None,
        }
        for launch in launches
        for rule in launch.rules
    ]
    return Table.from_rows("counter_rules", "one row per profiled launch and rule of Nsight Compute", RULES, rows)


def _stall_notes(measured: Sequence[MeasuredLaunch], column: str) -> list[str]:
    taken = {next(iter(result.stalls)) for result in measured if result.stalls}
    named = [MEASURES[measure] for measure, _ in STALL_METRICS if measure in taken]
    return [f"{column} is from {', else '.join(named)}"] if named else []


def _id(launch: ProfiledLaunch) -> dict[str, object]:
    return {"id": launch.id, "process": _recorded(launch.process), "kernel": launch.kernel}


def _recorded(number: int) -> int | None:
    return number if number >= 0 else None


def _float(number: Decimal | None, exponent: int = 0) -> float | None:
    return None if number is None else float(number.scaleb(exponent))


def _whole(number: Decimal | None) -> int | None:
    return None if number is None else int(number.to_integral_value())


def _speedup(text: str, decimal_comma: bool) -> float | None:
    try:
        return _float(parse_number(text, decimal_comma=decimal_comma))
    except BadValueError:
        return None
