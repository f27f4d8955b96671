"""Parquet files that may be damaged, or unpack to any amount: a table, or one error and nothing on stderr."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from warplens.errors import FormatError
from warplens.readers.shared.parquet_footer import parquet_size
from warplens.readers.shared.unpack_limit import UnpackLimit


def read_parquet(path: Path, columns: Sequence[str] | None = None, *, max_bytes: int = 0) -> pl.DataFrame:
    """All columns or some; `max_bytes`: what they may take in memory (0: by the size of the file)."""
    try:
        stored = path.stat().st_size
        unpacked = parquet_size(path).read_bytes(None if columns is None else len(columns))
        UnpackLimit(stored, str(path), max_bytes).check(unpacked, stored)
        with _without_stderr():
            return pl.read_parquet(path, columns=list(columns) if columns is not None else None)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise FormatError(f"a Parquet file that cannot be read: {reason}", where=str(path)) from error


@contextmanager
def _without_stderr() -> Iterator[None]:
    """A thread of Polars that panics over a damaged page prints its stack, a screenful, before the error is raised."""
    try:
        kept = os.dup(2)
    except OSError:  # closed already
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)
