"""Triton kernels that a program launched itself: the recorded source, launched again with the recorded grid.

That runs code from the plan, so it happens only where the run allows it.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from warplens_run.formats.replay_plan import Argument, Unit
from warplens_run.replay.calls import OpCall
from warplens_run.replay.faults import BadUnit
from warplens_run.replay.graphs import Candidate
from warplens_run.replay.inputs import Inputs
from warplens_run.replay.source_files import imported
from warplens_run.replay.triton_passing import passing_of
from warplens_run.replay.values import value_of

TRITON_DTYPES: Final = {
    # as PyTorch names them: as Triton does, where that is another name
    "bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5", "float8_e4m3fnuz": "float8e4b8",
    "float8_e5m2fnuz": "float8e5b16",
}  # fmt: skip


def can_interpret() -> bool:
    """Whether Triton runs kernels on the CPU here, which TRITON_INTERPRET=1 makes it do."""
    try:
        knobs = importlib.import_module("triton.knobs")
    except ImportError:
        return False
    return bool(knobs.runtime.interpret)


def candidate(unit: Unit, path: Path, device: Any) -> Candidate:
    """The launch, on inputs like these."""
    assert unit.triton is not None
    module = imported(path)
    function = getattr(module, unit.triton.kernel, None)
    if function is None or not hasattr(function, "run"):
        raise BadUnit(f"its source has no Triton kernel {unit.triton.kernel}")
    _rename(function, unit)
    launch = function[unit.triton.grid]
    names = _parameters(function)
    if len(names) != len(unit.arguments):
        raise BadUnit(f"{unit.op} takes {len(names)} arguments, the plan has {len(unit.arguments)}")
    passing = passing_of(unit, names)

    def bound(inputs: Inputs) -> OpCall:
        values = [_value(argument, inputs, device, module) for argument in unit.arguments]
        if not passing.is_named:
            return OpCall(launch, tuple(values), passing.options)
        return OpCall(launch, (), dict(zip(names, values, strict=True)) | passing.options)

    return bound


def _rename(function: Any, unit: Unit) -> None:
    """A kernel may choose its name for the GPU by what it is compiled for; here it is the one in the trace."""
    name = unit.kernels[0].name
    if name != function.__name__ and hasattr(function, "_repr"):
        function._repr = lambda _: name


def _parameters(function: Any) -> list[str]:
    return [str(name) for name in function.arg_names]


def _value(argument: Argument, inputs: Inputs, device: Any, module: ModuleType) -> Any:
    if argument.kind == "list":
        return tuple(_value(item, inputs, device, module) for item in argument.items)
    if argument.kind == "dtype":
        language = importlib.import_module("triton.language")
        return getattr(language, TRITON_DTYPES.get(argument.value, argument.value))
    if argument.kind == "function":
        if not hasattr(module, argument.value):
            raise BadUnit(f"its source has no function {argument.value}")
        return getattr(module, argument.value)
    if argument.kind == "descriptor":
        return _descriptor(argument, inputs, device, module)
    return value_of(argument, inputs, device)


def _descriptor(argument: Argument, inputs: Inputs, device: Any, module: ModuleType) -> Any:
    tools = importlib.import_module("triton.tools.tensor_descriptor")
    if len(argument.items) != 4:
        raise BadUnit("a descriptor without tensor, shape, strides and block")
    base, *sides = (_value(item, inputs, device, module) for item in argument.items)
    shape, strides, block = map(list, sides)
    # Triton 3.4 and older have no choice of what is read outside.
    padding = {"padding": argument.value} if argument.value != "zero" else {}
    return tools.TensorDescriptor(base, shape, strides, block, **padding)
