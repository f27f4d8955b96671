"""An SQLite file: its tables show which profiler wrote it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from warplens.model.quality import Note
from warplens.model.trace import Meta, Trace
from warplens.readers.nsys import reader as nsys
from warplens.readers.rocm import rocpd
from warplens.readers.shared.sqlite_tables import Database, opened
from warplens.readers.shared.stored_file import UNFINISHED
from warplens_run.base.errors import FormatError

KINDS: Final[tuple[tuple[Callable[[Sequence[str]], bool], Callable[[Database, Meta, list[Note]], Trace]], ...]] = (
    (nsys.matches, nsys.read),
    (rocpd.matches, rocpd.read),
)
HINT: Final = "supported: exports of Nsight Systems (nsys export --type sqlite report.nsys-rep) and rocprofv3 (rocpd)"
NAMED_TABLES: Final = 4
NOT_READ: Final = (
    # tables that all of its files have, what the file is, what to do
    (
        {"StringTable", "CUPTI_ACTIVITY_KIND_RUNTIME"},
        "a profile of nvprof (.nvvp), which is not supported",
        "record with Nsight Systems: nsys profile --trace=cuda,nvtx, then: nsys export --type sqlite report.nsys-rep",
    ),
    (
        {"rocpd_api", "rocpd_op"},
        "a database of rocmProfileData (.rpd), which is not supported",
        "make a Chrome trace of it: rpd2tracing.py FILE trace.json, or record with rocprofv3",
    ),
    (
        {"KERN", "OPS"},
        "a database of rocprof before version 3, which is not supported",
        "open the results.json beside it, or record with: rocprofv3 --sys-trace --output-format json -- PROGRAM",
    ),
)


def read(text: bytes, meta: Meta, notes: list[Note]) -> Trace:
    """The trace of the profiler's database in `text`; `notes` are what unwrapping it had to say."""
    notes = [*notes]
    with opened(text, meta.source, notes) as database:
        for matches, reader in KINDS:
            if matches(database.tables):
                return reader(database, meta, notes)
        for tables, what, hint in NOT_READ:
            if tables <= set(database.tables):
                raise FormatError(what, where=meta.source, hint=hint)
        if not database.tables:
            raise FormatError("an SQLite file without tables", where=meta.source, hint=UNFINISHED)
        named = ", ".join(database.tables[:NAMED_TABLES]) + (", …" if len(database.tables) > NAMED_TABLES else "")
        named = " ".join(named.split())
        raise FormatError(
            f"not a profile, but an SQLite file of another program (tables: {named})", where=meta.source, hint=HINT
        )
