"""How a launch of a Triton kernel passes its arguments and options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from warplens_run.formats.replay_plan import Unit

OF_THE_LAUNCH: Final = ("grid", "warmup")
"""Names that Triton's own launch takes."""


@dataclass(frozen=True)
class Passing:
    is_named: bool
    """Whether arguments are passed by name."""
    options: dict[str, int | bool | str]


def passing_of(unit: Unit, parameters: Sequence[str]) -> Passing:
    """A parameter may have the name of an option: passed by name it is both, and passed by place it is not the option.
    Which of the two the launch did shows in whether they had the same value."""
    assert unit.triton is not None
    config = unit.triton.config
    given = {name: argument.value for name, argument in zip(parameters, unit.arguments, strict=True)}
    is_named = not any(name in OF_THE_LAUNCH or config.get(name, value) != value for name, value in given.items())
    return Passing(is_named, {name: value for name, value in config.items() if name not in given})
