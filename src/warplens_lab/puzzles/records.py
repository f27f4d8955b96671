"""What an exercise is, what one launch of it is given and must give, and what the checker says about an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from warplens_lab.puzzles.drawing import Draw

Level = Literal["first steps", "easy", "medium", "hard"]
Measure = Literal["loaded", "wave"]


@dataclass(frozen=True)
class Case:
    """One launch: the arguments in the kernel's order, and what its outputs must hold afterwards.

    `mistakes` are outputs of kernels that go wrong in a known way, each under the words that say how. `least_loaded`
    is what a good kernel with these blocks must load, in bytes; None where that is every input once.
    """

    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    expected: Mapping[str, Any]
    mistakes: Mapping[str, Any] = field(default_factory=dict)
    least_loaded: int | None = None
    flop: int | None = None
    tolerance: float = 1e-4

    @property
    def inputs(self) -> dict[str, Any]:
        """The tensors that the kernel only reads."""
        tensors = {name: value for name, value in self.arguments.items() if hasattr(value, "data_ptr")}
        return {name: tensor for name, tensor in tensors.items() if name not in self.expected}


@dataclass(frozen=True)
class Sizes:
    """The sizes of one case of an exercise; `remark` says what the case tests."""

    values: Mapping[str, int | float | bool]
    remark: str = ""

    @property
    def text(self) -> str:
        """
        >>> Sizes({"n": 100, "gap": 0, "block": 64}, "the last block is not full").text
        'n = 100, block = 64 (the last block is not full)'
        """
        listed = ", ".join(f"{name} = {value}" for name, value in self.values.items() if value)
        return f"{listed} ({self.remark})" if self.remark else listed


def sizes(remark: str = "", **values: int | float | bool) -> Sizes:
    return Sizes(values, remark)


@dataclass(frozen=True)
class Goal:
    """What a good answer reaches besides being right; `limit` is of the measure that `measuring` defines."""

    measure: Measure
    limit: float
    words: str


@dataclass(frozen=True)
class Puzzle:
    """An exercise; its kernel has its name. `measured` is the number of the case whose costs are reported."""

    number: int
    name: str
    level: Level
    task: str
    teaches: str
    hints: tuple[str, ...]
    make: Callable[..., Case]
    cases: tuple[Sizes, ...]
    goal: Goal | None = None
    measured: int = 0

    @property
    def file_name(self) -> str:
        return f"{self.number:02d}_{self.name}.py"

    def case(self, number: int, draw: Draw) -> Case:
        return self.make(draw, **self.cases[number].values)


@dataclass(frozen=True)
class Spot:
    """A statement of the answer, and a program that ran it, also by its number; the line is 0 where it is not known."""

    program: str
    number: int
    line: int
    statement: str


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: the sentence, the statements that cause it, what else is known, and what may help."""

    kind: str
    text: str
    spots: tuple[Spot, ...] = ()
    details: tuple[str, ...] = ()
    advice: str = ""
    tensor: str = ""
    index: tuple[int, ...] | None = None
    expected: float | None = None
    got: float | None = None


@dataclass(frozen=True)
class Costs:
    """What a right answer moves and computes in one case, and the least that would do."""

    case: str
    loaded_bytes: int
    least_loaded_bytes: int
    stored_bytes: int
    least_stored_bytes: int
    flop: int
    least_flop: int | None
    notes: tuple[str, ...]
    goal: str = ""
    goal_met: bool | None = None
    goal_value: str = ""


@dataclass(frozen=True)
class Report:
    """The checker's word on one file. `trouble` says why it could not even be launched."""

    puzzle: str
    file: str
    passed: bool
    cases_passed: int = 0
    cases: int = 0
    case: str = ""
    problems: tuple[Problem, ...] = ()
    costs: Costs | None = None
    signature: str = ""
    trouble: str = ""
