"""Units of Triton kernels that the program launched itself: the launch's arguments, source, grid and configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from warplens.planning.arguments import CallBuilder, NotReplayable
from warplens.planning.context import Context
from warplens.planning.recorded import RecordedTensor
from warplens.readers.bundle.launches import Launch, LaunchArgument
from warplens_lab.facts.accesses import FORMS, LOADS
from warplens_lab.facts.ir import Module
from warplens_run.formats.replay_plan import DTYPES, Argument, Fill, SourceKernel, Storage, Unit

NO_RECORD: Final = "the capture's record of its launch cannot be read"
NOT_CERTAIN: Final = "its arguments are those of another launch with the same name and grid"
NO_VALUES: Final = "values of {} are not known: the launch was first seen while it was recorded"
POINTER: Final = ("!tt.ptr", "!tt.tensordesc")
STORES: Final = ("store", "tma store", "atomic")
KEPT: Final = re.compile(r"(w|weights?|bias|b|table|lut|gamma|beta)(_?ptr)?", re.IGNORECASE)
"""Parameters of a model, by their names: used once a step, so that little of them is still in the cache."""
ROOM_BYTES: Final = 64 << 20
"""Kernels may reach beyond the tensor that they are given, within its storage: so much of it is kept in any case."""
PAGE_BYTES: Final = 4096
PLAIN: Final = ("int", "bool", "str", "dtype", "function")


@dataclass(frozen=True)
class Touched:
    """Which of a launch's tensors, counted in their order, the kernel reads and writes."""

    read: frozenset[int]
    written: frozenset[int]


def launched_unit(unit: Unit, record: int, context: Context, *, is_certain: bool) -> Unit:
    """The unit with all that repeats its launch; raises `NotReplayable`."""
    if context.recorded is None or record >= len(context.recorded.launches):
        raise NotReplayable(NO_RECORD)
    launch, kernel = context.recorded.launches[record], context.recorded.kernel_of(record)
    if not kernel.source or kernel.source not in context.sources:
        raise NotReplayable(kernel.reason or NO_RECORD)
    if len(launch.arguments) != len(kernel.parameters):
        raise NotReplayable(
            f"its launch has {len(launch.arguments)} arguments, its source {len(kernel.parameters)} parameters"
        )
    touched = touched_by(context.texts.get(kernel.ttir, ""), sum(1 for _ in _tensors(launch.arguments)))
    builder = LaunchBuilder(launch, touched, unit.op, [kernel.name for kernel in unit.kernels])
    arguments = tuple(map(builder.argument, launch.arguments, kernel.parameters))
    notes = [*builder.notes, *([] if is_certain else [NOT_CERTAIN])]
    return replace(
        unit,
        arguments=arguments,
        storages=builder.storages(),
        notes=tuple(dict.fromkeys(notes)),
        triton=SourceKernel(kernel.source, kernel.function, dict(kernel.options), launch.sides),
    )


class LaunchBuilder:
    """Arguments and storages of one launch."""

    def __init__(self, launch: Launch, touched: Touched, op: str, kernels: Sequence[str]) -> None:
        self.notes: list[str] = []
        self._touched = touched
        self._call = CallBuilder(op, {}, kernels)
        self._tensor_number = 0
        self._starts, self._bytes = _storage_bounds(launch.arguments)
        self._warm: set[int] = set()
        self._fills: dict[int, Fill] = {}

    def argument(self, given: LaunchArgument, name: str) -> Argument:
        if given.kind == "tensor":
            return self._tensor(given, name)
        if given.kind == "none":
            return Argument("none")
        if given.kind == "float":
            return Argument("float", float(given.value or 0))
        if given.kind in PLAIN:
            return Argument(given.kind, given.value)
        if given.kind in ("list", "descriptor"):
            return Argument(given.kind, given.value, items=tuple(self.argument(item, name) for item in given.items))
        raise NotReplayable(f"its argument {name!r} cannot be rebuilt: a {given.value}")

    def _tensor(self, given: LaunchArgument, name: str) -> Argument:
        number, self._tensor_number = self._tensor_number, self._tensor_number + 1
        if given.dtype not in DTYPES:
            raise NotReplayable(f"its argument {name!r} cannot be rebuilt: a tensor of type {given.dtype}")
        if len(given.shape) != len(given.stride) or any(side < 0 for side in (*given.shape, *given.stride)):
            raise NotReplayable(f"its argument {name!r} cannot be rebuilt: a tensor without strides")
        offset = given.offset - self._starts[given.storage] // DTYPES[given.dtype]
        recorded = RecordedTensor(
            tuple(given.shape), given.dtype, tuple(given.stride), given.storage, offset, given.device
        )
        argument = self._call.tensor(name, recorded, written=number in self._touched.written, position=number)
        place = self._call.shared[given.storage]
        if number in self._touched.read:
            if not KEPT.fullmatch(name):
                self._warm.add(place)
            self._fill(given, name, place)
        return argument

    def _fill(self, given: LaunchArgument, name: str, place: int) -> None:
        """Whole numbers may be indices: they stay between those that were seen."""
        if given.low is not None and given.high is not None:
            self._fills[place] = _whole_numbers(given, given.low, given.high)
        elif given.dtype in ("int32", "int64"):
            self.notes.append(NO_VALUES.format(name))

    def storages(self) -> tuple[Storage, ...]:
        recorded = {place: number for number, place in self._call.shared.items()}
        return tuple(
            replace(
                storage,
                bytes=max(storage.bytes, min(self._bytes[recorded[place]], max(4 * storage.bytes, ROOM_BYTES))),
                fill=self._fills.get(place, storage.fill),
                reuse_bytes=0 if place in self._warm else None,
            )
            for place, storage in enumerate(self._call.storages)
        )


def _whole_numbers(given: LaunchArgument, low: int, high: int) -> Fill:
    count = 1
    for side in given.shape:
        count *= side
    if low == high:
        return Fill("constant", low)
    if given.rising and count > 1:  # offsets: the last one is the largest
        return Fill("ramp", low, high, -(-(high - low) // (count - 1)))
    if high - low + 1 == count:
        return Fill("permutation", low, high + 1)
    return Fill("integers", low, high + 1)


def _tensors(arguments: Sequence[LaunchArgument]) -> Iterator[LaunchArgument]:
    for argument in arguments:
        if argument.kind == "tensor":
            yield argument
        yield from _tensors(argument.items)


def _storage_bounds(arguments: Sequence[LaunchArgument]) -> tuple[dict[int, int], dict[int, int]]:
    """Per storage: where what is kept of it begins, in bytes, and how much there is from there.

    A tensor far inside a pool must not bring the whole pool along.
    """
    starts: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for tensor in _tensors(arguments):
        first = tensor.offset * DTYPES.get(tensor.dtype, 1)
        starts[tensor.storage] = min(starts.get(tensor.storage, first), first)
        sizes[tensor.storage] = tensor.bytes
    starts = {number: first // PAGE_BYTES * PAGE_BYTES if first > ROOM_BYTES else 0 for number, first in starts.items()}
    return starts, {number: max(size - starts[number], 0) for number, size in sizes.items()}


def touched_by(ttir: str, tensors: int) -> Touched:
    """From the compiled kernel; where that is not there or not understood, every tensor may be read and written."""
    every = Touched(frozenset(range(tensors)), frozenset(range(tensors)))
    if not ttir:
        return every
    module = Module(ttir)
    pointers = [name for name, kind in module.arguments.items() if kind.startswith(POINTER)]
    if len(pointers) != tensors:
        return every
    read: set[int] = set()
    written: set[int] = set()
    for operation in module.named(*FORMS):
        kind = FORMS[operation.name].kind
        behind, _ = module.sources(operation.operands[0], LOADS)
        places = {pointers.index(name) for name in behind if name in pointers}
        if kind in STORES:
            written |= places
        if kind not in ("store", "tma store"):
            read |= places
    return Touched(frozenset(read), frozenset(written)) if written else every
