"""`repeated_calls`: calls that a program makes again and again where one would do.

A cell of a recurrent network called for each element of a sequence is one call of a library (cuDNN's LSTM, GRU, RNN).
Passes of one model over inputs of equal shapes, one right after the other, are one pass over a batch of both, as long
as none needs what the one before computed: their results then meet in the op that follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.analyses.roofline.tables import roofline, roofline_rows
from warplens.analyses.shared import shared
from warplens.analyses.work.kernels import STEP_TIME
from warplens.analyses.work.places import place_of_rows
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import CODE, NONE
from warplens.model.lists import decoded_list
from warplens.model.table import Column, Table
from warplens.model.trace import Bools, Ints
from warplens.passes.climb import climb, climb_context

CELL: Final = "cell"
PASS: Final = "pass"
CELL_OPS: Final = ("aten::lstm_cell", "aten::gru_cell", "aten::rnn_tanh_cell", "aten::rnn_relu_cell")
LEAST_CELLS: Final = 8
"""Calls a step; fewer are layers, not elements of a sequence."""
FEEDBACK: Final = ("Softmax", "Sort", "Embedding", "Attention", "Convolution", "Random")
"""Kernels of these categories between cells choose or look up what the next one reads: no call can know it ahead."""
KEPT_OF_CELLS: Final = 0.85
"""Of their GPU time: cuDNN's LSTM took 0.7 of what the cells' kernels did, its GRU 0.95 (H200, both passes)."""
MOST_PASSES: Final = 4
"""More in a row are rather elements of a sequence than parts of a batch."""
COLUMNS = (
    Column("kind", f"{CELL}: of a recurrent network; {PASS}: of a whole model", "", pl.String),
    Column("what", "the op that is the cell, or the module", "", pl.String),
    Column("calls", "calls that one would do for, per step; without steps in the whole trace", "", pl.Float64),
    Column("count", "GPU events of all those calls; of passes without the first", "", pl.Int64),
    Column("total_us", "sum of their durations", "us", pl.Float64),
    Column("kept_us", "of it, what one call needs in their place", "us", pl.Float64),
    STEP_TIME,
    Column("line", "Python line with most of the time", "", pl.String),
    Column("module", "nn.Module with most of the time", "", pl.String),
)


class _Repeated(msgspec.Struct, frozen=True):
    kind: str
    what: str
    calls: int
    events: Ints
    """Rows of `work.gpu`."""
    kept_us: float


def repeated_calls(work: Workspace) -> Table:
    meaning = "one row per cell or model that is called again and again where one call would do"
    gpu, steps = work.gpu, max(1, len(work.trace.steps))
    duration, step = gpu["dur_ns"].to_numpy(), gpu["step"].to_numpy()
    rows = []
    for found in _found(work):
        place, own = place_of_rows(work, found.events), duration[found.events]
        step_us = float(own[step[found.events] >= 0].sum()) / 1e3
        figures = (found.calls / steps, len(found.events), float(own.sum()) / 1e3, found.kept_us, step_us)
        rows.append((found.kind, found.what, *figures, place.line, place.module))
    return Table.from_rows("repeated_calls", meaning, COLUMNS, rows)


def repeated_rows(work: Workspace) -> Ints:
    """For each GPU event its row in the table, -1 for none."""
    row_of_event = np.full(len(work.gpu), NONE, np.int64)
    for row, found in enumerate(_found(work)):
        row_of_event[found.events] = row
    return row_of_event


@shared
def _found(work: Workspace) -> list[_Repeated]:
    return [*_cells(work), *_passes(work)]


def _cells(work: Workspace) -> Iterator[_Repeated]:
    trace, names = work.trace, work.trace.ints("name").astype(np.int64)
    codes = [code for code in trace.host_names.tolist() if trace.names[code].partition(".")[0] in CELL_OPS]
    if not codes:
        return
    is_cell = np.isin(names, codes) & (trace.ints("kind") == CODE["op"])
    owner = work.gpu["owner"].to_numpy().astype(np.int64)
    cell = climb_context(owner, trace.ints("parent"), trace.ints("forward"), is_cell).row
    for code in codes:
        rows = np.flatnonzero(is_cell & (names == code))
        events = np.flatnonzero((cell >= 0) & (names[np.maximum(cell, 0)] == code))
        is_loop = len(rows) >= LEAST_CELLS * max(1, len(trace.steps))
        if len(events) and is_loop and not _feeds_back(work, rows, owner, cell):
            kept_us = KEPT_OF_CELLS * float(work.gpu["dur_ns"].to_numpy()[events].sum()) / 1e3
            yield _Repeated(CELL, trace.names[code], len(rows), events, kept_us)


def _feeds_back(work: Workspace, cells: Ints, owner: Ints, cell: Ints) -> bool:
    """Whether what is launched between the cells can decide what the next one reads."""
    trace = work.trace
    start, lane = trace.ints("start_ns"), trace.ints("lane")
    step = np.searchsorted(trace.steps["start_ns"].to_numpy(), start[cells], side="right")
    others = np.flatnonzero((cell < 0) & (owner >= 0) & _is_any(work.gpu["kernel_category"], FEEDBACK))
    between = 0
    for number in np.unique(step).tolist():
        own = cells[step == number]
        inside = (start[owner[others]] > start[own[0]]) & (start[owner[others]] < start[own[-1]])
        between += int((inside & (lane[owner[others]] == lane[own[0]])).sum())
    return 2 * between >= len(cells)


def _is_any(categories: pl.Series, words: tuple[str, ...]) -> Bools:
    return categories.str.contains("|".join(words)).to_numpy()


class _Pass(msgspec.Struct, frozen=True):
    """A call of a module that no other contains: its row, and the GPU events that it launches itself, in order."""

    row: int
    events: Ints


def _passes(work: Workspace) -> Iterator[_Repeated]:
    trace, owner = work.trace, work.gpu["owner"].to_numpy().astype(np.int64)
    is_module, parent = trace.ints("kind") == CODE["module"], trace.ints("parent")
    modules = np.flatnonzero(is_module)
    is_outermost = np.zeros(len(trace), bool)
    is_outermost[modules[climb(parent[modules].astype(np.int64), parent, is_module) < 0]] = True
    launched = np.flatnonzero(owner >= 0)
    if is_outermost.sum() < 2 or not len(launched):
        return
    launched = launched[np.lexsort((trace.ints("start_ns")[owner[launched]], trace.ints("lane")[owner[launched]]))]
    within = climb(owner[launched], parent, is_outermost)
    edges = np.flatnonzero(np.append(True, within[1:] != within[:-1]))
    runs = [_Pass(int(within[at]), events) for at, events in zip(edges, np.split(launched, edges[1:]), strict=True)]
    passes_of = climb_context(owner, parent, trace.ints("forward"), is_outermost).row
    later: dict[int, list[int]] = {}
    for place, group in _equal_in_a_row(work, runs):
        if _meet(work, runs[place + len(group)] if place + len(group) < len(runs) else None):
            later.setdefault(int(trace.ints("name")[group[0].row]), []).extend(each.row for each in group[1:])
    for name, rows in later.items():
        events = np.flatnonzero(np.isin(passes_of, rows))
        yield _Repeated(PASS, trace.names[name].removeprefix("nn.Module: "), len(rows), events, _kept_us(work, events))


def _equal_in_a_row(work: Workspace, runs: list[_Pass]) -> Iterator[tuple[int, list[_Pass]]]:
    """Passes of one module with the same kernels, launched one right after the other; with the place of the first."""
    name, kernels = work.trace.ints("name"), work.gpu["name"].to_numpy()
    lane, geometry = work.trace.ints("lane"), work.gpu["geometry"].to_numpy()

    def signature(run: _Pass) -> tuple[int, int, bytes, bytes] | None:
        if run.row < 0:
            return None
        return (
            int(name[run.row]), int(lane[run.row]), kernels[run.events].tobytes(), geometry[run.events].tobytes(),
        )  # fmt: skip

    place = 0
    for key, members in groupby(runs, signature):
        group = list(members)
        if key is not None and 1 < len(group) <= MOST_PASSES:
            yield place, group
        place += len(group)


def _meet(work: Workspace, after: _Pass | None) -> bool:
    """Whether the first op after some passes takes two tensors of one shape, as what joins their results does."""
    if after is None or after.row >= 0:
        return False
    spec = int(work.trace.ints("spec")[work.gpu["owner"].to_numpy()[after.events[0]]])
    shapes = [shape for shape in decoded_list(work.trace.specs["input_dims"][spec]) if shape] if spec >= 0 else []
    return any(first == second for first, second in pairwise(shapes))


def _kept_us(work: Workspace, events: Ints) -> float:
    """What these kernels need at least as part of larger ones: their roofline, nothing where that is not known."""
    shares = roofline(work).frame["percent_of_roofline"].fill_null(0.0).clip(0.0, 100.0).to_numpy() / 100
    row = roofline_rows(work)[events]
    share = np.append(shares, 0.0)[row]
    return float((share * work.gpu["dur_ns"].to_numpy()[events]).sum()) / 1e3
