"""Tables of a replay: time and energy of each unit alone, compared with its time in the trace, and their sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
import polars as pl

from warplens.analyses.workspace import Workspace
from warplens.categories import short_name
from warplens.model.table import Column, Table, frame_of_rows
from warplens.model.table_entry import TableEntry, entries
from warplens_run.base.errors import UsageError
from warplens_run.formats.result_sums import active_joules, gpu_median_ns, in_range, ratio, replayed_ns, traced_ns

if TYPE_CHECKING:
    from warplens_run.formats.replay_result import ReplayResult, UnitResult

Row = dict[str, object]
NO_ENERGY: Final = "no energy was measured"
NEEDS_RESULT: Final = "the result of a replay: open the trace with replay="


class WholeRun(msgspec.Struct, frozen=True):
    """The energy of the whole program over the stretch that the trace shows, measured apart."""

    joules: float
    seconds: float


UNIT_COLUMNS: Final = (
    Column("unit", "its number in the plan", "", pl.String),
    Column("op", "the op that was called", "", pl.String),
    Column("kernel_short", "short name of its longest kernel", "", pl.String),
    Column("kernel_category", "of that kernel", "", pl.String),
    Column("count", "calls in the trace", "", pl.Int64),
    Column("percent", "share of the GPU time of the trace", "%", pl.Float64),
    Column("traced_us", "GPU time of one call in the trace, median", "us", pl.Float64),
    Column("replayed_us", "GPU time of one call alone, median", "us", pl.Float64),
    Column("ratio", "replayed over traced", "", pl.Float64),
    Column("in_range", "replayed within the trace's own p10–p90 or a tenth of its median", "", pl.String),
    Column("same_kernel", "names and grids are those of the trace", "", pl.String),
    Column("active_mj", "energy of one call above idle", "mJ", pl.Float64),
    Column("total_mj", "energy of one call, idle power included", "mJ", pl.Float64),
    Column("watts", "power while it runs in a loop", "W", pl.Float64),
    Column("interval_percent", "half the 95 % interval of active_mj, as a share of it", "%", pl.Float64),
    Column("busy_percent", "share of the measured loop in which its kernels ran", "%", pl.Float64),
    Column("status", "done, failed, refused or not run", "", pl.String),
    Column("difference", "how its kernels differ from the trace's", "", pl.String),
    Column("note", "why it was not run, what is doubtful, what was changed", "", pl.String),
    Column("p10_us", "a tenth of the replayed calls took less", "us", pl.Float64),
    Column("p90_us", "a tenth of the replayed calls took more", "us", pl.Float64),
    Column("traced_p10_us", "a tenth of the traced calls took less", "us", pl.Float64),
    Column("traced_p90_us", "a tenth of the traced calls took more", "us", pl.Float64),
    Column("repeats", "measured calls", "", pl.Int64),
    Column("total_us", "GPU time of all calls in the trace", "us", pl.Float64),
    Column("replayed_total_us", "calls in the trace × replayed time", "us", pl.Float64),
    Column("active_j", "calls in the trace × energy above idle", "J", pl.Float64),
)


def replay_units(result: ReplayResult) -> Table:
    rows = [_unit_row(unit, result.gpu_ns) for unit in result.units]
    frame = frame_of_rows(UNIT_COLUMNS, rows).sort("total_us", "unit", descending=[True, False])
    return Table.from_frame("replay_units", "one row per unit of the plan", UNIT_COLUMNS, frame, *result.notes)


def _unit_row(unit: UnitResult, gpu_ns: int) -> Row:
    time, energy, traced = unit.time, unit.energy, unit.traced
    row: Row = {
        "unit": unit.id,
        "op": unit.op,
        "kernel_short": short_name(unit.kernel) if unit.kernel else "",
        "kernel_category": unit.category,
        "count": unit.count,
        "percent": round(100 * traced.total_ns / gpu_ns, 6) if gpu_ns else 0.0,
        "traced_us": traced.median_ns / 1e3,
        "traced_p10_us": traced.p10_ns / 1e3,
        "traced_p90_us": traced.p90_ns / 1e3,
        "total_us": traced.total_ns / 1e3,
        "in_range": _word(in_range(unit)),
        "same_kernel": _word(unit.same),
        "status": unit.status,
        "difference": unit.difference,
        "note": "; ".join(part for part in (unit.reason, energy.why if energy else "", *unit.notes) if part),
    }
    if time is not None:
        row |= {
            "replayed_us": time.median_ns / 1e3,
            "ratio": ratio(unit),
            "p10_us": time.p10_ns / 1e3,
            "p90_us": time.p90_ns / 1e3,
            "repeats": time.repeats,
            "replayed_total_us": unit.count * time.median_ns / 1e3,
        }
    if energy is not None:
        row |= {
            "active_mj": energy.active_j * 1e3,
            "total_mj": energy.total_j * 1e3,
            "watts": energy.watts,
            "interval_percent": 100 * energy.interval,
            "busy_percent": 100 * energy.busy_fraction,
            "active_j": unit.count * energy.active_j,
        }
    return row


def _word(value: bool | None) -> str:
    return "" if value is None else "yes" if value else "no"


def replay_ops(result: ReplayResult) -> Table:
    return _grouped(
        "replay_ops",
        "one row per op",
        Column("op", "the op that was called", "", pl.String),
        result,
        lambda unit: unit.op,
    )


def replay_categories(result: ReplayResult) -> Table:
    column = Column("kernel_category", "of each unit's longest kernel", "", pl.String)
    return _grouped("replay_categories", "one row per kernel category", column, result, lambda unit: unit.category)


def _grouped(name: str, what: str, key: Column, result: ReplayResult, of: Callable[[UnitResult], str]) -> Table:
    columns = (
        key,
        Column("units", "units", "", pl.Int64),
        Column("count", "calls in the trace", "", pl.Int64),
        Column("total_us", "their GPU time in the trace", "us", pl.Float64),
        Column("percent", "share of the GPU time of the trace", "%", pl.Float64),
        Column("replayed_percent", "share of total_us whose units were replayed", "%", pl.Float64),
        Column("traced_us", "GPU time in the trace of the replayed units", "us", pl.Float64),
        Column("replayed_us", "Σ calls × replayed time", "us", pl.Float64),
        Column("ratio", "replayed over traced", "", pl.Float64),
        Column("active_j", "Σ calls × energy above idle, of the units measured", "J", pl.Float64),
    )
    groups: dict[str, list[UnitResult]] = {}
    for unit in result.units:
        groups.setdefault(of(unit) or "(none)", []).append(unit)
    rows = [{key.name: label, **_sums(units, result.gpu_ns)} for label, units in groups.items()]
    frame = frame_of_rows(columns, rows).sort("total_us", key.name, descending=[True, False])
    return Table.from_frame(name, what, columns, frame)


def _sums(units: Sequence[UnitResult], gpu_ns: int) -> Row:
    total = traced_ns(units)
    timed = [unit for unit in units if unit.time is not None]
    traced, replayed = traced_ns(timed), replayed_ns(timed)
    is_compared = bool(traced) and all(gpu_median_ns(unit) is not None for unit in timed)
    metered = [unit for unit in units if unit.energy is not None]
    return {
        "units": len(units),
        "count": sum(unit.count for unit in units),
        "total_us": total / 1e3,
        "percent": round(100 * total / gpu_ns, 6) if gpu_ns else 0.0,
        "replayed_percent": round(100 * traced / total, 6) if total else 0.0,
        "traced_us": traced / 1e3,
        "replayed_us": replayed / 1e3 if timed else None,
        "ratio": replayed / traced if is_compared else None,
        "active_j": active_joules(metered) if metered else None,
    }


def replay_left(result: ReplayResult) -> Table:
    """Every µs that was not replayed, with its reason."""
    columns = (
        Column("reason", "why it was not replayed", "", pl.String),
        Column("units", "units", "", pl.Int64),
        Column("total_us", "their GPU time in the trace", "us", pl.Float64),
        Column("percent", "share of the GPU time of the trace", "%", pl.Float64),
        Column("example", "the longest of them", "", pl.String),
    )
    groups: dict[str, list[UnitResult]] = {}
    for unit in result.units:
        if unit.time is None:
            groups.setdefault(f"{unit.status}: {unit.reason}".removesuffix(": "), []).append(unit)
    rows = [
        {"reason": reason, "units": len(units), "example": f"{units[0].op} ({units[0].id})",
         "total_us": traced_ns(units) / 1e3}
        for reason, units in groups.items()
    ]  # fmt: skip
    rows += [
        {"reason": reason, "units": 0, "example": "", "total_us": ns / 1e3} for reason, ns in result.rest.items() if ns
    ]
    frame = frame_of_rows(columns, rows).sort("total_us", "reason", descending=[True, False])
    share = pl.col("total_us") * (1e5 / result.gpu_ns if result.gpu_ns else 0)
    return Table.from_frame(
        "replay_left", "one row per reason", columns, frame.with_columns(share.round(6).alias("percent"))
    )


def replay(result: ReplayResult, whole: WholeRun | None = None) -> Table:
    """The replay in figures."""
    columns = (
        Column("measure", "what was measured", "", pl.String),
        Column("value", "value", "", pl.Float64),
        Column("unit", "unit of the value", "", pl.String),
        Column("meaning", "description", "", pl.String),
    )
    notes = list(result.notes)
    if not any(unit.energy for unit in result.units):
        notes.append(NO_ENERGY)
    return Table.from_rows("replay", "one row per measure", columns, _measures(result, whole), *notes)


def _measures(result: ReplayResult, whole: WholeRun | None) -> list[tuple[str, float, str, str]]:
    timed = [unit for unit in result.units if unit.time is not None]
    rows = [
        ("traced", result.gpu_ns / 1e3, "us", "GPU time of the whole trace"),
        ("covered", _share(traced_ns(timed), result.gpu_ns), "%", "of it, in units that were replayed"),
    ]
    return rows + _comparison(timed) + _energy_measures(result, whole)


def _comparison(timed: Sequence[UnitResult]) -> list[tuple[str, float, str, str]]:
    """Of what ran on a GPU; a CPU's times and calls are compared with nothing."""
    timed = [unit for unit in timed if gpu_median_ns(unit) is not None]
    compared = [unit for unit in timed if unit.same is not None]
    traced, replayed = traced_ns(timed), replayed_ns(timed)
    if not traced:
        return []
    return [
        ("same kernels", _share(traced_ns(u for u in compared if u.same), traced_ns(compared)), "%",
         "of the replayed time, in units that launched the same kernels with the same grids"),
        ("in range", _share(traced_ns(u for u in timed if in_range(u)), traced), "%",
         "of the replayed time, in units whose median is within the trace's own p10–p90 or ±10 % of its median"),
        ("replayed", replayed / 1e3, "us", "Σ calls × replayed median"),
        ("replayed / traced", replayed / traced, "", "over the units that were replayed"),
    ]  # fmt: skip


def _energy_measures(result: ReplayResult, whole: WholeRun | None) -> list[tuple[str, float, str, str]]:
    metered = [unit for unit in result.units if unit.energy is not None]
    if not metered or result.meter is None:
        return []
    active, share = active_joules(metered), traced_ns(metered) / result.gpu_ns if result.gpu_ns else 0.0
    rows = [
        ("metered", 100 * share, "%", "of the traced GPU time, in units whose energy was measured"),
        ("idle power", result.meter.idle_watts, "W", "of the GPU with a live context and nothing running"),
        ("active energy", active, "J", "Σ calls × energy above idle, of the units measured"),
        ("doubtful", _share(traced_ns(u for u in metered if u.energy and u.energy.doubtful), traced_ns(metered)), "%",
         "of the metered time, in units whose energy is doubtful"),
    ]  # fmt: skip
    if whole is not None and share:
        scaled, idle = active / share, result.meter.idle_watts * whole.seconds
        rows += [
            ("whole run", whole.joules, "J", f"measured over {whole.seconds:g} s"),
            ("closure", scaled + idle, "J", "Σ active (scaled to all GPU time) + idle power × seconds"),
            ("closure / whole run", (scaled + idle) / whole.joules if whole.joules else 0.0, "", "1 is a perfect fit"),
        ]
    return rows


def _share(part: float, whole: float) -> float:
    return 100 * part / whole if whole else 0.0


REPLAY_TABLES: Final[dict[str, TableEntry[ReplayResult]]] = entries(
    replay, replay_units, replay_categories, replay_ops, replay_left
)


def _of_trace(entry: TableEntry[ReplayResult]) -> TableEntry[Workspace]:
    """The same table of a trace that was opened with the result of its replay."""

    def make(work: Workspace) -> Table:
        if work.replayed is None:
            raise UsageError(f"table {entry.name} needs {NEEDS_RESULT}")
        return entry.make(work.replayed)

    return TableEntry(entry.name, make, lambda work: work.replayed is not None, NEEDS_RESULT)


TRACE_REPLAY_TABLES: Final = {name: _of_trace(entry) for name, entry in REPLAY_TABLES.items()}
