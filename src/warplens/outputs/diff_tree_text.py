"""The tree of differences as terminal text."""

from __future__ import annotations

from warplens.model.table import Table
from warplens.outputs.diff_text import Line, Row, colour, ratio_text, signed
from warplens.outputs.terminal import TableText
from warplens.outputs.text import clean, elide


def render_diff_tree(tree: Table, *, width: int, threshold_percent: float, max_depth: int | None = None) -> TableText:
    """Call paths whose time changed by at least this share of the larger total."""
    rows = visible_rows(tree, threshold_percent, max_depth)
    header = f"{'Δ µs':>12}  {'A µs':>12}  {'B µs':>12}  {'B/A':>7}  GPU time by call path"
    lines: list[Line] = [(elide(header, width), "bold")]
    lines += [_line(row, width) for row in rows]
    hidden = len(tree) - len(rows)
    if hidden:
        why = f"changed by less than {threshold_percent:g} % of the total, or too deep"
        lines.append((f"… {hidden:,} nodes not shown ({why})", "dim"))
    lines += [(f"note: {clean(note)}", "dim") for note in tree.notes]
    return TableText(tuple(lines))


def _line(row: Row, width: int) -> Line:
    delta = signed(row["delta_us"], 1)
    numbers = f"{delta:>12}  {row['a_us']:>12,.1f}  {row['b_us']:>12,.1f}  {ratio_text(row):>7}  "
    room = max(20, width - len(numbers))
    indent = "  " * min(row["depth"], room // 4)
    return numbers + indent + elide(clean(row["name"]), room - len(indent), middle=True), colour(row)


def visible_rows(tree: Table, threshold_percent: float, max_depth: int | None = None) -> list[Row]:
    """The root, and below a shown node those that changed enough."""
    rows = tree.to_dicts()
    least = threshold_percent / 100 * max((max(row["a_us"], row["b_us"]) for row in rows[:1]), default=0.0)
    shown: list[Row] = []
    kept: set[int | None] = {None}
    for row in rows:
        deep = max_depth is not None and row["depth"] > max_depth
        if row["parent"] in kept and not deep and (abs(row["delta_us"]) >= least or row["depth"] == 0):
            kept.add(row["node"])
            shown.append(row)
    return shown
