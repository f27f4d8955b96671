"""Nsight Systems' own reports (`.nsys-rep`): where `nsys` is installed, it exports them to SQLite."""

from __future__ import annotations

import shutil

from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace
from warplens.readers.shared.vendor_tool import output_of, stored_report
from warplens.readers.sqlite_file import read as read_sqlite
from warplens_run.base.errors import FormatError

EXPORT = "export it: nsys export --type sqlite report.nsys-rep"


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    nsys = shutil.which("nsys")
    if nsys is None:
        what = "an Nsight Systems report (.nsys-rep), which only NVIDIA's tools can read"
        raise FormatError(what, where=meta.source, hint=EXPORT)
    with stored_report(text, "report.nsys-rep") as report:
        export = report.with_suffix(".sqlite")
        output_of([nsys, "export", "--type", "sqlite", "--output", str(export), str(report)], meta.source, EXPORT)
        try:
            database = export.read_bytes()
        except OSError:
            raise FormatError("nsys wrote no export of it", where=meta.source, hint=EXPORT) from None
    return read_sqlite(database, meta, notes)
