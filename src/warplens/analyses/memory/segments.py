"""Which address ranges the allocator had reserved when: whole segments, and pages of expandable ones.

An expandable segment is a range of addresses of which pages are mapped and unmapped: 20 MiB each for large blocks,
2 MiB for small ones. A page without a block in use can be given back, whatever is beside it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final

import polars as pl

from warplens.analyses.memory.history import NEVER

COLUMNS: Final = {
    "address": pl.Int64,
    "bytes": pl.Int64,
    # Numbers of events, as for allocations.
    "begin": pl.Int64,
    "end": pl.Int64,
    "kind": pl.String,
    "pool": pl.String,
    "stream": pl.Int64,
    # Of a page: those that touch are one range.
    "is_expandable": pl.Boolean,
}
LARGE_PAGE: Final = 20 << 20
SMALL_PAGE: Final = 2 << 20
MOST_PAGES: Final = 1 << 19
"""Of small pages 1 TiB: no GPU has as many. Ranges of more are not divided."""


class SegmentRow:
    __slots__ = ("address", "begin", "bytes", "end", "is_expandable", "kind", "pool", "stream")

    def __init__(self, address: int, size: int, begin: int, stream: int, is_expandable: bool) -> None:
        self.address, self.bytes, self.begin, self.stream = address, size, begin, stream
        self.end, self.kind, self.pool = NEVER, "", ""
        self.is_expandable = is_expandable

    @property
    def pages(self) -> int:
        return -(-self.bytes // self._page_bytes()) if self.is_expandable else 1

    def cells(self, *, in_pages: bool) -> Iterator[tuple[int, int, int, int, str, str, int, bool]]:
        """Of each page, or of the segment that it is."""
        rest = self.begin, self.end, self.kind, self.pool, self.stream, self.is_expandable
        page = self._page_bytes() if self.is_expandable and in_pages else self.bytes
        for at in range(0, self.bytes, page):
            yield self.address + at, min(page, self.bytes - at), *rest

    def _page_bytes(self) -> int:
        """The snapshot names the pool of what is there at its end; of others the size tells."""
        is_large = self.kind == "large" or (not self.kind and self.bytes % LARGE_PAGE == 0)
        return LARGE_PAGE if is_large else SMALL_PAGE


class ReservedRanges:
    """Ranges are given back in other pieces than they were reserved in; what was there before is found when it goes."""

    def __init__(self) -> None:
        self.rows: list[SegmentRow] = []
        self._live: dict[int, SegmentRow] = {}
        self._starts: list[int] = []

    def reserve(self, address: int, size: int, event: int, stream: int, *, is_expandable: bool) -> None:
        for row in self._overlapping(address, size):  # their ends are not on record
            row.end = event
            self._drop(row)
        if size:
            self._add(SegmentRow(address, size, event, stream, is_expandable))

    def give_back(self, address: int, size: int, event: int, stream: int, *, is_expandable: bool) -> None:
        for row in self.pieces(address, size, stream, is_expandable=is_expandable):
            row.end = event
            self._drop(row)

    def pieces(self, address: int, size: int, stream: int, *, is_expandable: bool) -> list[SegmentRow]:
        """Rows that cover exactly a range: those that are known, cut where they reach over it, and what is missing as
        held since before the recording."""
        inside: list[SegmentRow] = []
        at = address
        for row in self._overlapping(address, size):
            row = self._cut(self._cut(row, address), address + size, keep_first=True)
            if row.address > at:
                inside.append(self._add(SegmentRow(at, row.address - at, -1, stream, is_expandable)))
            inside.append(row)
            at = row.address + row.bytes
        if at < address + size:
            inside.append(self._add(SegmentRow(at, address + size - at, -1, stream, is_expandable)))
        return inside

    def _overlapping(self, address: int, size: int) -> list[SegmentRow]:
        first = max(0, bisect_right(self._starts, address) - 1)
        last = bisect_left(self._starts, address + size)
        rows = [self._live[start] for start in self._starts[first:last]]
        return [row for row in rows if row.address + row.bytes > address]

    def end_others(self, kept: set[int], event: int) -> None:
        """What the end state does not have is gone, though no event says when."""
        for row in self._live.values():
            if row.address not in kept:
                row.end = event

    def _cut(self, row: SegmentRow, address: int, *, keep_first: bool = False) -> SegmentRow:
        """The part of a row from an address on, or with `keep_first` up to it; the row itself where it is not in it."""
        if not row.address < address < row.address + row.bytes:
            return row
        rest = SegmentRow(address, row.address + row.bytes - address, row.begin, row.stream, row.is_expandable)
        row.bytes = address - row.address
        self._add(rest)
        return row if keep_first else rest

    def _add(self, row: SegmentRow) -> SegmentRow:
        if row.address not in self._live:
            insort(self._starts, row.address)
        self._live[row.address] = row
        self.rows.append(row)
        return row

    def _drop(self, row: SegmentRow) -> None:
        del self._live[row.address]
        del self._starts[bisect_left(self._starts, row.address)]

    def frame(self) -> pl.DataFrame:
        kept = [row for row in self.rows if row.bytes > 0]
        in_pages = sum(row.pages for row in kept) <= MOST_PAGES
        rows = [cells for row in kept for cells in row.cells(in_pages=in_pages)]
        return pl.DataFrame(rows, schema=COLUMNS, orient="row")
