"""What the supervisor and its worker say to each other: one JSON object a line, one record each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

from warplens.errors import FormatError
from warplens.replay.records import decode, encode
from warplens.replay.result_file import MeterFacts, State, UnitResult
from warplens.replay.running.options import RunOptions


@dataclass(frozen=True)
class ReplayJob:
    """The first thing a worker is told."""

    plan: str
    """path of its file"""
    plan_fingerprint: str
    options: RunOptions
    folder: str = ""
    """for the worker's own files; gone when it has ended"""
    meter: MeterFacts | None = None
    """The idle power as an earlier worker of the same run measured it."""


@dataclass(frozen=True)
class Do:
    """Time this unit, or measure its energy."""

    unit: str
    energy: bool = False


@dataclass(frozen=True)
class Hello:
    """The worker is ready."""

    device: str
    versions: dict[str, str] = field(default_factory=dict)
    state: State | None = None
    has_meter: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkerFault:
    """The worker cannot run anything."""

    message: str
    hint: str = ""


@dataclass(frozen=True)
class Alive:
    """The unit goes on with its next part, so that its time begins anew."""

    part: str


@dataclass(frozen=True)
class Answer:
    unit: UnitResult
    state: State | None = None
    meter: MeterFacts | None = None
    """With the idle power, once that is measured."""
    broken: bool = False
    """The unit left the GPU's context unusable: another process must do the rest."""


MESSAGES: Final[dict[str, Any]] = {
    kind.__name__.lower(): kind for kind in (ReplayJob, Do, Hello, WorkerFault, Alive, Answer)
}


def line(message: Any) -> str:
    """
    >>> line(Do("u1"))
    '{"do": {"unit": "u1"}}\\n'
    """
    return json.dumps({type(message).__name__.lower(): encode(message)}, allow_nan=False) + "\n"


def read(text: str) -> Any:
    try:
        (name, value), *rest = json.loads(text).items()
    except (ValueError, AttributeError) as error:
        raise FormatError(f"no message: {text[:60]!r}") from error
    if rest or name not in MESSAGES:
        raise FormatError(f"no known message: {text[:60]!r}")
    return decode(MESSAGES[name], value, name)
