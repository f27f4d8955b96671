"""Tables and trees as a notebook shows them: plain HTML without scripts or styles of its own.

Names come from traces, which are not trusted: every text goes through `html_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Protocol

import numpy as np
import polars as pl

from warplens.model.trace import Ints
from warplens.printable import encodable
from warplens.units import format_count, format_ns, plural

MAX_ROWS = 10
MAX_NODES = 500
MAX_CELL = 120
"""Characters of a cell; the whole text is its tooltip."""


class ShownColumn(Protocol):
    """What a heading needs of a column."""

    @property
    def name(self) -> str: ...
    @property
    def meaning(self) -> str: ...
    @property
    def unit(self) -> str: ...


class ShownTable(Protocol):
    """What is shown of a table; tables show themselves, so that their own type is not known here."""

    @property
    def name(self) -> str: ...
    @property
    def meaning(self) -> str: ...
    @property
    def columns(self) -> Sequence[ShownColumn]: ...
    @property
    def frame(self) -> pl.DataFrame: ...
    @property
    def notes(self) -> Sequence[str]: ...


class ShownTree(Protocol):
    """What is shown of a tree."""

    @property
    def name(self) -> Sequence[str]: ...
    @property
    def total_ns(self) -> Ints: ...
    @property
    def total_count(self) -> Ints: ...
    def children(self) -> list[list[int]]: ...


def html_text(value: object) -> str:
    """A value as text that cannot become markup.

    >>> html_text('<img src="x">')
    '&lt;img src=&quot;x&quot;&gt;'
    """
    # Half a surrogate pair cannot be sent to a browser.
    return escape(encodable(str(value)))


def table_html(table: ShownTable, rows: int = MAX_ROWS) -> str:
    """The first rows, with units in the heading and meanings as tooltips."""
    head = "".join(map(_heading, table.columns))
    shown = table.frame.head(rows)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown.iter_rows())
    rest = len(table.frame) - shown.height
    notes = [*([f"{plural(rest, 'more row')}"] if rest > 0 else []), *table.notes]
    foot = f"<p>{'<br>'.join(map(html_text, notes))}</p>" if notes else ""
    title = f"<caption>{html_text(table.name)}: {html_text(table.meaning)}</caption>"
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{foot}"


def _heading(column: ShownColumn) -> str:
    unit = f" <small>{html_text(column.unit)}</small>" if column.unit else ""
    return f'<th title="{html_text(column.meaning)}">{html_text(column.name)}{unit}</th>'


def _cell(value: object) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{'yes' if value else 'no'}</td>"
    if isinstance(value, (int, float)):
        return f'<td style="text-align: right">{value:,.6g}</td>' if isinstance(value, float) else _integer(value)
    text = str(value)
    if len(text) <= MAX_CELL:
        return f"<td>{html_text(text)}</td>"
    return f'<td title="{html_text(text)}">{html_text(text[:MAX_CELL])}…</td>'


def _integer(value: int) -> str:
    return f'<td style="text-align: right">{value:,}</td>'


def tree_html(tree: ShownTree, nodes: int = MAX_NODES) -> str:
    """A folded list: each node with its time, its share and its count, the heaviest nodes of the tree only."""
    size = len(tree.name)
    if not size:
        return "<p>no call paths</p>"
    # A node's time includes that of its callees and parents come first: so the callers of a chosen node are chosen too.
    chosen = np.argsort(-tree.total_ns, kind="stable")[:nodes]
    is_shown = np.zeros(size, bool)
    is_shown[chosen] = True
    rest = size - len(chosen)
    hidden = f"<p>{html_text(plural(rest, 'smaller node'))} not shown</p>" if rest else ""
    return "".join(_folded(tree, is_shown.tolist())) + hidden


def _folded(tree: ShownTree, is_shown: list[bool]) -> Iterator[str]:
    """Opening and closing tags depth first, without recursion: call paths may be deeper than Python's own stack."""
    children = tree.children()
    stack: list[int | str] = [0]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
            continue
        below = [child for child in children[item] if is_shown[child]]
        label = _label(tree, item)
        if not below:
            yield f'<div style="margin-left: 1em">{label}</div>'
            continue
        yield f'<details style="margin-left: 1em"{" open" if item == 0 else ""}><summary>{label}</summary>'
        stack.append("</details>")
        stack.extend(reversed(below))


def _label(tree: ShownTree, node: int) -> str:
    total, whole = int(tree.total_ns[node]), int(tree.total_ns[0])
    time = f"{format_ns(total)} ({100 * total / whole:.1f} %), " if whole else ""
    return f"{html_text(tree.name[node])} <small>{time}{format_count(int(tree.total_count[node]))}×</small>"
