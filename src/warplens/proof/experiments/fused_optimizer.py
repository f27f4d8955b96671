"""An optimizer's step over all parameters as one fused call."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from warplens.planning.schemas import overloads
from warplens.proof.experiments.finding_units import UnitInStep
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens.replay.plan_file import DTYPES, Argument, Fill, Storage, TensorView, Times, Unit

FUSED: Final = "aten::_fused_adamw_"
UPDATES: Final = re.compile(r"aten::(?:_foreach_)?addcdiv_$")
"""The op with which Adam and AdamW change each parameter, once a step."""
MOST_TENSORS: Final = 20_000
NUMBERS: Final = {"lr": 1e-3, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.01, "eps": 1e-8}
FLAGS: Final = ("amsgrad", "maximize")


def fused_optimizer(members: Sequence[UnitInStep]) -> Unit:
    """The fused step of the parameters that these units change."""
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
    builder = _Lists(parameters)
    arguments = tuple(builder.argument(parameter.name) for parameter in schema.parameters)
    times = [member.unit.times.median_ns * member.calls for member in members]
    total = sum(times)
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

    def __init__(self, parameters: Sequence[TensorView]) -> None:
        self._parameters = parameters
        self.storages: list[Storage] = []

    def argument(self, name: str) -> Argument:
        if name in ("self", "grads", "exp_avgs", "exp_avg_sqs"):
            fill = Fill("uniform", 0.0, 1.0) if name == "exp_avg_sqs" else Fill()
            items = [self._tensor(tensor.shape, tensor.dtype, fill, name != "grads") for tensor in self._parameters]
            return Argument("list", items=tuple(items))
        if name == "state_steps":
            steps = [self._tensor((), "float32", Fill("constant", 10.0), False) for _ in self._parameters]
            return Argument("list", items=tuple(steps))
        if name in NUMBERS:
            return Argument("float", NUMBERS[name])
        if name in FLAGS:
            return Argument("bool", False)
        return Argument("list") if name == "max_exp_avg_sqs" else Argument("none")

    def _tensor(self, shape: tuple[int, ...], dtype: str, fill: Fill, is_written: bool) -> Argument:
        strides, step = [], 1
        for side in reversed(shape):
            strides.append(step)
            step *= max(1, side)
        storage = Storage(max(1, step) * DTYPES[dtype], dtype, fill, written=is_written)
        self.storages.append(storage)
        return Argument("tensor", tensor=TensorView(len(self.storages) - 1, shape, tuple(reversed(strides)), dtype))
