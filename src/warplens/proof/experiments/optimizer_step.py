"""An optimizer's step over all parameters at once: as one fused call, and as one call for each operation (foreach)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from warplens.planning.recorded import contiguous
from warplens.planning.schemas import overloads
from warplens.proof.experiments.finding_units import UnitInStep, merged, most_of
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_run.formats.proof_plan import Swap, UnitCalls, Variant
from warplens_run.formats.replay_plan import APPROXIMATE, DTYPES, Argument, Fill, Storage, TensorView, Times, Unit

FUSED: Final = "aten::_fused_adamw_"
FOREACH, IN_PARTS = "warplens::adamw_foreach", "warplens::adamw_in_parts"
UPDATES: Final = re.compile(r"aten::(?P<foreach>_foreach_)?addcdiv_$")
"""The op with which Adam and AdamW change each parameter, once a step."""
MOST_TENSORS: Final = 20_000
NEARLY_ALL: Final = 0.97
"""Of the time of the step's many small units."""
NUMBERS: Final = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.01, "eps": 1e-8}
FLAGS: Final = ("amsgrad", "maximize")


def optimizer_at_once(members: Sequence[UnitInStep]) -> tuple[list[Variant], list[Unit]]:
    """The step of the parameters that these units change, and the units that takes."""
    fused = fused_step(members)
    reference = replace(fused, id="optimizer.parts", op=IN_PARTS, schema="")
    after = {"fused": fused}
    if not any((match := UPDATES.match(member.unit.op)) and match["foreach"] for member in members):
        after["foreach"] = replace(fused_step(members, "cpu"), id="optimizer.foreach", op=FOREACH, schema="")
    before = tuple(UnitCalls(member.unit.id, member.calls) for member in most_of(merged(members), NEARLY_ALL))
    notes = tuple(
        dict.fromkeys(note for member in members for note in member.unit.notes if note.startswith(APPROXIMATE))
    )
    variants = [
        Variant(name, (Swap(before, (UnitCalls(unit.id, 1.0),), reference=reference.id),), notes=notes)
        for name, unit in after.items()
    ]
    return variants, [*after.values(), reference]


def fused_step(members: Sequence[UnitInStep], counts_on: str = "cuda") -> Unit:
    """The fused step of the parameters that these units change; `counts_on`: the device that counts their steps, which
    is the host where a step is not fused."""
    parameters = [
        tensor
        for member in members
        if UPDATES.match(member.unit.op)
        for tensor in _changed(member.unit)
        for _ in range(max(1, round(member.calls)))
    ]
    if not parameters:
        raise NoExperiment("only Adam and AdamW have a fused step that is run here")
    if len(parameters) > MOST_TENSORS:
        raise NoExperiment(f"{len(parameters):,} parameters are more than are run at once")
    schema = next((schema for schema in overloads(FUSED) if schema.overload == ""), None)
    if schema is None:
        raise NoExperiment(f"no schema of {FUSED} is known")
    builder = _Lists(parameters, counts_on)
    arguments = tuple(builder.argument(parameter.name) for parameter in schema.parameters)
    total = sum(member.unit.times.median_ns * member.calls for member in members)
    return Unit(
        id="optimizer.fused",
        op=FUSED,
        kernels=(),
        count=1,
        times=Times(round(total), total, total, total, round(total), round(total)),
        api="ATen op",
        schema=schema.text,
        arguments=arguments,
        storages=tuple(builder.storages),
    )


def _changed(unit: Unit) -> Iterator[TensorView]:
    """The tensors that the unit's first argument names."""
    first = unit.arguments[0]
    for argument in first.items or (first,):
        if argument.tensor is not None:
            yield argument.tensor


class _Lists:
    """Arguments of the fused step: for each parameter a tensor of its own in each list."""

    def __init__(self, parameters: Sequence[TensorView], counts_on: str) -> None:
        self._parameters = parameters
        self._counts = Storage(DTYPES["float32"], "float32", Fill("constant", 10.0), counts_on)
        self.storages: list[Storage] = []

    def argument(self, name: str) -> Argument:
        if name in ("self", "grads", "exp_avgs", "exp_avg_sqs"):
            fill = Fill("uniform", 0.0, 1.0) if name == "exp_avg_sqs" else Fill()
            return Argument("list", items=tuple(self._like(own, fill, name != "grads") for own in self._parameters))
        if name == "state_steps":
            return Argument("list", items=tuple(self._tensor((), self._counts) for _ in self._parameters))
        if name in NUMBERS:
            return Argument("float", NUMBERS[name])
        if name in FLAGS:
            return Argument("bool", False)
        return Argument("list") if name == "max_exp_avg_sqs" else Argument("none")

    def _like(self, parameter: TensorView, fill: Fill, is_written: bool) -> Argument:
        size = max(1, math.prod(parameter.shape)) * DTYPES[parameter.dtype]
        return self._tensor(parameter.shape, Storage(size, parameter.dtype, fill, written=is_written))

    def _tensor(self, shape: tuple[int, ...], storage: Storage) -> Argument:
        self.storages.append(storage)
        return Argument("tensor", tensor=TensorView(len(self.storages) - 1, shape, contiguous(shape), storage.dtype))
