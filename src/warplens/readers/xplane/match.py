"""GPU events of an XLA profile ↔ the HLO instructions that they run.

An event outside command buffers names its instruction. Those of a command buffer all name the buffer, so they are laid
along the program's schedule: kernels that XLA compiled bear the name of an instruction, but one such kernel serves all
instructions with the same code, so the order shows which of them it runs; what libraries launch is between
two such kernels, as the library's instruction is in the schedule. Where the order does not fit (branches that run
side by side), an instruction is taken by its name alone, with the part of its origin that all of its family share.

An op of a command buffer goes by the name that its kernel bears, or by its opcode and the library's function: so equal
code in every layer of a model is one op, as it is one kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final, NamedTuple

from warplens.readers.xplane.hlo import HloInstruction, HloModule, HloOrigin

SILENT: Final = re.compile(
    r"parameter|constant|bitcast|get-tuple-element|tuple|after-all|opt-barrier|add-dependency|call|while|conditional"
    r"|domain|partition-id|replica-id|.*-done|async-update"
)
"""Opcodes that launch nothing by themselves."""
NUMBERS: Final = re.compile(r"(?:\d+_)+")
"""What XLA appends to a name, read backwards: so it is found at once, however many there are."""
CONTAINERS: Final = frozenset(("call", "while", "conditional"))


class MatchedOp(NamedTuple):
    """An instruction, and the name of the op that it is shown as."""

    op: str
    instruction: HloInstruction


class Matcher:
    """Finds the instructions of one module."""

    def __init__(self, module: HloModule) -> None:
        self._module = module
        self._by_kernel = {kernel_name(name): instruction for name, instruction in module.instructions.items()}
        self._families: dict[str, list[HloInstruction]] = {}
        for instruction in module.instructions.values():
            self._families.setdefault(family(instruction.name), []).append(instruction)
        self._matches: dict[tuple[str, ...], list[MatchedOp | None]] = {}

    def named(self, hlo_op: str) -> MatchedOp | None:
        """The instruction that an event names; none where it names a part of the program."""
        instruction = self._module.instructions.get(hlo_op)
        return (
            None
            if instruction is None or instruction.opcode in CONTAINERS
            else MatchedOp(instruction.name, instruction)
        )

    def in_order(self, kernels: Sequence[str]) -> list[MatchedOp | None]:
        """The instructions of the GPU events of one launch, given by their names in the order of their starts."""
        key = tuple(kernels)
        if key not in self._matches:
            self._matches[key] = self._along_schedule(key) or self._by_name(key)
        return self._matches[key]

    def _along_schedule(self, kernels: tuple[str, ...]) -> list[MatchedOp | None] | None:
        names = [kernel_name(kernel) for kernel in kernels]
        anchors = [position for position, name in enumerate(names) if name in self._by_kernel]
        wanted = [family(names[position]) for position in anchors]
        fits = [fit for schedule in self._module.schedules for fit in _fits(schedule, wanted)] if anchors else []
        exact = [
            sum(
                kernel_name(fit.schedule[at].name) == names[position]
                for position, at in zip(anchors, fit.at, strict=True)
            )
            for fit in fits
        ]
        if not fits or exact.count(max(exact)) > 1:
            return None
        instructions = _filled(kernels, anchors, fits[exact.index(max(exact))])
        return [
            instruction and MatchedOp(self._op(name, instruction), instruction)
            for name, instruction in zip(names, instructions, strict=True)
        ]

    def _op(self, kernel: str, instruction: HloInstruction) -> str:
        named_after = self._by_kernel.get(kernel)
        return named_after.name if named_after else f"{instruction.opcode} {instruction.target}".rstrip()

    def _by_name(self, kernels: Iterable[str]) -> list[MatchedOp | None]:
        named = (self._by_kernel.get(kernel_name(kernel)) for kernel in kernels)
        return [
            instruction and MatchedOp(instruction.name, instruction._replace(origin=self._shared_origin(instruction)))
            for instruction in named
        ]

    def _shared_origin(self, instruction: HloInstruction) -> HloOrigin:
        """What all instructions agree on that the kernel of this one may run."""
        origins = [member.origin for member in self._families[family(instruction.name)]]
        op_name = instruction.origin.op_name
        levels = takewhile(
            lambda level: len(set(level)) == 1, zip(*(origin.frames for origin in origins), strict=False)
        )
        frames = tuple(level[0] for level in levels)
        return HloOrigin(op_name if all(origin.op_name == op_name for origin in origins) else "", frames)


class _ScheduleFit(NamedTuple):
    """A stretch of a schedule: where the instructions of the anchors are, and where it begins and ends."""

    schedule: tuple[HloInstruction, ...]
    at: list[int]
    begin: int
    end: int


def _fits(schedule: tuple[HloInstruction, ...], wanted: list[str]) -> list[_ScheduleFit]:
    """The stretches whose instructions of the wanted families come in the wanted order, none left out."""
    families = set(wanted)
    positions = [
        position
        for position, instruction in enumerate(schedule)
        if family(instruction.name) in families and not _is_silent(instruction)
    ]
    families_in_order = [family(schedule[position].name) for position in positions]
    fits = []
    for first in range(len(families_in_order) - len(wanted) + 1):
        if families_in_order[first : first + len(wanted)] == wanted:
            last = first + len(wanted)
            begin = positions[first - 1] + 1 if first else 0
            end = positions[last] if last < len(positions) else len(schedule)
            fits.append(_ScheduleFit(schedule, positions[first:last], begin, end))
    return fits


def _filled(kernels: Sequence[str], anchors: list[int], fit: _ScheduleFit) -> list[HloInstruction | None]:
    """The anchors' instructions, and between each two of them those of what libraries launched."""
    instructions: list[HloInstruction | None] = [None] * len(kernels)
    for position, at in zip(anchors, fit.at, strict=True):
        instructions[position] = fit.schedule[at]
    edges = [(-1, fit.begin - 1), *zip(anchors, fit.at, strict=True), (len(kernels), fit.end)]
    for (before, after_at), (behind, until_at) in pairwise(edges):
        positions = range(before + 1, behind)
        between = [instruction for instruction in fit.schedule[after_at + 1 : until_at] if not _is_silent(instruction)]
        for position, instruction in _shared_out(positions, kernels, between):
            instructions[position] = instruction
    return instructions


def _shared_out(
    positions: range, kernels: Sequence[str], between: list[HloInstruction]
) -> list[tuple[int, HloInstruction]]:
    """Events ↔ instructions of the same gap: all to the only one, or one each; a fill belongs to what follows it."""
    if len(between) == 1:
        return [(position, between[0]) for position in positions]
    works = [position for position in positions if not kernels[position].lower().startswith("memset")]
    if len(works) != len(between):
        return []
    return [
        (position, between[min(sum(work < position for work in works), len(works) - 1)])
        for position in positions
        if works
    ]


def _is_silent(instruction: HloInstruction) -> bool:
    return SILENT.fullmatch(instruction.opcode) is not None


@lru_cache(maxsize=8192)
def kernel_name(name: str) -> str:
    """The name that XLA gives the kernel of an instruction, and how ROCm and name clashes change it undone."""
    plain = re.sub(r"\W", "_", name.removesuffix(".kd"))
    return re.sub(r"__\d+$", "", plain)


def family(name: str) -> str:
    """The name without its number: instructions with the same code have this in common."""
    plain = kernel_name(name)
    numbers = NUMBERS.match(plain[::-1])
    return plain[: len(plain) - numbers.end()] if numbers else plain
