"""What `kernel trace` says on a screen: a block per launch, its statements, and what is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import PurePath
from textwrap import wrap
from typing import TYPE_CHECKING

from warplens_lab.tracing.records import NO_TENSOR, is_elementwise, is_failure
from warplens_run.base.units import format_bytes, format_count, format_flop, plural

if TYPE_CHECKING:
    from warplens_lab.tracing.records import AccessTotals, Fault, KernelTrace, Place, TracedLaunch

MOST_LAUNCHES = 12
MOST_STATEMENTS = 14
LEAST_STATEMENT = 48
"""Columns; with fewer, a statement that must be cut has its own lines."""
INDENT = "      "


def trace_lines(
    trace: KernelTrace, width: int, configs: Mapping[int, str] | None = None, *, strict: bool = False
) -> Iterator[str]:
    """Launches that follow each other and did the same are shown once.

    `configs` says by the launch's number what an autotuner chose for it. With `strict` notes are faults.
    """
    chosen = configs or {}
    groups = [
        list(group)
        for _, group in groupby(trace.launches, key=lambda launch: (_likeness(launch), chosen.get(launch.index)))
    ]
    for number, group in enumerate(groups[:MOST_LAUNCHES]):
        if number:
            yield ""
        yield from _launch(group[0], len(group), width, chosen.get(group[0].index), strict)
    if len(groups) > MOST_LAUNCHES:
        rest = sum(map(len, groups[MOST_LAUNCHES:]))
        yield ""
        yield f"… and {format_count(rest)} more launches: --table kernel_launches has all"
    count = sum(is_failure(fault, strict=strict) for launch in trace.launches for fault in launch.faults)
    if count:
        yield ""
        yield f"{plural(count, 'fault')}: --table kernel_faults has all"


def _likeness(launch: TracedLaunch) -> object:
    return (launch.kernel, launch.grid, launch.loaded_bytes, launch.stored_bytes, launch.atomic_bytes, launch.flop,
            launch.traced_programs, [fault.message for fault in launch.faults])  # fmt: skip


def _launch(launch: TracedLaunch, times: int, width: int, config: str | None, strict: bool) -> Iterator[str]:
    grid = " × ".join(map(str, launch.grid))
    often = f", {times} times alike" if times > 1 else ""
    traced = "" if launch.traced_programs == launch.programs else f", {format_count(launch.traced_programs)} traced"
    file, line, _ = launch.called_from[-1] if launch.called_from else ("", 0, "")
    where = f"  {PurePath(file).name}:{line}" if file else ""
    programs = f"{plural(launch.programs, 'program')}"
    yield f"{launch.kernel}, {programs} ({grid}){traced}{often}{where}"
    if config:
        yield f"  config    {config}"
    yield f"  bytes     {_bytes(launch)}"
    yield f"  lanes     {_lanes(launch)}; sectors {_percent(launch.sector_percent)} used"
    if launch.flop:
        intensity = f"; {launch.flop_per_byte:.3g} per byte moved" if launch.flop_per_byte else ""
        once = f", {launch.flop_per_unique_byte:.3g} if every byte moves once" if launch.flop_per_unique_byte else ""
        yield f"  FLOPs     {format_flop(launch.flop)}{intensity}{once}"
    yield from _statements(launch, width)
    yield from _numbers(launch)
    yield from _faults(launch, width, strict)


def _bytes(launch: TracedLaunch) -> str:
    parts = [f"{format_bytes(size)} {name}" for name, size in
             (("loaded", launch.loaded_bytes), ("stored", launch.stored_bytes), ("by atomics", launch.atomic_bytes))
             if size]  # fmt: skip
    moved = ", ".join(parts) or "none"
    if not launch.unique_bytes:  # only counted: which bytes is not known
        return moved
    again = launch.true_bytes / launch.unique_bytes
    times = f"{again:.3g} times" if again > 1.005 else "once"
    return f"{moved}; {format_bytes(launch.unique_bytes)} of memory, each {times}"


def _lanes(launch: TracedLaunch) -> str:
    """All active lanes, and where some are not: the masked ones of loads and stores apart."""
    active = f"{_percent(launch.active_lanes_percent)} active"
    shares = (("loads", launch.masked_loads_percent), ("stores", launch.masked_stores_percent))
    masked = [f"{_percent(share)} of {name}" for name, share in shares if share is not None]
    return f"{active}; masked {', '.join(masked)}" if masked and launch.active_lanes_percent != 100 else active


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g} %"


def _statements(launch: TracedLaunch, width: int) -> Iterator[str]:
    calls = _calls(launch)
    rows = _rows(launch)
    for access in rows[:MOST_STATEMENTS]:
        site = launch.sites[access.site]
        tensor = launch.tensors[access.tensor].name if access.tensor != NO_TENSOR else ""
        where = f"line {site.line}" if site.file == launch.file else f"{PurePath(site.file).name}:{site.line}"
        head = f"  {where:<9} {access.op:<11} {tensor:<12} {_work(access):>11}  "
        yield from _with_statement(head, calls.get(access.site, "") + " ".join(site.statement.split()), width)
    rest = len(rows) - MOST_STATEMENTS
    if rest > 0:
        yield f"  … and {format_count(rest)} more: --table kernel_accesses_traced has all"


def _rows(launch: TracedLaunch) -> list[AccessTotals]:
    """Accesses, products, reductions and, in one row, a statement's elementwise work, where there is room for all."""
    rows: list[AccessTotals] = []
    places: dict[int, int] = {}
    for row in launch.accesses:
        if is_elementwise(row.op) and row.site in places:
            before = rows[places[row.site]]
            rows[places[row.site]] = replace(before, flop=before.flop + row.flop)
            continue
        if is_elementwise(row.op):
            places[row.site] = len(rows)
            row = replace(row, op="elementwise")
        rows.append(row)
    return rows if len(rows) <= MOST_STATEMENTS else [row for row in rows if row.op != "elementwise"]


def _with_statement(head: str, statement: str, width: int) -> Iterator[str]:
    """In one line where there is room to read the statement, else below the figures."""
    if len(head + statement) <= width or width - len(head) >= LEAST_STATEMENT:
        yield _cut(head + statement, width)
    else:
        yield head.rstrip()
        yield from wrap(statement, width, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False)


def _calls(launch: TracedLaunch) -> dict[int, str]:
    """By site, from where it was called: for lines that occur more than once, in a function called more than once."""
    sites = {access.site: launch.sites[access.site] for access in launch.accesses}
    often = Counter((site.file, site.line) for site in sites.values())
    calls = {}
    for number, site in sites.items():
        alike = [other.path for other in sites.values() if (other.file, other.line) == (site.file, site.line)]
        if often[site.file, site.line] > 1 and len(site.path) > 1:
            depth = next((at for at in range(2, len(site.path) + 1) if _differ(alike, at)), 2)
            file, line, _ = site.path[-depth]
            calls[number] = f"(called at {PurePath(file).name}:{line}) "
    return calls


def _differ(paths: list[tuple[Place, ...]], depth: int) -> bool:
    return len({path[-depth] if depth <= len(path) else None for path in paths}) > 1


def _work(access: AccessTotals) -> str:
    if access.lanes:
        return format_bytes(access.true_bytes)
    return format_flop(access.flop) if access.flop else ""


def _numbers(launch: TracedLaunch) -> Iterator[str]:
    for row in launch.numbers:
        grows = f"; grows most at line {launch.sites[row.site].line}" if row.site >= 0 and row.largest_ulps else ""
        errors = f"error {row.median_ulps:.3g} ulps in the median, {row.largest_ulps:.3g} at most"
        yield f"  numbers   {row.tensor} ({row.dtype}): {errors}{grows}"


def _faults(launch: TracedLaunch, width: int, strict: bool) -> Iterator[str]:
    for fault in launch.faults:
        is_fault = is_failure(fault, strict=strict)
        label, remark = ("FAULT", "") if is_fault else ("note", "  (may be intended)")
        yield f"  {label:<9} {fault.kind}  {_place(launch, fault)}{remark}"
        statement = f"in: {' '.join(launch.sites[fault.site].statement.split())}"
        remedy = [f"→ {fault.remedy}"] if fault.remedy else []
        for text in (fault.message, statement, *remedy):
            yield from wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT, break_on_hyphens=False)


def _place(launch: TracedLaunch, fault: Fault) -> str:
    site = launch.sites[fault.site]
    return f"{PurePath(site.file).name}:{site.line}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(1, width - 1)] + "…"
