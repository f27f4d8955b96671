"""The matrix products of the source and the instructions that do them; loops and how far ahead they load."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from warplens_lab.facts.accesses import ASYNC, LOADS
from warplens_lab.facts.ir import Module, Operation
from warplens_lab.facts.locations import Frames
from warplens_lab.facts.machine import Instruction
from warplens_lab.facts.records import Dot, KernelLoop, LoopSchedule, ScheduleStep, SourcePlace
from warplens_lab.layouts.types import TensorType, parse_type

_PTX_MATRIX: Final = (
    ("wgmma", re.compile(r"wgmma\.mma_async\.(?:\w{1,40}\.){0,10}?(m\d+n\d+k\d+)")),
    ("tcgen05.mma", re.compile(r"tcgen05\.mma\.(?:[\w:]{1,40}\.){0,10}?(kind::\w+)")),
    ("mma.sync", re.compile(r"mma\.(?:sp\.)?sync\.(?:\w{1,40}\.){0,10}?(m\d+n\d+k\d+)")),
)
_AMD_MATRIX: Final = (
    ("v_mfma", re.compile(r"v_s?mfma\w{0,40}?_(\d+x\d+x\d+)")),
    ("v_wmma", re.compile(r"v_wmma\w{0,40}?_(\d+x\d+x\d+)")),
)
DOTS: Final = ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled")
_PRECISION = re.compile(r"inputPrecision = (\w+)")


def matrix_instruction(instruction: Instruction) -> tuple[str, str] | None:
    """Family and shape of an instruction of the matrix unit."""
    text = f"{instruction.name} {instruction.text}"
    for family, pattern in (*_PTX_MATRIX, *_AMD_MATRIX):
        if match := pattern.search(text):
            return family, match[1]
    return None


def dots(source: Module, lowered: Module, instructions: Iterable[Instruction]) -> tuple[Dot, ...]:
    by_line: dict[int, set[tuple[str, str]]] = {}
    for instruction in instructions:
        family_and_shape = matrix_instruction(instruction)
        if family_and_shape and instruction.place:
            by_line.setdefault(instruction.place.line, set()).add(family_and_shape)
    blocks = {operation.place: _block(lowered, operation) for operation in lowered.named("ttng.tc_gen5_mma")}
    by_place: dict[SourcePlace, Dot] = {}
    for operation in source.named(*DOTS):
        place = operation.place
        if place is None or place in by_place:
            continue
        families = sorted(by_line.get(place.line, ()))
        family, shape = families[-1] if families else ("", "")
        by_place[place] = Dot(
            place=place,
            shape=_shape(operation),
            element=_element(operation),
            precision=_precision(operation),
            instruction=family,
            instruction_shape=blocks.get(place) or shape if family == "tcgen05.mma" else shape,
            in_loop=operation.in_loop,
        )
    return tuple(by_place.values())


def _operands(operation: Operation) -> list[TensorType]:
    pieces = re.split(r" \* | -> |, (?=tensor|!ttg)", operation.types)
    return [kind for kind in (parse_type(piece) for piece in pieces) if kind is not None and len(kind.shape) >= 2]


def _shape(operation: Operation) -> tuple[int, int, int]:
    operands = _operands(operation)
    if len(operands) < 2:
        return 0, 0, 0
    first, second = operands[0], operands[1]
    return first.shape[-2], second.shape[-1], first.shape[-1]


def _element(operation: Operation) -> str:
    operands = _operands(operation)
    names = [operand.element for operand in operands[:2]]
    return names[0] if len(set(names)) == 1 else " × ".join(names)


def _precision(operation: Operation) -> str:
    match = _PRECISION.search(operation.text)
    # The default is not printed.
    return match[1] if match else "ieee"


def _block(lowered: Module, operation: Operation) -> str:
    """The fifth generation's instruction says its shape in a descriptor; the tile in tensor memory has it too."""
    match = re.search(r"blockM = (\d+), blockN = (\d+)", lowered.layout(operation.types))
    return f"m{match[1]}n{match[2]}" if match else ""


def loops(source: Module, lowered: Module, schedules: Sequence[LoopSchedule]) -> tuple[KernelLoop, ...]:
    """The loops of the source that load from global memory, with what their schedules make of the loads."""
    # By the whole path of calls: a helper that is called twice is two loads.
    hoisted = {op.frames for op in lowered.named(*LOADS) if not op.in_loop}
    buffers = _buffers(lowered)
    by_place: dict[SourcePlace, KernelLoop] = {}
    for position, place in source.loops.items():
        inside = [op for op in source.operations if op.loops and op.loops[-1] == position]
        loads = {op.frames: op.place for op in inside if op.name in LOADS and _is_tile(op)}
        if not loads:
            continue
        own = [schedule for schedule in schedules if schedule.place == place] or schedules
        steps = [step for schedule in own for step in schedule.steps if step.operation in LOADS]
        listed = [buffers.get(p, 0) for p in loads.values() if p is not None]
        by_place[place] = KernelLoop(
            place=place,
            has_dot=any(op.name in DOTS for op in inside),
            loads=len(loads),
            loads_ahead=_ahead(loads, steps, hoisted),
            buffers=max(listed, default=0) or max((step.copies for step in steps if step.ahead), default=0),
        )
    return tuple(by_place.values())


def _ahead(loads: Mapping[Frames, SourcePlace | None], steps: Sequence[ScheduleStep], hoisted: set[Frames]) -> int:
    """How many of a loop's loads work ahead, by the steps of its schedule.

    Splitting a loop among warps loses the location of some loads: these are the steps that no other load has.
    """
    places = Counter(loads.values())
    moved = [step for step in steps if step.place not in places]
    count = 0
    for place, loads_there in places.items():
        own = [step for step in steps if step.place == place] or moved
        early = sum(step.ahead > 0 for step in own)
        count += loads_there if own and early == len(own) else min(early, loads_there)
        if not own:
            count += sum(at == place and frames in hoisted for frames, at in loads.items())
    return count


def outer_loops(lowered: Module) -> frozenset[int]:
    """Loops around another that multiplies or loads tiles: what they contain runs once for all its iterations."""
    working = [op for op in lowered.named(*DOTS, *LOADS) if op.name in DOTS or _is_tile(op)]
    return frozenset(at for op in working for at in op.loops[:-1])


def _is_tile(operation: Operation) -> bool:
    return "tensor<" in operation.types or "memdesc<" in operation.types or "tensordesc" in operation.types


def _buffers(lowered: Module) -> dict[SourcePlace, int]:
    """How many copies of a tile the allocation at each place holds."""
    copies: dict[SourcePlace, int] = {}
    indexed = {op.operands[0] for op in lowered.named("ttg.memdesc_index", "ttg.memdesc_subview") if op.operands}
    for operation in lowered.named("ttg.local_alloc"):
        kind = parse_type(operation.types.rpartition("-> ")[2])
        if operation.place and kind and indexed.intersection(operation.results) and len(kind.shape) > 1:
            copies[operation.place] = max(copies.get(operation.place, 0), kind.shape[0])
    return copies


def async_copies(lowered: Module) -> tuple[int, int]:
    """Accesses that go to shared memory by themselves: by `cp.async` and by TMA."""
    tma = {op.frames for op in lowered.named(*ASYNC) if "tma" in op.name or "descriptor" in op.name}
    plain = {op.frames for op in lowered.named(*ASYNC)} - tma
    return len(plain), len(tma)
