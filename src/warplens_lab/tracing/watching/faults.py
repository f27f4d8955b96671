"""Faults of a running kernel: each with the program, the statement and the element."""

from __future__ import annotations

from dataclasses import dataclass, replace

from warplens_lab.tracing.records import Fault, Site
from warplens_run.base.errors import WarplensError

Program = tuple[int, int, int]
VERBS = {"load": "loads", "store": "stores"}


@dataclass(frozen=True)
class Spot:
    """An element of a tensor: its number from the tensor's first, its indices where known, and both as text."""

    tensor: str
    index: int
    place: tuple[int, ...]
    text: str


class KernelFault(WarplensError):  # noqa: N818 - the tables name it so
    """A traced kernel has a fault, and the trace stops at it."""

    def __init__(self, fault: Fault, site: Site) -> None:
        super().__init__(fault_text(fault, site))
        self.fault = fault
        self.site = site


def fault_text(fault: Fault, site: Site) -> str:
    """The fault in one line, the statement it is in, and what to change."""
    remedy = f"\n  {fault.remedy}" if fault.remedy else ""
    return f"{fault.message}\n  {site.file}:{site.line} in {site.function}: {site.statement}{remedy}"


def out_of_bounds_message(program: Program, op: str, spot: Spot, size: str, lane: tuple[int, ...]) -> str:
    where = f"{program_text(program)} {verb(op)} {spot.text} (lane {lane_text(lane)})"
    if spot.index < 0:
        return f"{where}: before the tensor's memory"
    return f"{where}: {spot.tensor} is {size}" if len(spot.place) > 1 else f"{where}: its memory has {size}"


def uninitialised_message(program: Program, op: str, spot: Spot) -> str:
    return f"{program_text(program)} {verb(op)} {spot.text}, which nothing has written"


def race_message(program: Program, op: str, spot: Spot, other: Program, other_op: str, line: int) -> str:
    return (
        f"{program_text(program)} {verb(op)} {spot.text}, which {program_text(other)} {verb(other_op)} "
        f"at line {line}: on a GPU either may come first"
    )


def verb(op: str) -> str:
    return VERBS.get(op, f"does {op} on")


def program_text(program: Program) -> str:
    return f"program ({', '.join(map(str, program))})"


def lane_text(lane: tuple[int, ...]) -> str:
    return ", ".join(map(str, lane)) or "0"


class FaultList:
    """Faults of a launch, one per kind, statement and tensor; later occurrences only add to its counts."""

    def __init__(self) -> None:
        self._by_statement: dict[tuple[str, int, str], Fault] = {}
        self._last_program: dict[tuple[str, int, str], Program] = {}

    def add(self, fault: Fault) -> None:
        key = (fault.kind, fault.site, fault.tensor)
        first = self._by_statement.get(key)
        if first is None:
            self._by_statement[key] = fault
        else:
            again = self._last_program[key] != fault.program
            self._by_statement[key] = replace(
                first, elements=first.elements + fault.elements, programs=first.programs + int(again)
            )
        self._last_program[key] = fault.program

    def has(self, kind: str, site: int, tensor: str) -> bool:
        return (kind, site, tensor) in self._by_statement

    def all(self) -> tuple[Fault, ...]:
        return tuple(self._by_statement.values())
