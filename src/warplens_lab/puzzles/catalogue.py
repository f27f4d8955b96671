"""All exercises in their order, found by name or number."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final

from warplens_lab.puzzles import elementwise, neighbours, outer, products, rows
from warplens_lab.puzzles.records import Puzzle
from warplens_run.base.errors import UsageError

_GROUPS: Final = (elementwise.PUZZLES, rows.PUZZLES, neighbours.PUZZLES, products.PUZZLES, outer.PUZZLES)
PUZZLES: Final[tuple[Puzzle, ...]] = tuple(
    sorted((puzzle for group in _GROUPS for puzzle in group), key=lambda puzzle: puzzle.number)
)
BY_NAME: Final = {puzzle.name: puzzle for puzzle in PUZZLES}


def find(text: str) -> Puzzle:
    """
    >>> find("softmax").number, find("6").name, find("06_softmax.py").name
    (6, 'softmax', 'softmax')
    """
    name = text.removesuffix(".py")
    for puzzle in PUZZLES:
        if name in (puzzle.name, str(puzzle.number), puzzle.file_name.removesuffix(".py")):
            return puzzle
    near = get_close_matches(name, BY_NAME, 1)
    hint = f"did you mean {near[0]}?" if near else f"one of: {', '.join(BY_NAME)}"
    raise UsageError(f"no such puzzle: {text!r}", hint=hint)


def after(puzzle: Puzzle) -> Puzzle | None:
    """The next one, None after the last."""
    return next((other for other in PUZZLES if other.number == puzzle.number + 1), None)
