"""The messages between the supervisor and its worker: one JSON object per line, one record each."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from warplens_run.base.errors import FormatError
from warplens_run.formats.records import decode, encode
from warplens_run.formats.replay_result import MeterFacts, State, UnitResult
from warplens_run.replay.options import RunOptions


@dataclass(frozen=True)
class ReplayJob:
    """The first message to a worker."""

    plan: str
    """path of its file"""
    plan_fingerprint: str
    options: RunOptions
    folder: str = ""
    """for the worker's own files; gone when it has ended"""
    meter: MeterFacts | None = None
    """The idle power as an earlier worker of the same run measured it."""


@dataclass(frozen=True)
class UnitTask:
    """Time this unit, or measure its energy."""

    unit: str
    energy: bool = False
    safe: bool = False
    """With values that no op refuses."""


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


Request = ReplayJob | UnitTask
"""From the supervisor to the worker."""
Reply = Hello | WorkerFault | Alive | Answer
"""From the worker to the supervisor."""
T = TypeVar("T")
REPLIES: Final[tuple[type[Any], ...]] = (Hello, WorkerFault, Alive, Answer)


def line(message: Request | Reply) -> str:
    """
    >>> line(UnitTask("u1"))
    '{"unittask": {"unit": "u1"}}'
    """
    return json.dumps({_name(type(message)): encode(message)}, allow_nan=False)


def read_job(text: str) -> ReplayJob:
    return _read(text, (ReplayJob,))


def read_task(text: str) -> UnitTask:
    return _read(text, (UnitTask,))


def read_reply(text: str) -> Reply:
    reply: Reply = _read(text, REPLIES)
    return reply


def _read(text: str, kinds: tuple[type[T], ...]) -> T:
    try:
        (name, value), *rest = json.loads(text).items()
    except (ValueError, AttributeError) as error:
        raise FormatError(f"not a message: {text[:60]!r}") from error
    for kind in kinds:
        if name == _name(kind) and not rest:
            return decode(kind, value, name)
    raise FormatError(f"not a known message: {text[:60]!r}")


def _name(kind: type) -> str:
    return kind.__name__.lower()
