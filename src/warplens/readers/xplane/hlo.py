"""The HLO modules inside an XLA profile: their instructions, in which order they run, and what code made each.

Decodes what is needed of xla/service/hlo.proto and xla/xla_data.proto: names, opcodes, the schedule, and of each
instruction's metadata the `op_name` (JAX's scopes and primitive) and the Python frames. A fusion without metadata
takes that of its root, or of the last instruction inside it that has any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from warplens.model.budget import spend
from warplens.readers.shared.protobuf_wire import Damage, Fields, fields_of, text_of, varints

T = TypeVar("T")
NO_FUNCTION: Final = "(function not recorded)"


class HloOrigin(NamedTuple):
    """Where an instruction comes from: JAX's name for it, and Python frames, outermost first."""

    op_name: str = ""
    frames: tuple[str, ...] = ()


class HloInstruction(NamedTuple):
    name: str
    opcode: str
    origin: HloOrigin
    target: str = ""
    """What a custom call calls: a library's function."""


@dataclass(frozen=True)
class HloModule:
    """What runs as such: what is inside fusions only lends its origin."""

    instructions: dict[str, HloInstruction] = field(default_factory=dict)
    schedules: tuple[tuple[HloInstruction, ...], ...] = ()
    """The instructions of each computation, in the order in which they run."""


def read_module(proto: bytes, damage: Damage) -> HloModule:
    """The module of an HloProto message."""
    content = dict(fields_of(proto, damage)).get(1, b"")
    return _ModuleReader(content if isinstance(content, bytes) else b"", damage).module()


class _Raw(NamedTuple):
    number: int
    name: str
    opcode: str
    metadata: bytes
    called: list[int]
    target: str


class _Computation(NamedTuple):
    instructions: list[bytes]
    root: int
    is_fused: bool


class _ModuleReader:
    """The numbers are the fields' in hlo.proto."""

    def __init__(self, content: bytes, damage: Damage) -> None:
        self.damage = damage
        self.computations: dict[int, _Computation] = {}
        self.order: dict[int, list[int]] = {}
        self._inside: dict[int, HloOrigin] = {}
        self.stack = _StackFrames([], damage)
        for number, value in fields_of(content, damage):
            if isinstance(value, int):
                continue
            if number == 3:
                self._add_computation(fields_of(value, damage))
            elif number == 7:
                self._add_schedule(fields_of(value, damage))
            elif number == 17:
                self.stack = _StackFrames(fields_of(value, damage), damage)

    def _add_computation(self, fields: Fields) -> None:
        numbers = {number: value for number, value in fields if isinstance(value, int)}
        instructions = [value for number, value in fields if number == 2 and isinstance(value, bytes)]
        self.computations[numbers.get(5, 0)] = _Computation(instructions, numbers.get(6, 0), bool(numbers.get(7)))

    def _add_schedule(self, fields: Fields) -> None:
        for _, entry in fields:
            parts = dict(fields_of(entry, self.damage)) if isinstance(entry, bytes) else {}
            computation, sequence = parts.get(1, 0), parts.get(2)
            if isinstance(computation, int) and isinstance(sequence, bytes):
                order = [number for _, value in fields_of(sequence, self.damage) for number in varints(value)]
                self.order[computation] = order

    def module(self) -> HloModule:
        instructions: dict[str, HloInstruction] = {}
        schedules = []
        for number, computation in self.computations.items():
            if computation.is_fused:
                continue
            own = {raw.number: self._instruction(raw) for raw in self._raw(computation.instructions)}
            instructions.update((instruction.name, instruction) for instruction in own.values())
            order = self.order.get(number, [])
            schedules.append(tuple(own[member] for member in order if member in own))
        return HloModule(instructions, tuple(schedule for schedule in schedules if schedule))

    def _raw(self, instructions: Iterable[bytes]) -> list[_Raw]:
        return [self._raw_instruction(fields_of(data, self.damage)) for data in instructions]

    def _raw_instruction(self, fields: Fields) -> _Raw:
        values = dict(fields)
        number, metadata = values.get(35, 0), values.get(7, b"")
        return _Raw(
            number if isinstance(number, int) else 0,
            text_of(values.get(1, b"")),
            text_of(values.get(2, b"")),
            metadata if isinstance(metadata, bytes) else b"",
            [called for field_number, value in fields if field_number == 38 for called in varints(value)],
            text_of(values.get(28, b"")),
        )

    def _instruction(self, raw: _Raw) -> HloInstruction:
        origin = self._origin(raw.metadata)
        if not origin.op_name and raw.opcode == "fusion":
            inside = map(self._origin_inside, raw.called)
            origin = next((inner for inner in inside if inner.op_name), origin)
        return HloInstruction(raw.name, raw.opcode, origin, raw.target)

    def _origin_inside(self, number: int) -> HloOrigin:
        """That of the root of a computation, else that of the last instruction that has one."""
        if number not in self._inside:
            fused = self.computations.get(number, _Computation([], 0, True))
            members = self._raw(fused.instructions)
            members.sort(key=lambda raw: raw.number == fused.root)
            origins = (self._origin(raw.metadata) for raw in reversed(members) if raw.opcode != "parameter")
            self._inside[number] = next((origin for origin in origins if origin.op_name), HloOrigin())
        return self._inside[number]

    def _origin(self, metadata: bytes) -> HloOrigin:
        """The numbers are the fields' of OpMetadata in xla_data.proto."""
        values = dict(fields_of(metadata, self.damage))
        frames = self.stack.above(values.get(15, 0))
        file = text_of(values.get(3, b""))
        if not frames and file:
            frames = (_frame(file, values.get(4, 0), NO_FUNCTION),)
        return HloOrigin(text_of(values.get(2, b"")), frames)


class _StackFrames:
    """The stack frames of a module: flat lists that refer to each other by place, the first being 1."""

    def __init__(self, fields: Fields, damage: Damage) -> None:
        parts = {number: [value for field_number, value in fields if field_number == number] for number in (1, 2, 3, 4)}
        self._files, self._functions = ([text_of(value) for value in parts[number]] for number in (1, 2))
        self._locations, self._frames = (
            [dict(fields_of(value, damage)) if isinstance(value, bytes) else {} for value in parts[number]]
            for number in (3, 4)
        )
        self._stacks: dict[int, tuple[str, ...]] = {}

    def above(self, number: int | bytes) -> tuple[str, ...]:
        """The frames down to one of them, outermost first."""
        if not isinstance(number, int) or not 0 < number <= len(self._frames):
            return ()
        if number not in self._stacks:
            self._stacks[number] = self._walk(number)
        return self._stacks[number]

    def _walk(self, number: int | bytes) -> tuple[str, ...]:
        frames, seen = [], set()
        while isinstance(number, int) and number not in seen and (frame := _at(self._frames, number)) is not None:
            seen.add(number)
            location = _at(self._locations, frame.get(1, 0)) or {}
            file = _at(self._files, location.get(1, 0))
            if file:
                spend(1, "frames of HLO instructions")
                frames.append(_frame(file, location.get(3, 0), _at(self._functions, location.get(2, 0)) or NO_FUNCTION))
            number = frame.get(2, 0)
        return tuple(reversed(frames))


def _at(values: list[T], position: int | bytes) -> T | None:
    return values[position - 1] if isinstance(position, int) and 0 < position <= len(values) else None


def _frame(file: str, line: int | bytes, function: str) -> str:
    return f"{file}({line if isinstance(line, int) else 0}): {function}"
