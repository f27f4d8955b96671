"""The lists of a summary: what takes most of the time, or is most of whatever a profile has instead of time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from pathlib import PurePath

import msgspec
import polars as pl

from warplens.model.answer import Answer
from warplens.model.clock import Clock
from warplens.model.records import records
from warplens.model.table import Table
from warplens.outputs.answer_text import whose_step
from warplens.outputs.cells import cell_texts
from warplens_run.base.printable import clean
from warplens_run.base.text import cell_width, elide, fold
from warplens_run.base.units import format_bytes, format_count, format_ms, format_percent, plural

Line = tuple[str, str]
MAX_HOLDERS = 3
LEAST_PERCENT = 0.05
"""Less would be shown as 0.0 %."""
BARS = " ▏▎▍▌▋▊▉█"
LEAST_HOLDER_PERCENT = 1.0
"""Who holds less of the memory is in the table only: the summary fits one screen."""
NOT_ALLOCATED = ("cache", "fragmentation")
"""Categories of `memory_peak` that are reserved and not allocated."""
MAX_CATEGORIES = 9
MAX_KERNELS = 4
MAX_KERNEL_LINES = 9
MAX_NAME_LINES = 3
NARROW = 70
"""Below this width a list has no room for counts."""
NAME_ROOM = 30
OP_ROOM = 30
WAITS = "waits mostly for"


class CategoryShare(msgspec.Struct, frozen=True):
    """A row of `kernel_categories`."""

    kernel_category: str
    count: int
    total_us: float
    percent: float


class KernelTime(msgspec.Struct, frozen=True):
    """The launches of a kernel by an op, on all devices and streams."""

    kernel_short: str
    op: str
    total_us: float
    count: int
    percent: float


class HostOpRow(msgspec.Struct, frozen=True):
    """A row of `ops`."""

    op: str
    count: int
    cpu_self_us: float


class RegionRow(msgspec.Struct, frozen=True):
    """A row of `regions`."""

    region: str
    kernel: str
    percent: float


class StalledLine(msgspec.Struct, frozen=True):
    """A row of `stalls` that has a line."""

    file: str
    line: int
    percent: float
    top_stall: str | None
    top_stall_percent: float
    source: str | None
    kernel_short: str


def category_list(categories: Table, width: int) -> list[Line]:
    rows = categories.records(CategoryShare)
    if not rows:
        return []
    shown, rest = rows[:MAX_CATEGORIES], rows[MAX_CATEGORIES:]
    if rest:
        shown.append(_together(rest))
    longest = max(row.percent for row in shown)
    room = width - 70 if width >= 78 else 0  # of bars, for which a narrow screen has none
    header = f"{'GPU time by kernel category':<{28 + (room + 2 if room else 0)}}    share         time    events"
    lines: list[Line] = [("", "none"), (header, "bold")]
    for row in shown:
        length = f"  {bar(100 * row.percent / max(longest, 1e-9), room)}" if room else ""
        name = elide(row.kernel_category, 28)
        time = format_ms(row.total_us / 1e3)
        numbers = f"{share_text(row.percent):>6}%  {time:>11}  {format_count(row.count):>8}"
        lines.append((f"{name:<28}{length}  {numbers}", "none"))
    return lines


def _together(categories: Sequence[CategoryShare]) -> CategoryShare:
    return CategoryShare(
        plural(len(categories), "more category", "more categories"),
        sum(category.count for category in categories),
        sum(category.total_us for category in categories),
        sum(category.percent for category in categories),
    )


def kernel_list(kernels: Table, width: int) -> list[Line]:
    """Of all GPU time, where nothing tells what a step is."""
    keys = ["kernel_short", "op"]
    frame = kernels.frame.group_by(keys).agg(pl.col("total_us", "count", "percent").sum())
    frame = frame.sort("total_us", *keys, descending=[True, False, False]).head(MAX_KERNELS)
    return _kernel_lines(records(frame, KernelTime), width, "top kernels")


def kernel_list_of_step(answer: Answer, width: int, clock: Clock) -> list[Line]:
    """Shares and times of one step, as the parts above have them."""
    rows = [
        KernelTime(each.kernel, each.op, 1e3 * each.time_ms, each.count, each.percent)
        for each in answer.kernels[:MAX_KERNELS]
    ]
    return _kernel_lines(rows, width, f"top kernels of {whose_step(answer, clock)}")


def _kernel_lines(rows: Sequence[KernelTime], width: int, title: str) -> list[Line]:
    # Where no launch is recorded, as in a profile of single kernels, every row would say so.
    has_ops = any(not row.op.startswith("(") for row in rows)
    longest_op = max((cell_width(clean(row.op)) for row in rows), default=0) if has_ops else 0
    room, op_room = _name_room(width, longest_op)
    has_counts = width >= NARROW
    events = f"  {'events':>8}" * has_counts
    header = f"{'share':>7}  {'time':>11}{events}  {title:<{room}}{'  op' * bool(op_room)}".rstrip()
    lines: list[Line] = [("", "none"), (header, "bold")]
    for row in rows:
        if len(lines) > MAX_KERNEL_LINES:
            break
        time = format_ms(row.total_us / 1e3)
        events = f"  {format_count(row.count):>8}" * has_counts
        names = [
            (row.kernel_short, room),
            *([(elide(clean(row.op), op_room, middle=True), op_room)] if op_room else []),
        ]
        lines += _named(f"{share_text(row.percent):>6}%  {time:>11}{events}", *names)
    return lines


def _named(figures: str, *names: tuple[str, int]) -> list[Line]:
    """Figures, and beside them names in columns of so many cells; a longer name goes on below."""
    columns = [fold(elide(clean(name), MAX_NAME_LINES * room - room // 2, middle=True), room) for name, room in names]
    lines = []
    for number, parts in enumerate(zip_longest(*columns, fillvalue="")):
        texts = [figures if number == 0 else " " * len(figures)]
        texts += [part + " " * (room - cell_width(part)) for part, (_, room) in zip(parts, names, strict=True)]
        lines.append(("  ".join(texts).rstrip(), "none"))
    return lines


def _name_room(width: int, longest_op: int) -> tuple[int, int]:
    """The cells of a kernel's name and of its op: the name stays readable, so the op goes first, then the count."""
    room = width - 34
    if width < NARROW:
        return room + 12, 0
    if not longest_op:
        return room, 0
    if room - OP_ROOM >= NAME_ROOM:
        op_room = min(OP_ROOM, longest_op)
        return room - op_room, op_room
    op_room = min(room - NAME_ROOM, longest_op)
    return room - op_room, op_room


def path_list(paths: Table, width: int) -> list[Line]:
    """Without times: what was called most often, else where most of the first metric is."""
    frame = paths.frame
    if not len(frame):
        return []
    if frame["count"][0]:
        return _calls(frame, width)
    metrics = paths.columns[frame.columns.index("percent") + 1 :]
    column = next((metric for metric in metrics if frame[metric.name][0]), None)
    if column is None:
        return []
    top = frame.filter(pl.col("kind") != "root").sort(column.name, descending=True, maintain_order=True)
    top = top.head(2 * MAX_KERNELS)
    values = cell_texts(top[column.name], column)
    room = max(map(len, [column.name, *values]))
    lines: list[Line] = [("", "none"), (f"{column.name:>{room}}  with all that is below", "bold")]
    for value, name in zip(values, top["name"].to_list(), strict=True):
        lines += _named(f"{value:>{room}}", (name, width - room - 2))
    return lines


def _calls(paths: pl.DataFrame, width: int) -> list[Line]:
    inner = paths.group_by(pl.col("parent").alias("node")).agg(pl.col("count").sum().alias("inner"))
    own = paths.join(inner, on="node", how="left").filter(~pl.col("kind").is_in(["root", "other", "line"]))
    own = own.with_columns((pl.col("count") - pl.col("inner").fill_null(0)).alias("calls"))
    named = own.group_by("name").agg(pl.col("calls").sum()).sort("calls", "name", descending=[True, False])
    whole = max(1, int(named["calls"].sum()))
    lines: list[Line] = [("", "none"), (f"{'share':>7}  {'calls':>8}  most called", "bold")]
    for name, calls in named.head(2 * MAX_KERNELS).iter_rows():
        lines += _named(f"{100 * calls / whole:6.1f}%  {format_count(calls):>8}", (name, width - 19))
    return lines


def host_op_list(ops: Table, width: int) -> list[Line]:
    """Without GPU work: where the host's time goes, by op."""
    frame = ops.frame.sort("cpu_self_us", "op", descending=[True, False]).head(2 * MAX_KERNELS)
    rows = records(frame, HostOpRow)
    if not rows:
        return []
    whole = float(ops.frame["cpu_self_us"].sum()) or 1.0
    header = f"{'share':>7}  {'host time':>11}  {'calls':>8}  top ops, without inner ops"
    lines: list[Line] = [("", "none"), (elide(header, width), "bold")]
    for row in rows:
        time, share = format_ms(row.cpu_self_us / 1e3), 100 * row.cpu_self_us / whole
        lines += _named(f"{share:6.1f}%  {time:>11}  {format_count(row.count):>8}", (row.op, width - 32))
    return lines


def region_list(regions: Table, width: int) -> list[Line]:
    """Regions inside kernels: their shares, since their times are not GPU time."""
    if not len(regions):
        return []
    head = regions.frame.head(2 * MAX_KERNELS)
    rows = records(head, RegionRow)
    longest = max(6, *(cell_width(clean(row.region)) for row in rows))
    room = min(longest, max(12, (width - 21) // 2))
    # Sums by call path do not count passes.
    counts = ["count", *map(format_count, head["count"])] if "count" in head.columns else [""] * (len(rows) + 1)
    widest = 2 + max(8, *map(len, counts)) if counts[0] else 0
    lines: list[Line] = [("", "none"), (f"{'share':>7}{counts[0]:>{widest}}  {'region':<{room}}  kernel", "bold")]
    for row, count in zip(rows, counts[1:], strict=True):
        figures = f"{share_text(row.percent):>6}%{count:>{widest}}"
        lines += _named(figures, (row.region, room), (row.kernel, max(12, width - 21 - room)))
    return lines


def stall_list(stalls: Table, width: int) -> list[Line]:
    """Lines of kernels where warps were sampled most, with what they waited for there; none without lines."""
    rows = records(stalls.frame.filter(pl.col("line").is_not_null()).head(MAX_KERNELS), StalledLine)
    if not rows:
        return []
    places = [f"{PurePath(clean(row.file)).name}:{row.line}" for row in rows]
    waits = [f"{row.top_stall} {row.top_stall_percent:.0f} %" if row.top_stall else "" for row in rows]
    texts = [(row.source or row.kernel_short).strip() for row in rows]
    place_room, wait_room = max(map(cell_width, places)), max(map(cell_width, [*waits, WAITS]))
    header = f"samples  {'line':<{place_room}}  {WAITS:<{wait_room}}  source"
    lines: list[Line] = [("", "none"), (elide(header, width), "bold")]
    room = max(12, width - place_room - wait_room - 13)
    for row, place, wait, text in zip(rows, places, waits, texts, strict=True):
        lines += _named(f"{share_text(row.percent):>6}%", (place, place_room), (wait, wait_room), (text, room))
    return lines


def holder_list(peak: Table, width: int) -> list[Line]:
    """The reserved memory of the device with the most of it at its peak, by category."""
    whole = peak.frame.group_by("device").agg(pl.col("bytes").sum()).sort("bytes", "device", descending=[True, False])
    if not len(whole):
        return []
    sums = (
        peak.frame.filter(pl.col("device") == whole["device"][0])
        .group_by("category")
        .agg(pl.col("bytes").sum(), pl.col("percent").sum(), pl.col("count").sum())
        .sort("bytes", "category", descending=[True, False])
    )
    room = width - 62 if width >= NARROW else 0
    header = f"{'memory at the peak':<20}{' ' * (room + 2 if room else 0)}    share       bytes  allocations"
    lines: list[Line] = [("", "none"), (header, "bold")]
    longest = float(sums["percent"][0])
    for category, size, percent, count in sums.filter(pl.col("percent") >= LEAST_PERCENT).iter_rows():
        length = f"  {bar(100 * percent / max(longest, 1e-9), room)}" if room else ""
        allocations = format_count(count) if category not in NOT_ALLOCATED else ""
        numbers = f"{share_text(percent):>6}%  {format_bytes(size):>10}  {allocations:>11}"
        lines.append((f"{category:<20}{length}  {numbers}".rstrip(), "none"))
    return lines


def share_text(percent: float) -> str:
    """What is not zero is not shown as zero."""
    return "<0.1" if 0 < percent < LEAST_PERCENT else f"{percent:.1f}"


def bar(percent: float, room: int) -> str:
    eighths = round(percent / 100 * room * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (BARS[part] if part else "")).ljust(room)[:room]


def memory_text(peak: Table) -> str:
    """Who holds the memory of the device with the highest peak, by category: shares of what is allocated then."""
    allocations = peak.frame.filter(~pl.col("category").is_in(NOT_ALLOCATED))
    peaks = allocations.group_by("device", maintain_order=True).agg(pl.col("bytes").sum())
    device = peaks["device"][peaks["bytes"].arg_max() or 0] if len(peaks) else peak.frame["device"][0]
    frame = peak.frame.filter(pl.col("device") == device)
    held = frame.filter(~pl.col("category").is_in(NOT_ALLOCATED))
    allocated, reserved = int(held["bytes"].sum()), int(frame["bytes"].sum())
    percent = 100 * pl.col("bytes") / max(allocated, 1)
    sums = held.group_by("category").agg(pl.col("bytes").sum()).with_columns(percent.alias("percent"))
    largest = sums.filter(pl.col("percent") >= LEAST_HOLDER_PERCENT)
    largest = largest.sort("bytes", "category", descending=[True, False]).head(MAX_HOLDERS)
    parts = [f"peak {format_bytes(allocated)} allocated on {device} = 100%"]
    parts += [f"{category} {format_percent(share)}" for category, _, share in largest.iter_rows()]
    if reserved > allocated:
        parts.append(f"{format_bytes(reserved)} reserved")
    return " · ".join(parts)
