"""What a capture adds to each replay of its graph: the calls around its launches, as rows that refer to each other."""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np

from warplens.model.kinds import NESTED, NONE
from warplens.model.paths import depths
from warplens.model.trace import Bools, Ints
from warplens.model.user_code import is_own_frame
from warplens.passes.climb import climb
from warplens.passes.graphs.captures import CapturedGraph

ALL, OWN_LINES, LAUNCHING, NO_FRAMES = range(4)
"""What is kept: all; of Python frames only the nearest of the user's own around each op; also no ops that launch
nothing; also no Python frames at all."""
DETAILS: Final = (ALL, OWN_LINES, LAUNCHING, NO_FRAMES)


class Template(msgspec.Struct, frozen=True):
    """Rows of the capture's trace in order, and for each the places in here of the call around it and of its forward
    op; -1 for none. `owners` is the place that GPU work of each captured launch belongs to."""

    rows: Ints
    parent: Ints
    forward: Ints
    depth: Ints
    owners: Ints


def template_of(graph: CapturedGraph, details: int, *, with_callers: bool) -> Template:
    """`with_callers`: also the modules around the whole capture, for replays that have no callers of their own."""
    trace = graph.capture.trace
    parent, forward = trace.ints("parent").astype(np.int64), trace.ints("forward").astype(np.int64)
    kept = _inside(graph, parent, forward, details)
    if with_callers:
        kept[_modules_above(graph, parent)] = True
    bare = graph.launches[graph.ops < 0]  # launched outside any op: they belong to the call itself
    kept[bare] = True
    rows = np.flatnonzero(kept)
    place = np.full(len(trace) + 1, NONE, np.int64)
    place[rows] = np.arange(len(rows))
    outer = place[climb(parent[rows], parent, kept)]
    owners = place[np.where(graph.ops >= 0, graph.ops, graph.launches)]
    made_by = np.where(forward[rows] >= 0, place[np.maximum(forward[rows], 0)], NONE)
    return Template(rows, outer, made_by, depths(outer), owners)


def _inside(graph: CapturedGraph, parent: Ints, forward: Ints, details: int) -> Bools:
    """Calls that began within the capture and are around one of its launches, also through the forward pass."""
    trace = graph.capture.trace
    start = trace.ints("start_ns")
    within = trace.is_kind(*NESTED) & (start >= start[graph.begin]) & (start <= start[graph.end])
    kept = np.zeros(len(trace), bool)
    reached = parent[graph.launches]
    while len(reached):
        reached = reached[reached >= 0]
        reached = np.unique(reached[within[reached] & ~kept[reached]])
        kept[reached] = True
        reached = np.concatenate([parent[reached], forward[reached]])
    if details != ALL:
        kept &= ~_dropped_frames(graph, kept, parent, details)
    if details <= OWN_LINES:  # inner ops that launch nothing say what shapes the outer one works on
        is_op = trace.is_kind("op")
        ops = np.flatnonzero(is_op & within & ~kept)
        kept[ops[climb(parent[ops], parent, kept & is_op) >= 0]] = True
    return kept


def _dropped_frames(graph: CapturedGraph, kept: Bools, parent: Ints, details: int) -> Bools:
    trace = graph.capture.trace
    frames = kept & trace.is_kind("python")
    if details == NO_FRAMES:
        return frames
    names = trace.ints("name")
    own = np.zeros(len(trace.names), bool)
    for code in np.unique(names[frames]).tolist():
        own[code] = is_own_frame(trace.names[code])
    own_frames = frames & own[names]
    lines = climb(np.flatnonzero(kept & trace.is_kind("op")), parent, own_frames)
    lines = np.append(lines, climb(graph.launches, parent, own_frames))
    dropped: Bools = frames.copy()
    dropped[lines[lines >= 0]] = False
    return dropped


def _modules_above(graph: CapturedGraph, parent: Ints) -> Ints:
    trace = graph.capture.trace
    is_module = trace.is_kind("module")
    above = []
    at = climb(np.array([graph.begin]), parent, is_module)
    while at[0] >= 0:
        above.append(int(at[0]))
        at = climb(parent[at], parent, is_module)
    return np.array(above, np.int64)
