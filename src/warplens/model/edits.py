"""`Edit`: a change to a step, as data. What it wins is found by simulating the step with it.

GPU events are named by rows of a table, as the targets of findings are.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

GRAPH_PAUSE_NS: Final = 450.0
"""Between two kernels of a CUDA graph: the median of 2,800 pauses on an H200 was 420 to 450 ns. Some overlap."""


class WorkOfRows(msgspec.Struct, frozen=True):
    """The GPU events of some rows of a table."""

    table: str
    rows: tuple[int, ...]


class ScaleWork(msgspec.Struct, frozen=True):
    """The GPU events take `factor` of their time; `with_host`, so does the host for the way to their launches."""

    work: WorkOfRows
    factor: float
    with_host: bool = False


class FuseWork(msgspec.Struct, frozen=True):
    """GPU events that are launched one after the other become one, which takes `factor` of their summed time.

    The first of each run of them keeps its launch; the others go, with the host's time on the way to them, but for the
    first `calls`. What takes their place is another kernel: edits that make them faster do not make it faster.
    """

    work: WorkOfRows
    factor: float
    calls: int = 1
    """The one that takes their place takes the host as long as this many of them do."""


class ReplaceWork(msgspec.Struct, frozen=True):
    """The GPU events of each step become this many launches, which take `factor` of their time together."""

    work: WorkOfRows
    factor: float
    launches: int


class RemoveWaits(msgspec.Struct, frozen=True):
    """Calls in which the host waits for the GPU return at once; or only those that wait for a copy of their own.

    If all: ops that only fetch a value to the host (`.item()`) go as well, with what they launch.
    """

    only_copies: bool = False


class RemoveHostTime(msgspec.Struct, frozen=True):
    """What the host does within some ranges of time, in ns since the start of the trace, takes no time any more."""

    ranges_ns: tuple[tuple[int, int], ...]


class ScaleHost(msgspec.Struct, frozen=True):
    """All that the host does takes `factor` of its time."""

    factor: float


class CaptureGraph(msgspec.Struct, frozen=True):
    """The launches of a step become one launch of a CUDA or HIP graph, whose kernels take `factor` of their time."""

    factor: float = 1.0
    pause_ns: float = GRAPH_PAUSE_NS
    """Between two of its kernels."""


Edit = ScaleWork | FuseWork | ReplaceWork | RemoveWaits | RemoveHostTime | ScaleHost | CaptureGraph


UNCERTAIN_KERNEL: Final = 0.25


def saves_host_time(edit: Edit) -> bool:
    """Whether the host has less to do, so that the step can win more than GPU time."""
    return not isinstance(edit, ScaleWork) or edit.with_host


def with_saving(edit: Edit, share: float) -> Edit:
    """The same edit, where it saves this share of the GPU time that it is expected to save.

    Of a kernel that takes the place of others what it takes is uncertain, however little that is less than they took:
    by a quarter of what the saving is.

    >>> with_saving(ScaleWork(WorkOfRows("kernels", (3,)), 0.5), 0.8).factor
    0.6
    >>> round(with_saving(FuseWork(WorkOfRows("kernels", (3,)), 0.96), 0.8).factor, 3)
    1.008
    """
    if isinstance(edit, FuseWork):
        uncertain = max(1 - edit.factor, UNCERTAIN_KERNEL * edit.factor)
        return replace(edit, factor=max(0.0, edit.factor + (1 - share) * uncertain))
    if isinstance(edit, (ScaleWork, ReplaceWork)):
        return replace(edit, factor=min(1.0, max(0.0, 1 - share * (1 - edit.factor))))
    return edit


def at_best(edit: Edit) -> Edit:
    """The same edit without what it usually leaves: a bound holds for kernels of a graph that begin without a pause."""
    return replace(edit, pause_ns=0.0) if isinstance(edit, CaptureGraph) else edit


def with_measured_saving(edit: Edit, share: float) -> Edit:
    """The same edit, where this share of the GPU time that it is expected to save was measured; below 0 where it takes
    longer.

    >>> with_measured_saving(ScaleWork(WorkOfRows("kernels", (3,)), 0.5), -0.2).factor
    1.1
    """
    if isinstance(edit, (ScaleWork, FuseWork, ReplaceWork)):
        return replace(edit, factor=max(0.0, 1 - share * (1 - edit.factor)))
    return edit


class StepChange(msgspec.Struct, frozen=True):
    """Something that a person would do, and what it changes.

    The edits save at `least` and at `most` this share of the GPU time that they say.
    """

    name: str
    edits: tuple[Edit, ...]
    least: float = 1.0
    most: float = 1.0
