"""`ReopenedProfile`: a trace whose report was made before; the trace itself is read where more is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from shlex import quote, split
from typing import TYPE_CHECKING

from warplens.outputs.document import Document, Extras
from warplens.profiles.finished import FinishedReport
from warplens.profiles.on_demand import TablesOnDemand, TableSource

if TYPE_CHECKING:
    import polars as pl

    from warplens.hardware import Gpu
    from warplens.model.answer import Answer
    from warplens.model.call_paths import CallPaths
    from warplens.model.finding import Finding
    from warplens.model.measured import Measured
    from warplens.model.tree import Tree
    from warplens.profiles.sql import FrameMaker
    from warplens.profiles.trace import Profile


class ReopenedProfile(TablesOnDemand):
    """The kept tables of a trace, and the trace behind them, opened on the first question that they do not answer."""

    contains = "a trace"
    kind = "trace"
    has_timeline = True

    def __init__(self, source: str, report: FinishedReport, open_trace: Callable[[], Profile]) -> None:
        self._source, self._report, self._open_trace = source, report, open_trace
        lacking = {name: TableSource(None, needs=needs) for name, needs in report.lacking.items()}
        super().__init__({name: self._table_source(name) for name in report.table_names} | lacking)

    def _table_source(self, name: str) -> TableSource:
        kept = self._report.tables.get(name)
        if kept is not None:
            return TableSource(lambda: kept)
        return TableSource(lambda: self.with_timeline().table(name), in_report=False)

    @cached_property
    def _trace(self) -> Profile:
        return self._open_trace()

    @property
    def source(self) -> str:
        """The path that it was opened from."""
        return self._source

    def _contents(self) -> str:
        return "tables of a report"

    @property
    def hardware(self) -> Gpu | None:
        """The GPU whose limits apply."""
        return self._trace.hardware

    def answer(self) -> Answer:
        """All that is concluded of the trace, of the file where it is now: what was kept may be of a copy."""
        answer = self._report.answer
        opened = (self._short_source, *answer.opened[1:])
        return replace(answer, opened=opened, next=tuple(map(self._of_this_file, answer.next)))

    def _of_this_file(self, command: str) -> str:
        """`warplens advise FILE …`: a proposed command has the file in the third place, if any."""
        program, verb, _, *rest = split(command)
        return command if verb == "explain" else " ".join([program, verb, quote(self.source), *map(quote, rest)])

    def findings(self) -> list[Finding]:
        """What is worth changing, largest gain first, each with the rows behind it."""
        return self._trace.findings()

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """Time by call path."""
        return self._trace.tree(context, weight=weight, short_names=short_names)

    def call_paths(self, context: str = "python") -> CallPaths:
        """The same as a profile of sums."""
        return self._trace.call_paths(context)

    def with_timeline(self) -> Profile:
        """The trace itself."""
        return self._trace

    def measured(self) -> Measured:
        """The measured time of each kernel."""
        return self._trace.measured()

    def frames(self) -> dict[str, FrameMaker]:
        """The frames that a query can name; those of the events are read from the trace."""
        return super().frames() | {name: partial(self._raw_frame, name) for name in self._report.raw_names}

    def _raw_frame(self, name: str) -> pl.DataFrame:
        return self._trace.frames()[name]()

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The kept tables with the facts about the file, as the outputs take them."""
        return Document(
            title=f"Warplens report: {Path(self.source).name}",
            source=self.source,
            facts=self._report.facts,
            tables=[self.table(name) for name in (self.report_names if tables is None else tables)],
            extras=lambda: self._extras(command),
            answer=self.answer(),
            paths=self.call_paths if tables is None else None,
        )

    def _extras(self, command: str) -> Extras:
        make = self._trace.document(command=command).extras
        return make() if make is not None else Extras()
