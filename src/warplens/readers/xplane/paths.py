"""The recorded callers of GPU work in an `.xplane.pb` file, from the programs that the file holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warplens.model.builder import TraceBuilder
from warplens.model.kinds import NONE
from warplens.readers.shared.protobuf_wire import Damage
from warplens.readers.xplane.calls import HloWork, HostCalls, TimedCall
from warplens.readers.xplane.details import id_of
from warplens.readers.xplane.hlo import HloInstruction, HloOrigin, read_module
from warplens.readers.xplane.match import MatchedOp, Matcher
from warplens.readers.xplane.planes import XEvent, XlaProgram
from warplens.readers.xplane.scopes import callers_of


class _ProgramWork(NamedTuple):
    """A GPU event that says which part of which program it runs."""

    work: HloWork
    kernel: str
    op_name: str


class _LaunchPath(NamedTuple):
    """What the events of one launch of a part of a program have in common."""

    program: int
    module: str
    device: int
    hlo_op: str
    correlation: int


class ProgramCallers:
    """Collects GPU events, and gives each that some instruction stands for the callers which that names.

    The callers hang below the call of the program, and all work of one call shares them.
    """

    def __init__(self, builder: TraceBuilder, calls: HostCalls, programs: list[XlaProgram], damage: Damage) -> None:
        self._builder = builder
        self._calls = calls
        self._damage = damage
        self._programs = {program.number: program for program in programs}
        self._numbers: dict[str, list[int]] = {}
        for program in programs:
            self._numbers.setdefault(program.module, []).append(program.number)
        self._matchers: dict[int, Matcher | None] = {}
        self._launches: dict[_LaunchPath, list[_ProgramWork]] = {}

    def add(self, work: HloWork, device: int, event: XEvent) -> None:
        stats = event.stats
        launch = _LaunchPath(
            id_of(stats.get("program_id")), str(stats.get("hlo_module", "")), device, work.hlo_op, work.correlation
        )
        self._launches.setdefault(launch, []).append(_ProgramWork(work, event.name, str(stats.get("name", ""))))

    def add_to_builder(self) -> None:
        for launch, works in self._launches.items():
            call = self._calls.program_call(works[0].work)
            ops: dict[MatchedOp, int] = {}
            for work, op in self._matched(launch, works):
                if op not in ops:
                    ops[op] = self._add_path(call, work, op)
                self._builder.add_context(work.event, ops[op])

    def _matched(self, launch: _LaunchPath, works: list[_ProgramWork]) -> Iterator[tuple[HloWork, MatchedOp]]:
        matcher = self._matcher(launch)
        if matcher is None:
            # Without the program, an event may still have its instruction's name and scopes.
            yield from ((member.work, _from_event(member)) for member in works if "/" in member.op_name)
            return
        named = matcher.named(launch.hlo_op)
        if named is not None:
            yield from ((member.work, named) for member in works)
            return
        works.sort(key=lambda member: (member.work.start_ns, member.work.event))
        in_order = matcher.in_order([member.kernel for member in works])
        yield from ((member.work, op) for member, op in zip(works, in_order, strict=True) if op is not None)

    def _matcher(self, launch: _LaunchPath) -> Matcher | None:
        numbers = [launch.program] if launch.program in self._programs else self._numbers.get(launch.module, [])
        if len(numbers) != 1:
            return None
        (number,) = numbers
        if number not in self._matchers:
            module = read_module(self._programs[number].proto, self._damage)
            self._matchers[number] = Matcher(module) if module.instructions else None
        return self._matchers[number]

    def _add_path(self, call: TimedCall | None, work: HloWork, op: MatchedOp) -> int:
        """The op, below its callers. Frames and scopes are shared by all that runs in them; ops are one for each
        instruction."""
        parent, start_ns = (NONE, work.start_ns) if call is None else (call.event, call.start_ns)
        for kind, name in (*callers_of(op.instruction.origin), ("op", op.op)):
            instance = op.instruction.name if kind == "op" else ""
            parent = self._builder.frame(parent, kind, name, start_ns, instance)
        return parent


def _from_event(member: _ProgramWork) -> MatchedOp:
    return MatchedOp(member.work.hlo_op, HloInstruction(member.work.hlo_op, "", HloOrigin(member.op_name)))
