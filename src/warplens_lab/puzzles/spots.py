"""Texts for the programs and statements of a launch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warplens_lab.puzzles.records import Spot
from warplens_lab.puzzles.writers import TracedAccess
from warplens_lab.tracing.records import TracedLaunch

MOST_SPOTS: Final = 3


def spots_of(accesses: Sequence[TracedAccess], launch: TracedLaunch) -> tuple[Spot, ...]:
    """The last access first: what it left is what counts."""
    listed = [spot_of(launch, launch.program_ids(access.program), access.site) for access in reversed(accesses)]
    return tuple({(spot.line, spot.program): spot for spot in listed}.values())[:MOST_SPOTS]


def spot_of(launch: TracedLaunch, program: Sequence[int], site: int) -> Spot:
    statement, text = launch.sites[site], f"program {coordinates(program, launch.grid)}"
    return Spot(text, number_of(program, launch.grid), statement.line, statement.statement)


def program_text(number: int, launch: TracedLaunch) -> str:
    return f"program {coordinates(launch.program_ids(number), launch.grid)}"


def coordinates(program: Sequence[int], grid: Sequence[int]) -> str:
    """As many coordinates as the grid has dimensions that matter.

    >>> coordinates((3, 0, 0), (4, 1, 1)), coordinates((1, 2, 0), (4, 3, 1))
    ('3', '(1, 2)')
    """
    used = max([1, *(axis + 1 for axis, size in enumerate(grid) if size > 1)])
    listed = ", ".join(map(str, program[:used]))
    return listed if used == 1 else f"({listed})"


def number_of(program: Sequence[int], grid: Sequence[int]) -> int:
    """As `Events.program` counts."""
    _, y, z = (*grid, 1, 1)[:3]
    return (program[0] * y + program[1]) * z + program[2]
