"""Tiles that are read off tables: the rates of a served model, the ranks of a job, the peak of a memory snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from warplens.model.answer import Answer
from warplens.model.clock import SOURCES, Clock
from warplens.model.table import Table
from warplens.outputs.html.records import Tile
from warplens_run.base.units import format_bytes, format_count, format_short_ms, plural

SERVING: Final = (("decode", "Decode"), ("mixed", "Mixed iterations"), ("prefill", "Prefill"))
HOST_SIDE: Final = ("before the first launch", "GPU idle", "after the last kernel", "host")
"""Parts of a step in which no GPU works."""
Row = Mapping[str, Any]
AS_RECORDED: Final = "as recorded, with what recording costs the host; unprofiled: without it, simulated"


def serving_tiles(tables: Sequence[Table], clock: Clock) -> list[Tile]:
    """Tokens a second by phase, and the time between two tokens; none where no model is served."""
    phases = {row["phase"]: row for row in _rows(tables, "serving_phases")}
    tiles = [_phase(label, phases[phase], clock) for phase, label in SERVING if phase in phases]
    intervals = [row for row in _rows(tables, "token_latency") if row["part"] == "interval"]
    return [*tiles, *(_interval(row, clock) for row in intervals)]


def serving_rates(tables: Sequence[Table]) -> list[Tile]:
    """MFU and MBU of the iterations: a trace of a server begins and ends anywhere, which its whole time contains."""
    rows = _rows(tables, "serving_phases")[-1:]  # of all phases, or of the only one
    return [_utilization(row) for row in rows if row["mfu_percent"] is not None]


def _utilization(row: Row) -> Tile:
    note = "" if row["mbu_percent"] is None else f"MBU {row['mbu_percent']:.1f} %"
    meaning = "known operations, and bytes, over what the GPU could do in the time of the iterations"
    return Tile("MFU", f"{row['mfu_percent']:.1f} %", note, meaning, "serving_phases")


def _phase(label: str, row: Row, clock: Clock) -> Tile:
    requests = row["requests"]
    of = "" if requests is None else f" · {plural(round(requests), 'request')}"
    return Tile(
        label,
        "–" if row["tokens_per_s"] is None else f"{format_count(row['tokens_per_s'])} tokens/s",
        f"{_short_ms(row['median_ms'])} an iteration{of} · {_unprofiled(row)}",
        f"tokens a second in steady state, the median time and the mean requests of an iteration: {AS_RECORDED}",
        "serving_phases",
    )


def _unprofiled(row: Row) -> str:
    """What the rate would be without the profiler, between what, where that is known and another one."""
    if row["plain_tokens_per_s"] is None:
        return "recorded"
    low, high = row["low_tokens_per_s"], row["high_tokens_per_s"]
    return f"{_rate(low)} to {_rate(high)} unprofiled" if low != high else f"{_rate(high)} unprofiled"


def _rate(tokens_per_s: float) -> str:
    return format_count(tokens_per_s) if tokens_per_s >= 100 else f"{tokens_per_s:.1f}"


def _interval(row: Row, clock: Clock) -> Tile:
    plain_ms = row["plain_p50_ms"]
    unprofiled = "recorded"
    if plain_ms is not None:
        least, most = (_short_ms(plain_ms * ms / clock.step_ms) for ms in (clock.low_ms, clock.high_ms))
        unprofiled = f"{most if least == most else f'{least} to {most}'} unprofiled"
    return Tile(
        "Between two tokens",
        _short_ms(row["p50_ms"]),
        f"p90 {_short_ms(row['p90_ms'])} · p99 {_short_ms(row['p99_ms'])} · {unprofiled}",
        f"median time from one generated token to the next of the same request, in steady state: {AS_RECORDED}",
        "token_latency",
    )


def job_tiles(answer: Answer, tables: Sequence[Table]) -> list[Tile]:
    """The job's step, where it goes on the rank that decides it, and who delays it; nothing without common steps."""
    clock = answer.clock
    if clock is None:
        return []
    steps, meaning = plural(clock.steps, clock.whole), f"the job's step: {SOURCES[clock.source]}"
    names = {part.part for part in answer.parts}
    return [
        Tile("Step", clock.amount, f"{clock.known} · {steps}", meaning, "step_time"),
        *([gpu_busy(answer, clock, f"{answer.parts_of}'s step")] if names & {"computation", "GPU idle"} else []),
        *(_part_of_rank(answer, clock, name) for name in JOB_PARTS if name in names),
        *map(_straggler, _rows(tables, "stragglers")[:1]),
    ]


def gpu_busy(answer: Answer, clock: Clock, whole: str) -> Tile:
    """Kernels, communication and copies alike, of a job as of a trace."""
    ms = sum(part.time_ms for part in answer.parts if part.part not in HOST_SIDE)
    meaning = "share of the step in which any GPU works"
    return Tile("GPU busy", clock.share(ms), f"{clock.of_step(ms)} of {whole}", meaning, "breakdown")


JOB_PARTS: Final = {
    "host": "the host works on the step; no GPU is used",
    "exposed communication": "communication runs while nothing computes: transfers, and waits for other ranks",
    "GPU idle": "nothing of the step runs on the GPU",
}


def _part_of_rank(answer: Answer, clock: Clock, name: str) -> Tile:
    ms = sum(part.time_ms for part in answer.parts if part.part == name)
    note = f"{clock.of_step(ms)} of {answer.parts_of}'s step"
    return Tile(f"{name[0].upper()}{name[1:]}", clock.share(ms), note, JOB_PARTS[name], "breakdown")


def _straggler(row: Row) -> Tile:
    """Named a straggler only where it surely delays the others."""
    label = "Straggler" if row["gain_low_ms"] > 0 else "Slower rank"
    note = f"{_short_ms(row['excess_ms'])} a step since step {row['since_step']}"
    return Tile(label, f"rank {row['rank']}", note, f"slower than its peers; cause: {row['cause']}", "stragglers")


def snapshot_tiles(tables: Sequence[Table]) -> Iterator[Tile]:
    """The device with the highest peak."""
    moments = next((table.frame for table in tables if table.name == "memory_timeline"), None)
    peaks = [] if moments is None else moments.filter("is_peak").to_dicts()
    if not peaks:
        return
    peak = max(peaks, key=lambda row: int(row["allocated_bytes"]))
    allocated, reserved, device = peak["allocated_bytes"], peak["reserved_bytes"], peak["device"]
    yield Tile("Memory peak", format_bytes(allocated), f"allocated on {device}", "the most at once", "memory_peak")
    yield from _reserved(allocated, reserved)
    pools = [row for row in _rows(tables, "fragmentation") if row["device"] == device and row["moment"] == "peak"]
    if lost := sum(row["lost_bytes"] or 0 for row in pools):
        meaning = "free parts of blocks in use, which no larger tensor fits in"
        yield Tile("Fragmentation", format_bytes(lost), "lost at the peak", meaning, "fragmentation")


def _reserved(allocated: int, reserved: int | None) -> Iterator[Tile]:
    if reserved:
        note = f"{100 * allocated / reserved:.0f} % of it allocated"
        yield Tile("Reserved", format_bytes(reserved), note, "what the allocator took, at the peak", "memory_timeline")


def _short_ms(ms: float) -> str:
    return format_short_ms(ms, ms)


def _rows(tables: Sequence[Table], name: str) -> list[dict[str, Any]]:
    return next((table.to_dicts() for table in tables if table.name == name), [])
