"""A compiled kernel with what profiles measured of it: time, work, roofline, samples by line, and time at stake."""

from __future__ import annotations

import linecache
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from warplens.hardware import Gpu, gpu_named
from warplens.model.measured import LineSamples, Measured, MeasuredKernel
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts.machine import Instruction
from warplens_lab.facts.records import KernelFacts
from warplens_lab.measured.match import matched, whole_grid
from warplens_lab.measured.statement_lines import statement_lines
from warplens_lab.measured.work import LaunchWork, Reached, reached, reported_work, traced_work
from warplens_lab.suggesting.records import Suggestion

if TYPE_CHECKING:
    from warplens_lab.tracing.records import KernelTrace

WHOLE_KERNEL: Final = ("WK101", "WK108", "WK109", "WK110")
"""Suggestions about all of a kernel (spills, occupancy, waves, tiles), also where one of its lines shows it most."""
STRAY_PERCENT: Final = 10.0
"""From this share of samples on lines without code on, the source is likely not the one that ran."""


@dataclass(frozen=True)
class KernelMeasurements:
    """What profiles say of one compilation. Without a time, `count` and `total_ns` are 0."""

    kernels: tuple[str, ...] = ()
    """Its names in the profile that the times are from."""
    source: str = ""
    count: int = 0
    total_ns: int = 0
    gpu_percent: float = 0.0
    """Share of all GPU time of that profile."""
    dram_bytes: float = 0.0
    """Bytes of a launch that the GPU's counters saw."""
    work: LaunchWork | None = None
    reached: Reached | None = None
    samples: tuple[LineSamples, ...] = ()
    """Most samples first."""
    sampled_in: str = ""
    grids: tuple[tuple[tuple[int, ...], int], ...] = ()
    """The grids of its launches where the profile names them, each with their time in ns, most first."""
    card: str = ""
    """The GPU whose size and limits hold."""
    notes: tuple[str, ...] = field(default=())

    @property
    def total_us(self) -> float:
        return self.total_ns / 1e3

    @property
    def mean_us(self) -> float:
        return self.total_us / self.count if self.count else 0.0

    @property
    def sample_count(self) -> int:
        return sum(sample.samples for sample in self.samples)

    @property
    def has_lines(self) -> bool:
        return any(sample.line for sample in self.samples)


def joined(
    facts: KernelFacts,
    profiles: Sequence[Measured],
    *,
    grid: Sequence[int] | None = None,
    traced: KernelTrace | None = None,
    card: str | None = None,
    name: str = "",
    code: Sequence[Instruction] = (),
) -> KernelMeasurements:
    """Everything that the profiles have of a compilation; times rather from one that took no samples.

    `traced` is a trace of the same launches, for exact work; `name` is the kernel's name in the profiles where that
    is another one. Its machine `code` shows which of its lines calls a function of Triton's that was sampled.
    """
    notes: list[str] = []
    matches: list[tuple[Measured, tuple[MeasuredKernel, ...]]] = []
    for profile in profiles:
        if _is_elsewhere(facts, profile):
            notes.append(f"{profile.source} is of {profile.gpu or profile.architecture}, not of {facts.target}")
            continue
        match = matched(facts, profile, grid=grid, name=name)
        notes += match.notes
        if match.kernels:
            matches.append((profile, match.kernels))
    timed = [match for match in matches if sum(kernel.total_ns for kernel in match[1])]
    sampled = [match for match in matches if any(kernel.samples for kernel in match[1])]
    timed.sort(key=lambda match: match in sampled)
    if not matches:
        return KernelMeasurements(notes=tuple(notes))
    profile, kernels = (timed or matches)[0]
    count, total_ns = sum(kernel.count for kernel in kernels), sum(kernel.total_ns for kernel in kernels)
    work, work_notes = _work(facts, matches, kernels, traced)
    gpu, gpu_note = _gpu(facts, profile, card)
    limits = reached(work, gpu, total_ns / 1e3 / count) if work and count else None
    samples = _at_callers(_samples(sampled[0][1]), code) if sampled else ()
    counted = sum(kernel.dram_bytes for kernel in kernels)
    return KernelMeasurements(
        kernels=tuple(dict.fromkeys(kernel.name for kernel in kernels)),
        source=profile.source,
        count=count,
        total_ns=total_ns,
        gpu_percent=100 * total_ns / profile.gpu_ns if profile.gpu_ns else 0.0,
        dram_bytes=counted / count if count else 0.0,
        work=work,
        reached=limits,
        samples=samples,
        sampled_in=sampled[0][0].source if sampled else "",
        grids=_grids(kernels),
        card=gpu.name,
        notes=(
            *dict.fromkeys(notes),
            *work_notes,
            *([gpu_note] if limits and gpu_note else []),
            *_strays(facts, samples),
        ),
    )


def _grids(kernels: Sequence[MeasuredKernel]) -> tuple[tuple[tuple[int, ...], int], ...]:
    time_by_grid: dict[tuple[int, ...], int] = {}
    for kernel in kernels:
        if grid := whole_grid(kernel.grid):
            time_by_grid[grid] = time_by_grid.get(grid, 0) + kernel.total_ns
    return tuple(sorted(time_by_grid.items(), key=lambda item: -item[1]))


def _is_elsewhere(facts: KernelFacts, profile: Measured) -> bool:
    return bool(profile.architecture) and profile.architecture.replace("_", "").rstrip("af") != facts.target


def _work(
    facts: KernelFacts,
    matches: Sequence[tuple[Measured, tuple[MeasuredKernel, ...]]],
    kernels: Sequence[MeasuredKernel],
    traced: KernelTrace | None,
) -> tuple[LaunchWork | None, tuple[str, ...]]:
    """Exact work where it was traced, else what the program said of the launches whose times are taken."""
    notes: tuple[str, ...] = ()
    if traced is not None:
        work, notes = traced_work(facts, traced, [whole_grid(kernel.grid) for kernel in kernels])
        if work is not None:
            return work, notes
    reported = (reported_work(facts, group) for group in (kernels, *(group for _, group in matches)))
    return next((work for work in reported if work), None), notes


def _gpu(facts: KernelFacts, profile: Measured, card: str | None) -> tuple[Gpu, str]:
    """The card whose limits hold, and what to say of the choice."""
    if profile.gpu:
        other = f"the profile is of {profile.gpu}, whose limits hold, not those of {card}" if card else ""
        return gpu_named(profile.gpu), other if card and gpu_named(card).name != profile.gpu else ""
    if card:
        return gpu_named(card), ""
    default = TARGETS[facts.target].gpu()
    return default, f"{profile.source} names no GPU: the limits are those of {default.name} unless a card is given"


def _at_callers(samples: tuple[LineSamples, ...], code: Iterable[Instruction]) -> tuple[LineSamples, ...]:
    """The samples with those of Triton's own functions on the line that calls them, where only one does.

    A file of another version has other lines. Where the profile has no texts of them to compare, all stay where they
    are unless every sampled line of the file has code here.
    """
    callers: dict[tuple[str, int | str], set[tuple[str, int]]] = {}
    for instruction in code:
        inner, caller = next(iter(instruction.frames), None), instruction.place
        if inner is not None and caller is not None and inner != caller:
            for key in (inner.line, linecache.getline(inner.file, inner.line).strip()):
                callers.setdefault((_file_name(inner.file), key), set()).add((caller.file, caller.line))
    library = {file for file, _ in callers}
    places = {(_file_name(sample.file), sample.line) for sample in samples if not sample.source}
    others = {file for file, line in places if file in library and (file, line) not in callers}
    recorded = {_file_name(sample.file): sample.file for sample in samples}
    moved = []
    for sample in samples:
        name = _file_name(sample.file)
        own = callers.get((name, sample.source or sample.line), set())
        if len(own) == 1 and name not in others:
            ((file, line),) = own
            sample = replace(sample, file=recorded.get(_file_name(file), file), line=line, source="")
        moved.append(sample)
    return _by_line(moved)


def _samples(kernels: Sequence[MeasuredKernel]) -> tuple[LineSamples, ...]:
    """The samples of several launch shapes, line by line."""
    return _by_line(line for kernel in kernels for line in kernel.samples)


def _by_line(samples: Iterable[LineSamples]) -> tuple[LineSamples, ...]:
    groups: dict[tuple[str, int, str], list[LineSamples]] = {}
    for sample in samples:
        groups.setdefault((sample.file, sample.line, sample.function), []).append(sample)
    merged = [_merged(lines, *place) for place, lines in groups.items()]
    return tuple(sorted(merged, key=lambda sample: (-sample.samples, sample.file, sample.line)))


def _merged(lines: Sequence[LineSamples], file: str, line: int, function: str) -> LineSamples:
    reasons: dict[str, int] = {}
    for name, count in (reason for line_samples in lines for reason in line_samples.reasons):
        reasons[name] = reasons.get(name, 0) + count
    ordered = tuple(sorted(reasons.items(), key=lambda reason_count: (-reason_count[1], reason_count[0])))
    samples, stalled = sum(part.samples for part in lines), sum(part.stalled for part in lines)
    source = next((part.source for part in lines if part.source), "")
    return LineSamples(samples, stalled, ordered, file, line, function, source)


def _strays(facts: KernelFacts, samples: Sequence[LineSamples]) -> list[str]:
    """Samples on lines that this compilation has no code for: the file is likely not the one that ran."""
    own = [sample for sample in samples if sample.line and _is_in(sample.file, facts.file)]
    code = {line.place.line for line in facts.lines if line.place.file == facts.file}
    stray = sum(sample.samples for sample in own if sample.line not in code)
    total = sum(sample.samples for sample in samples)
    if not code or not total or 100 * stray / total < STRAY_PERCENT:
        return []
    name = PurePath(facts.file).name
    return [f"{100 * stray / total:.0f} % of the samples are on lines of {name} without code: has it changed since?"]


def _is_in(recorded: str, file: str) -> bool:
    """Whether a profile's file is this one; it may have lain elsewhere where the profile was taken."""
    return _file_name(recorded) == PurePath(file).name


def _file_name(recorded: str) -> str:
    return PurePath(recorded.replace("\\", "/")).name


def at_stake_us(
    suggestion: Suggestion, facts: KernelFacts, measurements: KernelMeasurements | None, source: str
) -> float | None:
    """The time that a suggestion is about: the kernel's, or the share of it that samples give to its statement.

    A statement is the code on the suggestion's line: a loop with all of its body, a call over several lines.
    `source` is the text of the kernel's file.
    """
    if measurements is None or not measurements.total_ns:
        return None
    of_grid = {grid: time_ns for grid, time_ns in measurements.grids if grid == suggestion.grid}
    if suggestion.grid is not None and of_grid:
        return of_grid[suggestion.grid] / 1e3
    if suggestion.source is None or suggestion.code in WHOLE_KERNEL or not measurements.has_lines:
        return measurements.total_us
    hit = sum(sample.samples for sample in measurements.samples if _is_about(suggestion, sample, facts, source))
    return (
        measurements.total_us * hit / measurements.sample_count if measurements.sample_count else measurements.total_us
    )


def _is_about(suggestion: Suggestion, sample: LineSamples, facts: KernelFacts, source: str) -> bool:
    """Whether the sample is on a statement of the suggestion's."""
    for place in suggestion.places:
        lines = statement_lines(source, place.line) if place.file == facts.file else range(place.line, place.line + 1)
        if sample.line in lines and _is_in(sample.file, place.file):
            return True
    return False
