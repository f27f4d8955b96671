"""Recorded call paths: the parents that were recorded, the op of each GPU event, marks of the backward pass."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from warplens.analyses.trees import call_tree
from warplens.model.builder import TraceBuilder
from warplens.model.quality import MESSAGES
from warplens.model.trace import Meta, Trace
from warplens.passes import run_passes
from warplens.passes.context import BACKWARD, apply_contexts
from warplens.passes.survey import OWN_WORDS
from warplens.profiles.trace import Profile
from warplens.readers.xplane.scopes import BACKWARD_MARK

Event = tuple[str, str, int | None, int, int]
EVENTS: tuple[Event, ...] = (
    # kind, name, start, duration, lane
    ("op", "call", 0, 100_000, 0),
    ("runtime", "cudaGraphLaunch", 10_000, 5_000, 0),
    ("python", "model.py(3): attend", 0, 0, 1),
    ("annotation", "layer", 0, 0, 1),
    ("op", "dot", 0, 0, 1),
    ("other", "(backward)", 0, 0, 1),
    ("op", "dot", 0, 0, 1),
    ("kernel", "k_forward", 20_000, 3_000, 2),
    ("kernel", "k_backward", 30_000, 5_000, 2),
    ("kernel", "k_library", 40_000, 7_000, 2),
)
FRAMES = ((2, 0, ""), (3, 2, ""), (4, 3, "forward"), (5, 3, ""), (6, 5, "backward"))
CONTEXTS = ((7, 4), (8, 6))


def builder(events: tuple[Event, ...] = EVENTS, *, with_callers: bool = True) -> TraceBuilder:
    """Without callers, what would be one is an event of its lane."""
    made = TraceBuilder()
    lanes = [made.lanes[process, thread] for process, thread in (("host", 1), ("host", 2), ("gpu", 0))]
    frames = {event: (parent, instance) for event, parent, instance in FRAMES} if with_callers else {}
    for number, (kind, name, start, duration, lane) in enumerate(events):
        if number in frames:
            parent, instance = frames[number]
            made.frame(parent, kind, name, start, instance)
            continue
        is_kernel = kind == "kernel"
        made.add(
            kind,
            name,
            start,
            duration,
            lane=lanes[lane],
            device=0 if is_kernel else -1,
            stream=7 if is_kernel else -1,
            correlation=5 if kind in ("kernel", "runtime") else -1,
        )
    for event, frame in CONTEXTS if with_callers else ():
        made.add_context(event, frame)
    return made


def opened(made: TraceBuilder | None = None, **meta: str) -> Trace:
    facts = Meta(source="test", format=meta.get("format", "xplane"))
    return run_passes((made or builder()).build(facts), check_each=True)


def named(trace: Trace, row: int) -> str:
    return trace.names[int(trace.ints("name")[row])] if row >= 0 else ""


def row_of(trace: Trace, name: str) -> int:
    return int(np.flatnonzero(trace.ints("name") == trace.names.index(name))[0])


def test_gpu_work_is_booked_on_its_innermost_frame_also_inside_a_graph_launch() -> None:
    trace = opened()
    table = Profile(trace).table("kernels").frame
    assert dict(table.select("kernel", "op").rows()) == {
        "k_forward": "dot",
        "k_backward": "dot",
        "k_library": "cudaGraphLaunch",
    }
    note = next(note for note in trace.quality.notes if note.code == "no_hlo_op")
    assert note.count == 1


def test_frames_have_the_parents_that_were_recorded() -> None:
    trace = opened()
    parent, depth = trace.ints("parent"), trace.ints("depth")
    assert named(trace, int(parent[row_of(trace, "layer")])) == "model.py(3): attend"
    assert named(trace, int(parent[row_of(trace, "model.py(3): attend")])) == "call"
    assert int(depth[row_of(trace, "layer")]) == 2


def test_what_lies_below_a_mark_is_the_backward_pass_of_what_is_above_it() -> None:
    trace = opened()
    tree = Profile(trace).tree()
    paths = {tuple(tree.path(node)): int(tree.total_ns[node]) for node in range(len(tree))}
    forward = ("call", "model.py(3): attend", "layer")
    assert paths[forward] == 8000
    assert paths[(*forward, "dot", "k_forward")] == 3000
    assert paths[(*forward, "(backward)", "dot", "k_backward")] == 5000
    lines = Profile(trace).table("python_lines").frame
    row = lines.row(by_predicate=pl.col("function") == "attend", named=True)
    assert (row["forward_us"], row["backward_us"]) == (3.0, 5.0)
    assert "(backward)" not in Profile(trace).table("ops").frame["op"].to_list()


def test_a_trace_without_recorded_paths_is_left_as_it_is() -> None:
    trace = builder(with_callers=False).build(Meta(source="test", format="kineto"))
    assert apply_contexts(trace) is trace


def test_frames_whose_parent_was_lost_stand_for_themselves() -> None:
    lost = tuple((*event[:2], None, *event[3:]) if event[1] == "call" else event for event in EVENTS)
    trace = opened(builder(lost))
    assert int(trace.ints("parent")[row_of(trace, "model.py(3): attend")]) == -1


def test_the_mark_is_one_and_the_same_everywhere() -> None:
    assert BACKWARD == BACKWARD_MARK[1] == call_tree.BACKWARD


@pytest.mark.parametrize("code", sorted({code for words in OWN_WORDS.values() for code in words.values() if code}))
def test_notes_for_other_profilers_exist_and_do_not_speak_of_pytorch_s(code: str) -> None:
    message = MESSAGES[code][1]
    assert "with_stack" not in message and "prof.step" not in message and "record_shapes" not in message


def test_notes_go_by_the_format() -> None:
    def notes(format: str) -> set[str]:
        events = tuple(event for event in EVENTS if event[0] != "python")
        trace = opened(builder(events, with_callers=False), format=format)
        return {note.code for note in trace.quality.notes}

    assert {"no_stacks", "no_steps", "no_shapes"} <= notes("kineto")
    assert {"no_python", "no_step_ranges", "no_op_shapes"} <= notes("nsys")
    assert {"no_python_tracer", "no_step_annotations", "no_op_shapes"} <= notes("xplane")
