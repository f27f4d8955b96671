"""Which elements of the script's tensors no program touched: inputs not read to their end, outputs not written.

Decided when the trace ends, over all launches that were given the memory: launches share work. Nothing is decided of a
sampled launch or one that failed. An output is memory that is stored to, an input memory that is only loaded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.records import Fault, TensorInfo, TracedLaunch
from warplens_lab.tracing.watching.dependence import depends_on_data, loop_around
from warplens_lab.tracing.watching.memory import Memory, TensorStorage
from warplens_lab.tracing.watching.places import index_text
from warplens_lab.tracing.watching.remedies import dimension_words

Flags = npt.NDArray[np.bool_]
MOST_UNITS: Final = 1 << 27
"""Larger memory is not looked at: the flags of all launches are kept until the trace ends."""
LEAST_WRITTEN: Final = 0.5
"""Memory that was defined before and is written to a smaller part is updated in place: a cache, a table."""


@dataclass
class View:
    """A tensor as it was passed; by operation, the last launch that used it so, and the argument's name there."""

    info: TensorInfo
    used: dict[str, tuple[int, str]] = field(default_factory=dict)


@dataclass
class Seen:
    """One storage over all launches."""

    reference: Any
    size: int
    unit: int
    read: Flags
    written: Flags
    undefined: Flags | None
    decided: bool = True
    views: dict[Any, View] = field(default_factory=dict)


@dataclass(frozen=True)
class Missed:
    """Elements of a view that were not touched: a box, or whole slices along one dimension."""

    words: str
    first: tuple[int, ...]
    elements: int
    axis: int
    reached: int
    """How far along that dimension all was touched."""


class Coverage:
    """Told of every launch; `faults` are what the whole trace left out, by the number of the launch."""

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}
        self._done: list[Seen] = []

    def add(self, launch: TracedLaunch, memory: Memory, *, whole: bool) -> None:
        """After a launch; `whole` is False where not all of it was watched."""
        for number, storage in enumerate(memory.storages):
            if storage.identity is None or storage.shadow.size > MOST_UNITS:
                continue
            seen = self._entry(storage)
            seen.decided &= whole
            _join(seen, storage)
            for at, info in enumerate(launch.tensors):
                if info.storage == number:
                    _note_uses(seen, launch, at, info)

    def faults(self, launches: Sequence[TracedLaunch]) -> Iterator[tuple[int, Fault]]:
        by_index = {launch.index: launch for launch in launches}
        for seen in [*self._done, *self._seen.values()]:
            if seen.decided:
                yield from _faults(seen, by_index)

    def _entry(self, storage: TensorStorage) -> Seen:
        address, reference = storage.identity or (0, None)
        size = storage.end - storage.start
        seen = self._seen.get(address)
        if seen is not None and (seen.reference.expired() or seen.size != size):
            self._done.append(seen)
            seen = None
        if seen is None:
            none = np.zeros(storage.shadow.size, bool)
            seen = Seen(reference, size, storage.unit, none, none.copy(), storage.undefined_bytes)
            self._seen[address] = seen
        return seen


def _join(seen: Seen, storage: TensorStorage) -> None:
    read, written = storage.shadow.flags()
    if seen.unit != storage.unit:
        unit = math.gcd(seen.unit, storage.unit)
        seen.read, seen.written = (np.repeat(flags, seen.unit // unit) for flags in (seen.read, seen.written))
        read, written = (np.repeat(flags, storage.unit // unit) for flags in (read, written))
        seen.unit = unit
    seen.read[: len(read)] |= read[: len(seen.read)]
    seen.written[: len(written)] |= written[: len(seen.written)]


def _note_uses(seen: Seen, launch: TracedLaunch, number: int, info: TensorInfo) -> None:
    view = seen.views.setdefault((info.shape, info.strides, info.offset, info.itemsize), View(info))
    for row in launch.accesses:
        if row.tensor == number and row.active_lanes:
            view.used[row.op] = (launch.index, info.name)


def _faults(seen: Seen, launches: dict[int, TracedLaunch]) -> Iterator[tuple[int, Fault]]:
    is_output = bool(seen.written.any())
    if is_output and bool(seen.read.any()):
        return  # updated in place, a workspace or a result that another launch reads: uninitialised reads are found
    for view in seen.views.values():
        op = "store" if is_output else "load"
        if op in view.used and math.prod(view.info.shape) > 0:
            launch = launches[view.used[op][0]]
            info = replace(view.info, name=view.used[op][1])
            missed = _missed(_of_view(~(seen.written if is_output else seen.read), info, seen.unit), info)
            if missed is None or any(fault.kind == "out_of_bounds" for fault in launch.faults):
                continue
            fault = _output(seen, info, launch) if is_output else _input(missed, info, launch)
            if fault is not None:
                yield launch.index, fault


def _input(missed: Missed, info: TensorInfo, launch: TracedLaunch) -> Fault | None:
    if _is_told(missed, info, launch):
        return None
    return _fault("unread_input", "load", "reads", missed, info, launch)


def _output(seen: Seen, info: TensorInfo, launch: TracedLaunch) -> Fault | None:
    left = _of_view(~seen.written, info, seen.unit)
    if seen.undefined is not None:
        # What PyTorch has written since is defined too.
        left = left & _of_view(seen.undefined, info, 1)
    elif np.count_nonzero(left) > (1 - LEAST_WRITTEN) * left.size:
        return None
    missed = _missed(left, info)
    return None if missed is None else _fault("unwritten_output", "store", "writes", missed, info, launch)


def _fault(kind: str, op: str, verb: str, missed: Missed, info: TensorInfo, launch: TracedLaunch) -> Fault | None:
    """None where loaded values decide what is touched."""
    numbers = [at for at, tensor in enumerate(launch.tensors) if tensor.name == info.name]
    rows = [row for row in launch.accesses if row.tensor in numbers and row.op == op]
    if not rows or any(depends_on_data(launch.sites[row.site]) for row in rows):
        return None
    site = max(rows, key=lambda row: row.lanes).site
    flat = sum(at * stride for at, stride in zip(missed.first, info.strides, strict=True))
    message = f"no program {verb} {index_text(info, flat, missed.first)}, the first of {missed.elements:,} elements: "
    message += missed.words
    return Fault(
        kind, site, op, info.name, (0, 0, 0), flat, (), message, missed.elements, 0,
        place=missed.first, remedy=_remedy(launch, site, missed, verb),
    )  # fmt: skip


def _remedy(launch: TracedLaunch, site: int, missed: Missed, verb: str) -> str:
    loop = loop_around(launch.sites[site])
    around = (
        f"how often the loop at line {loop} runs, how far it moves the pointers" if loop else "the grid, the offsets"
    )
    meant = "pass only the part that is meant to be read" if verb == "reads" else "pass only the part that is its own"
    return f"check {around} and the mask; or {meant}"


def _is_told(missed: Missed, info: TensorInfo, launch: TracedLaunch) -> bool:
    """Whether the launch was told to read so far and not told the tensor's own size: the first rows of a table."""
    numbers = {int(value) for _, value in launch.constants if value.lstrip("-").isdigit()} | set(launch.grid)
    sizes = {int(value) for _, value in launch.constants if value.lstrip("-").isdigit()}
    return missed.reached in numbers and info.shape[missed.axis] not in sizes


def _of_view(flags: Flags, info: TensorInfo, unit: int) -> Flags:
    """Flags of a storage, in the shape of a tensor in it."""
    width = info.itemsize // unit
    strides = tuple(stride * width for stride in info.strides)
    flags = np.ascontiguousarray(flags)
    view: Flags = np.ndarray(info.shape, bool, flags.data, info.offset * width, strides)
    return view


def _missed(left: Flags, info: TensorInfo) -> Missed | None:
    """None where nothing was left out, or neither a box nor whole slices: a triangle is left out on purpose."""
    if not left.any():
        return None
    spans = []
    for axis in range(left.ndim):
        others = tuple(other for other in range(left.ndim) if other != axis)
        spans.append(np.flatnonzero(left.any(axis=others)).tolist())
    elements = int(np.count_nonzero(left))
    if elements == math.prod(len(span) for span in spans):
        parts = [axis for axis, span in enumerate(spans) if len(span) < left.shape[axis]] or [0]
        words = ", ".join(dimension_words(info, axis, spans[axis]) for axis in parts)
        axis = parts[-1]
        return Missed(words, tuple(span[0] for span in spans), elements, axis, spans[axis][0])
    for axis in range(left.ndim):
        others = tuple(other for other in range(left.ndim) if other != axis)
        slices = np.flatnonzero(left.all(axis=others)).tolist()
        if slices:
            first = tuple(slices[0] if at == axis else 0 for at in range(left.ndim))
            count = len(slices) * left.size // left.shape[axis]
            return Missed(dimension_words(info, axis, slices), first, count, axis, slices[0])
    return None
