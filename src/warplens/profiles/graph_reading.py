"""Graphs of a trace joined with their captures: those in the trace itself, those given, and those of its bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from warplens.model.quality import Note
from warplens.model.trace import Trace
from warplens.passes.survey import GRAPH_LAUNCH
from warplens.readers import inputs
from warplens_run.base.errors import WarplensError

if TYPE_CHECKING:
    from warplens.model.graph_records import CaptureIndex, CaptureTrace
    from warplens.passes.graphs.families import FamilyWords
    from warplens.readers.shared.graph_files import GraphFiles


def with_graphs(opened: inputs.Input, trace: Trace) -> Trace:
    """The linked trace with its graphs joined; traces that launch none cost nothing but a look at a few names."""
    codes = np.unique(trace.ints("name")[trace.runtime_rows]).tolist()
    if not any(GRAPH_LAUNCH in trace.names[code] for code in codes):
        return _unused(trace, _no_launches(trace)) if opened.graphs else trace
    from warplens.passes.graphs.join import graph_events

    if len(graph_events(trace)) == 0:
        return _unused(trace, "no GPU event of the trace comes from a graph launch") if opened.graphs else trace
    return _joined(opened, trace)


def _no_launches(trace: Trace) -> str:
    from warplens.passes.graphs.captures import has_captures

    swapped = ", but captures them: are the trace and its capture swapped?" if has_captures(trace) else ""
    return f"the trace launches no graphs{swapped}"


def _joined(opened: inputs.Input, trace: Trace) -> Trace:
    from warplens.model.graph_records import CaptureIndex, CaptureTrace
    from warplens.passes.graphs.captures import has_captures
    from warplens.passes.graphs.join import GraphSources, graph_events, join
    from warplens.readers.graph_captures import of_bundle
    from warplens.readers.kineto.graph_calls import captured_launches, graph_nodes

    files = [*opened.graphs, *([of_bundle(opened.bundle)] if opened.bundle is not None else [])]
    notes: list[Note] = []
    launched = len(np.unique(trace.ints("launch")[graph_events(trace)]))
    captures = list(_captures(opened, files, launched, notes))
    is_captured_here = has_captures(trace)
    if opened.graphs and not any(has_captures(capture.trace) for capture in captures):
        notes.append(Note("graph_capture_unused", detail="nothing that was given contains the capture of a graph"))
    sources = GraphSources(tuple(captures), _words())
    if captures or is_captured_here:
        text = opened.profile.unwrap()[0]
        own = [CaptureTrace(trace, captured_launches(text))] if is_captured_here else []
        indexes = [own_files.index for own_files in files if own_files.index.captures]
        index = indexes[0] if len(indexes) == 1 else CaptureIndex()
        sources = msgspec.structs.replace(
            sources, captures=(*own, *captures), nodes=graph_nodes(trace, text), index=index
        )
    joined = join(trace, sources)
    return replace(joined, quality=joined.quality.with_notes(*notes))


def _captures(
    opened: inputs.Input, files: Sequence[GraphFiles], launched: int, notes: list[Note]
) -> Iterator[CaptureTrace]:
    """The linked traces of captures; the same file given twice, or as the trace itself, counts once.

    One that cannot be read is passed over, and said, unless nothing else was given with it.
    """
    from warplens.model.graph_records import CaptureTrace
    from warplens.passes import run_passes
    from warplens.readers.graph_captures import read_capture

    seen = {opened.profile.content_hash}
    for own_files in files:
        unused = _not_replayed(own_files.index, launched)
        for name, file in own_files.files.items():
            if name in unused or file.content_hash in seen:
                continue
            seen.add(file.content_hash)
            try:
                capture, launches = read_capture(file)
            except WarplensError as error:
                if own_files.is_given and len(own_files.files) == 1:
                    raise
                notes.append(Note("graph_capture_unused", detail=f"{name}: {error.message}"))
                continue
            yield CaptureTrace(run_passes(capture), launches, name)


def _not_replayed(index: CaptureIndex, launched: int) -> set[str]:
    """Files that need not be read, where the recorder saw every launch: an engine captures a thousand graphs, and a
    recording replays some of them."""
    replayed = {record.number for record in index.replays}
    if launched > len(index.replays):
        return set()
    used = {record.file for record in index.captures if record.number in replayed}
    return {record.file for record in index.captures} - used


def _unused(trace: Trace, why: str) -> Trace:
    return replace(trace, quality=trace.quality.with_notes(Note("graph_capture_unused", detail=why)))


def _words() -> FamilyWords:
    from warplens.categories import load_categorizer, op_category
    from warplens.passes.graphs.families import FamilyWords

    def of_kernels(names: Sequence[str]) -> list[str]:
        classes = load_categorizer().classify_all(list(names))
        return [op_category("", {own.category: 1.0}) for own in classes]

    return FamilyWords(of_kernels, op_category)
