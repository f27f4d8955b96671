"""Tables of a report, kept in the cache: the second report of a trace computes nothing.

An entry is named by the content of the files that were given, the options and the code of the whole package. Nothing
here imports an analysis, a reader or numpy: that would take longer than to read the tables.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from warplens.cache import entries, place
from warplens.model.answer import Answer
from warplens.model.table import Column, Table
from warplens_run.base.files import content_hash


class FinishedReport(msgspec.Struct, frozen=True):
    """What a report shows of a trace."""

    facts: dict[str, str]
    answer: Answer
    table_names: tuple[str, ...]
    """Also those that are not kept."""
    raw_names: tuple[str, ...]
    """Frames that a query can name besides."""
    tables: Mapping[str, Table]
    lacking: dict[str, str]
    """Tables that this trace does not have, with what each needs."""


class _TableHead(msgspec.Struct):
    name: str
    meaning: str
    columns: list[tuple[str, str, str]]
    """Name, meaning and unit of each."""
    notes: tuple[str, ...]


class _Head(msgspec.Struct):
    facts: dict[str, str]
    answer: Answer
    table_names: tuple[str, ...]
    raw_names: tuple[str, ...]
    tables: list[_TableHead]
    lacking: dict[str, str]


def entry_name(files: Iterable[str], options: object) -> str | None:
    """The name of the entry for these files and options; None where one of the files is not a plain file."""
    digests: list[str] = []
    for file in files:
        path = Path(file)
        try:
            if not path.is_file():
                return None
            digests.append(content_hash(path, path.read_bytes()))
        except (OSError, ValueError):
            return None
    try:
        text = msgspec.json.encode(["finished", digests, options])
    except UnicodeEncodeError:  # an option with bytes that are not text; who uses it reports that
        return None
    return f"{hashlib.blake2b(text, digest_size=16).hexdigest()}-{place.code_hash(['warplens'])}"


def load(name: str) -> FinishedReport | None:
    """What was kept under a name; None where there is nothing."""
    entry = entries.load(name)
    if entry is None:
        return None
    try:
        head = msgspec.json.decode(entry.head, type=_Head)
        tables = {table.name: _table(table, entry) for table in head.tables}
    except (msgspec.DecodeError, KeyError, ValueError, TypeError):
        return None
    return FinishedReport(head.facts, head.answer, head.table_names, head.raw_names, tables, head.lacking)


def save(name: str, report: FinishedReport) -> None:
    """Keep the tables of a report."""
    heads = [
        _TableHead(
            table.name, table.meaning, [(each.name, each.meaning, each.unit) for each in table.columns], table.notes
        )
        for table in report.tables.values()
    ]
    head = _Head(report.facts, report.answer, report.table_names, report.raw_names, heads, report.lacking)
    try:
        text = msgspec.json.encode(head)
    except UnicodeEncodeError:  # a name of a file or an event that is not text
        return
    entries.save(name, text, {table.name: table.frame for table in report.tables.values()})


def _texts(column: Column) -> tuple[str, str, str]:
    return column.name, column.meaning, column.unit


def _table(head: _TableHead, entry: entries.Entry) -> Table:
    frame = entry.frames[head.name]
    columns = tuple(Column(*texts, frame.schema[texts[0]]) for texts in head.columns)
    return Table(head.name, head.meaning, columns, frame, head.notes)
