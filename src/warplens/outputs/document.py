"""`Document`: what goes into an output: tables, facts about their source, and the extras of a page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from warplens.model.answer import Answer

if TYPE_CHECKING:
    from warplens.model.call_paths import CallPaths
    from warplens.model.critical_path import PathSegments
    from warplens.model.fix_subsets import FixSubsets
    from warplens.model.job_scene import JobScene
    from warplens.model.overview import Overview
    from warplens.model.scene import Scene
    from warplens.model.table import Table
    from warplens.model.targets import Target


NO_ANSWER: Final = Answer("", (), "")
"""Of what is only written down again, such as a tree that another file has."""
DocumentKind = Literal["report", "diff", "gantt", "paths", "job", "kernel_trace", "kernel_code", "layout"]
"""A trace, two of something, a chart, sums without a timeline, ranks, traced launches, compiled kernels, layouts."""


class CorrectedTimes(NamedTuple):
    """The events with the times that they nearly had without the profiler."""

    scene: Scene
    critical_path: PathSegments | None = None


class Extras(NamedTuple):
    """What only the page shows: the events themselves, and the words that explain what is on it.

    `start` is the view it opens with, as the page's address spells it.
    """

    scenes: Sequence[Scene] = ()
    command: str = ""
    start: str = ""
    definitions: Mapping[str, Mapping[str, str]] = MappingProxyType({})
    """By subject (timeline, idle …): what each of its names means."""
    explanations: Mapping[str, str] = MappingProxyType({})
    """By code: the explain page of each finding."""
    finding_targets: Sequence[Sequence[Target]] = ()
    """What each row of the table `findings` points at."""
    evidence_targets: Sequence[Sequence[Target]] = ()
    """What each row of the table `evidence` points at."""
    tables: Sequence[Table] = ()
    """Tables that the other outputs make on demand only."""
    overview: Overview | None = None
    fix_subsets: FixSubsets | None = None
    critical_path: PathSegments | None = None
    """Of the only scene."""
    corrected: CorrectedTimes | None = None
    """The only scene once more; None where the step's time without the profiler is only estimated."""
    job: JobScene | None = None
    """The timelines of many ranks."""


@dataclass(frozen=True)
class Document:
    """The Answer and the tables of what was opened plus the facts about it (device, format …), ready to be written.

    `extras` is a function, because only one output needs what it costs.
    """

    title: str
    source: str
    facts: Mapping[str, str]
    tables: Sequence[Table]
    extras: Callable[[], Extras] | None = None
    kind: DocumentKind = "report"
    """What it is; the registry of outputs has a page for each kind."""
    answer: Answer = NO_ANSWER
    page: Callable[[], object] | None = None
    """What the pages of kernels show instead of tables: traced launches, compiled kernels, or layouts of tiles."""
    paths: Callable[[], CallPaths] | None = None
    """Sums by call path, where what was opened has them."""
    theme: str = ""
    """Colours that a page opens with: light or dark; empty: as the browser prefers."""

    def __post_init__(self) -> None:
        names = [table.name for table in self.tables]
        if len(set(names)) != len(names):
            raise ValueError(f"a document's tables need distinct names, got {names}")
