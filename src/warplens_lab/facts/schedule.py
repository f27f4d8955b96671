"""How a loop's iterations overlap: stages of a pipelined loop, partitions of a warp-specialised one, from TTGIR.

The pipeliner repeats in front of a loop what it begins early: an operation that stands there n times works n iterations
ahead inside the loop. A partition runs as far ahead as its buffers have copies, and barriers tie it to the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from warplens_lab.facts.ir import Module, Operation
from warplens_lab.facts.records import LoopSchedule, SchedulePartition, ScheduleStep, SourcePlace
from warplens_lab.facts.schedule_words import UNPIPELINED, loop_sentence, pattern_of, role_of
from warplens_lab.layouts.types import parse_type

LOADS: Final = {
    "tt.load": "load",
    "amdg.buffer_load": "load",
    "tt.descriptor_load": "load",
    "ttg.async_copy_global_to_local": "async copy",
    "amdg.buffer_load_to_local": "async copy",
    "ttng.async_tma_copy_global_to_local": "tma copy",
    "ttng.async_tma_gather": "tma copy",
}
PRODUCTS: Final = dict.fromkeys(
    ("tt.dot", "tt.dot_scaled", "ttng.warp_group_dot", "ttng.tc_gen5_mma", "ttng.tc_gen5_mma_scaled"), "product"
)
OTHERS: Final = {
    "ttg.local_load": "shared load",
    "ttg.local_store": "shared store",
    "ttng.tmem_load": "tensor memory load",
    "ttng.tmem_store": "tensor memory store",
    "tt.reduce": "reduction",
    "tt.store": "store",
    "amdg.buffer_store": "store",
    "ttng.async_tma_copy_local_to_global": "tma store",
    "ttg.async_wait": "wait for copies",
    "amdg.async_wait": "wait for copies",
    "ttng.async_tma_store_wait": "wait for stores",
    "ttng.warp_group_dot_wait": "wait for products",
    "ttng.wait_barrier": "wait",
    "ttng.arrive_barrier": "signal",
    "ttng.tc_gen5_commit": "signal",
    "ttng.barrier_expect": "announce bytes",
    "ttng.wait_barrier_named": "wait",
    "ttng.arrive_barrier_named": "signal",
    "ttg.barrier": "barrier of all warps",
    "gpu.barrier": "barrier of all warps",
    "amdg.cond_barrier": "barrier of some warps",
    "rocdl.s.setprio": "priority",
    "rocdl.sched.barrier": "scheduling fence",
    "amdg.instruction_sched_hint": "scheduling hint",
}
KINDS: Final = {**LOADS, **PRODUCTS, **OTHERS}
_VIEWS: Final = frozenset(
    f"ttg.memdesc_{view}" for view in ("index", "subview", "subslice", "trans", "reshape", "reinterpret")
)
_ALLOCATIONS: Final = ("ttg.local_alloc", "ttng.tmem_alloc")
_FIRST_SPECIALISED: Final = 90
"""The first compute capability for which Triton splits a loop's work among warps."""
_HOPPER_WARPS: Final = 4
"""Of a kernel whose loops Triton splits there; it leaves others as they are, without a remark."""
_PENDING = re.compile(r"\b(?:num|pendings|num_inst) = (\d+)")


def loop_schedules(lowered: Module) -> tuple[LoopSchedule, ...]:
    """One for every loop that copies or multiplies tiles; the partitions of a loop are one loop."""
    memory = _Memory(lowered)
    by_place: dict[SourcePlace, list[int]] = {}
    for position, place in lowered.loops.items():
        if any(op.name in LOADS | PRODUCTS and _is_tile(op) for op in _body(lowered, position)):
            by_place.setdefault(place, []).append(position)
    for position, place in lowered.loops.items():
        if (
            place in by_place
            and position not in by_place[place]
            and any(op.partition for op in _body(lowered, position))
        ):
            by_place[place].append(position)  # a partition that neither copies nor multiplies
    return tuple(_schedule(lowered, memory, place, loops) for place, loops in sorted(by_place.items()))


def _body(lowered: Module, loop: int) -> list[Operation]:
    """The scheduled operations of a loop itself, not of loops inside it."""
    return [op for op in lowered.operations if op.loops and op.loops[-1] == loop and op.name in KINDS]


def _is_tile(operation: Operation) -> bool:
    return any(word in operation.types for word in ("tensor<", "memdesc<", "tensordesc"))


def _schedule(lowered: Module, memory: _Memory, place: SourcePlace, loops: Sequence[int]) -> LoopSchedule:
    steps = [step for loop in loops for step in _steps(lowered, memory, loop)]
    # Partitions whose part of the loop is elsewhere, such as the one that stores the result, belong to it too.
    names = dict.fromkeys(step.partition for step in steps if step.partition)
    if names:
        names |= dict.fromkeys(lowered.partitions)
    partitions = tuple(_partition(lowered, name, steps) for name in names)
    stages = 1 + max((step.stage or 0 for step in steps), default=0)
    pattern = pattern_of(steps, partitions, has_turns="amdg.cond_barrier" in {op.name for op in lowered.operations})
    refusal = "" if partitions else _refusal(lowered, loops)
    sentence = loop_sentence(pattern, stages, steps, partitions) + (f"; {refusal}" if refusal else "")
    return LoopSchedule(place, pattern, stages, sentence, partitions, tuple(steps), refusal)


def _refusal(lowered: Module, loops: Sequence[int]) -> str:
    """That the source asks for warp specialisation of a loop, or of one around it, which the compiler did not apply."""
    around = {at for op in lowered.operations for at in op.loops if not set(op.loops).isdisjoint(loops)}
    attributes = [lowered.loop_attributes.get(at, "") for at in around]
    if not any("tt.warp_specialize" in text for text in attributes):
        return ""
    vendor, _, number = lowered.target.partition(":")
    why = ""
    if vendor == "hip" or (number.isdecimal() and int(number) < _FIRST_SPECIALISED):
        why = " (this GPU has no warp specialisation)"
    elif number.startswith("9") and lowered.warps != _HOPPER_WARPS:
        why = f" (on this GPU it takes num_warps={_HOPPER_WARPS})"
    # The pass that splits loops turns pipelining off, also where it splits none.
    is_off = any("tt.num_stages = 0" in text for text in attributes)
    return f"the compiler did not apply warp_specialize=True{why}{UNPIPELINED if is_off else ''}"


def _partition(lowered: Module, name: str, steps: Sequence[ScheduleStep]) -> SchedulePartition:
    known = lowered.partitions[name]
    elsewhere = [KINDS[op.name] for op in lowered.operations if op.partition == name and op.name in KINDS]
    role = role_of([step.kind for step in steps if step.partition == name] or elsewhere)
    return SchedulePartition(name, role, known.warps, known.registers)


def _steps(lowered: Module, memory: _Memory, loop: int) -> Iterator[ScheduleStep]:
    body = [op for op in _body(lowered, loop) if op.place is not None and (op.name not in LOADS or _is_tile(op))]
    early = [_early(lowered, op, loop, body) for op in body]
    most = max(early, default=0)
    multiplying = {op.partition for op in lowered.named(*PRODUCTS)}
    for order, (op, begun) in enumerate(zip(body, early, strict=True)):
        kind, copies = KINDS[op.name], 0
        buffer = ""
        barriers: dict[str, None] = {}
        for operand in op.operands:
            root = memory.root(operand)
            if root in memory.barriers:
                barriers[memory.barriers[root]] = None
            elif root in memory.buffers and not buffer:
                buffer, copies = memory.buffers[root]
        named = ", ".join(barriers)
        waits_for, signals = (named, "") if kind == "wait" else ("", named)
        is_handed_over = op.name in LOADS and op.partition not in ("", *multiplying)
        # With one buffer the next tile waits until this one is used up.
        ahead = begun if not is_handed_over else copies if copies > 1 else 0
        stage = None if op.partition else most - begun
        assert op.place is not None
        yield ScheduleStep(
            op.place, op.partition, order, kind, op.name, ahead, stage, buffer, copies, waits_for, signals, _detail(op)
        )


def _early(lowered: Module, operation: Operation, loop: int, body: Sequence[Operation]) -> int:
    """How many iterations of this operation stand in front of the loop."""
    if operation.name not in LOADS and operation.name not in PRODUCTS and operation.name != "ttg.local_store":
        return 0
    around = operation.loops[:-1]
    before = sum(
        op.frames == operation.frames
        and op.loops == around
        and op.position < loop
        and op.partition == operation.partition
        for op in lowered.named(operation.name)
    )
    inside = sum(op.frames == operation.frames and op.name == operation.name for op in body)
    return -(-before // max(inside, 1))


def _detail(operation: Operation) -> str:
    if match := _PENDING.search(operation.text):
        return f"{match[1]} may be in flight"
    if operation.name == "rocdl.s.setprio":
        return operation.text.strip()
    return ""


class _Memory:
    """What is allocated: tiles with their copies, and barriers with a short name each."""

    def __init__(self, lowered: Module) -> None:
        self._lowered = lowered
        self.barriers: dict[str, str] = {}
        self.buffers: dict[str, tuple[str, int]] = {}
        for operation in lowered.named(*_ALLOCATIONS):
            kind = parse_type(operation.types.rpartition("-> ")[2])
            if kind is None or not operation.results:
                continue
            if kind.element == "i64":
                self.barriers[operation.results[0]] = f"barrier {len(self.barriers)}"
            else:
                self.buffers[operation.results[0]] = _tile(kind.shape, kind.element, operation.name)

    def root(self, value: str) -> str:
        """The allocation that a value is a view of; itself where it is none."""
        seen: set[str] = set()
        while value not in seen:
            seen.add(value)
            sources = self._lowered.comes_from.get(value, ())
            producer = self._lowered.producers.get(value)
            if not sources or (producer is not None and producer not in _VIEWS):
                break
            value = sources[0]
        return value


def _tile(shape: Sequence[int], element: str, allocation: str) -> tuple[str, int]:
    """Shape of a tile, and how many copies there are of it."""
    copies, tile = (shape[0], shape[1:]) if len(shape) > 2 else (1, shape)
    where = " in tensor memory" if allocation == "ttng.tmem_alloc" else ""
    return f"{'×'.join(map(str, tile))} of {element}{where}", copies
