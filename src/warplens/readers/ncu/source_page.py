"""Nsight Compute's source page: every machine instruction of the profiled kernels, with samples and counters.

`--print-source sass` prints a table per launch; `cuda,sass` prints a table per launch and source file, each line of it
above its instructions. Instructions have addresses in both: they join the two. `cuda,sass` lists an instruction of an
inlined function below its own line and below the one that calls it, and can list all of a line twice. A line of the
file is a row; the text of a source line stands in it as it is, with its quotes, so that rows are split at the quotes
around commas. The views `cuda` and `ptx` have no figures.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final

from warplens.model.kinds import NONE
from warplens.readers.ncu.rows import SOURCE, MachineInstruction, Pages, ProfiledLaunch
from warplens.readers.ncu.values import BadValueError, Cell, parse_number
from warplens_run.base import bounded

START: Final = re.compile(
    r'^\ufeff?"(?:Kernel Name|File Path)","[^\n]*\n(?:"Function Name","[^\n]*\n)?"[^\n]*"Source"', re.M
)
"""The beginning of a table."""
NO_FIGURES: Final = re.compile(r'^\ufeff?"Line No","Source",?\s*$', re.MULTILINE)
"""The header of the views that show text only."""
SAMPLES: Final = (
    "# Samples",
    "Warp Stall Sampling (All Samples)",
    "Warp Stall Sampling (All Cycles)",
    "Sampling Data (All)",
)
EXECUTED_METRIC: Final = "smsp__inst_executed.sum"
STALL_METRIC: Final = "smsp__pcsamp_warps_issue_stalled_"
REASONS: Final = {
    # what the page calls a reason of stalls where the counters have another word
    "dispatch": "dispatch_stall",
    "imc": "imc_miss",
    "lg": "lg_throttle",
    "long_sb": "long_scoreboard",
    "math": "math_pipe_throttle",
    "mio": "mio_throttle",
    "no_inst": "no_instruction",
    "no_instructions": "no_instruction",
    "short_sb": "short_scoreboard",
    "sleep": "sleeping",
    "tex": "tex_throttle",
    "warpgroup_arrive": "gmma",
}
NO_COLUMN: Final = "misc"
"""For samples whose reason has no column: Nsight Compute 2025.3 has none for waits for warp-group products."""
NUMBERS: Final = {
    # column of the page: ours
    "Avg. Predicated-On Threads Executed": "threads",
    "L1 Wavefronts Shared Excessive": "excess_wavefronts",
    "L2 Theoretical Sectors Global Excessive": "excess_sectors",
}
ACCESS: Final = ("Address Space", "Access Operation", "Access Size")
SEPARATOR: Final = '","'
GAP: Final = "..."
"""In the place of an address: the instructions of a line are not all in one piece."""
NOTHING: Final = frozenset({"", "-", GAP})
_REASON: Final = re.compile(r"stall_(\w{1,40})")


@dataclass
class SourceSection:
    """The instructions of one launch."""

    kernel: str
    has_lines: bool
    instructions: list[MachineInstruction] = field(default_factory=list)
    files: set[str] = field(default_factory=set)


@dataclass
class SourcePage:
    """What a source page has, in its order."""

    sections: list[SourceSection] = field(default_factory=list)
    source_lines: dict[tuple[str, int], str] = field(default_factory=dict)
    damaged: int = 0
    truncated: bool = False


def read_source_page(text: str) -> SourcePage:
    """The launches of a source page in either view."""
    page = SourcePage()
    reader = _PageReader(page)
    lines = text.lstrip("\ufeff").rstrip().split("\n")  # a source line may hold other marks of a line's end
    for number, line in enumerate(lines):
        if line.startswith('"') and not reader.add(_fields(line)):
            page.damaged += number < len(lines) - 1
            page.truncated |= number == len(lines) - 1
    return page


def _fields(line: str) -> list[str]:
    """
    >>> _fields('"40","values = tl.load(x, other=-float("inf"))","-"')
    ['40', 'values = tl.load(x, other=-float("inf"))', '-']
    """
    return line.rstrip(", \t\r").removeprefix('"').removesuffix('"').split(SEPARATOR)


class _PageReader:
    """Takes the rows of a page one after another."""

    def __init__(self, page: SourcePage) -> None:
        self.page = page
        self.file, self.line = "", 0
        self.columns: list[str] = []
        self.reasons: list[tuple[str, str]] = []
        """Columns of stalls, with our word for the reason."""

    def add(self, row: list[str]) -> bool:
        """Takes a row over; False for one that has lost its end, or is not readable."""
        first = row[0]
        if first in ("Kernel Name", "File Path", "Function Name") and len(row) > 1:
            self._begin(first, SEPARATOR.join(row[1:]))
        elif first in ("Address", "#", "Line No") and "Source" in row:
            self._set_columns(row)
        elif first == "ID":  # the table of another page begins
            self.columns = []
        elif not self.columns or not self.page.sections:
            return True
        elif self.columns[0] == "Line No":
            return self._add_line(row)
        else:
            return self._add_instruction(row, row[min(len(row) - 1, self.columns.index("Source"))], self.columns)
        return True

    def _begin(self, what: str, name: str) -> None:
        sections = self.page.sections
        self.columns = []
        if what == "Kernel Name":
            self.file, self.line = "", 0
            sections.append(SourceSection(name, has_lines=False))
        elif what == "File Path":
            self.file, self.line = name, 0
        else:
            # One launch has a table for each of its files: the same file again is the next launch.
            if not sections or sections[-1].kernel != name or self.file in sections[-1].files:
                sections.append(SourceSection(name, has_lines=True))
            sections[-1].files.add(self.file)

    def _set_columns(self, row: list[str]) -> None:
        self.columns = row
        matches = (_REASON.fullmatch(name) for name in row)
        self.reasons = [(match[0], REASONS.get(match[1], match[1])) for match in matches if match]

    def _add_line(self, row: list[str]) -> bool:
        """A line of the source, whose own text may hold what separates cells, or an instruction of it."""
        extra = len(row) - len(self.columns)
        if extra < 0:
            return False
        if not row[0]:
            return row[2] == GAP or self._add_instruction(row[2:], row[3], self.columns[2:])
        if not bounded.is_whole(row[0], 0, 10**9):
            return False
        self.line = bounded.whole(row[0])
        self.page.source_lines[self.file, self.line] = SEPARATOR.join(row[1 : 2 + extra])
        return True

    def _add_instruction(self, row: list[str], text: str, columns: list[str]) -> bool:
        if len(row) < len(columns):
            return False
        cells = dict(zip(columns, row, strict=False))
        try:
            stalls = Counter({reason: _whole(cells[label]) for label, reason in self.reasons})
            samples = next((_whole(cells[name]) for name in SAMPLES if name in cells), stalls.total())
            stalls[NO_COLUMN] += max(0, samples - stalls.total())
            numbers = [(name, _number(cells[label])) for label, name in NUMBERS.items() if label in cells]
            instruction = MachineInstruction(
                address=bounded.whole(int(cells["Address"][:16], 16)) if "Address" in cells else bounded.whole(row[0]),
                text=text.strip(),
                executed=_whole(cells.get("Instructions Executed", "")),
                samples=samples,
                stalls=tuple((+stalls).items()),
                numbers=tuple((name, float(value)) for name, value in numbers if value is not None),
                access=" ".join(cells[label].lower() for label in ACCESS if cells.get(label, "") not in NOTHING),
                file=self.file if self.line else "",
                line=self.line,
            )
        except ValueError:  # not a number
            return False
        self.page.sections[-1].instructions.append(instruction)
        return True


def _number(text: str) -> Decimal | None:
    return None if text in NOTHING else parse_number(text)


def _whole(text: str) -> int:
    number = _number(text)
    if number is not None and (number < 0 or number != int(number)):
        raise BadValueError(f"{text[:40]!r} is not a count")
    return int(number or 0)


def launches_of(pages: Iterable[SourcePage], launches: int = 0) -> list[SourceSection]:
    """One section per launch, from pages of the same report: instructions of one view, their lines from the other.

    `launches` is how many there are, where another page says so.
    """
    sections = [section for page in pages for section in page.sections if section.instructions]
    plain = [section for section in sections if not section.has_lines]
    if len(plain) != launches:
        plain = _printed_once(plain)
    lined = [_at_one_line(section) for section in sections if section.has_lines]
    if not plain:
        return lined
    waiting: dict[str, list[SourceSection]] = {}
    for section in lined:
        waiting.setdefault(section.kernel, []).append(section)
    return [_with_lines(section, waiting.get(section.kernel, [])) for section in plain]


def _printed_once(sections: list[SourceSection]) -> list[SourceSection]:
    """Nsight Compute 2025.3 prints each launch twice where nvcc compiled the kernel with -lineinfo."""
    pairs = list(zip(sections[::2], sections[1::2], strict=False))
    is_twice = len(sections) == 2 * len(pairs) and all(one == other for one, other in pairs)
    return [one for one, _ in pairs] if is_twice else sections


def _at_one_line(section: SourceSection) -> SourceSection:
    """Each instruction once, in order: at its own line, which has fewer instructions than one that calls it."""
    listed = {(one.file, one.line, one.address) for one in section.instructions}
    sizes = Counter((file, line) for file, line, _ in listed)
    own: dict[int, MachineInstruction] = {}
    for instruction in sorted(section.instructions, key=lambda one: sizes[one.file, one.line]):
        own.setdefault(instruction.address, instruction)
    return replace(section, instructions=[own[address] for address in sorted(own)])


def _with_lines(section: SourceSection, waiting: list[SourceSection]) -> SourceSection:
    if not waiting:
        return section
    places = {instruction.address: instruction for instruction in waiting.pop(0).instructions}
    located = [
        replace(own, file=places[own.address].file, line=places[own.address].line) if own.address in places else own
        for own in section.instructions
    ]
    return replace(section, instructions=located)


def with_source(pages: Pages, source_pages: Sequence[SourcePage]) -> Pages:
    """The launches with their instructions; where no other page has launches, those of the source page."""
    sections = launches_of(source_pages, len(pages.launches))
    if not sections:
        return pages
    launches = pages.launches or [_launch(number, section) for number, section in enumerate(sections)]
    for launch, section in zip(launches, _of_launches(sections, launches), strict=True):
        launch.instructions = section.instructions if section else ()
    return Pages(
        pages.kinds | {SOURCE},
        launches,
        pages.damaged + sum(page.damaged for page in source_pages),
        pages.truncated or any(page.truncated for page in source_pages),
    )


def _of_launches(
    sections: Sequence[SourceSection], launches: Sequence[ProfiledLaunch]
) -> Sequence[SourceSection | None]:
    """For each launch its section: by order where they are as many, else by name and order."""
    if len(sections) == len(launches):
        return sections
    waiting: dict[str, list[SourceSection]] = {}
    for section in sections:
        waiting.setdefault(section.kernel, []).append(section)
    return [waiting[launch.kernel].pop(0) if waiting.get(launch.kernel) else None for launch in launches]


def _launch(number: int, section: SourceSection) -> ProfiledLaunch:
    """A launch of which only the instructions are known, with their sums as its metrics."""
    counts = Counter({EXECUTED_METRIC: sum(instruction.executed for instruction in section.instructions)})
    for instruction in section.instructions:
        counts.update({STALL_METRIC + reason: count for reason, count in instruction.stalls})
    metrics = {name: Cell(str(count), "") for name, count in counts.items()}
    return ProfiledLaunch(number, NONE, section.kernel, "", "", NONE, NONE, "", metrics)
