"""A comparison on one screen, the verdict first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from warplens.model.diff_rows import (
    BOTH,
    ONLY_A,
    ONLY_B,
    HostOpDiff,
    JudgedDiff,
    LayerDiff,
    MeasureDiff,
    OpDiff,
    PartDiff,
    TimeDiff,
)
from warplens.model.table import Table
from warplens.outputs.document import Document
from warplens.outputs.terminal import TableText
from warplens_run.base.printable import clean
from warplens_run.base.text import cell_width, elide, fold

Line = tuple[str, str]
DiffT = TypeVar("DiffT", bound=JudgedDiff)
LABEL = 10
SCREEN = 40
MAX_PARTS = 6
MAX_OPS = 6
MAX_LAYERS = 3
MAX_HOST_OPS = 4
MEASURES = {
    "total": "GPU span",
    "busy": "GPU busy",
    "idle": "GPU idle",
    "exposed_communication": "exposed communication",
    "exposed_memcpy": "exposed copies",
}
SCREEN_TABLES = ("diff_summary", "diff_timeline", "diff_categories", "diff_ops", "diff_layers", "diff_host")
TINY_US = 0.5
LEAST_NAME = 20
WIDE, WIDE_NAME = 100, 40
WIDE_REMARK = 24
FIGURES = 40
"""The cells that the times of a line take."""
FASTER, SLOWER = "green", "red"


def render_comparison(document: Document, base: str, *, width: int, written: Sequence[str] = ()) -> TableText:
    """The verdict, what was compared, and the largest differences; under 40 lines.

    `base` is what the times are of, such as one recorded step.
    """
    tables = {table.name: table for table in document.tables}
    said = {"verdict": document.answer.verdict, **document.facts}
    head = [line for label, text in said.items() for line in _labelled(label, text, width)]
    tail = _labelled("wrote", ", ".join(written), width) if written else []
    tail = [("", "none"), *tail, *_commands(document.answer.next)]
    room = SCREEN - len(head) - len(tail)
    blocks = (
        _trace_blocks(tables, base, width, room)
        if "diff_summary" in tables
        else _table_block(document.tables[1:], width)
    )
    return TableText((*head, *blocks, *tail))


def _labelled(label: str, text: str, width: int) -> list[Line]:
    style = "bold" if label == "verdict" else "none"
    parts = fold(clean(text), max(20, width - LABEL)) or [""]
    return [(f"{label if number == 0 else '':<{LABEL}}{part}", style) for number, part in enumerate(parts)]


def _trace_blocks(tables: dict[str, Table], base: str, width: int, room: int) -> list[Line]:
    timeline = tables["diff_timeline"].records(MeasureDiff)
    whole_us = max((max(row.a_us, row.b_us) for row in timeline), default=0.0)
    measures = [row for row in timeline if row.measure in MEASURES and max(row.a_us, row.b_us) > 0.001 * whole_us]
    host = tables["diff_host"].records(HostOpDiff)
    if not any(row.measure == "total" and row.a_us and row.b_us for row in measures):
        return _Grid(whole_us, width).block("host time by op", host[: 2 * MAX_OPS], lambda row: row.op)
    # Where some steps have no GPU work, the tables of it say nothing of what they do.
    is_of_more_steps = tables["diff_host"].notes[:1] != tables["diff_ops"].notes[:1]
    host = host[:MAX_HOST_OPS] if is_of_more_steps else []
    parts = [part for part in tables["diff_summary"].records(PartDiff) if part.kind != "total"][:MAX_PARTS]
    changed = parts if any(part.delta_us for part in parts) else []
    layers = tables["diff_layers"].records(LayerDiff)
    # Without modules on both sides there is only one heap against the other.
    in_both = any(layer.status == BOTH and not layer.layer.startswith("(") for layer in layers)
    layers = layers[:MAX_LAYERS] if in_both else []
    ops = tables["diff_ops"].records(OpDiff)[:MAX_OPS]
    fewer_ops = [(MAX_PARTS, count) for count in range(len(ops), 2, -1)]
    fewer_parts = [(count, 2) for count in range(MAX_PARTS, 2, -1)]
    for parts_shown, ops_shown in (*fewer_ops, *fewer_parts):
        grid = _Grid(whole_us, width)
        blocks = [
            *grid.block(base, measures, lambda row: MEASURES[row.measure]),
            *grid.block("where it comes from", changed[:parts_shown], _part_name, lambda part: part.what_changed),
            *grid.block("ops", ops[:ops_shown], _op_name, _op_remark, own_unit=True),
            *grid.block("modules", layers, lambda layer: layer.layer, own_unit=True),
            *grid.block("host time by op", host, lambda row: row.op, own_unit=True),
        ]
        if len(blocks) <= room:
            break
    return blocks


def _part_name(part: PartDiff) -> str:
    return f"idle: {part.part}" if part.kind == "idle" else part.part


def _op_name(op: OpDiff) -> str:
    return op.op.replace("aten::", "")


def _op_remark(op: OpDiff) -> str:
    """The shapes without the scalars; where it has none, the kernels."""
    return op.input_dims.replace(", []", "") or op.a_kernels or op.b_kernels or ""


class _Grid:
    """Rows with A, B, Δ and ratio in one unit, and a name and a remark in what is left of the width.

    Rows that add up to the whole are in its unit, and others in that of their own largest change.
    """

    def __init__(self, whole_us: float, width: int) -> None:
        self.unit, self.factor = _unit(whole_us)
        self.width = width
        self.name = LEAST_NAME

    def block(
        self,
        title: str,
        rows: Sequence[DiffT],
        name: Callable[[DiffT], str],
        remark: Callable[[DiffT], str] = lambda row: "",
        *,
        own_unit: bool = False,
    ) -> list[Line]:
        if not rows:
            return []
        if own_unit:
            self.unit, self.factor = _unit(max(max(row.a_us, row.b_us) for row in rows))
        longest = max(cell_width(clean(name(row))) for row in rows)
        self.name = max(LEAST_NAME, min(longest, self.width - FIGURES if self.width < WIDE else WIDE_NAME))
        head = f"{title:<{self.name}}  {'A ' + self.unit:>8}  {'B ' + self.unit:>8}  {'Δ':>9}  {'B/A':>7}"
        lines = [line for row in rows for line in self.lines(row, name(row), remark(row))]
        return [("", "none"), (elide(head, self.width), "bold"), *lines]

    def lines(self, row: JudgedDiff, name: str, remark: str) -> list[Line]:
        """The remark stands beside the figures, else below them: it is not cut where two lines hold it."""
        fitted = elide(clean(name), self.name, middle=True)
        fitted += " " * (self.name - cell_width(fitted))
        a, b = (f"{time_us / self.factor:,.2f}" for time_us in (row.a_us, row.b_us))
        mark = "~" if row.within_noise else " "
        delta = signed(row.delta_us / self.factor, 2)
        text = f"{fitted}  {a:>8}  {b:>8}  {delta:>9} {mark}{ratio_text(row):>7}"
        style = "none" if row.within_noise else colour(row)
        room, remark = self.width - cell_width(text) - 2, clean(remark)
        if not remark or cell_width(remark) <= room or (self.width >= WIDE and room >= WIDE_REMARK):
            return [(f"{text}  {elide(remark, max(room, 0))}".rstrip(), style)]
        below = fold(elide(remark, 2 * self.width - 20), self.width - 2)
        return [(text.rstrip(), style), *((f"  {part}", "dim") for part in below)]


def _unit(us: float) -> tuple[str, float]:
    return ("ms", 1e3) if us >= 500 else ("µs", 1.0)


def signed(value: float, decimals: int) -> str:
    """
    >>> signed(-1234.5, 1), signed(0.004, 2)
    ('−1,234.5', '0.00')
    """
    text = f"{value:+,.{decimals}f}".replace("-", "−")
    return text if text.strip("+−0.,") else text[1:]


def ratio_text(row: TimeDiff) -> str:
    """B over A, or `gone` and `new` where only one of them has it."""
    if row.status != BOTH:
        return "gone" if row.status == ONLY_A else "new"
    if row.ratio is None:
        return ""
    return f"{row.ratio:.2f}×" if row.ratio < 100 else f"{row.ratio:,.0f}×"


def colour(row: TimeDiff) -> str:
    if abs(row.delta_us) < TINY_US:
        return "none"
    return FASTER if row.delta_us < 0 else SLOWER


def _table_block(tables: Sequence[Table], width: int) -> list[Line]:
    """Of jobs and of profiles without timelines: one line per table."""
    head = f"{'table':<22}  {'rows':>6}  {'only A':>6}  {'only B':>6}  largest difference"
    lines: list[Line] = [("", "none"), (elide(head, width), "bold")]
    for table in tables:
        status = table.frame["status"].to_list()
        counts = [len(status), status.count(ONLY_A), status.count(ONLY_B)]
        text = f"{table.name:<22}  " + "  ".join(f"{count:>6,}" for count in counts) + f"  {_largest(table)}"
        lines.append((elide(clean(text), width), "none"))
    return lines


def _largest(table: Table) -> str:
    """The first row, which holds the largest difference of time: its names and the number."""
    columns = table.frame.columns
    timed = [name for name in columns if name.startswith("delta_") and {"us", "ms"} & set(name.split("_"))]
    if not timed or not len(table):
        return ""
    row = table.frame.row(0, named=True)
    if not row[timed[0]]:
        return "none"
    names = {name: row[name] for name in columns[: columns.index("status")] if name != "repeat"}
    texts = [value if isinstance(value, str) else f"{name} {value}" for name, value in names.items() if value != ""]
    return f"{timed[0].removeprefix('delta_')} {signed(row[timed[0]], 1)}: {' · '.join(texts)}"


def _commands(commands: Sequence[str]) -> list[Line]:
    """Commands to paste stay whole, however long the paths."""
    return [(f"{'' if number else 'try':<{LABEL}}{clean(command)}", "dim") for number, command in enumerate(commands)]
