"""What a call was recorded with, whichever profiler wrote it down: one `Recorded` per argument."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from warplens.model.dtypes import profiler_spelling
from warplens.model.lists import decoded_list

DTYPES: Final = {
    # as PyTorch's profilers spell them: as PyTorch itself does
    "c10::BFloat16": "bfloat16", "c10::Half": "float16", "float": "float32", "double": "float64", "int": "int32",
    "long int": "int64", "long": "int64", "long long": "int64", "short int": "int16", "short": "int16",
    "signed char": "int8", "char": "int8", "unsigned char": "uint8", "short unsigned int": "uint16",
    "unsigned short": "uint16", "unsigned int": "uint32", "long unsigned int": "uint64", "unsigned long": "uint64",
    "bool": "bool", "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
    "c10::Float8_e4m3fnuz": "float8_e4m3fnuz", "c10::Float8_e5m2fnuz": "float8_e5m2fnuz",
    "c10::Float8_e8m0fnu": "float8_e8m0fnu", "c10::Float4_e2m1fn_x2": "float4_e2m1fn_x2",
    "c10::complex<float>": "complex64", "c10::complex<double>": "complex128", "c10::complex<c10::Half>": "complex32",
}  # fmt: skip
SCALAR_TYPES: Final = (
    # c10::ScalarType, by its number
    "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128",
    "bool", "qint8", "quint8", "qint32", "bfloat16", "quint4x2", "quint2x4", "bits1x8", "bits2x4", "bits4x2", "bits8",
    "bits16", "float8_e5m2", "float8_e4m3fn", "float8_e5m2fnuz", "float8_e4m3fnuz", "uint16", "uint32", "uint64",
)  # fmt: skip
TENSOR_TYPE: Final = re.compile(r"Tensor\((.*)\)")
NO_TENSOR: Final = "nullptr (uninitialized)"
NOT_STRIDED: Final = "that is sparse, or of another layout without strides"
SCALARS: Final = ("Scalar", "Int", "Double", "Bool", "ComplexDouble")


@dataclass(frozen=True)
class RecordedTensor:
    shape: tuple[int, ...]
    dtype: str
    """Empty where only the list's type is known."""
    stride: tuple[int, ...]
    storage: int | None = None
    """Equal for tensors in one storage; None where the profiler does not say."""
    offset: int = 0
    device: str = ""
    """cuda or cpu; empty where the profiler does not say."""


@dataclass(frozen=True)
class Recorded:
    """`kind`: tensor, tensors (a list), undefined, scalar, scalars (a list), text, device, strange, or unknown.

    For `unknown` the profiler wrote nothing down: None, or a value it does not record. A `strange` one is a tensor that
    cannot be rebuilt; `text` says what it is.
    """

    kind: str
    text: str = ""
    tensors: tuple[RecordedTensor | None, ...] = ()


def contiguous(shape: Sequence[int], order: Sequence[int] = ()) -> tuple[int, ...]:
    """The strides of a tensor without gaps; `order`: its dimensions in memory, the outermost first.

    >>> contiguous((2, 3, 4)), contiguous((2, 3, 4), order=(0, 2, 1))
    ((12, 4, 1), (12, 1, 3))
    """
    strides, step = [0] * len(shape), 1
    for dimension in reversed(order or range(len(shape))):
        strides[dimension] = step
        step *= max(shape[dimension], 1)
    return tuple(strides)


def from_spec(dims: str, types: str, strides: str, concrete: str) -> tuple[Recorded, ...]:
    """The arguments of a call as Kineto records them: four lists, each a JSON text.

    >>> [value.kind for value in from_spec("[[2],[],[]]", '["float","Scalar",""]', "[[1],[],[]]", '["","1.",""]')]
    ['tensor', 'scalar', 'unknown']
    """
    shapes, kinds, steps, values = (decoded_list(text) for text in (dims, types, strides, concrete))
    count = max(len(shapes), len(kinds))
    return tuple(
        _of_spec(
            _at(shapes, position),
            str(_at(kinds, position) or ""),
            _at(steps, position),
            str(_at(values, position) or ""),
        )
        for position in range(count)
    )


def _of_spec(shape: Any, kind: str, steps: Any, value: str) -> Recorded:
    if shape or not value:  # "Int" and the like are types of numbers as well
        kind = profiler_spelling(kind)
    if kind in DTYPES:
        if steps == [] and shape:
            return Recorded("strange", NOT_STRIDED)
        tensor = _tensor(shape, DTYPES[kind], steps)
        return Recorded("tensor", tensors=(tensor,)) if tensor is not None else Recorded("unknown")
    if kind == "TensorList":
        return Recorded("tensors", tensors=_tensors(shape, steps))
    if kind == "Scalar":
        return Recorded("scalar", value)
    if kind == "ScalarList":
        return Recorded("scalars", value)
    return Recorded("strange", _of_type(kind)) if kind.startswith("c10::") else Recorded("unknown", value)


def _of_type(kind: str) -> str:
    return f"of type {kind.removeprefix('c10::')}"


def _tensors(shapes: Any, steps: Any) -> tuple[RecordedTensor | None, ...]:
    """Lists of more than 30 tensors are recorded without any shapes."""
    if not isinstance(shapes, list) or not all(isinstance(shape, list) for shape in shapes):
        return ()
    steps = steps if isinstance(steps, list) and len(steps) == len(shapes) else [None] * len(shapes)
    return tuple(_tensor(shape, "", step) for shape, step in zip(shapes, steps, strict=True))


def _tensor(shape: Any, dtype: str, steps: Any) -> RecordedTensor | None:
    if not _are_integers(shape):
        return None
    strided = _are_integers(steps) and len(steps) == len(shape)
    return RecordedTensor(tuple(shape), dtype, tuple(steps) if strided else contiguous(shape))


class TracedCall(NamedTuple):
    """A call in an ExecutionTrace: a row of `Trace.arguments`; lists are JSON texts."""

    schema: str
    inputs: str
    input_shapes: str
    input_types: str
    input_strides: str
    kernel_file: str
    tensor_range: str


def from_arguments(call: TracedCall, spec: Sequence[Recorded]) -> tuple[Recorded, ...]:
    """The arguments of a call as an ExecutionTrace records them; `spec` (Kineto's) for the digits it cuts off."""
    lists = (call.inputs, call.input_shapes, call.input_types, call.input_strides)
    values, shapes, kinds, steps = map(decoded_list, lists)
    arguments = []
    for position, (value, kind) in enumerate(zip(values, kinds, strict=False)):
        full = spec[position] if position < len(spec) else None
        arguments.append(_of_node(value, str(kind), _at(shapes, position), _at(steps, position), full))
    return tuple(arguments)


def _of_node(value: Any, kind: str, shape: Any, steps: Any, full: Recorded | None) -> Recorded:
    tensor = TENSOR_TYPE.fullmatch(kind)
    if tensor is not None:
        if tensor[1] == NO_TENSOR:
            return Recorded("undefined")
        if tensor[1] not in DTYPES:
            return Recorded("strange", _of_type(tensor[1]))
        if _has_no_elements(value) and _are_integers(shape) and math.prod(shape):
            return Recorded("strange", NOT_STRIDED)
        recorded = _node_tensor(value, tensor[1], shape, steps)
        return Recorded("tensor", tensors=(recorded,)) if recorded is not None else Recorded("unknown")
    if kind.startswith("GenericList["):
        return _node_list(value, kind, shape, steps, full)
    if kind == "Double" and full is not None and full.kind == "scalar" and full.text:
        return full
    if kind in SCALARS:
        return Recorded("scalar", _scalar_text(value))
    if kind == "String":
        return Recorded("text", str(value))
    if kind == "Device":
        return Recorded("device", str(value))
    return Recorded("unknown")


def _node_list(value: Any, kind: str, shape: Any, steps: Any, full: Recorded | None) -> Recorded:
    if not isinstance(value, list):
        return Recorded("unknown")
    inner = kind.removeprefix("GenericList[").removesuffix("]")
    if "Tensor(" not in inner:
        if "Double" in inner and full is not None and full.kind == "scalars" and full.text:
            return full
        return Recorded("scalars", "[" + ", ".join(_scalar_text(item) for item in value) + "]")
    kinds = _split_types(inner)
    tensors = []
    for position, item in enumerate(value):
        match = TENSOR_TYPE.fullmatch(kinds[position]) if position < len(kinds) else None
        is_tensor = match is not None and match[1] != NO_TENSOR
        tensors.append(
            _node_tensor(item, match[1], _at(shape, position), _at(steps, position)) if is_tensor and match else None
        )
    return Recorded("tensors", tensors=tuple(tensors))


def _split_types(text: str) -> list[str]:
    """`Tensor(float),None,Tensor(c10::Half)`; the names of types hold no commas but in brackets."""
    return re.findall(r"Tensor\([^()]*(?:\([^()]*\))?\)|[A-Za-z]+", text)


def _node_tensor(value: Any, kind: str, shape: Any, steps: Any) -> RecordedTensor | None:
    if not (isinstance(value, list) and len(value) == 6 and kind in DTYPES):
        return None
    _, storage, offset, elements, _, device = value
    tensor = _tensor(shape if isinstance(shape, list) else [], DTYPES[kind], steps)
    if (
        tensor is None
        or not all(isinstance(number, int) for number in (storage, offset))
        or not isinstance(device, str)
    ):
        return None
    where = "cpu" if device.startswith("cpu") else "cuda" if device else ""
    # A tensor without elements has no storage of its own worth sharing.
    return RecordedTensor(tensor.shape, tensor.dtype, tensor.stride, storage if elements else None, offset, where)


def _has_no_elements(value: Any) -> bool:
    """As it is written of a tensor without a storage: neither elements nor a device."""
    return isinstance(value, list) and len(value) == 6 and value[3] == 0 and not value[5]


def _scalar_text(value: Any) -> str:
    if isinstance(value, bool):
        return "True" if value else "False"
    if isinstance(value, float):
        text = repr(value)
        return text[:-1] if text.endswith(".0") else text
    return str(value)


def _at(values: Any, position: int) -> Any:
    return values[position] if isinstance(values, list) and position < len(values) else None


def _are_integers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value)
