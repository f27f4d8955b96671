"""Kernels of graph launches get the ops of the graph's capture, as if they had been launched one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np
import polars as pl

from warplens.model.graph_records import CaptureIndex, CaptureTrace, GraphNodes
from warplens.model.kinds import NONE
from warplens.model.quality import Note
from warplens.model.trace import SIDE_FRAMES, Ints, Trace
from warplens.passes.climb import climb
from warplens.passes.graphs.aligning import MOST_ODD, Nodes, align
from warplens.passes.graphs.captures import CapturedGraph, find_captures
from warplens.passes.graphs.certain import known_captures
from warplens.passes.graphs.choosing import Choice, choose, likeness, rivals
from warplens.passes.graphs.families import FamilyWords
from warplens.passes.graphs.grafting import Graft, Join, graft
from warplens.passes.graphs.nodes import NodeMaker
from warplens.passes.graphs.replays import Replays, find_replays
from warplens.passes.graphs.templates import DETAILS, Template, template_of
from warplens.passes.survey import is_graph_launch
from warplens_run.base.units import format_percent

LEAST_SHARE: Final = 0.5
"""Of the GPU events of a launch that must have a place in the capture, or nothing of it is believed."""
LEAST_UNNAMED_SHARE: Final = 0.8
"""The same where the capture does not name its kernels."""
MOST_ROWS: Final = 2_000_000
"""Rows that are added with all details; for more, some are left out (see `templates`)."""
NO_CAPTURE: Final = "no capture of it is given"
UNRECORDED: Final = "its capture was not recorded"
TOO_LONG: Final = "too many kernels that differ from the capture's"


class GraphSources(msgspec.Struct, frozen=True):
    """Everything besides the trace that says what its graphs are."""

    captures: tuple[CaptureTrace, ...]
    words: FamilyWords
    nodes: GraphNodes = msgspec.field(default_factory=GraphNodes)
    index: CaptureIndex = msgspec.field(default_factory=CaptureIndex)


class _Outcome(msgspec.Struct, frozen=True):
    join: Join | None
    why: str = ""


def graph_events(trace: Trace) -> Ints:
    """Rows of GPU events that launches of graphs ran and no recorded call path explains."""
    gpu = trace.gpu_rows
    in_graph = is_graph_launch(trace, trace.ints("launch")[gpu])
    if len(trace.contexts):
        in_graph &= ~np.isin(gpu, trace.contexts["id"].to_numpy())
    return gpu[in_graph]


def join(trace: Trace, sources: GraphSources) -> Trace:
    """The trace with the calls of captures below the launches of graphs; `graph_launches` says how it went."""
    in_graph = graph_events(trace)
    if not len(in_graph):
        return trace
    replays = find_replays(trace, in_graph, sources.nodes)
    graphs, incomplete = _all_captures(sources.captures)
    outcomes, choice = _outcomes(trace, replays, graphs, sources)
    joined = _grafted(trace, replays, graphs, [outcome.join for outcome in outcomes])
    launches = _launches_frame(trace, replays, graphs, outcomes, choice)
    notes = [*_notes(launches, bool(graphs)), *([Note("open_captures", incomplete)] if incomplete else [])]
    return replace(joined, graph_launches=launches, quality=joined.quality.with_notes(*notes))


def _all_captures(captures: Iterable[CaptureTrace]) -> tuple[list[CapturedGraph], int]:
    graphs: list[CapturedGraph] = []
    incomplete = families = 0
    for capture in captures:
        own, lost = find_captures(capture)
        graphs += [msgspec.structs.replace(graph, family=graph.family + families) for graph in own]
        incomplete += lost
        families = max((graph.family + 1 for graph in graphs), default=0)
    graphs.sort(key=lambda graph: (graph.family, graph.place))
    return graphs, incomplete


def _outcomes(
    trace: Trace, replays: Replays, graphs: list[CapturedGraph], sources: GraphSources
) -> tuple[list[_Outcome], Choice | None]:
    """How each launch is joined, or why not."""
    if not graphs:
        return [_Outcome(None, NO_CAPTURE)] * len(replays), None
    maker = NodeMaker(trace, graphs, sources.words)
    events = [replays.first_of(number) for number in range(int(replays.sequence.max()) + 1)]
    sequences = [maker.of_events(rows) for rows in events]
    captured = [maker.of_graph(graph) for graph in graphs]
    alike = likeness(sequences, captured)
    known = known_captures(trace, replays, graphs, sources.index)
    choice = choose(replays, trace.ints("lane")[replays.rows], graphs, alike, known)
    tried: dict[tuple[int, int], _Outcome] = {}
    outcomes = []
    for launch, (sequence, number) in enumerate(zip(replays.sequence.tolist(), choice.capture.tolist(), strict=True)):
        if number < 0:
            why = UNRECORDED if choice.is_unrecorded[launch] else _unlike(float(alike[sequence].max()))
            outcomes.append(_Outcome(None, why))
            continue
        if (sequence, number) not in tried:
            tried[sequence, number] = _aligned(number, captured[number], sequences[sequence])
        outcome = tried[sequence, number]
        others = rivals(choice, launch, sequence, graphs, int(replays.batch[launch]))
        outcomes.append(_with_doubts(outcome, graphs, number, others) if others else outcome)
    return outcomes, choice


def _unlike(best: float) -> str:
    return f"no capture has its kernels (at most {format_percent(100 * best)} of them)"


def _aligned(number: int, captured: Nodes, sequence: Nodes) -> _Outcome:
    alignment = align(captured, sequence)
    if alignment is None:
        return _Outcome(None, TOO_LONG)
    matched = int((alignment.launch_of >= 0).sum())
    least = LEAST_SHARE if (captured.names >= 0).any() else LEAST_UNNAMED_SHARE
    if matched < least * len(sequence):
        return _Outcome(None, f"only {matched:,} of {len(sequence):,} kernels match the capture")
    if alignment.odd > MOST_ODD * max(1, alignment.informative):
        return _Outcome(None, f"{alignment.odd:,} kernels do not fit the ops of the capture")
    return _Outcome(Join(number, alignment.launch_of))


def _with_doubts(outcome: _Outcome, graphs: list[CapturedGraph], number: int, others: list[int]) -> _Outcome:
    """Captures of several sizes fit and nothing says which it is: shapes that differ are not given."""
    if outcome.join is None:
        return outcome
    own = graphs[number]
    sizes = ", ".join(dict.fromkeys(graphs[other].title for other in (number, *others[:3])))
    if any(_op_names(graphs[other]) != _op_names(own) for other in others):
        return _Outcome(None, f"several captures fit equally ({sizes})")
    if any(_shapes(graphs[other]) != _shapes(own) for other in others):
        return _Outcome(outcome.join._replace(with_shapes=False), f"no shapes: several captures fit equally ({sizes})")
    return outcome


def _op_names(graph: CapturedGraph) -> list[str]:
    trace = graph.capture.trace
    names = trace.ints("name")[graph.ops]
    return [trace.names[name] if op >= 0 else "" for name, op in zip(names.tolist(), graph.ops.tolist(), strict=True)]


def _shapes(graph: CapturedGraph) -> list[tuple[object, ...]]:
    trace = graph.capture.trace
    specs = np.where(graph.ops >= 0, trace.ints("spec")[graph.ops], NONE)
    return [trace.specs.row(spec) if spec >= 0 else () for spec in specs.tolist()]


def _grafted(trace: Trace, replays: Replays, graphs: list[CapturedGraph], joins: list[Join | None]) -> Trace:
    if not any(joins):
        return trace
    has_callers = climb(replays.rows, trace.ints("parent"), trace.is_kind("module", "python")) >= 0
    ways: dict[tuple[int, bytes, bool, bool], list[int]] = {}
    for launch, own in enumerate(joins):
        if own is not None:
            key = own.capture, own.launch_of.tobytes(), own.with_shapes, bool(has_callers[launch])
            ways.setdefault(key, []).append(launch)
    for details in DETAILS:
        templates: dict[tuple[int, bool], Template] = {}
        for capture, _, _, called in ways:
            if (capture, called) not in templates:
                templates[capture, called] = template_of(graphs[capture], details, with_callers=not called)
        rows = sum(len(templates[key[0], key[3]].rows) * len(launches) for key, launches in ways.items())
        if rows <= MOST_ROWS:
            break
    grafts = []
    for key, launches in ways.items():
        own = joins[launches[0]]
        assert own is not None
        grafts.append(Graft(np.array(launches), own, graphs[key[0]], templates[key[0], key[3]]))
    grafted = graft(trace, replays, grafts)
    return replace(grafted, quality=grafted.quality.with_notes(Note("graph_frames"))) if details else grafted


def _launches_frame(
    trace: Trace, replays: Replays, graphs: list[CapturedGraph], outcomes: list[_Outcome], choice: Choice | None
) -> pl.DataFrame:
    duration = trace.ints("dur_ns")
    rows = []
    for launch, outcome in enumerate(outcomes):
        events = replays.events[launch]
        joined = np.zeros(len(events), bool) if outcome.join is None else outcome.join.launch_of >= 0
        number = NONE if choice is None else int(choice.capture[launch])
        title, file = (graphs[number].title, graphs[number].capture.name) if number >= 0 else ("", "")
        times = int(duration[events].sum()), int(duration[events][joined].sum())
        rows.append((int(replays.rows[launch]), int(replays.sequence[launch]), title, file, len(events),
                     int(joined.sum()), *times, outcome.why))  # fmt: skip
    return pl.DataFrame(rows, SIDE_FRAMES["graph_launches"], orient="row")


def _notes(launches: pl.DataFrame, has_captures: bool) -> list[Note]:
    if not has_captures:
        return []
    joined, whole = int(launches["joined_ns"].sum()), max(1, int(launches["gpu_ns"].sum()))
    notes = []
    if launches["joined"].sum():
        notes.append(Note("graphs_joined", int(launches["joined"].sum()), format_percent(100 * joined / whole)))
    unjoined = launches.filter(pl.col("why") != "")
    if len(unjoined):
        reasons = unjoined.group_by("why", maintain_order=True).len().sort("len", descending=True)
        shown = "; ".join(reasons["why"].head(3).to_list())
        notes.append(Note("graphs_unjoined", len(unjoined), shown))
    return notes
