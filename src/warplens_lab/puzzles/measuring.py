"""What a right answer costs against the least that would do, and where the rest goes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from warplens_lab.puzzles.records import Case, Costs, Goal, Puzzle
from warplens_lab.puzzles.writers import Accesses
from warplens_lab.tracing.records import TensorInfo, TracedLaunch

WAVE: Final = 8
"""Programs that are taken to run at the same time where their order matters."""
WORTH_TELLING: Final = 1.05


def costs_of(puzzle: Puzzle, text: str, case: Case, launch: TracedLaunch) -> Costs:
    """`text` names the case."""
    least = sum(tensor.numel() * tensor.element_size() for tensor in case.inputs.values())
    outputs = (case.arguments[name] for name in case.expected)
    costs = Costs(
        text,
        launch.loaded_bytes,
        least if case.least_loaded is None else case.least_loaded,
        launch.stored_bytes + launch.atomic_bytes,
        sum(tensor.numel() * tensor.element_size() for tensor in outputs),
        launch.flop,
        case.flop,
        tuple(_read_again(launch)),
    )
    return costs if puzzle.goal is None else _with_goal(costs, puzzle.goal, launch)


def _with_goal(costs: Costs, goal: Goal, launch: TracedLaunch) -> Costs:
    from dataclasses import replace

    value, met, text = 0.0, False, ""
    if goal.measure == "loaded":
        value = costs.loaded_bytes / costs.least_loaded_bytes
        met, text = value <= goal.limit, f"{value:.2f}× the least bytes loaded"
    elif goal.measure == "wave":
        value = distinct_share_of_waves(launch)
        met, text = value <= goal.limit, f"{100 * value:.0f} % distinct"
    return replace(costs, goal=goal.words, goal_met=met, goal_value=text)


def distinct_share_of_waves(launch: TracedLaunch, wave: int = WAVE) -> float:
    """Of the bytes that `wave` programs with neighbouring ids load, the share that is not loaded by them before."""
    accesses = Accesses(launch)
    loaded = distinct = 0
    for number, info in enumerate(launch.tensors):
        by_wave: dict[int, list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]] = {}
        for access in accesses.of(number, writes=False):
            by_wave.setdefault(access.program // wave, []).append(access.elements[access.active])
        for parts in by_wave.values():
            elements = np.concatenate(parts)
            loaded += elements.size * info.itemsize
            distinct += len(np.unique(elements)) * info.itemsize
    return distinct / loaded if loaded else 0.0


def _read_again(launch: TracedLaunch) -> Iterator[str]:
    """Which tensors are loaded more than once over, and whether by one program or by several."""
    accesses = Accesses(launch)
    for number, info in enumerate(launch.tensors):
        by_program: dict[int, list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]]] = {}
        lines: set[int] = set()
        for access in accesses.of(number, writes=False):
            by_program.setdefault(access.program, []).append(access.elements[access.active])
            lines.add(launch.sites[access.site].line)
        own = [np.concatenate(parts) for parts in by_program.values()]
        total = sum(part.size for part in own)
        if not total:
            continue
        distinct_in_programs = [np.unique(part) for part in own]
        once_per_program = sum(part.size for part in distinct_in_programs)
        distinct = len(np.unique(np.concatenate(distinct_in_programs)))
        yield from _rereading(info, total / once_per_program, once_per_program / distinct, sorted(lines))


def _rereading(info: TensorInfo, within: float, across: float, lines: list[int]) -> Iterator[str]:
    where = f"{'lines' if len(lines) > 1 else 'line'} {', '.join(map(str, lines))}"
    if within >= WORTH_TELLING:
        yield f"a program reads its part of {info.name} {within:.1f} times over ({where})"
    if across >= WORTH_TELLING:
        yield f"each element of {info.name} is read by {across:.1f} programs ({where})"
