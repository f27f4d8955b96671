"""What is known of each line of Python: its machine instructions, its facts, and its samples in a profile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from warplens_lab.checking.checks import KernelCheck
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts.browsing import users_frames
from warplens_lab.facts.instruction_classes import counted
from warplens_lab.facts.line_notes import details, marks, noted_places
from warplens_lab.facts.machine import Instruction
from warplens_lab.measured.joining import KernelMeasurements
from warplens_lab.scenes.kernel_code import CodeLine, CodePlace

Key = tuple[str, int]
"""File and line; ("", 0) for what comes from no line."""


@dataclass
class _Code:
    own: list[Instruction] = field(default_factory=list)
    called: int = 0


def code_lines(
    check: KernelCheck, machine: Sequence[Instruction], file_number: Callable[[str], int]
) -> Iterator[CodeLine]:
    facts = check.facts
    code = _by_line(machine)
    sampled = _Samples(check.measured)
    narrow = [suggestion for suggestion in check.suggestions if suggestion.code in ("WK102", "WK107", "WK122")]
    places = [place for suggestion in narrow for place in suggestion.places]
    blamed = {(place.file, place.line) for place in places if place is not None}
    for file, line in sorted({*code, *noted_places(facts), *sampled.places(facts.file)}):
        line_code = code.get((file, line), _Code())
        yield CodeLine(
            place=CodePlace(file_number(file), line),
            instructions=len(line_code.own),
            in_loops=sum(instruction.in_loop for instruction in line_code.own),
            called_instructions=line_code.called,
            classes=counted(TARGETS[facts.target].vendor, [instruction.name for instruction in line_code.own]),
            marks=marks(facts, file, line, is_blamed=(file, line) in blamed),
            details=details(facts, file, line),
            sample_percent=sampled.percent(file, line),
            waits=sampled.waits(file, line),
        )


def _by_line(machine: Sequence[Instruction]) -> dict[Key, _Code]:
    """An instruction is its innermost line's own, and one that the lines around it call."""
    code_by_line: dict[Key, _Code] = {}
    for instruction in machine:
        places = (place for place in users_frames(instruction.frames) if place.line > 0)
        own, *callers = dict.fromkeys((place.file, place.line) for place in places) or [("", 0)]
        code_by_line.setdefault(own, _Code()).own.append(instruction)
        for caller in callers:
            code_by_line.setdefault(caller, _Code()).called += 1
    return code_by_line


class _Samples:
    """By a file's name and line: a profile may have been taken where the file lay elsewhere."""

    def __init__(self, measured: KernelMeasurements | None) -> None:
        self._counts: Counter[Key] = Counter()
        self._waits: dict[Key, Counter[str]] = {}
        self._total = measured.sample_count if measured is not None and measured.has_lines else 0
        for sample in measured.samples if measured is not None else ():
            key = (PurePath(sample.file.replace("\\", "/")).name, sample.line)
            self._counts[key] += sample.samples
            self._waits.setdefault(key, Counter()).update(dict(sample.reasons))

    def places(self, file: str) -> set[Key]:
        """The sampled lines of a file, also those that have no code in this compilation."""
        return {(file, line) for name, line in self._counts if line and name == PurePath(file).name}

    def percent(self, file: str, line: int) -> float | None:
        return 100 * self._counts[PurePath(file).name, line] / self._total if self._total else None

    def waits(self, file: str, line: int) -> tuple[tuple[str, float], ...]:
        reasons = self._waits.get((PurePath(file).name, line), Counter())
        total = sum(reasons.values())
        return tuple((name, 100 * count / total) for name, count in reasons.most_common()) if total else ()
