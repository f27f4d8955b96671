"""The events of a scene as columns of the page."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import polars as pl

from warplens.model.kinds import GPU_WORK, KINDS, NESTED, NONE
from warplens.model.lanes import caller_lanes
from warplens.model.paths import depths
from warplens.model.scene import Scene
from warplens.model.trace import Bools, Ints, Trace
from warplens.outputs.html.pack import Packer
from warplens.outputs.html.records import (
    ColumnSpec,
    Copies,
    Labels,
    LaneHeader,
    LeftOut,
    Members,
    SceneHeader,
    StepMark,
)

MAX_EVENTS = 1_500_000
"""A browser draws this many without trouble; beyond it the shortest host events are left out, and the page says so."""


class Kept(NamedTuple):
    """Which events are on the page: their rows, and for every event of the trace its new row, -1 if left out."""

    rows: Ints
    row_of_event: Ints
    shortest_ns: int
    """Host events shorter than this were left out, except those that GPU work hangs under; 0 where all are there."""


def pack_scene(scene: Scene, packer: Packer, kept: Kept) -> SceneHeader:
    trace = scene.trace
    parent = kept_parents(trace, kept)
    return SceneHeader(
        label=scene.label,
        device=scene.device,
        events=len(kept.rows),
        left_out=LeftOut(len(trace) - len(kept.rows), kept.shortest_ns),
        lanes=_lanes(trace, kept),
        steps=[StepMark(number, name, start, end) for number, name, start, end in trace.steps.iter_rows()],
        columns={
            **_event_columns(trace, kept, parent, packer),
            **_arrow_columns(trace, kept, packer),
            **_gpu_columns(scene, kept, packer),
            **_gap_columns(scene.gaps, trace, packer),
        },
        labels=_labels(scene, packer),
        specs=[[packer.text(text or "") for text in row] for row in trace.specs.iter_rows()],
        geometries=list(trace.geometries.iter_rows()),
        copies=_copies(trace, kept, packer),
        members=_members(scene, packer),
    )


def choose_events(scene: Scene, limit: int = MAX_EVENTS) -> Kept:
    """Everything, or, above the limit, all GPU work, what it hangs under, and the longest of the rest."""
    trace = scene.trace
    count = len(trace)
    if count <= limit:
        everything = np.arange(count)
        return Kept(everything, everything, 0)
    duration = trace.ints("dur_ns").astype(np.int64)
    keep = _needed(trace, scene.owner)
    room = max(0, limit - int(keep.sum()))
    others = np.sort(duration[~keep])[::-1]
    shortest = int(others[room - 1]) + 1 if 0 < room <= len(others) else int(others[0]) + 1 if len(others) else 0
    keep |= duration >= shortest
    row_of_event = np.where(keep, np.cumsum(keep) - 1, NONE)
    return Kept(np.flatnonzero(keep), row_of_event, shortest)


def _needed(trace: Trace, owner: Ints) -> Bools:
    """GPU work, the host events it is linked to, and everything around those."""
    keep = np.zeros(len(trace), bool)
    keep[trace.gpu_rows] = True
    parent, forward = trace.ints("parent").astype(np.int64), trace.ints("forward").astype(np.int64)
    at = np.unique(np.concatenate([owner, trace.ints("launch")[trace.gpu_rows]]).astype(np.int64))
    while len(at := at[at >= 0]):
        at = at[~keep[at]]
        keep[at] = True
        at = np.unique(np.concatenate([parent[at], forward[at]]))
    return keep


def kept_parents(trace: Trace, kept: Kept) -> Ints:
    """For each event on the page the nearest event around it that is there too."""
    parent = trace.ints("parent").astype(np.int64)
    above = parent[kept.rows]
    while True:
        missing = (above >= 0) & (kept.row_of_event[above] < 0)
        if not missing.any():
            return np.where(above >= 0, kept.row_of_event[above], NONE)
        above = np.where(missing, parent[above], above)


def _event_columns(trace: Trace, kept: Kept, parent: Ints, packer: Packer) -> dict[str, ColumnSpec]:
    rows = kept.rows
    depth = depths(parent)
    is_op = trace.is_kind("op")[rows]
    odd = np.flatnonzero(expected_parents(trace, rows, depth) != parent)
    forward = trace.ints("forward").astype(np.int64)[rows]
    with_forward = np.flatnonzero((forward >= 0) & (kept.row_of_event[forward] >= 0))
    return {
        "label": packer.add_ints(_labelled(trace)[1][rows]),
        "start": packer.add_ints(trace.ints("start_ns")[rows], delta=True),
        "duration": packer.add_ints(trace.ints("dur_ns")[rows]),
        "depth": packer.add_ints(depth),
        "step": packer.add_ints(trace.ints("step")[rows], delta=True),
        "spec": packer.add_ints(trace.ints("spec")[rows][is_op]),
        "oddRow": packer.add_ints(odd, delta=True),
        "oddParent": packer.add_ints(parent[odd], delta=True),
        "forwardRow": packer.add_ints(with_forward, delta=True),
        "forward": packer.add_ints(kept.row_of_event[forward[with_forward]], delta=True),
    }


def _arrow_columns(trace: Trace, kept: Kept, packer: Packer) -> dict[str, ColumnSpec]:
    """Arrows between the warps of a kernel; those between ops are the column `forward`."""
    source, target = (trace.flows[name].to_numpy().astype(np.int64) for name in ("source", "target"))
    if len(source):
        between_warps = (
            trace.is_kind("gpu_annotation")[source]
            & (kept.row_of_event[source] >= 0)
            & (kept.row_of_event[target] >= 0)
        )
        source, target = source[between_warps], target[between_warps]
    return {
        "arrowFrom": packer.add_ints(kept.row_of_event[source], delta=True),
        "arrowTo": packer.add_ints(kept.row_of_event[target], delta=True),
    }


def expected_parents(trace: Trace, rows: Ints, depth: Ints) -> Ints:
    """What the page takes for an event's parent: the last event of its thread before it that is one level up."""
    nested = trace.is_kind(*NESTED)[rows]
    lane = trace.ints("lane")[rows]
    expected = np.full(len(rows), NONE, np.int64)
    own = np.flatnonzero(nested)
    by_depth = own[np.argsort(depth[own], kind="stable")]
    deepest = int(depth[own].max(initial=0))
    bounds = np.searchsorted(depth[by_depth], np.arange(deepest + 2))
    for level in range(1, deepest + 1):
        outer, inner = by_depth[bounds[level - 1] : bounds[level]], by_depth[bounds[level] : bounds[level + 1]]
        position = np.searchsorted(outer, inner) - 1
        above = outer[np.maximum(position, 0)]
        expected[inner] = np.where((position >= 0) & (lane[above] == lane[inner]), above, NONE)
    return expected


def _labelled(trace: Trace) -> tuple[Ints, Ints]:
    """The distinct pairs of name and kind as one number each, and for every event the place of its pair among them."""
    code = trace.ints("name").astype(np.int64) * len(KINDS) + trace.ints("kind")
    pairs = np.flatnonzero(np.bincount(code)) if len(code) else code
    rank = np.zeros(int(pairs[-1]) + 1 if len(pairs) else 0, np.int64)
    rank[pairs] = np.arange(len(pairs))
    return pairs, rank[code]


def _labels(scene: Scene, packer: Packer) -> Labels:
    """Per pair of name and kind: the name, its kind, and for kernels the short name and the category, as texts."""
    short = dict(scene.kernels.select("name", "kernel_short").iter_rows())
    category = dict(scene.kernels.select("name", "kernel_category").iter_rows())
    names, kinds = np.divmod(_labelled(scene.trace)[0], len(KINDS))
    on_gpu = [KINDS[kind] in GPU_WORK for kind in kinds.tolist()]
    codes = list(zip(names.tolist(), on_gpu, strict=True))
    return Labels(
        name=[packer.text(scene.trace.names[name]) for name, _ in codes],
        kind=kinds.tolist(),
        short=[packer.text(short[name]) if gpu else NONE for name, gpu in codes],
        category=[packer.text(category[name]) if gpu else NONE for name, gpu in codes],
    )


def _gpu_columns(scene: Scene, kept: Kept, packer: Packer) -> dict[str, ColumnSpec]:
    """One entry per GPU event. Links are written as the distance to the launch: mostly one and the same number."""
    trace, rows = scene.trace, scene.trace.gpu_rows
    launch = _placed(trace.ints("launch")[rows], kept)
    owner = _placed(scene.owner, kept)
    _, first, calls = np.unique(scene.call, return_index=True, return_inverse=True)
    order = np.empty(len(first), np.int64)
    order[np.argsort(first, kind="stable")] = np.arange(len(first))
    return {
        "gpuRow": packer.add_ints(kept.row_of_event[rows], delta=True),
        "launch": packer.add_ints(launch, delta=True),
        "owner": packer.add_ints(owner - launch),
        "call": packer.add_ints(order[calls], delta=True),
        "geometry": packer.add_ints(trace.ints("geometry")[rows]),
        "gpu": packer.add_ints(trace.ints("device")[rows]),
        "stream": packer.add_ints(trace.ints("stream")[rows]),
    }


def _placed(rows: Ints, kept: Kept) -> Ints:
    return np.where(rows >= 0, kept.row_of_event[np.maximum(rows, 0)], NONE)


def _lanes(trace: Trace, kept: Kept) -> list[LaneHeader]:
    """Threads and streams: what they are called, and how many events each has; rows come lane by lane."""
    lane = trace.ints("lane")[kept.rows]
    numbers, first, count = np.unique(lane, return_index=True, return_counts=True)
    on_gpu = np.zeros(len(trace.lanes) + 1, bool)
    on_gpu[trace.ints("lane")[trace.gpu_rows]] = True
    described = trace.lanes.rows(named=True)
    untimed = set(caller_lanes(trace))
    return [
        LaneHeader(first=start, events=events, gpu=bool(on_gpu[number]), untimed=number in untimed, **described[number])
        for number, start, events in zip(numbers.tolist(), first.tolist(), count.tolist(), strict=True)
    ]


def _gap_columns(gaps: pl.DataFrame, trace: Trace, packer: Packer) -> dict[str, ColumnSpec]:
    """Why each GPU was idle, part by part of its gaps in time; where the gaps are, the page sees from the events.

    Of the lengths, 0 says: up to the end of the gap. Others are what they differ by from what the page expects, one
    more where that is not negative: a gap's first part ends with the launch of the event that ended the gap.
    """
    length, start, device = (gaps[name].to_numpy().astype(np.int64) for name in ("gap_ns", "start_ns", "device"))
    goes_on = np.append((start[1:] == start[:-1] + length[:-1]) & (device[1:] == device[:-1]), False)[: len(gaps)]
    begins = ~np.append(False, goes_on[:-1])[: len(gaps)]
    excess = length - np.where(begins, _expected_lengths(trace, device, start, _gap_ends(start + length, goes_on)), 0)
    stored = np.where(goes_on, excess + (excess >= 0), 0)
    return {"gapCause": packer.add_texts(gaps["cause"]), "gapLength": packer.add_ints(stored)}


def _gap_ends(end: Ints, goes_on: Bools) -> Ints:
    """The end of the gap that each part belongs to."""
    last = np.flatnonzero(~goes_on)
    return end[last[np.searchsorted(last, np.arange(len(end)))]]


def _expected_lengths(trace: Trace, device: Ints, start: Ints, end: Ints) -> Ints:
    """From the start of a gap to the launch of the first event that starts at its end; 0 where none is recorded."""
    rows = trace.gpu_rows
    events = pl.DataFrame({"device": trace.ints("device")[rows], "end": trace.ints("start_ns")[rows], "row": rows})
    first = events.cast(pl.Int64).unique(["device", "end"], keep="first", maintain_order=True)
    asked = pl.DataFrame({"device": device, "end": end}).join(
        first, on=["device", "end"], how="left", maintain_order="left"
    )
    launch = trace.ints("launch")[asked["row"].fill_null(0).to_numpy()]
    is_known = (launch >= 0) & asked["row"].is_not_null().to_numpy()
    issued = trace.ints("start_ns")[np.maximum(launch, 0)]
    return np.where(is_known, np.clip(issued, start, end) - start, 0)


def _copies(trace: Trace, kept: Kept, packer: Packer) -> Copies:
    copies = trace.copies.unique("id", keep="first").sort("id")
    return Copies(
        row=packer.add_ints(_placed(copies["id"].to_numpy().astype(np.int64), kept), delta=True),
        bytes=packer.add_ints(copies["bytes"].to_numpy()),
    )


def _members(scene: Scene, packer: Packer) -> Members:
    """Events that agree in every table share a group: one small number per event, and each group's rows once."""
    if not scene.members:
        return Members(packer.add_ints(np.empty(0, np.int64)), {})
    events = pl.DataFrame(dict(scene.members))
    groups = events.unique(maintain_order=True)
    group = events.join(groups.with_row_index("group"), on=groups.columns, how="left", maintain_order="left")["group"]
    return Members(
        group=packer.add_ints(group.to_numpy()),
        rows={name: packer.add_ints(groups[name].to_numpy()) for name in groups.columns},
    )
