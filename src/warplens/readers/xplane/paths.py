"""The recorded callers of GPU work in an `.xplane.pb` file, from the programs that the file holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from warplens.readers.shared.protobuf_wire import Damage
from warplens.readers.xplane.calls import HostCalls
from warplens.readers.xplane.details import id_of
from warplens.readers.xplane.hlo import Instruction, Origin, read_module
from warplens.readers.xplane.match import Found, Matcher
from warplens.readers.xplane.planes import Program, XEvent
from warplens.readers.xplane.rows import Rows
from warplens.readers.xplane.scopes import callers_of


class _Work(NamedTuple):
    """A GPU event that says which part of which program it runs."""

    row: int
    kernel: str
    hlo_op: str
    op_name: str


class _Launch(NamedTuple):
    """What the events of one launch of a part of a program have in common."""

    program: int
    module: str
    device: int
    hlo_op: str
    correlation: int


class CallPaths:
    """Collects GPU events, and gives each that some instruction stands for the callers which that names.

    The callers hang below the call of the program, and all work of one call shares them.
    """

    def __init__(self, rows: Rows, calls: HostCalls, programs: list[Program], damage: Damage) -> None:
        self._rows = rows
        self._calls = calls
        self._damage = damage
        self._programs = {program.number: program for program in programs}
        self._numbers: dict[str, list[int]] = {}
        for program in programs:
            self._numbers.setdefault(program.module, []).append(program.number)
        self._matchers: dict[int, Matcher | None] = {}
        self._launches: dict[_Launch, list[_Work]] = {}

    def add(self, row: int, device: int, event: XEvent) -> None:
        stats = event.stats
        hlo_op = str(stats["hlo_op"])
        launch = _Launch(
            id_of(stats.get("program_id")),
            str(stats.get("hlo_module", "")),
            device,
            hlo_op,
            self._rows.ints["correlation"].get(row, -1),
        )
        work = _Work(row, event.name, hlo_op, str(stats.get("name", "")))
        self._launches.setdefault(launch, []).append(work)

    def add_to_rows(self) -> None:
        for launch, works in self._launches.items():
            call = self._calls.program_call(works[0].row)
            ops: dict[Found, int] = {}
            for work, found in self._found(launch, works):
                if found not in ops:
                    ops[found] = self._add_path(call, work.row, found)
                self._rows.contexts.append((work.row, ops[found]))

    def _found(self, launch: _Launch, works: list[_Work]) -> Iterator[tuple[_Work, Found]]:
        matcher = self._matcher(launch)
        if matcher is None:
            # Without the program, an event may still tell its instruction's name and scopes.
            yield from ((work, _from_event(work)) for work in works if "/" in work.op_name)
            return
        named = matcher.named(launch.hlo_op)
        if named is not None:
            yield from ((work, named) for work in works)
            return
        works.sort(key=lambda work: (self._rows.ts_us[work.row], work.row))
        found = matcher.in_order([work.kernel for work in works])
        yield from ((work, each) for work, each in zip(works, found, strict=True) if each is not None)

    def _matcher(self, launch: _Launch) -> Matcher | None:
        numbers = [launch.program] if launch.program in self._programs else self._numbers.get(launch.module, [])
        if len(numbers) != 1:
            return None
        (number,) = numbers
        if number not in self._matchers:
            module = read_module(self._programs[number].proto, self._damage)
            self._matchers[number] = Matcher(module) if module.instructions else None
        return self._matchers[number]

    def _add_path(self, call: int, row: int, found: Found) -> int:
        """The op, below its callers. Frames and scopes are shared by all that runs in them; ops are one for each
        instruction."""
        rows, parent = self._rows, call
        ts_us = rows.ts_us[call if call >= 0 else row]
        for kind, name in (*callers_of(found.instruction.origin), ("op", found.op)):
            parent = rows.frame(parent, kind, name, ts_us, found.instruction.name if kind == "op" else "")
        return parent


def _from_event(work: _Work) -> Found:
    return Found(work.hlo_op, Instruction(work.hlo_op, "", Origin(work.op_name)))
