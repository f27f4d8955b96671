"""`Opened`: what every opened profile, comparison, kernel check, kernel trace and replay result can be asked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from warplens.hardware import Gpu
    from warplens.model.answer import Answer
    from warplens.model.call_paths import CallPaths
    from warplens.model.finding import Finding
    from warplens.model.measured import Measured
    from warplens.model.table import Table
    from warplens.model.tree import Tree
    from warplens.outputs import Document
    from warplens.profiles.trace import Profile


@runtime_checkable
class Opened(Protocol):
    """What was opened, whatever it is: verbs and outputs ask for these and never for its class.

    >>> import warplens
    >>> opened = warplens.open("samples/proton/scopes.hatchet.gz")
    >>> isinstance(opened, warplens.Opened), opened.has_timeline
    (True, False)
    >>> opened.sql("select sum(percent) as percent from kernel_categories").to_dicts()
    [{'percent': 100.0}]

    | opened | from |
    |---|---|
    | `Profile` | a trace of any profiler, or a capture bundle |
    | `PathsProfile` | sums by call path: Proton's trees, Nsight Compute's counters |
    | `Comparison` | `warplens.diff` of two profiles |
    | `OpenedCheck` | facts of compiled kernels (`warplens kernel check -o facts.json`) |
    | `OpenedKernelTrace` | traced kernel launches (`warplens kernel trace -o x.wkt`, `warplens.trace_kernel`) |
    | `OpenedReplay` | the result of a replay (`warplens replay run`) |
    | `JobProfile` | the traces or bundles of many ranks: a folder, or `warplens.open_ranks` |
    """

    @property
    def source(self) -> str:
        """The path that it was opened from; both paths of a comparison."""

    @property
    def table_names(self) -> tuple[str, ...]:
        """Every table that `table` and `sql` accept, those of a report first."""

    @property
    def report_names(self) -> tuple[str, ...]:
        """The tables of a report, in its order; the others are made only when they are asked for."""

    def table(self, name: str) -> Table:
        """One table by name, computed on the first call."""

    def tables(self) -> list[Table]:
        """The tables of a report."""

    def verdict(self) -> str:
        """The result in a sentence or two."""

    def answer(self) -> Answer:
        """All that is concluded of it, as every output shows it."""

    def findings(self) -> list[Finding]:
        """What is worth changing, largest gain first; empty where no rule applies."""

    def tree(self, context: str = "python", *, weight: str = "gpu", short_names: bool = True) -> Tree:
        """Time by call path; a `UsageError` where call paths are not recorded."""

    def call_paths(self, context: str = "python") -> CallPaths:
        """The same as a profile of sums: full names of kernels, and every metric that is known."""

    def document(self, tables: Iterable[str] | None = None, *, command: str = "") -> Document:
        """The tables (those of a report, or these) and the facts about the source, as the outputs take them."""

    def sql(self, query: str) -> Table:
        """The answer to an SQL query over the tables."""

    @property
    def hardware(self) -> Gpu | None:
        """The GPU whose limits apply; None where it is unknown, or where there are several."""

    @property
    def has_timeline(self) -> bool:
        """Whether it is known when each GPU event ran."""

    def with_timeline(self) -> Profile:
        """The same as a profile with a timeline; a `WarplensError` where `has_timeline` is false."""

    def measured(self) -> Measured:
        """The measured time of each kernel; a `UsageError` where no kernel was timed."""
