"""The calls of a capture put below the launches that replay it: rows of no duration on a lane of their own.

They stand after all other rows, so that these keep their numbers, and are listed in `frames`, as callers that other
profilers name without times: no timeline and no sum of the host's time has them. Each replay has its own, so that
counts, sums and steps are those of replays.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

import msgspec
import numpy as np
import polars as pl

from warplens.model.event_records import LaunchGeometry
from warplens.model.kinds import NONE
from warplens.model.trace import EVENT_COLUMNS, SIDE_FRAMES, Bools, Ints, Trace
from warplens.passes.graphs.captures import CapturedGraph
from warplens.passes.graphs.replays import Replays
from warplens.passes.graphs.templates import Template

LANE: Final = "graph captures"


class Join(NamedTuple):
    """What a launch is joined with: the number of its capture, and for each of its GPU events the captured launch."""

    capture: int
    launch_of: Ints
    with_shapes: bool = True


class Graft(msgspec.Struct, frozen=True):
    """Launches that are joined in one way: numbers of them among the replays, the capture and the template."""

    launches: Ints
    join: Join
    graph: CapturedGraph
    template: Template


def graft(trace: Trace, replays: Replays, grafts: list[Graft]) -> Trace:
    """The trace with the calls of captures below the launches, and GPU events booked on them."""
    size = np.zeros(len(replays), np.int64)
    for entry in grafts:
        size[entry.launches] = len(entry.template.rows)
    first = len(trace) + np.cumsum(size) - size  # the launches are in order of time, and so are the new rows
    merged = _Merged(trace)
    columns = {name: np.full(int(size.sum()), NONE, np.int64) for name in EVENT_COLUMNS}
    op, geometry = trace.ints("op").astype(np.int64), trace.ints("geometry").astype(np.int64)
    contexts: list[tuple[Ints, Ints]] = []
    collectives: list[pl.DataFrame] = []
    for entry in grafts:
        rows = first[entry.launches][:, None] + np.arange(len(entry.template.rows))
        _fill(columns, trace, replays.rows[entry.launches], rows, entry, merged)
        joined = np.flatnonzero(entry.join.launch_of >= 0)
        captured = entry.join.launch_of[joined]
        events = np.array([replays.events[launch] for launch in entry.launches.tolist()])[:, joined]
        owners = rows[:, entry.template.owners[captured]]
        is_op = entry.graph.ops[captured] >= 0  # others were launched outside any op, as they say of themselves
        op[events[:, is_op]] = owners[:, is_op]
        contexts.append((events.ravel(), owners.ravel()))
        merged.set_geometry(geometry, events, entry.graph, captured)
        collectives.append(_collectives(entry, rows))
    new = pl.DataFrame({name: pl.Series(values).cast(EVENT_COLUMNS[name]) for name, values in columns.items()})
    with_ops = trace.with_columns(op=op, geometry=geometry)
    events_of, owner_of = (np.concatenate(parts) for parts in zip(*contexts, strict=True))
    return replace(
        with_ops,
        names=merged.names,
        specs=merged.specs(),
        geometries=merged.all_geometries(),
        lanes=pl.concat([trace.lanes, pl.DataFrame([(LANE,) * 4], SIDE_FRAMES["lanes"], orient="row")]),
        events=pl.concat([with_ops.events, new]),
        frames=_more(trace.frames, "frames", columns["id"], columns["parent"]),
        contexts=_more(trace.contexts, "contexts", events_of, owner_of),
        collectives=pl.concat([trace.collectives, *collectives]),
    )


def _fill(columns: dict[str, Ints], trace: Trace, launches: Ints, rows: Ints, entry: Graft, merged: _Merged) -> None:
    """The columns of new rows: a line of `rows` per launch, an entry per row of the template."""
    source, template = entry.graph.capture.trace, entry.template
    at = rows - len(trace)

    def of_launch(name: str) -> Ints:
        return np.broadcast_to(trace.ints(name)[launches].astype(np.int64)[:, None], rows.shape)

    columns["id"][at] = rows
    columns["kind"][at] = source.ints("kind")[template.rows]
    columns["name"][at] = merged.name_codes(source)[source.ints("name")[template.rows]]
    columns["start_ns"][at] = of_launch("start_ns")
    columns["dur_ns"][at] = 0
    columns["lane"][at] = len(trace.lanes)
    columns["step"][at] = of_launch("step")
    columns["depth"][at] = of_launch("depth") + 1 + template.depth
    if entry.join.with_shapes:
        columns["spec"][at] = merged.spec_codes(source)[source.ints("spec")[template.rows]]
    outer = rows[:, np.maximum(template.parent, 0)]
    columns["parent"][at] = np.where(template.parent >= 0, outer, launches[:, None])
    columns["forward"][at] = np.where(template.forward >= 0, rows[:, np.maximum(template.forward, 0)], NONE)


def _collectives(entry: Graft, rows: Ints) -> pl.DataFrame:
    """What the captured collectives of each replay move."""
    described = entry.graph.capture.trace.collectives
    places = np.searchsorted(entry.template.rows, described["id"].to_numpy())
    inside = places < len(entry.template.rows)
    inside[inside] = entry.template.rows[places[inside]] == described["id"].to_numpy()[inside]
    own = described.filter(pl.Series(inside))
    parts = (
        [own.with_columns(pl.Series("id", line[places[inside]], dtype=pl.UInt32)) for line in rows] if len(own) else []
    )
    return pl.concat(parts) if parts else described.clear()


def _more(frame: pl.DataFrame, name: str, ids: Ints, values: Ints) -> pl.DataFrame:
    columns = zip(SIDE_FRAMES[name].items(), (ids, values), strict=True)
    return pl.concat([frame, pl.DataFrame({column: pl.Series(part).cast(kind) for (column, kind), part in columns})])


class _Merged:
    """Names, shapes and geometries of the trace with those of its captures behind them."""

    def __init__(self, trace: Trace) -> None:
        self.names = list(trace.names)
        self._code_of_name = {name: code for code, name in enumerate(trace.names)}
        # Captures in the trace itself have its own codes.
        self._names: dict[int, Ints] = {id(trace): np.arange(len(trace.names))}
        self._spec_frames = [trace.specs]
        self._specs: dict[int, Ints] = {id(trace): np.append(np.arange(len(trace.specs)), NONE)}
        self._geometries = trace.geometries
        self._is_known = np.append((trace.geometries["grid"].str.len_bytes() > 0).to_numpy(), False)
        self._new_geometries: dict[LaunchGeometry, int] = {}

    def name_codes(self, source: Trace) -> Ints:
        if id(source) not in self._names:
            codes = []
            for name in source.names:
                code = self._code_of_name.setdefault(name, len(self.names))
                if code == len(self.names):
                    self.names.append(name)
                codes.append(code)
            self._names[id(source)] = np.array(codes, np.int64)
        return self._names[id(source)]

    def spec_codes(self, source: Trace) -> Ints:
        """-1, for none, stays so."""
        if id(source) not in self._specs:
            offset = sum(map(len, self._spec_frames))
            self._specs[id(source)] = np.append(offset + np.arange(len(source.specs)), NONE)
            self._spec_frames.append(source.specs)
        return self._specs[id(source)]

    def specs(self) -> pl.DataFrame:
        return pl.concat(self._spec_frames)

    def set_geometry(self, geometry: Ints, events: Ints, graph: CapturedGraph, captured: Ints) -> None:
        """The grid of a captured launch, for GPU events that have none: ROCm does not record it inside graphs."""
        trace = graph.capture.trace
        correlations = trace.ints("correlation")[graph.launches[captured]].tolist()
        recorded = [graph.capture.launches.get(correlation) for correlation in correlations]
        codes = np.array(
            [NONE if entry is None else self._geometry_code(entry.geometry) for entry in recorded], np.int64
        )
        unknown: Bools = ~self._is_known[geometry[events]]
        geometry[events] = np.where(unknown & (codes >= 0), codes, geometry[events])

    def _geometry_code(self, geometry: LaunchGeometry) -> int:
        if not geometry.grid:
            return NONE
        return self._new_geometries.setdefault(geometry, len(self._geometries) + len(self._new_geometries))

    def all_geometries(self) -> pl.DataFrame:
        new = pl.DataFrame(list(self._new_geometries), SIDE_FRAMES["geometries"], orient="row")
        return pl.concat([self._geometries, new])
