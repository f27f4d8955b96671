"""Nsight Compute's CSV pages as kernel launches with their metrics, whichever page the file holds.

The raw page has a column per metric and units in its second row; the details page has a row per metric, with labels,
metric names or both (`--print-metric-name`), and rows for what Nsight Compute's rules found. Lines of the profiler
(`==PROF==`) and of the program around the table are passed over. A file may hold several tables one after another.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from warplens.readers.ncu.labels import metric_of_label
from warplens.readers.ncu.values import Cell
from warplens_run.base import bounded

RAW: Final = "raw"
DETAILS: Final = "details"
SOURCE: Final = "source"

HEADER: Final = re.compile(r'^\ufeff?"?ID"?(?P<delimiter>[,;\t])"?Process ID"?(?P=delimiter)', re.MULTILINE)
"""The start of a table's first line."""
LAUNCH_COLUMNS: Final = frozenset(
    {
        "ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Kernel Time", "Context", "Stream",
        "Block Size", "Grid Size", "Device", "CC",
    }
)  # fmt: skip
_SIZES: Final = re.compile(r"\d{1,10}")


@dataclass(frozen=True)
class RuleMessage:
    """What one of Nsight Compute's rules said of a launch."""

    section: str
    name: str
    kind: str
    text: str
    speedup: str
    speedup_type: str


@dataclass(frozen=True)
class MachineInstruction:
    """An instruction of a profiled launch and what was measured of it."""

    address: int
    text: str
    executed: int = 0
    """How often warps executed it."""
    samples: int = 0
    stalls: tuple[tuple[str, int], ...] = ()
    """Its samples by what the warp was doing."""
    numbers: tuple[tuple[str, float], ...] = ()
    access: str = ""
    """What it loads from or stores to, with the bits per thread: "global load 128"."""
    file: str = ""
    line: int = 0


@dataclass
class ProfiledLaunch:
    """One profiled launch; the same in both pages."""

    id: int
    process: int
    kernel: str
    grid: str
    block: str
    device: int
    stream: int
    compute: str
    metrics: dict[str, Cell] = field(default_factory=dict)
    rules: list[RuleMessage] = field(default_factory=list)
    instructions: Sequence[MachineInstruction] = ()
    """Its machine code, where the source page was read."""


@dataclass
class Pages:
    """The launches of a file, in its order, and what was lost in reading it."""

    kinds: set[str] = field(default_factory=set)
    launches: list[ProfiledLaunch] = field(default_factory=list)
    damaged: int = 0
    truncated: bool = False


def read_pages(text: str, wanted: Callable[[str], bool]) -> Pages:
    """The launches of all tables in a text, with the metrics whose names are wanted."""
    pages = Pages()
    header = HEADER.search(text)
    if header is None:
        return pages
    body = text[header.start() :].lstrip("\ufeff")
    whole = body.endswith(("\n", "\r"))
    if not whole and (body.count('"') % 2 or not body.endswith(('"', header["delimiter"]))) and body.startswith('"'):
        body, pages.truncated = body[: body.rfind("\n") + 1], True  # the last value has lost its end
    table: _PageTable | None = None
    short, narrow = False, False
    try:
        for row in csv.reader(io.StringIO(body, newline=""), delimiter=header["delimiter"]):
            if row and row[0] == "ID":
                table = _PageTable(pages, row, wanted)
            elif table is not None:
                pages.damaged += short
                short, narrow = not table.add(row), len(row) < table.width
    except csv.Error:  # a quote that is never closed swallows the rest of the file
        short = True
    pages.truncated |= short or (narrow and not whole)
    return pages


class _PageTable:
    """One table of a file: which column is what, and where its rows go."""

    def __init__(self, pages: Pages, header: list[str], wanted: Callable[[str], bool]) -> None:
        self.pages, self.wanted = pages, wanted
        self.positions = {name: position for position, name in reversed(list(enumerate(header)))}
        self.width = len(header)
        self.processes: set[str] = set()
        self.units: dict[str, str] = {}
        self.launches: dict[tuple[int, int], ProfiledLaunch] = {}
        if "Metric Name" in header and "Metric Value" in header:
            self.kind, self.width = DETAILS, self.positions["Metric Value"] + 1
        else:
            self.kind = RAW
            self.metrics = [(name, position) for name, position in self.positions.items() if self.is_metric(name)]
        pages.kinds.add(self.kind)

    def is_metric(self, name: str) -> bool:
        return name not in LAUNCH_COLUMNS and self.wanted(name)

    def add(self, row: list[str]) -> bool:
        """Takes a row over; False for one that has lost its end."""
        if not row or row[0].startswith("=="):
            return True
        if len(row) < self.width:
            # Other lines, and small tables between the rows, do not begin as the rows do.
            return self._cell(row, "Process ID") not in self.processes
        if self.kind == RAW and not row[0]:
            self.units = {name: row[position] for name, position in self.metrics}
            return True
        number, process = _whole(row[0]), _whole(self._cell(row, "Process ID"))
        if number is None or process is None:
            return True
        self.processes.add(self._cell(row, "Process ID"))
        if self.kind == RAW:
            launch = self._new_launch(row, number, process)
            launch.metrics = {name: Cell(row[position], self.units.get(name, "")) for name, position in self.metrics}
            return True
        detailed = self.launches.get((process, number))
        if detailed is None:
            detailed = self.launches[process, number] = self._new_launch(row, number, process)
        self._add_detail(row, detailed)
        return True

    def _new_launch(self, row: list[str], number: int, process: int) -> ProfiledLaunch:
        launch = ProfiledLaunch(
            id=number,
            process=process,
            kernel=self._cell(row, "Kernel Name"),
            grid=_sizes(self._cell(row, "Grid Size")),
            block=_sizes(self._cell(row, "Block Size")),
            device=_or_none(_whole(self._cell(row, "Device"))),
            stream=_or_none(_whole(self._cell(row, "Stream"))),
            compute=self._cell(row, "CC"),
        )
        self.pages.launches.append(launch)
        return launch

    def _add_detail(self, row: list[str], launch: ProfiledLaunch) -> None:
        label = self._cell(row, "Metric Name")
        if label:
            cell = Cell(self._cell(row, "Metric Value"), self._cell(row, "Metric Unit"))
            name = metric_of_label(label, cell.unit)
            if name and self.wanted(name):
                launch.metrics.setdefault(name, cell)
        elif self._cell(row, "Rule Name"):
            columns = (
                "Section Name", "Rule Name", "Rule Type", "Rule Description", "Estimated Speedup",
                "Estimated Speedup Type",
            )  # fmt: skip
            launch.rules.append(RuleMessage(*(self._cell(row, column) for column in columns)))

    def _cell(self, row: list[str], column: str) -> str:
        position = self.positions.get(column)
        return row[position] if position is not None and position < len(row) else ""


def _sizes(text: str) -> str:
    """`(32, 1, 1)` as traces write it; empty where there is nothing."""
    sizes = _SIZES.findall(text)
    return f"[{', '.join(str(int(size)) for size in sizes)}]" if sizes else ""


def _whole(text: str) -> int | None:
    bare = text.strip().replace(",", "").replace(".", "")
    return bounded.whole(bare) if bounded.is_whole(bare, 0) else None


def _or_none(number: int | None) -> int:
    return -1 if number is None else number
