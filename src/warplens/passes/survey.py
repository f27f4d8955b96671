"""The last pass: what the linked trace records and what it lacks, as Quality notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from warplens.model.kinds import CODE
from warplens.model.quality import Note, Quality
from warplens.model.trace import Bools, Ints, Trace
from warplens_run.base.units import format_percent

LAUNCH = "Launch"
GRAPH_LAUNCH = "GraphLaunch"
MOST_NAMED: Final = 64
"""Devices that a note lists."""
OWN_WORDS: Final[dict[str, dict[str, str]]] = {
    # format: notes that give PyTorch's advice or none that fits → the note to give; "" where there is nothing to say
    "xplane": {
        "no_stacks": "no_python_tracer",
        "no_shapes": "no_op_shapes",
        "no_steps": "no_step_annotations",
        "graph_mode": "no_hlo_op",
    },
    "xla_json": {
        "no_stacks": "no_python_tracer",
        "no_shapes": "no_op_shapes",
        "no_steps": "no_step_annotations",
        "graph_mode": "no_programs",
    },
    "tensorflow": {
        "no_stacks": "no_python",
        "no_shapes": "no_op_shapes",
        "no_steps": "no_step_marks",
        "graph_mode": "no_hlo_op",
    },
    "proton": {"no_stacks": "no_python_context", "no_steps": "no_step_marks"},
    "proton_intra": {"no_gpu": "", "no_host": "", "no_steps": ""},
    "rocprofv3": {"no_stacks": "no_python", "no_shapes": "no_op_shapes", "no_steps": "no_step_ranges"},
    "rocprof": {"no_stacks": "no_python", "no_shapes": "no_op_shapes", "no_steps": "no_step_ranges"},
    "rocpd": {"no_stacks": "no_python", "no_shapes": "no_op_shapes", "no_steps": "no_step_ranges"},
    "nsys": {"no_stacks": "no_python", "no_shapes": "no_op_shapes", "no_steps": "no_step_ranges"},
    "chrome": {"no_stacks": "no_python", "no_shapes": "no_op_shapes", "no_steps": "no_step_marks"},
}


def survey(trace: Trace) -> Trace:
    notes = [*trace.quality.notes, *_host_notes(trace), *_gpu_notes(trace)]
    words = OWN_WORDS.get(trace.meta.format, {})
    fitting = [Note(words.get(note.code, note.code), note.count, note.detail) for note in notes]
    return replace(trace, quality=Quality(tuple(note for note in fitting if note.code)))


def _host_notes(trace: Trace) -> list[Note]:
    kinds = np.bincount(trace.ints("kind"), minlength=len(CODE))
    host = trace.rows_of("op", "annotation", "python", "module")
    notes = []
    # What captures of graphs add has no times either, but what it is below, the launch, has them.
    is_captured = trace.graph_launches["joined"].sum() > 0
    if len(host) and not is_captured and np.isin(host, trace.frames["id"].to_numpy()).all():
        notes.append(Note("callers_only"))
    if len(host) == 0:
        notes.append(Note("no_host"))
    # A cut file may have lost what its header says was recorded; advice to record it would be wrong.
    elif not (kinds[CODE["python"]] or kinds[CODE["module"]] or "with_stack" in trace.meta.facts):
        notes.append(Note("no_stacks"))
    has_shapes = "record_shapes" in trace.meta.facts or (trace.specs["input_dims"].str.len_bytes() > 0).any()
    if kinds[CODE["op"]] and not has_shapes:
        notes.append(Note("no_shapes"))
    return notes


def _gpu_notes(trace: Trace) -> list[Note]:
    gpu = trace.gpu_rows
    if len(gpu) == 0:
        ranges = len(trace.rows_of("counter"))
        return [Note("counters_only", ranges)] if ranges else [*_launch_notes(trace), Note("no_gpu")]
    launch, op = trace.ints("launch")[gpu], trace.ints("op")[gpu]
    # A recorded call path names the op inside a graph too.
    graph = is_graph_launch(trace, launch) & ~np.isin(gpu, trace.contexts["id"].to_numpy())
    unlinked = (launch < 0) & (op < 0)
    outside = (launch >= 0) & (op < 0) & ~graph
    has_ops = len(trace.rows_of("op")) > 0
    notes = [
        _share(trace, "unlinked_kernels", gpu[unlinked]),
        _share(trace, "no_op_kernels", gpu[outside] if has_ops else gpu[:0]),
        _share(trace, "graph_mode", gpu[graph]),
    ]
    overlapping = count_overlaps(trace, gpu)
    if overlapping:
        notes.append(Note("overlap", overlapping))
    return [note for note in notes if note.count] + _missing_devices(trace, gpu)


def _launch_notes(trace: Trace) -> list[Note]:
    """Of a trace without GPU work, the launches: they show that there was some."""
    names = np.bincount(trace.ints("name")[trace.rows_of("runtime")], minlength=len(trace.names))
    launches = sum(int(names[code]) for code in np.flatnonzero(names).tolist() if LAUNCH in trace.names[code])
    return [Note("launches_only", launches)] if launches else []


def is_graph_launch(trace: Trace, launch: Ints) -> Bools:
    """Which of these launches replay a captured graph."""
    is_graph = np.zeros(len(trace.names), bool)
    is_graph[trace.host_names] = [GRAPH_LAUNCH in trace.names[code] for code in trace.host_names.tolist()]
    names = trace.ints("name")[np.maximum(launch, 0)]
    in_graph: Bools = is_graph[names] & (launch >= 0)
    return in_graph


def count_overlaps(trace: Trace, gpu: Ints) -> int:
    """GPU events that start before the previous one on their stream has ended."""
    lane, start = trace.ints("lane")[gpu], trace.ints("start_ns")[gpu]
    end = start + trace.ints("dur_ns")[gpu]
    overlapping = 0
    for own in np.split(np.arange(len(gpu)), np.flatnonzero(np.diff(lane)) + 1):
        latest = np.maximum.accumulate(end[own])
        overlapping += int((start[own][1:] < latest[:-1]).sum())
    return overlapping


def _share(trace: Trace, code: str, rows: Ints) -> Note:
    duration = trace.ints("dur_ns")
    whole = max(1, int(duration[trace.gpu_rows].sum()))
    return Note(code, len(rows), format_percent(100 * int(duration[rows].sum()) / whole))


def _missing_devices(trace: Trace, gpu: Ints) -> list[Note]:
    used = set(np.unique(trace.ints("device")[gpu]).tolist())
    listed = sorted(device.id for device in trace.meta.devices)
    missing = [device for device in listed if device not in used]
    if not missing or (not trace.meta.distributed and len(listed) == 1):
        return []
    numbers = [str(device) for device in missing[:MOST_NAMED]]
    if len(missing) > MOST_NAMED:
        numbers.append(f"{len(missing) - MOST_NAMED:,} more")
    return [Note("missing_devices", len(missing), ("GPU " if len(missing) == 1 else "GPUs ") + ", ".join(numbers))]
