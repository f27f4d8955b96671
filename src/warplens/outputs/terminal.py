"""A table as terminal text: aligned, fitted to a width, readable without colour.

The grid is laid out here: rich's own table wraps cells and takes seconds for 10,000 rows, and its text
objects forget that they must not be wrapped once a console prints them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from warplens.outputs.cells import cell_texts, shown_columns
from warplens_run.base.errors import UsageError
from warplens_run.base.printable import clean
from warplens_run.base.text import cell_width, elide, elide_folders, fold
from warplens_run.base.units import plural

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.segment import Segment

    from warplens.model.table import Table

GAP = "  "
MIN_TEXT_WIDTH = 18
MIN_NAME_WIDTH = 28
NARROW = 72
WIDE = 90
NARROW_NAME_WIDTH = 24
# Columns that go first when the width does not suffice, in this order; then the rightmost ones follow.
# A share and the first column, which says what the row is about, stay.
# Each is a column's name or one word of it, as in `min_us` and `kernel_us_min`.
EXPENDABLE = (
    *("min", "max", "std", "median", "mean", "stream", "depth", "device"),
    *("concrete_inputs", "input_strides", "op_category", "kernel_category", "forward", "backward"),
    *("approximate", "step_us", "ceiling", "arch", "unit", "intensity", "family", "module", "line", "lost_us"),
)
# Columns that go last, by table: what a module and those inside it take, forward and backward; how fast a model serves.
KEPT = {
    "findings": ("title", "gain_ms", "gain_low_ms", "gain_high_ms", "bound", "place"),
    "bounds": ("step_ms", "saves_ms", "saves_low_ms", "saves_high_ms"),
    "what_if": ("step_ms", "gain_ms", "low_ms", "high_ms", "step_low_ms", "step_high_ms"),
    "breakdown": ("part", "cause", "time_ms", "percent", "place"),
    "stragglers": ("gain_ms", "gain_low_ms", "gain_high_ms", "group", "cause", "since_step", "excess_ms"),
    "job_what_if": ("step_ms", "gain_ms", "gain_low_ms", "gain_high_ms"),
    "counters": ("op", "metric", "count", "mean"),
    "comm": ("group_ranks", "message_bytes", "count", "total_us", "exposed_us", "busbw_gbps"),
    "modules": ("subtree_percent", "subtree_forward_us", "subtree_backward_us"),
    "iterations": ("phase", "requests", "prefill_tokens", "decode_tokens", "time_ms", "gap_ms", "tokens_per_s"),
    "serving_phases": (
        "iterations",
        "requests",
        "tokens_per_s",
        "generated_per_s",
        "median_ms",
        "busy_percent",
        "mfu_percent",
        "mbu_percent",
    ),
    "slow_iterations": ("interval_ms", "excess_ms", "cause", "cause_ms"),
    "memory_peak": ("bytes", "percent", "category", "line", "module", "op"),
    "memory_modules": ("subtree_bytes", "subtree_percent", "subtree_activations_bytes", "bytes"),
    "allocations": ("live_at_peak_bytes", "category", "line", "module"),
    "memory_timeline": ("start_ms", "allocated_bytes", "reserved_bytes"),
    "memory_failures": ("requested_bytes", "device_free_bytes", "allocated_bytes", "cause", "line"),
    "fragmentation": ("moment", "pool", "reserved_bytes", "used_bytes", "cache_bytes", "lost_bytes"),
    "counter_instructions": ("instruction", "percent", "kernel_short", "id", "top_stall", "samples", "executed"),
    "measured_kernels": ("op", "percent", "line", "top_stall", "dram_percent", "module", "sm_percent"),
    "stalls": ("kernel_short", "file", "percent", "top_stall", "top_stall_percent", "source", "samples"),
}
# Tables of one GPU as a rule: a device that is the same in all rows need not be named.
OF_ONE_DEVICE = frozenset(
    {"memory_peak", "memory_modules", "allocations", "memory_timeline", "fragmentation", "memory_failures"}
)
# Cells of a column that says nothing of any row: of texts, and of numbers.
EMPTY = frozenset({"", "–"})
NOTHING = EMPTY | {"0", "0.0", "0.000", "0 FLOP"}
TOTALS = frozenset({"total_us", "kernel_us"})
# What a row is about, wherever it stands.
PINNED = frozenset({"kernel_short", "message", "title", "what"})
# Names keep their ends when cut; prose keeps its beginning.
NAME_COLUMNS = frozenset(
    {
        *("kernel", "kernel_short", "op", "outer_op", "module", "function", "file", "path"),
        *("host_frame", "host_op", "host_activity"),
    }
)
# Places in files: the end says more than the folders.
PLACE_COLUMNS = frozenset({"line"})
# Sentences go on below; they are never cut.
PROSE_COLUMNS = frozenset(
    {
        *("title", "message", "advice", "evidence", "proof", "note", "notes", "reason", "why", "meaning", "remedy"),
        *("how", "description", "failure", "detail", "approximate", "cause", "host_cause", "what", "what_changed"),
        *("rule_text", "text", "change", "place", "metric"),
    }
)
MIN_PROSE_WIDTH = 36
MAX_PROSE = 1200
SHAPE_COLUMNS = frozenset({"params", "input_dims"})
# On a narrow terminal the shapes say what a row is about; on a wide one there is room for more columns instead.
MIN_SHAPE_WIDTH = 26


@dataclass(frozen=True)
class _LaidOutColumn:
    """One column laid out: its header, its cells as text, and the width it gets."""

    name: str
    cells: list[str]
    numeric: bool
    width: int
    useful: int
    """The width below which a text stops being useful."""

    @property
    def floor(self) -> int:
        """The least width; numbers are never cut."""
        return self.width if self.numeric else min(self.width, max(self.useful, len(self.name)))

    @property
    def says_nothing(self) -> bool:
        return set(self.cells) <= (NOTHING if self.numeric else EMPTY)

    @property
    def least(self) -> int:
        """The width below which even the columns that are kept to the last are hidden."""
        return self.width if self.numeric else min(self.floor, MIN_TEXT_WIDTH)


@dataclass(frozen=True)
class TableText:
    """Finished lines, each with the name of its style: rich prints them, and `str()` gives them plain.

    Nothing in them is markup. Print with `soft_wrap=True`: then a narrower console cuts nothing.
    """

    lines: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "\n".join(line for line, _ in self.lines)

    def cleaned(self) -> TableText:
        """Fit for a terminal, whatever the text of a file holds."""
        return replace(self, lines=tuple((clean(line), style) for line, style in self.lines))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        for line, style in self.lines:
            yield Segment(line, console.get_style(style))
            yield Segment.line()


def render_table(
    table: Table,
    *,
    top: int | None,
    width: int,
    columns: Sequence[str] | None = None,
    keep: Sequence[str] = (),
    title: bool = True,
) -> TableText:
    """The first `top` rows (all for None) in at most `width` cells a line, with what was left out said below.

    Columns that do not fit are hidden and named, unless `columns` asks for them: then names are cut shorter. Those in
    `keep` are hidden last.
    """
    shown = len(table) if top is None else max(0, min(top, len(table)))
    blocks = _blocks(table, shown_columns(table, columns), shown, width)
    hidden: list[str] = []
    if columns is None and blocks:
        silent = {block.name for block in blocks if block.says_nothing}
        kept = [name for name in KEPT.get(table.name, ()) if name not in silent]
        alike = blocks[0].name == "device" and len({*blocks[0].cells}) == 1 and table.name in OF_ONE_DEVICE
        if alike and _total([block.floor for block in blocks]) > width:
            hidden.append(blocks.pop(0).name)
        blocks, others = _hide(blocks, width, (*keep, *kept))
        hidden += others
    header, rows = _grid(_shrink(blocks, width))
    lines = [(header, "bold"), *((row, "none") for row in rows)]
    if title:
        heading = fold(f"{clean(table.name)}: {clean(table.meaning)}", max(width, 20), GAP)
        lines[:0] = [(line, "bold") for line in heading]
    for footer in _footers(table, shown, hidden):
        lines += [(line, "dim") for line in fold(footer, max(width, 20), GAP)]
    return TableText(tuple(lines))


def _blocks(table: Table, names: Sequence[str], rows: int, width: int) -> list[_LaidOutColumn]:
    unknown = [name for name in names if name not in table.frame.columns]
    if unknown:
        names = ", ".join(table.frame.columns)
        raise UsageError(f"table {table.name} has no column {unknown[0]!r}", hint=f"its columns: {names}")
    head = table.frame.head(rows)
    blocks = []
    for name in names:
        column = table.column(name)
        cells, numeric = cell_texts(head[name], column), column.dtype.is_numeric()
        widest = max((cell_width(cell) for cell in cells), default=0)
        # One name of 4,000 characters must not make the fitting below count down from there.
        wanted = widest if numeric else min(widest, width)
        blocks.append(_LaidOutColumn(name, cells, numeric, max(wanted, cell_width(name)), _useful_width(name, width)))
    return blocks


def _useful_width(name: str, width: int) -> int:
    """The width below which a text column stops being useful, on a terminal of this width."""
    if name in SHAPE_COLUMNS:
        return MIN_SHAPE_WIDTH if width < WIDE else MIN_TEXT_WIDTH
    if name in PROSE_COLUMNS:
        return MIN_PROSE_WIDTH if width >= NARROW else NARROW_NAME_WIDTH
    if name in NAME_COLUMNS:  # two names and a share still fit into 60 columns
        return MIN_NAME_WIDTH if width >= NARROW else NARROW_NAME_WIDTH
    return MIN_TEXT_WIDTH


def _hide(blocks: list[_LaidOutColumn], width: int, keep: Sequence[str]) -> tuple[list[_LaidOutColumn], list[str]]:
    """The blocks that fit when texts are at their narrowest, and the names of the others."""
    kept, hidden = list(blocks), []
    shapes = SHAPE_COLUMNS if width < WIDE else frozenset()
    while len(kept) > 1 and _total([block.floor for block in kept]) > width:
        others = [block for block in kept[1:] if block.name not in keep]
        plain = [block for block in others if block.name not in shapes]
        if not plain and _total([block.least for block in kept]) <= width:
            break  # shorter names are better than a missing figure
        named = [block for block in kept[1:] if block.name in keep]
        last = max(named, key=lambda block: keep.index(block.name), default=None)  # the least of those to be kept
        victim = _least_useful(plain or others) if others or last is None else last
        kept.remove(victim)
        hidden.append(victim.name)
    return kept, hidden


def _least_useful(blocks: list[_LaidOutColumn]) -> _LaidOutColumn:
    for block in reversed(blocks):
        if block.says_nothing:
            return block
    for word in EXPENDABLE:
        for block in reversed(blocks):
            if block.name == word or word in block.name.split("_"):
                return block
    for block in reversed(blocks):  # an explanation takes the room of several figures
        if block.name in PROSE_COLUMNS - PINNED and block.floor >= MIN_TEXT_WIDTH:
            return block
    # Where sizes say what a row is about, the kernel's name need not.
    pinned = PINNED - {"kernel_short"} if any(block.name == "percent_of_roofline" for block in blocks) else PINNED
    others = [block for block in blocks if "percent" not in block.name.split("_") and block.name not in pinned]
    victim = (others or blocks)[-1]
    # A time says more than how often it was spent.
    return next((block for block in others if victim.name in TOTALS and block.name == "count"), victim)


def _shrink(blocks: list[_LaidOutColumn], width: int) -> list[_LaidOutColumn]:
    """Text columns made narrower, the widest first: to their floors, and below them only if that fails."""
    widths = [block.width for block in blocks]
    for floors in ([block.floor for block in blocks], [b.width if b.numeric else 4 for b in blocks]):
        while _total(widths) > width:
            room = [have - floor for have, floor in zip(widths, floors, strict=True)]
            candidates = [index for index, spare in enumerate(room) if spare > 0]
            if not candidates:
                break
            widths[max(candidates, key=widths.__getitem__)] -= 1
    return [replace(block, width=given) for block, given in zip(blocks, widths, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * max(0, len(widths) - 1)


def _grid(blocks: list[_LaidOutColumn]) -> tuple[str, list[str]]:
    """The header and the rows, of which one takes several lines where its sentences do."""
    if not blocks:
        return "(no columns)", []
    header = GAP.join(_fit(clean(block.name), block) for block in blocks).rstrip()
    columns = [[_folded(cell, block) for cell in block.cells] for block in blocks]
    rows = []
    for row in zip(*columns, strict=True):
        for texts in zip_longest(*row, fillvalue=""):
            rows.append(GAP.join(_fit(text, block) for text, block in zip(texts, blocks, strict=True)).rstrip())
    return header, rows


def _folded(cell: str, block: _LaidOutColumn) -> list[str]:
    if block.name not in PROSE_COLUMNS or cell_width(cell) <= block.width:
        return [cell]
    return fold(elide(cell, MAX_PROSE), block.width) or [cell]


def _fit(text: str, block: _LaidOutColumn) -> str:
    fitted, limit = text, block.width
    while cell_width(fitted) > block.width and limit:
        fitted = (
            elide_folders(text, limit)
            if block.name in PLACE_COLUMNS
            else elide(text, limit, middle=block.name in NAME_COLUMNS)
        )
        limit -= 1  # again only where wide characters take two cells each
    padding = " " * (block.width - cell_width(fitted))
    return padding + fitted if block.numeric else fitted + padding


def _footers(table: Table, shown: int, hidden: list[str]) -> list[str]:
    lines = []
    if not len(table):
        lines.append("(no rows)")
    if shown < len(table):
        left = len(table) - shown
        lines.append(f"… {plural(left, 'more row')}")
    if hidden:
        lines.append(f"hidden to fit: {', '.join(hidden)}")
    return lines + [f"note: {clean(note)}" for note in table.notes]
