"""Calls of several ops as the text that a unit of `warplens::sequence` or `warplens::chain` is given."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from warplens_run.base.errors import FormatError
from warplens_run.formats.records import decode, encode
from warplens_run.formats.replay_plan import Argument


@dataclass(frozen=True)
class OpCall:
    """A call; `storage` of a tensor among its arguments is the tensor's place in the list that the unit is given."""

    op: str
    overload: str = ""
    arguments: tuple[Argument, ...] = ()


@dataclass(frozen=True)
class CallSequence:
    """Different calls, and the order in which they run, by their place among them."""

    calls: tuple[OpCall, ...]
    order: tuple[int, ...]

    def in_order(self) -> list[OpCall]:
        return [self.calls[number] for number in self.order]


def to_text(sequence: CallSequence) -> str:
    return json.dumps(encode(sequence), separators=(",", ":"), allow_nan=False)


def from_text(text: str) -> CallSequence:
    try:
        sequence = decode(CallSequence, json.loads(text))
    except ValueError as error:
        raise FormatError(f"not a sequence of calls ({error})") from error
    if not all(0 <= number < len(sequence.calls) for number in sequence.order):
        raise FormatError("a call that the sequence does not have")
    return sequence


def tensors_among(arguments: Sequence[Argument]) -> list[Argument]:
    """Those that are tensors, also within lists."""
    found: list[Argument] = []
    for argument in arguments:
        found += [argument] if argument.tensor is not None else tensors_among(argument.items)
    return found
