"""What the processes of a trial send each other: records as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from warplens_run.trying.known import FixName
from warplens_run.trying.trial import Order, Recorded, Refused, TrialPlan, Turn


@dataclass(frozen=True)
class SideFixes:
    """The fixes of a side that are made inside its process."""

    side: int
    fixes: tuple[FixName, ...] = ()
    attention: str = ""


@dataclass(frozen=True)
class Job:
    """The first message to a process: what it runs."""

    words: tuple[str, ...]
    """The program and its arguments."""
    plan: TrialPlan
    sides: tuple[SideFixes, ...]


@dataclass(frozen=True)
class Ready:
    """The fixes are made, and the program has not begun; the names of each side's fixes."""

    names: dict[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Go:
    """Run the program; with `stop`, or in the place of an order, end."""

    stop: bool = False


@dataclass(frozen=True)
class Ended:
    """How the program ended, and on which side it was then."""

    status: str
    exit_code: int
    side: int
    steps: int
    error: str = ""


Message = Job | Ready | Go | Ended | Order | Turn | Refused | Recorded
KINDS: Final[Mapping[str, type[Any]]] = {
    kind.__name__: kind for kind in (Job, Ready, Go, Ended, Order, Turn, Refused, Recorded)
}


def encode(message: Message) -> bytes:
    return json.dumps({"kind": type(message).__name__, **asdict(message)}).encode()


def decode(content: bytes) -> Message:
    fields = json.loads(content)
    kind = fields.pop("kind")
    if kind == Job.__name__:
        sides = tuple(
            SideFixes(side["side"], tuple(FixName(**name) for name in side["fixes"]), side["attention"])
            for side in fields["sides"]
        )
        return Job(tuple(fields["words"]), TrialPlan(**fields["plan"]), sides)
    message: Message = KINDS[kind](**fields)
    return message
