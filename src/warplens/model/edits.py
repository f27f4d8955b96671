"""`Edit`: a change to a step, as data. What it wins is found by simulating the step with it.

GPU events are named by rows of a table, as the targets of findings are.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WorkOfRows:
    """The GPU events of some rows of a table."""

    table: str
    rows: tuple[int, ...]


@dataclass(frozen=True)
class ScaleWork:
    """The GPU events take `factor` of their time; `with_host`, so does the host for the way to their launches."""

    work: WorkOfRows
    factor: float
    with_host: bool = False


@dataclass(frozen=True)
class ScaleHost:
    """All that the host does takes `factor` of its time."""

    factor: float


@dataclass(frozen=True)
class CaptureGraph:
    """The launches of a step become one launch of a CUDA or HIP graph."""


Edit = ScaleWork | ScaleHost | CaptureGraph


@dataclass(frozen=True)
class Change:
    """Something that a person would do, and what it changes."""

    name: str
    edits: tuple[Edit, ...]
