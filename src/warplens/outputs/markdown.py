"""A document as GitHub-flavoured Markdown: a title, the facts, and the head of every table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from warplens.outputs.answer_text import finding_text, part_text, step_text, whose_step
from warplens.outputs.cells import cell_texts, shown_columns
from warplens_run.base.printable import clean
from warplens_run.base.text import elide

if TYPE_CHECKING:
    from warplens.model.answer import Answer
    from warplens.model.table import Table
    from warplens.outputs.document import Document

MAX_ROWS = 50
MAX_CELL = 100
# Everything that can start a span, a link, a tag, an entity or a cell. An underscore inside a word is
# harmless in this dialect, and escaping it would spoil every `total_us`.
_SPECIAL = re.compile(r"[\\`*\[\]<>|~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# These mean something only where a line begins: headings, lists and rules.
_LINE_START = re.compile(r"^[-+=#]")


def markdown_bytes(document: Document) -> bytes:
    """The whole document; rows beyond `MAX_ROWS` of a table are counted, not shown."""
    lines = [f"# {escape(document.title)}", "", f"Source: {escape(document.source)}", ""]
    lines += _answer(document.answer)
    if document.facts:
        lines += [f"- **{escape(name)}**: {escape(value)}" for name, value in document.facts.items()]
        lines.append("")
    for table in document.tables:
        lines += _section(table)
    return "\n".join(lines).encode()


def _answer(answer: Answer) -> Iterator[str]:
    """All of it, in the order of the terminal."""
    if answer.warnings:
        yield from (*(f"- ! {escape(warning)}" for warning in answer.warnings), "")
    if answer.verdict:
        yield from (f"**{escape(answer.verdict)}**", "")
    certain = [f"- **{answer.clock.whole}**: {escape(step_text(answer.clock))}"] if answer.clock else []
    certain += [f"- {escape(limit)}" for limit in answer.limits]
    if certain:
        yield from (*certain, "")
    if answer.findings:
        yield from ("## What to change", "")
        for finding in answer.findings:
            where = f"{finding.place}: " if finding.place else ""
            yield f"- **{finding.code}** {escape(finding_text(finding))}  "
            yield f"  {escape(where + finding.advice)}"
            if finding.proof:
                yield f"  {escape(finding.proof)}"
        yield ""
    if answer.parts and answer.clock is not None:
        yield from (f"## Where {whose_step(answer, answer.clock)} goes", "", _row(["part", "share", "time", "place"]))
        yield _row(["---", "---:", "---:", "---"])
        for part in answer.largest:
            numbers = [f"{part.percent:.1f}%", answer.clock.between(part.low_ms, part.high_ms)]
            yield _row([escape(part_text(part)), *numbers, escape(part.place)])
        yield ""
    if answer.next:
        yield from ("## What to look at next", "", "```sh", *map(clean, answer.next), "```", "")


def escape(text: str) -> str:
    r"""Text that shows as itself, in a cell or a sentence.

    >>> print(escape("void f<T*>(a|b) __init__\n"))
    void f\<T\*\>(a\|b) \_\_init\_\_
    """
    return _SPECIAL.sub(r"\\\g<0>", clean(text).strip())


def _section(table: Table) -> Iterator[str]:
    yield from (f"## {escape(table.name)}", "", _paragraph(table.meaning), "")
    names = shown_columns(table)
    if names:
        yield from _grid(table, names)
        yield ""
    if len(table) > MAX_ROWS:
        yield from (f"… and {len(table) - MAX_ROWS:,} more rows", "")
    for note in table.notes:
        yield from (f"> {_paragraph(note)}", "")


def _grid(table: Table, names: list[str]) -> Iterator[str]:
    head = table.frame.head(MAX_ROWS)
    columns = [table.column(name) for name in names]
    yield _row([escape(column.name) for column in columns])
    yield _row(["---:" if column.dtype.is_numeric() else "---" for column in columns])
    texts = [cell_texts(head[column.name], column) for column in columns]
    for cells in zip(*texts, strict=True):
        yield _row([escape(elide(cell, MAX_CELL, middle=True)) for cell in cells])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _paragraph(text: str) -> str:
    return _LINE_START.sub(r"\\\g<0>", escape(text))
