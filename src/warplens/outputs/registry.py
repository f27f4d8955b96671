"""The outputs a path can choose. Each declares what it is; nothing else in the program lists them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from warplens import lab
from warplens.outputs.document import Document, DocumentKind
from warplens.outputs.json_text import json_bytes
from warplens.outputs.tabular import csv_bytes, parquet_bytes, safe_csv_bytes
from warplens_run.base.errors import UsageError
from warplens_run.base.loading import loaded


@dataclass(frozen=True)
class Output:
    """One kind of file: how its name ends, what it holds, and the function that makes its bytes.

    `one_table` outputs hold exactly one table; with `directory`, each table gets such a file of its own. An output
    with a `kind` is for documents of this kind; one without takes any.
    """

    name: str
    suffix: str
    writes: str
    render: Callable[[Document], bytes]
    binary: bool = False
    one_table: bool = False
    directory: bool = False
    kind: DocumentKind | None = None

    def for_kind(self, kind: DocumentKind) -> Output:
        """The output of this name for documents of a kind; a path chooses before the document is made."""
        if self.kind is None:
            return self
        return next(output for output in OUTPUTS if output.name == self.name and output.kind == kind)


_CSV = Output("csv", ".csv", "one table as CSV", csv_bytes, one_table=True)
_PARQUET = Output("parquet", ".parquet", "one table as Parquet", parquet_bytes, binary=True, one_table=True)


def _themed(document: Document, page: bytes) -> bytes:
    root = f'<html lang="en" data-chosen="{document.theme}">'
    return page.replace(b'<html lang="en">', root.encode(), 1) if document.theme else page


def _report_page(document: Document) -> bytes:
    from warplens.outputs.html.page import page_bytes

    return _themed(document, page_bytes(document))


def _lab_page(document: Document) -> bytes:
    content = document.page() if document.page is not None else None
    make: Callable[[object], bytes] = loaded(lab.PAGES[document.kind])
    return _themed(document, make(content))


def _workbook(document: Document) -> bytes:
    from warplens.outputs.workbook import workbook_bytes

    return workbook_bytes(document)


def _markdown(document: Document) -> bytes:
    from warplens.outputs.markdown import markdown_bytes

    return markdown_bytes(document)


def _hatchet(document: Document) -> bytes:
    from warplens.outputs.hatchet import hatchet_bytes

    if document.paths is None:
        is_job = document.kind == "job"
        hint = "choose one rank" if is_job else "end the path in .json, .md or .xlsx"
        raise UsageError(
            f"{document.source}: a .hatchet file holds the call paths of one profile, and there are none here",
            hint=hint,
            options=("rank",) if is_job else (),
        )
    return hatchet_bytes(document.paths())


def _page(kind: DocumentKind, writes: str, render: Callable[[Document], bytes] = _report_page) -> Output:
    return Output("html", ".html", writes, render, kind=kind)


PAGES = (
    _page("report", "a page that opens from disk: pictures and every table"),
    _page("diff", "a page of what changed between two profiles"),
    _page("gantt", "a page of the timeline alone"),
    _page("paths", "a page of call paths and tables"),
    _page("job", "a page of many ranks: timelines, heat maps and every table"),
    _page("kernel_trace", "a page of traced launches, program by program", _lab_page),
    _page("kernel_code", "a page of Python next to the compiler's texts", _lab_page),
    _page("layout", "a page of tiles side by side: threads, banks, conflicts", _lab_page),
)
OUTPUTS = (
    *PAGES,
    Output("xlsx", ".xlsx", "a workbook with one sheet per table", _workbook, binary=True),
    Output("json", ".json", "one JSON object with every table", json_bytes),
    Output("markdown", ".md", "a page to paste into an issue", _markdown),
    Output("hatchet", ".hatchet", "call paths, for Proton's viewer and Hatchet", _hatchet),
    _CSV,
    _PARQUET,
    replace(_CSV, writes="a directory with one CSV file per table", directory=True),
    replace(
        _CSV,
        name="csv-safe",
        writes="the same for spreadsheets: no cell is taken for a formula",
        render=safe_csv_bytes,
        directory=True,
    ),
    replace(_PARQUET, writes="a directory with one Parquet file per table", directory=True),
)
TABLE_FORMATS = tuple(output.name for output in OUTPUTS if output.directory)


def choose_output(path: str, tables: str = "csv") -> Output:
    """The output a path asks for: by its suffix, or a directory of `tables` files for `dir/`.

    >>> choose_output("report.xlsx").writes, choose_output("out/", tables="parquet").writes
    ('a workbook with one sheet per table', 'a directory with one Parquet file per table')
    """
    if tables not in TABLE_FORMATS:
        raise UsageError(f"unknown table format {tables!r}", hint=f"one of: {', '.join(TABLE_FORMATS)}")
    if names_directory(path):
        return next(output for output in OUTPUTS if output.directory and output.name == tables)
    suffix = Path(path).suffix.lower()
    for output in OUTPUTS:
        if output.suffix == suffix and not output.directory:
            return output
    suffixes = ", ".join(dict.fromkeys(output.suffix for output in OUTPUTS if not output.directory))
    raise UsageError(
        f"unknown output format: {path!r}", hint=f"end it in {suffixes}, or in / for a directory of tables"
    )


def names_directory(path: str) -> bool:
    """Whether a path means a directory: it says so with its last character, or it already is one."""
    separators = ("/", os.sep)
    return path.endswith(separators) or (bool(path) and Path(path).is_dir())
