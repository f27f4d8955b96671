"""Recorded call paths: the parents that were recorded, the op of each GPU event, marks of the backward pass."""

from __future__ import annotations

from collections import Counter

import numpy as np
import polars as pl
import pytest

from warplens.analyses.trees import call_tree
from warplens.model.builder import RawColumns, build
from warplens.model.kinds import CODE
from warplens.model.quality import MESSAGES
from warplens.model.trace import SIDE_FRAMES, Meta, Trace
from warplens.passes import run_passes
from warplens.passes.context import BACKWARD, apply_contexts
from warplens.passes.survey import OWN_WORDS
from warplens.profiles.trace import Profile
from warplens.readers.xplane.scopes import BACKWARD_MARK

EVENTS = (
    # kind, name, ts, dur, lane
    ("op", "call", 0.0, 100.0, 0),
    ("runtime", "cudaGraphLaunch", 10.0, 5.0, 0),
    ("python", "model.py(3): attend", 0.0, 0.0, 1),
    ("annotation", "layer", 0.0, 0.0, 1),
    ("op", "dot", 0.0, 0.0, 1),
    ("other", "(backward)", 0.0, 0.0, 1),
    ("op", "dot", 0.0, 0.0, 1),
    ("kernel", "k_forward", 20.0, 3.0, 2),
    ("kernel", "k_backward", 30.0, 5.0, 2),
    ("kernel", "k_library", 40.0, 7.0, 2),
)
FRAMES = ((2, 0), (3, 2), (4, 3), (5, 3), (6, 5))
CONTEXTS = ((7, 4), (8, 6))


def raw(events: tuple[tuple[str, str, float, float, int], ...] = EVENTS) -> RawColumns:
    kinds, names, starts, durations, lanes = zip(*events, strict=True)
    texts = list(dict.fromkeys(names))
    on_gpu = np.array([kind == "kernel" for kind in kinds])
    launched = np.array([kind in ("kernel", "runtime") for kind in kinds])
    return RawColumns(
        kind=np.array([CODE[kind] for kind in kinds], np.int64),
        ts_us=np.array(starts),
        dur_us=np.array(durations),
        lane=np.array(lanes, np.int32),
        name=np.array([texts.index(name) for name in names], np.int32),
        names=texts,
        lanes=[("host", 1), ("recorded callers", 0), ("gpu", 0)],
        ints={
            "device": np.where(on_gpu, 0, -1),
            "stream": np.where(on_gpu, 7, -1),
            "correlation": np.where(launched, 5, -1),
        },
        sides={
            "frames": pl.DataFrame(FRAMES, schema=SIDE_FRAMES["frames"], orient="row"),
            "contexts": pl.DataFrame(CONTEXTS, schema=SIDE_FRAMES["contexts"], orient="row"),
        },
    )


def opened(columns: RawColumns | None = None, **meta: str) -> Trace:
    facts = Meta(source="test", format=meta.get("format", "xplane"))
    return run_passes(build(columns or raw(), facts, Counter(), []), check_each=True)


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
    columns = raw()
    columns.sides = {}
    trace = build(columns, Meta(source="test", format="kineto"), Counter(), [])
    assert apply_contexts(trace) is trace


def test_frames_whose_parent_was_lost_stand_for_themselves() -> None:
    lost = tuple((*event[:2], float("nan"), *event[3:]) if event[1] == "call" else event for event in EVENTS)
    trace = opened(raw(lost))
    assert int(trace.ints("parent")[row_of(trace, "model.py(3): attend")]) == -1


def test_the_mark_is_one_and_the_same_everywhere() -> None:
    assert BACKWARD == BACKWARD_MARK[1] == call_tree.BACKWARD


@pytest.mark.parametrize("code", sorted({code for words in OWN_WORDS.values() for code in words.values() if code}))
def test_notes_for_other_profilers_exist_and_do_not_speak_of_pytorch_s(code: str) -> None:
    message = MESSAGES[code][1]
    assert "with_stack" not in message and "prof.step" not in message and "record_shapes" not in message


def test_notes_go_by_the_format() -> None:
    def notes(format: str) -> set[str]:
        columns = raw(tuple(event for event in EVENTS if event[0] != "python"))
        columns.sides = {}
        return {note.code for note in opened(columns, format=format).quality.notes}

    assert {"no_stacks", "no_steps", "no_shapes"} <= notes("kineto")
    assert {"no_python", "no_step_ranges", "no_op_shapes"} <= notes("nsys")
    assert {"no_python_tracer", "no_step_annotations", "no_op_shapes"} <= notes("xplane")
