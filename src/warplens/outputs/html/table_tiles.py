"""Tiles that are read off tables: the rates of a served model, the ranks of a job, the peak of a memory snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from warplens.model.clock import Clock
from warplens.model.table import Table
from warplens.outputs.html.records import Tile
from warplens_run.base.units import format_bytes, format_count, format_short_ms, plural

SERVING: Final = (("decode", "Decode"), ("mixed", "Mixed passes"), ("prefill", "Prefill"))
Row = Mapping[str, Any]
AS_RECORDED: Final = "as recorded, with what recording costs the host; unprofiled: without it, simulated"


def serving_tiles(tables: Sequence[Table], clock: Clock) -> list[Tile]:
    """Tokens a second by phase, and the time between two tokens; none where no model is served."""
    phases = {row["phase"]: row for row in _rows(tables, "serving_phases")}
    tiles = [_phase(label, phases[phase], clock) for phase, label in SERVING if phase in phases]
    intervals = [row for row in _rows(tables, "token_latency") if row["part"] == "interval"]
    return [*tiles, *(_interval(row, clock) for row in intervals)]


def serving_rates(tables: Sequence[Table]) -> list[Tile]:
    """MFU and MBU of the passes: a trace of a server begins and ends anywhere, which its whole time contains."""
    rows = _rows(tables, "serving_phases")[-1:]  # of all phases, or of the only one
    return [_utilization(row) for row in rows if row["mfu_percent"] is not None]


def _utilization(row: Row) -> Tile:
    note = "" if row["mbu_percent"] is None else f"MBU {row['mbu_percent']:.1f} %"
    meaning = "known operations, and bytes, over what the GPU could do in the time of the passes"
    return Tile("MFU", f"{row['mfu_percent']:.1f} %", note, meaning, "serving_phases")


def _phase(label: str, row: Row, clock: Clock) -> Tile:
    requests = row["requests"]
    of = "" if requests is None else f" · {plural(round(requests), 'request')}"
    return Tile(
        label,
        "–" if row["tokens_per_s"] is None else f"{format_count(row['tokens_per_s'])} tokens/s",
        f"{_short_ms(row['median_ms'])} a pass{of} · {_recorded(row['plain_tokens_per_s'], clock)}",
        f"tokens a second in steady state, the median time of a pass, and the mean of its requests: {AS_RECORDED}",
        "serving_phases",
    )


def _recorded(plain_tokens_per_s: float | None, clock: Clock) -> str:
    """What the rate would be without the profiler, where that is known and another one."""
    return "recorded" if plain_tokens_per_s is None else f"{clock.rate(plain_tokens_per_s, _rate)} unprofiled"


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


def job_tiles(tables: Sequence[Table]) -> list[Tile]:
    """How the ranks of a job spend a step; nothing where no steps are marked."""
    ranks = [row for row in _rows(tables, "ranks") if row["step_ms"]]
    if not ranks:
        return []
    mean = {name: sum(row[name] or 0.0 for row in ranks) / len(ranks) for name in RANK_TIMES}
    slowest = max(ranks, key=lambda row: row["step_ms"])
    share = {name: f"{100 * mean[name] / mean['step_ms']:.1f} %" for name in RANK_TIMES}
    slow = f"slowest: rank {slowest['rank']}, {_short_ms(slowest['step_ms'])}"
    waits = f"{_short_ms(mean['wait_ms'])} of {_short_ms(mean['exposed_ms'])} waits for a rank"
    return [
        Tile(
            "Step", _short_ms(mean["step_ms"]), slow, "median of the steps, mean over the ranks, as recorded", "ranks"
        ),
        Tile("Computation", share["compute_ms"], _short_ms(mean["compute_ms"]), "share of the step", "ranks"),
        Tile("Exposed communication", share["exposed_ms"], waits, "while nothing computes, share of the step", "ranks"),
        Tile("Idle", share["idle_ms"], _short_ms(mean["idle_ms"]), "neither computes nor communicates", "rank_idle"),
        *map(_straggler, _rows(tables, "stragglers")[:1]),
    ]


RANK_TIMES: Final = ("step_ms", "compute_ms", "exposed_ms", "wait_ms", "idle_ms")


def _straggler(row: Row) -> Tile:
    note = f"{_short_ms(row['excess_ms'])} a step since step {row['since_step']}"
    return Tile("Straggler", f"rank {row['rank']}", note, f"slower than its peers; cause: {row['cause']}", "stragglers")


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
