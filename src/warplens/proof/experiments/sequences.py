"""Recorded calls, one after the other, as one unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from warplens_run.formats.replay_plan import Argument, Storage, TensorView, Times, Unit
from warplens_run.proof.sequence_calls import CallSequence, OpCall, to_text

SEQUENCE: Final = "warplens::sequence"
CHAIN: Final = "warplens::chain"
COMPILED_CHAIN: Final = "warplens::compiled_chain"


@dataclass
class _Tensors:
    """The tensors of several units in one list, each unit with storages of its own."""

    views: list[TensorView] = field(default_factory=list)
    storages: list[Storage] = field(default_factory=list)

    def call_of(self, unit: Unit) -> OpCall:
        first = len(self.storages)
        self.storages += unit.storages
        return OpCall(unit.op, unit.overload, tuple(self._argument(argument, first) for argument in unit.arguments))

    def _argument(self, argument: Argument, first: int) -> Argument:
        if argument.kind == "choice":  # the likeliest comes first
            return self._argument(argument.items[0], first)
        if argument.tensor is not None:
            tensor = replace(argument.tensor, storage=first + argument.tensor.storage)
            self.views.append(tensor)
            return replace(argument, tensor=replace(tensor, storage=len(self.views) - 1))
        return replace(argument, items=tuple(self._argument(item, first) for item in argument.items))


def sequence_unit(name: str, op: str, units: Sequence[Unit]) -> Unit:
    """The units, which may repeat, in this order: a unit that runs twice has the same tensors both times."""
    tensors = _Tensors()
    places: dict[str, int] = {}
    calls: list[OpCall] = []
    order: list[int] = []
    for unit in units:
        if unit.id not in places:
            places[unit.id] = len(calls)
            calls.append(tensors.call_of(unit))
        order.append(places[unit.id])
    arguments = (
        Argument("list", items=tuple(Argument("tensor", tensor=view) for view in tensors.views)),
        Argument("str", to_text(CallSequence(tuple(calls), tuple(order)))),
    )
    return Unit(
        id=name,
        op=op,
        kernels=(),
        count=1,
        times=_total(units),
        api="ATen op",
        arguments=arguments,
        storages=tuple(tensors.storages),
    )


def separate_calls_unit(name: str, op: str, units: Sequence[Unit]) -> Unit:
    """The same, but each call has tensors of its own, so that results can flow from one to the next."""
    return sequence_unit(name, op, [replace(unit, id=f"{unit.id}/{number}") for number, unit in enumerate(units)])


def _total(units: Sequence[Unit]) -> Times:
    ns = sum(unit.times.median_ns for unit in units)
    return Times(round(ns), ns, ns, ns, round(ns), round(ns))
