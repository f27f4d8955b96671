"""What the opened kinds share: tables made once and on demand, one error for unknown names, SQL over all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import PurePath
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import msgspec
import polars as pl

from warplens.model.answer import Answer
from warplens.model.clock import ESTIMATED
from warplens.model.finding import answered, findings_table, ranked
from warplens.model.notebook import shown
from warplens.model.quality import notes_of
from warplens.model.table_entry import TableEntry
from warplens.profiles.unknown_table import unknown_table
from warplens_run.base.errors import UsageError, WarplensError
from warplens_run.base.units import plural

if TYPE_CHECKING:
    from warplens.model.call_paths import CallPaths
    from warplens.model.finding import Finding
    from warplens.model.measured import Measured
    from warplens.model.table import Table
    from warplens.model.tree import Tree
    from warplens.profiles.sql import FrameMaker

Work = TypeVar("Work")

SHOWN_APART: Final = ("quality", "findings", "evidence", "timeline")
"""Tables that say nothing of their own in a notebook, below the verdict and the findings."""
MOST_COMMANDS: Final = 3
FINDING_COLUMNS: Final = ("code", "title", "gain_low_ms", "gain_high_ms", "bound", "place", "advice")


class TableSource(msgspec.Struct, frozen=True):
    """How one table of an opened object is made."""

    make: Callable[[], Table] | None
    """None where the table does not exist for this object; `needs` then says what it takes."""
    in_report: bool = True
    """False for tables that are computed only when they are asked for by name."""
    needs: str = ""


def bound(registry: Mapping[str, TableEntry[Work]], work: Work) -> dict[str, TableSource]:
    """The tables of a registry for one source; those whose condition does not hold are only known by name."""
    return {
        name: TableSource(partial(entry.make, work), entry.in_report)
        if entry.exists(work)
        else TableSource(None, entry.in_report, entry.needs + (entry.instead(work) if entry.instead else ""))
        for name, entry in registry.items()
    }


class TablesOnDemand:
    """Base of the opened kinds: it answers what follows from their tables.

    `contains` says in a few words what the source has, for errors.
    """

    contains = ""
    kind = ""
    """As `Answer.kind` has it."""
    has_timeline = False
    worth_a_look: ClassVar[tuple[str, ...]] = ()
    """Tables that say more than the first screen does."""

    def __init__(self, sources: Mapping[str, TableSource]) -> None:
        self._sources = sources
        self._tables: dict[str, Table] = {}

    @property
    def source(self) -> str:
        raise NotImplementedError

    def _contents(self) -> str:
        """How much there is, in a few words."""
        raise NotImplementedError

    def __repr__(self) -> str:
        contents = f"{self._contents()}, {plural(len(self.table_names), 'table')}"
        return f"<{type(self).__name__} {self._short_source}: {contents}>"

    def _repr_html_(self) -> str:
        """The verdict and the names of the tables, then the findings and the first table with rows."""
        html = shown(f"{PurePath(self.source).name}: {self.verdict()}\ntables: {', '.join(self.table_names)}")
        if findings := self.findings():
            gains = ", gains per step" if "steps" in self.table_names and len(self.table("steps")) else ""
            frame = findings_table(findings).frame.select(FINDING_COLUMNS)
            html += shown(f"{plural(len(findings), 'finding')}{gains}", frame)
        names = (name for name in self.report_names if name not in SHOWN_APART)
        first = next((table for table in map(self.table, names) if len(table)), None)
        return html + first._repr_html_() if first else html

    def verdict(self) -> str:
        """The result in a sentence or two."""
        return self.answer().verdict

    def answer(self) -> Answer:
        """All that is concluded of it, as every output shows it."""
        return self._answer

    @cached_property
    def _answer(self) -> Answer:
        findings = tuple(answered(finding, None, ESTIMATED) for finding in ranked(self.findings()))
        opened = (self._short_source, *self._headline())
        text, certainty = self._conclusion()
        warnings, limits = notes_of(self.table("quality")) if "quality" in self.report_names else ((), ())
        return Answer(
            self.kind,
            opened,
            text,
            certainty,
            findings=findings,
            warnings=warnings,
            limits=limits,
            next=self._next(),
        )

    def _conclusion(self) -> tuple[str, str]:
        """The verdict, and how sure it is: a word of `CERTAINTIES`."""
        raise NotImplementedError

    def _headline(self) -> tuple[str, ...]:
        """What it is, in a few parts."""
        return (self._contents(),)

    def _next(self) -> tuple[str, ...]:
        """Commands that show more."""
        names = [name for name in self.worth_a_look if name in self.table_names and len(self.table(name))]
        return tuple(f"warplens show {quote(self.source)} {name}" for name in names[:MOST_COMMANDS])

    @property
    def _short_source(self) -> str:
        return PurePath(self.source).name

    @property
    def table_names(self) -> tuple[str, ...]:
        """Every table that `table` and `sql` accept, those of a report first."""
        on_demand = (name for name, source in self._sources.items() if source.make and not source.in_report)
        return (*self.report_names, *on_demand)

    @property
    def report_names(self) -> tuple[str, ...]:
        """The tables of a report, in its order; the others are made only when they are asked for."""
        return tuple(name for name, source in self._sources.items() if source.make and source.in_report)

    @property
    def lacking(self) -> dict[str, str]:
        """Tables that other sources of this kind have and this one does not, with what each needs."""
        return {name: source.needs for name, source in self._sources.items() if source.make is None}

    def table(self, name: str) -> Table:
        """One table by name, computed on the first call."""
        if name not in self._tables:
            self._tables[name] = self._maker(name)()
        return self._tables[name]

    def _maker(self, name: str) -> Callable[[], Table]:
        source = self._sources.get(name)
        if source is None or source.make is None:
            raise unknown_table(name, self.table_names, self.lacking)
        return source.make

    def tables(self) -> list[Table]:
        """The tables of a report."""
        return [self.table(name) for name in self.report_names]

    def sql(self, query: str) -> Table:
        """The answer to an SQL query over the tables."""
        from warplens.profiles.sql import run_query  # reports need no SQL

        return run_query(self.frames(), query, self.lacking)

    def frames(self) -> dict[str, FrameMaker]:
        """The frames that a query can name."""
        return {name: partial(self._frame, name) for name in self.table_names}

    def _frame(self, name: str) -> pl.DataFrame:
        return self.table(name).frame

    def findings(self) -> list[Finding]:
        """None: no rule applies to what this contains."""
        return []

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """Call paths are not recorded here: a `UsageError`."""
        raise UsageError(f"{self.source} contains {self.contains}, without call paths")

    def call_paths(self, context: str = "python") -> CallPaths:
        """Call paths are not recorded here: a `UsageError`."""
        raise UsageError(f"{self.source} contains {self.contains}, without call paths")

    def with_timeline(self) -> Any:
        """The same as a profile with a timeline, a `Profile`; a `WarplensError` where `has_timeline` is false."""
        raise WarplensError(f"{self.source} contains {self.contains}, without a timeline")

    def measured(self) -> Measured:
        """The measured time of each kernel; a `UsageError` where no kernel was timed."""
        raise UsageError(f"{self.source} contains {self.contains}, without measured kernel times")
