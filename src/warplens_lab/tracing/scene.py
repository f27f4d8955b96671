"""A trace as a page draws it: the records of one launch or of all, values within bounds, the kernel's text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from warplens_lab.scenes.kernel_scene import (
    Ints,
    KernelScene,
    Numbers,
    SceneEvents,
    SceneLaunch,
    SceneTensor,
    TensorInfo,
)
from warplens_lab.tracing.records import (
    FAULT_KINDS,
    NO_TENSOR,
    Array,
    Events,
    KernelTrace,
    TracedLaunch,
    is_elementwise,
)
from warplens_lab.tracing.watching.operands import operands_of
from warplens_lab.tracing.watching.source_text import sources_of
from warplens_lab.tracing.watching.values import decoded
from warplens_run.base.errors import UsageError

MOST_EVENTS: Final = 1_000_000
"""About 6 MB in the page."""
MOST_TENSOR_VALUES: Final = 2_000_000
MOST_EVENT_VALUES: Final = 500_000
"""Random numbers of 4 bytes take 5.3 in the page."""
TOTALS: Final = (
    "true_bytes", "attempted_bytes", "loaded_bytes", "stored_bytes", "atomic_bytes", "unique_bytes", "shared_bytes",
    "active_lanes_percent", "masked_loads_percent", "masked_stores_percent", "sector_percent", "flop", "dot_flop",
    "reduce_flop", "elementwise_flop", "flop_per_byte", "flop_per_unique_byte",
)  # fmt: skip


@dataclass
class _Room:
    """What the page still has room for."""

    events: int = MOST_EVENTS
    tensor_values: int = MOST_TENSOR_VALUES
    event_values: int = MOST_EVENT_VALUES
    notes: list[str] = field(default_factory=list)


def kernel_scene(trace: KernelTrace, launch: int | None = None) -> KernelScene:
    """All launches, or one by its number. What is too much for a page is omitted, and a note says so."""
    if launch is not None and not 0 <= launch < len(trace.launches):
        raise UsageError(f"no such launch: {launch} (the trace has {len(trace.launches)})")
    chosen = trace.launches if launch is None else (trace.launches[launch],)
    room = _Room()
    launches = tuple(_launch(traced, room) for traced in chosen)
    names = ", ".join(dict.fromkeys(traced.kernel for traced in chosen)) or "no launch"
    return KernelScene(names, trace.triton, trace.mode, _sampling(trace), launches, tuple(room.notes), FAULT_KINDS)


def _sampling(trace: KernelTrace) -> str:
    if trace.sample is None:
        return ""
    amount = f"{int(trace.sample)} programs" if trace.sample >= 1 else f"{trace.sample:.3g} of the programs"
    return f"a sample: {amount} of each launch, chosen by seed {trace.seed}"


def _launch(launch: TracedLaunch, room: _Room) -> SceneLaunch:
    sources, missing = sources_of(launch)
    written = {row.tensor for row in launch.accesses if row.op != "load"}
    changed = {launch.tensors[at].storage for at in written if at != NO_TENSOR}
    tensors = tuple(_tensors(launch, changed, room))
    events = _events(launch, tensors, room)
    file, line, _ = launch.called_from[-1] if launch.called_from else ("", 0, "")
    return SceneLaunch(
        index=launch.index,
        kernel=launch.kernel,
        file=launch.file,
        line=launch.line,
        called_from=f"{Path(file).name}:{line}" if file else "",
        grid=launch.grid,
        traced_programs=launch.traced_programs,
        constants=launch.constants,
        totals={name: getattr(launch, name) for name in TOTALS},
        tensors=tensors,
        sites=launch.sites,
        operands=_operands(launch),
        sources=sources,
        accesses=launch.accesses,
        reuse=launch.reuse,
        faults=launch.faults,
        numbers=launch.numbers,
        patterns=launch.patterns if events else (),
        masks=launch.masks if events else (),
        events=events,
        notes=(*launch.notes, *missing),
    )


def _operands(launch: TracedLaunch) -> tuple[tuple[tuple[int, ...], ...], ...]:
    loading = [row.site for row in launch.accesses if row.op == "load"]
    return tuple(operands_of(launch.sites, loading))


def _tensors(launch: TracedLaunch, changed: set[int], room: _Room) -> Iterator[SceneTensor]:
    for number, info in enumerate(launch.tensors):
        written = info.storage in changed
        before = _values_that_fit(launch.values.before, number, info.dtype, room) if launch.values else None
        after = _values_that_fit(launch.values.after, number, info.dtype, room) if launch.values and written else None
        if launch.values and (before is None or (written and after is None)):
            _note(room, f"launch {launch.index}: the values of {info.name} are omitted: the page is full")
        yield SceneTensor(**_fields(info), written=written, before=before, after=after)


def _fields(record: TensorInfo | Events) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


def _values_that_fit(arrays: tuple[Array, ...], number: int, dtype: str, room: _Room) -> Numbers | None:
    if number >= len(arrays) or arrays[number].size > room.tensor_values:
        return None
    room.tensor_values -= arrays[number].size
    return decoded(arrays[number], dtype).reshape(-1)


def _events(launch: TracedLaunch, tensors: tuple[SceneTensor, ...], room: _Room) -> SceneEvents | None:
    events = launch.events
    if events is None:
        return None
    kept = np.ones(len(events), bool)
    if len(events) > room.events:
        kept = ~np.isin(events.op, [at for at, op in enumerate(events.ops) if is_elementwise(op)])
        fits = int(kept.sum()) <= room.events
        kept, what = (kept, "elementwise operations") if fits else (np.zeros_like(kept), "operations")
        left_out = len(events) - int(kept.sum())
        _note(room, f"launch {launch.index}: its {left_out:,} {what} are omitted; open it alone, or trace a sample")
        if not fits:
            return None
    room.events -= int(kept.sum())
    number, values = _values(launch, events, tensors, room)
    columns = _fields(events)
    rows = {name: column[kept] for name, column in columns.items() if isinstance(column, np.ndarray)}
    return SceneEvents(**{**columns, **rows}, value=number[kept], values=values)


def _values(
    launch: TracedLaunch, events: Events, tensors: tuple[SceneTensor, ...], room: _Room
) -> tuple[Ints, tuple[Numbers, ...]]:
    """Values of single operations, program by program until the page is full.

    What was loaded from a tensor that nothing writes is in the tensor already.
    """
    number = np.full(len(events), -1, np.int64)
    arrays: list[Numbers] = []
    if launch.values is None or len(launch.values.events) != len(events):
        return number, ()
    in_tensor = [tensor.before is not None and not tensor.written for tensor in tensors]
    left_out = 0
    for row, (op, tensor) in enumerate(zip(events.op.tolist(), events.tensor.tolist(), strict=True)):
        if events.ops[op] == "load" and tensor != NO_TENSOR and in_tensor[tensor]:
            continue
        dtype, data = launch.values.events[row]
        if not data.size:
            continue
        if data.size > room.event_values:
            left_out += 1
            continue
        room.event_values -= data.size
        number[row] = len(arrays)
        arrays.append(decoded(data, dtype).reshape(-1))
    if left_out:
        _note(room, f"launch {launch.index}: values of {left_out:,} operations are omitted: the page is full")
    return number, tuple(arrays)


def _note(room: _Room, text: str) -> None:
    room.notes.append(text)
