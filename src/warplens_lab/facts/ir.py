"""A reader of Triton's MLIR text: operations with operands, types, places and loops, and where values come from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from warplens_lab.facts.locations import Frames, Locations, users_place
from warplens_lab.facts.records import SourcePlace

_OPERATION = re.compile(r'^\s*(?:(?P<results>%[^=]*?) = )?"?(?P<name>[a-z_]\w*\.[\w.]+)"?(?P<rest>.*)')
_VALUE = re.compile(r"%[\w$.-]+(?:#\d+)?")
_RESULT = re.compile(r"(%[\w$.-]+)(?::(\d+))?")
_LOC = re.compile(r"\sloc\((?P<loc>(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*)\)\s*$")
_ARGUMENT = re.compile(r"%([\w$.-]+): (!?[\w.]+(?:<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>)?)(?: \{([^}%]*)\})?")
_LAYOUT = re.compile(r"^(#\w+) = (#?(?!loc)\w.*|#.*)$")
_BINDING = re.compile(r"(%[\w$.-]+) = (%[\w$.-]+(?:#\d+)?)")
_BLOCK_ARGUMENT = re.compile(r"(%[\w$.-]+): ")
_PARTITION = re.compile(r"(?:default|partition(?P<number>\d+)\((?P<arguments>.*)\) num_warps\((?P<warps>\d+)\)) \{$")
_WARPS = re.compile(r'"ttg\.num-warps" = (\d+)')
_TARGET = re.compile(r'ttg\.target = "([^"]+)"')
_REGISTERS = re.compile(r"requestedRegisters = array<i32: ([\d, ]+)>")
_INDUCTION = re.compile(r"^ (%[\w$.-]+) = ")
LOOPS: Final = ("scf.for", "scf.while")
_TURNS: Final = (*LOOPS, "scf.if")


@dataclass(frozen=True)
class Operation:
    name: str
    results: tuple[str, ...]
    operands: tuple[str, ...]
    text: str
    """The text after the name, without the location."""
    frames: Frames
    loops: tuple[int, ...]
    """The loops around it, outermost first, by their position in the module."""
    position: int
    in_branch: bool = False
    """It is in a condition inside its loop, so not every iteration runs it."""
    partition: str = ""
    """The partition of a warp-specialised kernel that runs it; empty where all warps do."""

    @property
    def place(self) -> SourcePlace | None:
        return users_place(self.frames)

    @property
    def in_loop(self) -> bool:
        return bool(self.loops)

    @property
    def types(self) -> str:
        """The text after the last " : "."""
        return self.text.rpartition(" : ")[2]


@dataclass(frozen=True)
class Partition:
    """Warps that do one part of a warp-specialised kernel; 0 where the text does not say it."""

    name: str
    warps: int = 0
    registers: int = 0
    """Per thread, as requested."""


@dataclass
class _IrRegion:
    operation: str
    position: int
    results: tuple[str, ...]
    carried: tuple[str, ...]
    partition: str = ""


class _Scopes:
    """Names of values. MLIR reuses a name in another region: here each value has its own."""

    def __init__(self) -> None:
        self._open: list[dict[str, str]] = [{}]
        self._definitions: dict[str, int] = {}

    def enter(self) -> None:
        self._open.append({})

    def leave(self) -> None:
        if len(self._open) > 1:
            self._open.pop()

    def define(self, name: str) -> str:
        times = self._definitions[name] = self._definitions.get(name, 0) + 1
        own = name if times == 1 else f"{name}~{times}"
        self._open[-1][name] = own
        return own

    def find(self, name: str) -> str:
        return next((scope[name] for scope in reversed(self._open) if name in scope), name)


class Module:
    """One module of TTIR or TTGIR."""

    def __init__(self, text: str) -> None:
        self.locations = Locations(text)
        self.layouts: dict[str, str] = {}
        self.arguments: dict[str, str] = {}
        self.divisible: set[str] = set()
        self.comes_from: dict[str, list[str]] = {}
        self.producers: dict[str, str] = {}
        self.partitions: dict[str, Partition] = {}
        self._specialised: Operation | None = None
        warps, target = _WARPS.search(text), _TARGET.search(text)
        self.warps = int(warps[1]) if warps else 0
        self.target = target[1] if target else ""
        """As the compiler names it: `cuda:90`."""
        self._loop_locations: dict[int, Frames] = {}
        self.loop_attributes: dict[int, str] = {}
        """What the compiler notes of each loop, such as `tt.warp_specialize`, by its position."""
        self._scopes = _Scopes()
        self.operations: tuple[Operation, ...] = tuple(self._read(text.splitlines()))

    @cached_property
    def loops(self) -> Mapping[int, SourcePlace]:
        """Each loop's place by its position."""
        places = ((at, users_place(frames)) for at, frames in self._loop_locations.items())
        return {at: place for at, place in places if place is not None}

    def named(self, *names: str) -> list[Operation]:
        return [operation for operation in self.operations if operation.name in names]

    def layout(self, text: str) -> str:
        """The layout that a type names, written out: `#blocked` → `#ttg.blocked<{…}>`."""
        written = text
        for _ in range(8):
            replaced = re.sub(r"#\w+(?![\w.<])", lambda match: self.layouts.get(match[0], match[0]), written)
            if replaced == written:
                break
            written = replaced
        return written

    def _read(self, lines: list[str]) -> Iterator[Operation]:
        regions: list[_IrRegion] = []
        for position, line in enumerate(lines):
            stripped = line.strip()
            if match := _LAYOUT.match(line):
                self.layouts[match[1]] = match[2]
                continue
            if stripped.startswith("}"):
                self._close(stripped, regions)
                if stripped.endswith("{") and regions:
                    continue
            if stripped.startswith("^"):
                for name in _BLOCK_ARGUMENT.findall(stripped):
                    self._scopes.define(name)
                continue
            if self._specialised and (match := _PARTITION.match(stripped)):
                regions.append(self._partition(match, position, self._specialised))
                continue
            operation = self._operation(line, position, regions)
            if operation is None:
                continue
            if operation.name == "ttg.warp_specialize":
                self._specialised = operation
            has_region = operation.text.rstrip().endswith("{")
            if has_region:
                self._scopes.enter()
            if operation.name == "tt.func":
                self._function(line)
            else:
                yield operation
            bindings = self._bindings(operation) if has_region else []
            self._flow(operation, regions, bindings)
            if has_region:
                carried = tuple(inner for inner, _ in bindings)
                regions.append(_IrRegion(operation.name, position, operation.results, carried))

    def _partition(self, match: re.Match[str], position: int, specialised: Operation) -> _IrRegion:
        """What a partition captures is what the operation around it is given, in order."""
        self._scopes.enter()
        name = f"partition {match['number']}" if match["number"] else "default"
        names = _BLOCK_ARGUMENT.findall(match["arguments"] or "")
        for inner, outer in zip(names, specialised.operands, strict=False):
            self.comes_from.setdefault(self._scopes.define(inner), []).append(outer)
        registers = _REGISTERS.search(specialised.text)
        requested = [int(count) for count in registers[1].split(",")] if registers else []
        number = int(match["number"]) if match["number"] else len(requested)
        own = requested[number] if number < len(requested) else 0
        self.partitions[name] = Partition(name, int(match["warps"] or self.warps), own)
        return _IrRegion("ttg.partition", position, (), (), name)

    def _bindings(self, operation: Operation) -> list[tuple[str, str]]:
        """The values that a loop carries, each with what it begins as."""
        pairs = _BINDING.findall(_carried_text(operation.text))
        outside = [self._scopes.find(initial) for _, initial in pairs]
        for name in _INDUCTION.findall(operation.text) if operation.name == "scf.for" else ():
            self._scopes.define(name)
        return [(self._scopes.define(inner), initial) for (inner, _), initial in zip(pairs, outside, strict=True)]

    def _close(self, line: str, regions: list[_IrRegion]) -> None:
        self._scopes.leave()
        if line.endswith("{") or not regions:
            self._scopes.enter()  # `} else {` and `} do {` stay inside the same operation
            return
        region = regions.pop()
        if region.operation not in LOOPS:
            return
        match = _LOC.search(line)
        self.loop_attributes[region.position] = line[1 : match.start() if match else None].strip()
        if match:
            self._loop_locations[region.position] = self.locations.frames(match["loc"])

    def _operation(self, line: str, position: int, regions: list[_IrRegion]) -> Operation | None:
        location = _LOC.search(line)
        body = line[: location.start()] if location else line
        match = _OPERATION.match(body)
        if match is None:
            return None
        operands = tuple(self._scopes.find(name) for name in _VALUE.findall(match["rest"]))
        return Operation(
            name=match["name"],
            results=tuple(self._scopes.define(name) for name in _expanded(match["results"] or "")),
            operands=operands,
            text=match["rest"],
            frames=self.locations.frames(location["loc"]) if location else (),
            loops=tuple(region.position for region in regions if region.operation in LOOPS),
            position=position,
            partition=next((r.partition for r in reversed(regions) if r.partition), ""),
            in_branch=next((r.operation == "scf.if" for r in reversed(regions) if r.operation in _TURNS), False),
        )

    def _function(self, line: str) -> None:
        for name, kind, attributes in _ARGUMENT.findall(line):
            own = self._scopes.define(f"%{name}")
            self.arguments[own] = kind
            if "tt.divisibility" in attributes:
                self.divisible.add(own)

    def _flow(self, operation: Operation, regions: list[_IrRegion], bindings: list[tuple[str, str]]) -> None:
        for result in operation.results:
            self.producers[result] = operation.name
        if operation.name in LOOPS:
            for at, (inner, initial) in enumerate(bindings):
                self.comes_from.setdefault(inner, []).append(initial)
                if at < len(operation.results):
                    self.comes_from.setdefault(operation.results[at], []).append(inner)
        elif operation.name == "scf.yield" and regions:
            # What a loop yields becomes its carried value; what a branch yields becomes its result.
            region = next((r for r in reversed(regions) if r.operation.startswith("scf.")), regions[-1])
            receivers = region.carried or region.results
            for receiver, value in zip(receivers, operation.operands, strict=False):
                self.comes_from.setdefault(receiver, []).append(value)
        elif operation.name != "scf.if":
            for result in operation.results:
                self.comes_from.setdefault(result, []).extend(operation.operands)

    def sources(self, value: str, stop_at: frozenset[str] = frozenset()) -> tuple[set[str], bool]:
        """The function's arguments that a value is computed from, and whether what `stop_at` made is among it."""
        visited: set[str] = set()
        stopped = False
        waiting = [value]
        while waiting:
            current = waiting.pop()
            if current in visited:
                continue
            visited.add(current)
            if self.producers.get(current) in stop_at:
                stopped = True
                continue
            waiting.extend(self.comes_from.get(current, ()))
        return {name for name in visited if name in self.arguments}, stopped


def _carried_text(text: str) -> str:
    """The bindings of a loop's carried values, without its induction variable."""
    _, marker, rest = text.partition("iter_args(")
    return rest if marker else text if text.lstrip().startswith("(") else ""


def _expanded(results: str) -> Iterator[str]:
    """
    >>> list(_expanded("%a, %b:2"))
    ['%a', '%b#0', '%b#1']
    """
    for name, count in _RESULT.findall(results):
        if count:
            yield from (f"{name}#{at}" for at in range(int(count)))
        else:
            yield name
