"""The call tree: who, up to the user's own code, caused each kernel; or where the host's own time goes.

Every kernel is a child of its launch's op, the ops around that, and the frames, modules or annotations that the
chosen context includes. Backward kernels are below the forward op that created them, under a node
"(backward)", so that a module's time is all of it. With the CPU's time every host event has a node instead, and
gives its own time to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.time.host_times import own_times, thread_name, waiting
from warplens.analyses.workspace import NO_LAUNCH, Workspace
from warplens.model.arrays import sorted_unique
from warplens.model.kinds import BACKWARD, CODE, KINDS, MODULE_PREFIX, NONE
from warplens.model.paths import merge_paths
from warplens.model.trace import Bools, Ints, Trace
from warplens.model.tree import Floats, Tree, build_tree
from warplens.passes.climb import climb
from warplens_run.base.errors import UsageError

CONTEXTS: Final = {
    # context: the kinds of host events that become nodes
    "python": ("python", "module", "annotation", "op"),
    "module": ("module", "op"),
    "op": ("op",),
    "annotation": ("annotation", "op"),
    "full": ("python", "module", "annotation", "op", "runtime"),
}
WEIGHTS: Final = {
    # weight: what the tree then shows
    "gpu": "GPU time",
    "cpu": "CPU time",
}
NODE_KINDS: Final = (*KINDS, "thread")
THREAD = len(KINDS)


def call_tree(
    work: Workspace,
    context: str = "python",
    *,
    weight: str = "gpu",
    short_names: bool = True,
    chosen: Bools | None = None,
    amounts: Mapping[str, Floats] | None = None,
) -> Tree:
    """Time by call path; `context` chooses which callers are shown, `weight` whose time it is.

    `chosen` says which GPU events count, and has no say over the CPU's time. `amounts` are further metrics, by GPU
    event.
    """
    for what, name, choices in (("context", context, CONTEXTS), ("weight", weight, WEIGHTS)):
        if name not in choices:
            raise UsageError(f"no {what} {name!r}", hint=f"one of: {', '.join(choices)}")
    if weight == "cpu":
        return _cpu_tree(work.trace, context)
    gpu = work.gpu if chosen is None else work.gpu.filter(pl.Series(chosen))
    return _gpu_tree(work.trace, gpu, context, "kernel_short" if short_names else "kernel", amounts or {})


class _Calls:
    """The calls that make up the tree, collected in groups: the call around each, its label and its kind."""

    def __init__(self) -> None:
        self._labels: dict[str, int] = {}
        self._groups: list[tuple[Ints, Ints, Ints]] = []
        self._size = 0

    def add(self, outer: Ints, labels: Ints, kinds: Ints) -> Ints:
        """More calls; returns their numbers."""
        self._groups.append((outer, labels, kinds))
        self._size += len(outer)
        return np.arange(self._size - len(outer), self._size)

    def add_named(self, names: list[str], kind: int) -> Ints:
        """Calls with nothing around them."""
        labels = np.array([self._label(name) for name in names], np.int64)
        return self.add(np.full(len(names), NONE), labels, np.full(len(names), kind))

    def labels(self, codes: Ints, text: Callable[[int], str]) -> Ints:
        """The labels of names that are given by their codes."""
        used = sorted_unique(codes.astype(np.int64))
        numbers = np.zeros(int(used.max(initial=0)) + 1, np.int64)
        numbers[used] = [self._label(text(code)) for code in used.tolist()]
        return numbers[codes]

    def _label(self, text: str) -> int:
        return self._labels.setdefault(text, len(self._labels))

    def tree(self, calls: Ints, ns: Ints, weight: str, metrics: Iterable[tuple[str, Ints, Floats]] = ()) -> Tree:
        """The tree in which each of these calls has its time, and others their metrics; a call may come again."""
        columns = zip((np.zeros(0, np.int64),) * 3, *self._groups, strict=True)
        outer, label, kind = (np.concatenate(parts) for parts in columns)
        nodes = merge_paths(outer, label)
        texts, size = list(self._labels), len(nodes.parent)
        self_ns = np.zeros(size, np.int64)
        np.add.at(self_ns, nodes.node[calls], ns)
        sums = {
            metric: np.bincount(nodes.node[where], values, size).astype(np.float64) for metric, where, values in metrics
        }
        tree = build_tree(
            nodes.parent,
            ["all", *(texts[number] for number in nodes.label[1:].tolist())],
            ["root", *(NODE_KINDS[code] for code in kind[nodes.first[1:]].tolist())],
            self_ns,
            np.bincount(nodes.node[calls], minlength=size).astype(np.int64),
            WEIGHTS[weight],
        )
        return tree.with_metrics(sums)


def _gpu_tree(trace: Trace, gpu: pl.DataFrame, context: str, label_column: str, amounts: Mapping[str, Floats]) -> Tree:
    calls = _Calls()
    owner = gpu["owner"].to_numpy()
    if context == "full":  # down to the call of the GPU's runtime, but not past a caller that was recorded
        recorded = np.isin(owner, trace.frames["id"].to_numpy())
        launch = gpu["launch"].to_numpy()
        owner = np.where((launch >= 0) & ~recorded, launch, owner)
    owned = owner >= 0
    owners = sorted_unique(owner[owned])
    # The event kernels are booked on is always shown, so that a launch without an op is seen.
    visible = trace.is_kind(*CONTEXTS[context])
    visible[owners] = True
    kind = np.where(trace.is_kind("runtime"), CODE["op"], trace.ints("kind"))
    has_metrics = len(trace.metrics) > 0 and "annotation" in CONTEXTS[context]
    with_metrics = sorted_unique(trace.metrics["id"].to_numpy().astype(np.int64)) if has_metrics else owners[:0]
    with_metrics = with_metrics[visible[with_metrics]]
    call_of_event = _add_host(calls, trace, _reach(trace, np.union1d(owners, with_metrics), visible), visible, kind)
    outer = np.full(len(gpu), NONE, np.int64)
    outer[owned] = call_of_event[owner[owned]]
    if not owned.all():
        outer[~owned] = calls.add_named([NO_LAUNCH], CODE["other"])
    names: dict[int, str] = dict(gpu.select("name", label_column).unique().iter_rows())
    labels = calls.labels(gpu["name"].to_numpy(), names.__getitem__)
    leaves = calls.add(outer, labels, np.full(len(gpu), CODE["kernel"]))
    metrics = [(name, leaves, values) for name, values in amounts.items()]
    metrics += _scope_metrics(trace, call_of_event, visible) if has_metrics else []
    return calls.tree(leaves, gpu["dur_ns"].to_numpy(), "gpu", metrics)


def _scope_metrics(trace: Trace, call_of_event: Ints, visible: Bools) -> Iterator[tuple[str, Ints, Floats]]:
    """Per metric of the user's scopes: the calls that represent the scopes, and the values."""
    shown = trace.metrics.filter(pl.Series(visible[trace.metrics["id"].to_numpy()]))
    for (metric,), rows in shown.group_by("metric", maintain_order=True):
        yield str(metric), call_of_event[rows["id"].to_numpy()], rows["value"].to_numpy()


def _cpu_tree(trace: Trace, context: str) -> Tree:
    calls = _Calls()
    visible = trace.is_kind(*CONTEXTS[context], "runtime") & ~waiting(trace)
    visible[trace.frames["id"].to_numpy()] = False  # recorded callers have no time of their own
    rows = np.flatnonzero(visible)
    call_of_event = _add_host(calls, trace, _reach(trace, rows, visible), visible, trace.ints("kind"), by_thread=True)
    return calls.tree(call_of_event[rows], own_times(trace, rows), "cpu")


class _Reach(NamedTuple):
    """Events on some path, and for each the next one towards the top (-1: none)."""

    rows: Ints
    outer: Ints


def _reach(trace: Trace, rows: Ints, visible: Bools) -> _Reach:
    """The callers of some events: the visible ones, and those that lead from backward to forward."""
    forward = trace.ints("forward")
    up = np.where(forward >= 0, forward, trace.ints("parent"))
    stop = visible | (forward >= 0)
    outer = np.full(len(trace), NONE, np.int64)
    seen = np.zeros(len(trace), bool)
    while len(rows):
        seen[rows] = True
        outer[rows] = above = climb(up[rows], up, stop)
        above = above[above >= 0]
        rows = sorted_unique(above[~seen[above]])
    reached = np.flatnonzero(seen)
    return _Reach(reached, outer[reached])


def _add_host(
    calls: _Calls, trace: Trace, reach: _Reach, visible: Bools, kind: Ints, *, by_thread: bool = False
) -> Ints:
    """Add the host events to the tree; returns the call that represents each event of the trace."""
    rows, outer = reach
    crosses, shown = trace.ints("forward")[rows] >= 0, visible[rows]
    tops = _add_threads(calls, trace, rows[outer < 0]) if by_thread else np.zeros(0, np.int64)
    # A call may be the child of any other, so they are numbered before they are added: first marks, then events.
    marks = int(crosses.sum())
    mark = len(tops) + np.cumsum(crosses) - 1
    own = len(tops) + marks + np.cumsum(shown) - 1
    # The spare entry at the end is for an absent caller, -1.
    call_of_event = np.full(len(trace) + 1, NONE, np.int64)
    call_of_event[rows] = np.where(shown, own, mark)
    above = call_of_event[outer]
    if len(tops):
        top_rows = rows[outer < 0]
        above[outer < 0] = tops[np.searchsorted(_lanes(trace, top_rows), trace.ints("lane")[top_rows])]
    calls.add(above[crosses], calls.labels(np.zeros(marks, np.int64), lambda _: BACKWARD), np.full(marks, CODE["op"]))
    labels = calls.labels(trace.ints("name")[rows[shown]], lambda code: _label(trace.names[code]))
    calls.add(np.where(crosses, mark, above)[shown], labels, kind[rows[shown]])
    return call_of_event


def _add_threads(calls: _Calls, trace: Trace, top_rows: Ints) -> Ints:
    """The calls that represent the threads, in the order of their lanes; none where there is only one thread."""
    lanes = _lanes(trace, top_rows)
    names = [thread_name(trace, lane) for lane in lanes.tolist()] if len(lanes) > 1 else []
    return calls.add_named(names, THREAD)


def _lanes(trace: Trace, rows: Ints) -> Ints:
    return sorted_unique(trace.ints("lane")[rows])


def _label(name: str) -> str:
    """Modules without their prefix, and all steps under one name: a tree is about code, not about time."""
    if name.startswith("ProfilerStep#"):
        return "ProfilerStep"
    return name.removeprefix(MODULE_PREFIX)
