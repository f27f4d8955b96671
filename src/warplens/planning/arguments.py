"""A call's arguments and storages as a plan holds them, from what was recorded of it and what its op takes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from warplens.model.copies import copy_ends
from warplens.planning.fills import fill_of
from warplens.planning.multi_tensor import list_dtypes
from warplens.planning.parameter_lists import OMITTED
from warplens.planning.recorded import Recorded, RecordedTensor
from warplens.planning.schemas import OpParameter, OpSchema, overloads
from warplens.planning.values import CHOICES, NONE, coded, default_of, scalar, scalars
from warplens_run.formats.replay_plan import DTYPES, Argument, Fill, Storage, TensorView, extent

UNDEFINED: Final = Argument("undefined")
ONE: Final = Argument("float", 1.0)
PLAIN: Final = ("int", "float", "bool", "Scalar", "complex")
CODED: Final = ("ScalarType", "Layout", "MemoryFormat")
POINTWISE: Final = re.compile(
    r"(add|sub|rsub|mul|div|pow|eq|ne|lt|le|gt|ge|where|clamp\w*|maximum|minimum|remainder|fmod|floor_divide|true_divide|"
    r"atan2|bitwise_\w+|logical_\w+|masked_fill|lerp|addcmul|addcdiv|fill|copysign|hypot|xlogy|nextafter)_?"
)
SCALAR_KERNEL: Final = re.compile(r"AUnaryFunctor|BUnaryFunctor|OnSelf|OnOther|FillFunctor|tensor_scalar")
SCALAR_LISTS: Final = re.compile(r"TensorListScalarListMetadata<")
PINNED: Final = re.compile("pinned", re.IGNORECASE)
LIST_DTYPES: Final = (
    # in a kernel's template arguments: the element type of a list that is recorded without it
    ("c10::BFloat16", "bfloat16"), ("c10::Half", "float16"), ("double", "float64"), ("float", "float32"),
    ("OpaqueType<1", "uint8"), ("OpaqueType<2", "bfloat16"), ("OpaqueType<4", "float32"), ("OpaqueType<8", "int64"),
)  # fmt: skip
WHOLE_LISTS: Final = {"offsets": "int64"}
"""Lists of whole numbers, by the argument's name: the kernel's name shows the type of others."""
DRAWN: Final = ("integers", "permutation")
"""Fills of which only smallest and largest value count."""
GUESSED_DTYPE: Final = "the dtype of a list is derived from the kernel's name"


class NotReplayable(Exception):  # noqa: N818 - no error: a unit that cannot be rebuilt, and why
    pass


@dataclass
class CallBuilder:
    """The storages of one call while its arguments are being built."""

    op: str
    """Without its namespace."""
    recorded: Mapping[str, Recorded]
    kernels: Sequence[str]
    ranges: Mapping[int, tuple[float, float]] = field(default_factory=dict)
    """Smallest and largest value of index tensors by the argument's place, where the ExecutionTrace has them."""
    storages: list[Storage] = field(default_factory=list)
    shared: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def tensor(self, name: str, recorded: RecordedTensor, *, written: bool, position: int, item: int = 0) -> Argument:
        dtype = recorded.dtype or WHOLE_LISTS.get(name) or self._list_dtype()
        tensor = RecordedTensor(
            recorded.shape, dtype, recorded.stride, recorded.storage, recorded.offset, recorded.device
        )
        device, pinned = self._device(name, tensor)
        argument = self._on(name, tensor, device, pinned, written, position, item)
        if not tensor.device and not tensor.shape and POINTWISE.fullmatch(self.op) and name != "self" and not written:
            on_cpu = self._on(name, tensor, "cpu", False, written, position, item)
            scalar_first = any(SCALAR_KERNEL.search(kernel) for kernel in self.kernels)
            return Argument("choice", items=(on_cpu, argument) if scalar_first else (argument, on_cpu))
        return argument

    def _on(
        self, name: str, recorded: RecordedTensor, device: str, pinned: bool, written: bool, position: int, item: int
    ) -> Argument:
        fill = fill_of(self.op, name, recorded, self.recorded, item)
        low, high = self.ranges.get(position, (fill.low, fill.high - 1))
        if fill.kind in DRAWN and (low, high + 1) != (fill.low, fill.high):
            fill = Fill("integers", low, high + 1)
        index = self.shared.get(recorded.storage) if recorded.storage is not None else None
        if index is None:
            index = len(self.storages)
            self.storages.append(Storage(0, recorded.dtype, fill, device, pinned=pinned))
            if recorded.storage is not None:
                self.shared[recorded.storage] = index
        tensor = TensorView(index, recorded.shape, recorded.stride, recorded.dtype, recorded.offset)
        storage = self.storages[index]
        size = max(storage.bytes, extent(tensor) * DTYPES[recorded.dtype])
        self.storages[index] = Storage(
            size,
            storage.dtype,
            storage.fill,
            storage.device,
            storage.written or written,
            storage.pinned,
            storage.reuse_bytes,
        )
        return Argument("tensor", tensor=tensor)

    def _device(self, name: str, recorded: RecordedTensor) -> tuple[str, bool]:
        pinned = any(PINNED.search(kernel) for kernel in self.kernels)
        if self.op in ("copy_", "_copy_from") and not recorded.device:
            if name == "src" and any(copy_ends(kernel) == "HD" for kernel in self.kernels):
                return "cpu", pinned
            if name == "self" and any(copy_ends(kernel) == "DH" for kernel in self.kernels):
                return "cpu", pinned
        device = recorded.device or "cuda"
        return device, device == "cpu" and pinned

    def _list_dtype(self) -> str:
        tensors = [
            tensor for value in self.recorded.values() if value.kind == "tensor" for tensor in value.tensors if tensor
        ]
        for kernel in self.kernels:
            if dtypes := list_dtypes(kernel):
                self._note(GUESSED_DTYPE)
                return dtypes[0]
            for text, dtype in LIST_DTYPES:
                if text in kernel:
                    self._note(GUESSED_DTYPE)
                    return dtype
        if tensors:
            return tensors[0].dtype
        raise NotReplayable("the dtype of its list of tensors is not recorded; an ExecutionTrace has it")

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def choose(name: str, overload: str, recorded: Sequence[Recorded], kernels: Sequence[str] = ()) -> OpSchema:
    """The overload that a recorded call must have been."""
    schemas = overloads(name)
    if not overload and any(SCALAR_LISTS.search(kernel) for kernel in kernels):
        schemas = tuple(schema for schema in schemas if schema.overload == "ScalarList") or schemas
    if overload:
        schemas = tuple(schema for schema in schemas if schema.overload == overload)
    if not schemas:
        raise NotReplayable(f"the schema of {name} is not known; an ExecutionTrace has it")
    fitting = [schema for schema in schemas if _fits(schema, recorded)]
    exact = [schema for schema in fitting if len(schema.parameters) == len(recorded)]
    candidates = exact or fitting
    if not candidates:
        raise NotReplayable(f"its recorded arguments match no overload of {name}")
    return min(candidates, key=lambda schema: (len(schema.parameters), schema.text))


def _fits(schema: OpSchema, recorded: Sequence[Recorded]) -> bool:
    if len(recorded) > len(schema.parameters):
        return False
    takes_all = all(_takes(parameter, value) for parameter, value in zip(schema.parameters, recorded, strict=False))
    return takes_all and all(default_of(parameter) is not None for parameter in schema.parameters[len(recorded) :])


def _takes(parameter: OpParameter, value: Recorded) -> bool:
    kind, base = value.kind, parameter.base
    if base == "Tensor":
        if parameter.is_list:
            return kind == "tensors" or (kind == "unknown" and "?" in parameter.type)
        return kind in ("tensor", "undefined", "strange") or (kind == "unknown" and not value.text)
    if kind in ("tensor", "tensors", "undefined", "strange"):
        return False
    if base in PLAIN:
        if parameter.is_list:
            return (kind == "scalars" and scalars(value.text, base) is not None) or (kind == "unknown")
        if kind == "unknown":
            return parameter.optional or default_of(parameter) is not None
        return kind == "scalar" and scalar(value.text, base) is not None
    if base in CODED:
        return kind == "unknown" or (kind == "scalar" and coded(value.text, base) is not None)
    return kind in ("unknown", "text", "device")


def build(schema: OpSchema, recorded: Sequence[Recorded], call: CallBuilder) -> tuple[Argument, ...]:
    """One argument per parameter of the schema; `call` gathers the storages. Raises `Refusal`."""
    arguments = []
    for position, parameter in enumerate(schema.parameters):
        value = recorded[position] if position < len(recorded) else Recorded("unknown")
        arguments.append(_argument(parameter, value, call, position))
    return tuple(arguments)


def _argument(parameter: OpParameter, value: Recorded, call: CallBuilder, position: int) -> Argument:
    if parameter.base == "Tensor":
        return _tensor_argument(parameter, value, call, position)
    argument = None
    if value.kind == "scalar":
        of_code = parameter.base in CODED
        argument = coded(value.text, parameter.base) if of_code else scalar(value.text, parameter.base)
        if argument is not None and parameter.is_list:
            argument = Argument("list", items=(argument,))
    elif value.kind == "scalars":
        argument = scalars(value.text, parameter.base)
    elif value.kind == "text":
        argument = Argument("str", value.text)
    elif value.kind == "device":
        argument = Argument("device", "cpu" if value.text.startswith("cpu") else "cuda")
    if argument is not None:
        return argument
    if value.kind in ("scalar", "scalars") and value.text:
        raise NotReplayable(f"the value of {parameter.name!r} is not understood: {value.text[:40]!r}")
    return _unrecorded(parameter, call)


def _tensor_argument(parameter: OpParameter, value: Recorded, call: CallBuilder, position: int) -> Argument:
    name, written = parameter.name, parameter.written
    if value.kind == "strange":
        raise NotReplayable(f"{name!r} cannot be rebuilt: a tensor {value.text}")
    if not parameter.is_list:
        if value.kind == "tensor" and value.tensors[0] is not None:
            return call.tensor(name, value.tensors[0], written=written, position=position)
        return NONE if parameter.optional else UNDEFINED
    if value.kind == "scalars" and value.text == "[]":  # an empty list does not show its element type
        return Argument("list")
    if value.kind != "tensors":
        if parameter.optional:
            return NONE
        raise NotReplayable(f"the tensors of {name!r} are not recorded; an ExecutionTrace has them")
    if not value.tensors and any(
        argument.kind == "tensors" and not argument.tensors for argument in _first_lists(call)
    ):
        raise NotReplayable(OMITTED)
    items = tuple(
        call.tensor(name, tensor, written=written, position=position, item=number) if tensor is not None else NONE
        for number, tensor in enumerate(value.tensors)
    )
    return Argument("list", items=items)


def _first_lists(call: CallBuilder) -> list[Recorded]:
    """The first list of tensors: an op on lists has nothing to do where that one is empty."""
    return [value for value in call.recorded.values() if value.kind == "tensors"][:1]


def _unrecorded(parameter: OpParameter, call: CallBuilder) -> Argument:
    """What to pass where the profiler wrote nothing down: None, a default, or one of several to be tried."""
    if parameter.base == "str":
        first = default_of(parameter)
        texts = CHOICES.get(parameter.name, ())
        values = [first] if first is not None else []
        values += [value for text in texts if (value := Argument("str", text)) not in values]
        if values:
            return values[0] if len(values) == 1 else Argument("choice", items=tuple(values))
    if parameter.base == "Device":
        on_gpu = any(value.kind in ("tensor", "tensors") for value in call.recorded.values())
        return NONE if on_gpu and parameter.optional else Argument("device", "cuda")
    default = default_of(parameter)
    if default is None and parameter.is_list and parameter.base == "Scalar":  # one for each tensor
        return Argument("list", items=(ONE,) * max((len(value.tensors) for value in _first_lists(call)), default=0))
    if default is None and parameter.is_list and parameter.base in PLAIN:
        default = Argument("list")
    if default is None:
        raise NotReplayable(f"the value of {parameter.name!r} is not recorded; an ExecutionTrace has it")
    return default
