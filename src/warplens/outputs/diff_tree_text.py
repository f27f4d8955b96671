"""The tree of differences as terminal text."""

from __future__ import annotations

from warplens.model.diff_rows import NodeDiff
from warplens.model.table import Table
from warplens.outputs.diff_text import Line, colour, ratio_text, signed
from warplens.outputs.terminal import TableText
from warplens_run.base.printable import clean
from warplens_run.base.text import elide


def render_diff_tree(tree: Table, *, width: int, threshold_percent: float, max_depth: int | None = None) -> TableText:
    """Call paths whose time changed by at least this share of the larger total."""
    nodes = visible_nodes(tree, threshold_percent, max_depth)
    header = f"{'Δ µs':>12}  {'A µs':>12}  {'B µs':>12}  {'B/A':>7}  GPU time by call path"
    lines: list[Line] = [(elide(header, width), "bold")]
    lines += [_line(node, width) for node in nodes]
    hidden = len(tree) - len(nodes)
    if hidden:
        why = f"changed by less than {threshold_percent:g} % of the total, or too deep"
        lines.append((f"… {hidden:,} nodes not shown ({why})", "dim"))
    lines += [(f"note: {clean(note)}", "dim") for note in tree.notes]
    return TableText(tuple(lines))


def _line(node: NodeDiff, width: int) -> Line:
    delta = signed(node.delta_us, 1)
    numbers = f"{delta:>12}  {node.a_us:>12,.1f}  {node.b_us:>12,.1f}  {ratio_text(node):>7}  "
    room = max(20, width - len(numbers))
    indent = "  " * min(node.depth, room // 4)
    return numbers + indent + elide(clean(node.name), room - len(indent), middle=True), colour(node)


def visible_nodes(tree: Table, threshold_percent: float, max_depth: int | None = None) -> list[NodeDiff]:
    """The root, and below a shown node those that changed enough."""
    nodes = tree.records(NodeDiff)
    least_us = threshold_percent / 100 * max((max(node.a_us, node.b_us) for node in nodes[:1]), default=0.0)
    visible: list[NodeDiff] = []
    numbers: set[int | None] = {None}
    for node in nodes:
        is_deep = max_depth is not None and node.depth > max_depth
        if node.parent in numbers and not is_deep and (abs(node.delta_us) >= least_us or node.depth == 0):
            numbers.add(node.node)
            visible.append(node)
    return visible
