"""What the data of a page holds besides its columns: the header of each page, and what the header is made of.

The page's TypeScript types are generated from these records (`make web`), so each is written once.
"""

from __future__ import annotations

import msgspec

from warplens.model.fix_subsets import FixSubsets
from warplens.model.targets import Target
from warplens_run import __version__

FORMAT = "warplens-page"
VERSION = 1


class ColumnSpec(msgspec.Struct, frozen=True, omit_defaults=True, rename=lambda name: name.removeprefix("is_")):
    """Where a column of numbers is among the bytes, and how it is read."""

    at: int
    rows: int
    width: int
    """Bytes of a number."""
    delta: bool = False
    """Differences, to be summed."""
    scale: int = 1
    is_float: bool = False
    """Eight planes of doubles."""
    is_single: bool = False
    """The bits of float32."""
    is_text: bool = False
    """Numbers of texts in the header's list; -1 for none."""
    is_bool: bool = False
    nulls: ColumnSpec | None = None
    """Rows without a value."""


class PageHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What every page has."""

    format: str = FORMAT
    version: int = VERSION
    warplens: str = __version__
    title: str
    texts: list[str]


class LeftOut(msgspec.Struct, frozen=True, rename="camel"):
    """Host events that are not on the page."""

    events: int
    shorter_than_ns: int


class LaneHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A thread or stream, and its rows of events."""

    first: int
    events: int
    gpu: bool
    untimed: bool = False
    """Holds recorded callers, whose times are unknown: not part of the timeline."""
    process: str
    thread: str
    process_name: str
    thread_name: str


class StepMark(msgspec.Struct, frozen=True):
    """A step on the host, in ns."""

    step: int
    name: str
    start: int
    end: int


class Labels(msgspec.Struct, frozen=True):
    """Per pair of name and kind: number of the name, the kind, the short name and the category; -1 for none."""

    name: list[int]
    kind: list[int]
    short: list[int]
    category: list[int]


class Copies(msgspec.Struct, frozen=True):
    """Rows of the copies, and their sizes."""

    row: ColumnSpec
    bytes: ColumnSpec


class Members(msgspec.Struct, frozen=True):
    """Per GPU event its group, and per table the row of each group."""

    group: ColumnSpec
    rows: dict[str, ColumnSpec]


Geometry = tuple[str, str, int, int, float]
"""Grid, block, registers, bytes of shared memory, occupancy in percent; -1 where unknown."""


class SceneHeader(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The events of one trace."""

    label: str
    device: str
    events: int
    left_out: LeftOut
    lanes: list[LaneHeader]
    steps: list[StepMark]
    columns: dict[str, ColumnSpec]
    labels: Labels
    specs: list[list[int]]
    geometries: list[Geometry]
    copies: Copies
    members: Members


class Tile(msgspec.Struct, frozen=True):
    """A number at the head of the page."""

    label: str
    value: str
    note: str
    meaning: str
    table: str
    """The table behind it."""


class PathColumn(msgspec.Struct, frozen=True):
    """A column of the table `critical_path`."""

    name: str
    unit: str
    meaning: str


class PathHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The critical path of the only scene, segment by segment: one after the other in the simulated run."""

    kinds: dict[str, str]
    """What each kind of segment means, in the order of their numbers."""
    columns: list[PathColumn]
    start: int
    """When the first begins, in ns."""
    kind: ColumnSpec
    row: ColumnSpec
    """The event, by its row on the page; -1 if none."""
    pause: ColumnSpec
    """As recorded: from the end of the segment before to its start."""
    recorded: ColumnSpec
    """Its length as recorded."""
    cost: ColumnSpec
    """By how much that is longer than in the simulated run."""


class ColumnHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column of a table. With an `expected` sum of other columns, `data` is what the values differ by from that."""

    name: str
    unit: str
    meaning: str
    data: ColumnSpec
    expected: dict[str, float] = {}
    """Factors by column; the sum is rounded half up at the scale of `data`."""


class TableHeader(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A table. With an `order`, rows are stored in another one: sort by these columns, descending where true."""

    name: str
    meaning: str
    notes: list[str]
    rows: int
    order: list[tuple[str, bool]] = []
    columns: list[ColumnHeader]


class CorrectedHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The only scene with corrected times."""

    scene: SceneHeader
    critical_path: PathHeader | None


class DrawnRankHeader(msgspec.Struct, frozen=True, rename="camel"):
    """A rank with a timeline: its rows among those of all ranks, which are in order of rank and start."""

    rank: int
    host: str
    stage: int
    why: str
    calls: int
    computes: int
    steps: int


class JobHeader(msgspec.Struct, frozen=True, rename="camel"):
    """The timelines of many ranks. Times are in ns since the job's first event."""

    ranks: int
    """Of the job, drawn or not."""
    drawn: list[DrawnRankHeader]
    calls: dict[str, ColumnSpec]
    """One row per communication kernel."""
    compute: dict[str, ColumnSpec]
    steps: dict[str, ColumnSpec]


class StepPart(msgspec.Struct, frozen=True, rename="camel"):
    """A part of one step, as the page's head draws it."""

    name: str
    category: str
    """Of kernels, for their colour; empty where no GPU works."""
    time: str
    percent: float
    place: str


class ReportHeader(PageHeader, frozen=True, kw_only=True, rename="camel"):
    """The page of a report, a comparison, a Gantt chart, a profile without a timeline or a job of many ranks."""

    source: str
    mode: str
    start: str
    command: str
    facts: dict[str, str]
    definitions: dict[str, dict[str, str]]
    explanations: dict[str, str]
    finding_targets: list[list[Target]]
    """Per row of the table `findings` what it points at, the most telling first; events by their row on the page."""
    targets: list[list[Target]]
    """The same for the table `evidence`."""
    kinds: list[str]
    colours: dict[str, str]
    kind_colours: dict[str, str]
    spare_colours: list[str]
    scenes: list[SceneHeader]
    tables: list[TableHeader]
    tiles: list[Tile]
    gains_base: str
    """What percentages of gains are shares of."""
    verdict: str
    gains: list[str]
    """Of each row of the table `findings`: an interval or a bound, in words."""
    parts: list[StepPart]
    """Where one step goes, the largest first."""
    fix_subsets: FixSubsets | None
    critical_path: PathHeader | None
    corrected: CorrectedHeader | None
    job: JobHeader | None
