"""Arguments of a plan as Python values that PyTorch's dispatcher takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import torch

from warplens_run.formats.records import SPECIAL_FLOATS
from warplens_run.formats.replay_plan import LAYOUTS, MEMORY_FORMATS, Argument, TensorView
from warplens_run.replay.faults import BadUnit
from warplens_run.replay.fills import dtype_of


class TensorSource(Protocol):
    """Where the tensors among arguments come from."""

    def tensor(self, record: TensorView, /) -> Any: ...


def value_of(argument: Argument, inputs: TensorSource, device: Any) -> Any:
    if argument.kind == "tensor" and argument.tensor is not None:
        return inputs.tensor(argument.tensor)
    if argument.kind in ("none", "undefined"):  # the dispatcher takes None for a tensor that is not defined
        return None
    if argument.kind == "list":
        return [value_of(item, inputs, device) for item in argument.items]
    if argument.kind == "device":
        return _device(argument.value, device)
    return READ[argument.kind](argument.value)


def _device(value: Any, device: Any) -> Any:
    """Which GPU is the runner's choice."""
    if not isinstance(value, str) or value.partition(":")[0] not in ("cuda", "cpu", "meta"):
        raise BadUnit(f"no device: {value!r}")
    return device if value.startswith("cuda") else torch.device(value.partition(":")[0])


def _typed(kind: Any, words: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise BadUnit(f"not {words}: {value!r}")
        return value

    return read


def _float(value: Any) -> float:
    if isinstance(value, str) and value in SPECIAL_FLOATS:
        return SPECIAL_FLOATS[value]
    return float(_typed((int, float), "a number")(value))


def _complex(value: Any) -> complex:
    if not isinstance(value, (list, tuple)) or len(value) != 2:
        raise BadUnit(f"not a complex number: {value!r}")
    return complex(_float(value[0]), _float(value[1]))


def _word(words: tuple[str, ...], noun: str) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        name = value.removeprefix("torch.") if isinstance(value, str) else ""
        if name not in words:
            raise BadUnit(f"no {noun}: {value!r}")
        return getattr(torch, name)

    return read


READ: Final[dict[str, Callable[[Any], Any]]] = {
    "int": _typed(int, "a whole number"),
    "float": _float,
    "bool": _typed(bool, "true or false"),
    "str": _typed(str, "a text"),
    "complex": _complex,
    "dtype": dtype_of,
    "layout": _word(LAYOUTS, "layout"),
    "memory_format": _word(MEMORY_FORMATS, "memory format"),
}
