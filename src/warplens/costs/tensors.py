"""The arguments of a recorded op call: tensors with their true element sizes, lists of tensors, and plain values.

A profile is untrusted: whatever is not a sensible shape, dtype or stride becomes "unknown" (None) here, so the families
need not doubt their inputs again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypeGuard

import msgspec
from msgspec import Struct

from warplens.model.dtypes import profiler_spelling
from warplens_run.base import bounded

if TYPE_CHECKING:  # its patterns are compiled only where a trace has marks
    from warplens.model.iteration_marks import IterationMark

MAX_ELEMENTS: Final = 1 << 46
"""No tensor of a real run is larger (64 TiB of bytes); a larger product is damage."""
NUMBER: Final = re.compile(r"-?\d{1,12}(?:\.\d{0,20})?", re.ASCII)
BRACKETS: Final = "[]()"
WHOLE_NUMBER: Final = re.compile(r"-?\d{1,18}", re.ASCII)
LIST_MEMBER: Final = re.compile(r"Tensor\(([\w:<>]{1,40})\)", re.ASCII)
"""Of a list's type as an ExecutionTrace has it: `GenericList[Tensor(c10::BFloat16),Tensor(float)]`."""

DTYPES: Final = {
    # as PyTorch's profiler spells them: (our name, bytes of one element)
    "c10::BFloat16": ("bf16", 2.0),
    "c10::Half": ("fp16", 2.0),
    "float": ("fp32", 4.0),
    "double": ("fp64", 8.0),
    "int": ("int32", 4.0),
    "long int": ("int64", 8.0),
    "long": ("int64", 8.0),
    "long long": ("int64", 8.0),
    "short int": ("int16", 2.0),
    "short": ("int16", 2.0),
    "signed char": ("int8", 1.0),
    "char": ("int8", 1.0),
    "unsigned char": ("uint8", 1.0),
    "short unsigned int": ("uint16", 2.0),
    "unsigned short": ("uint16", 2.0),
    "unsigned int": ("uint32", 4.0),
    "long unsigned int": ("uint64", 8.0),
    "unsigned long": ("uint64", 8.0),
    "bool": ("bool", 1.0),
    "c10::Float8_e4m3fn": ("fp8", 1.0),
    "c10::Float8_e5m2": ("fp8", 1.0),
    "c10::Float8_e4m3fnuz": ("fp8", 1.0),
    "c10::Float8_e5m2fnuz": ("fp8", 1.0),
    "c10::Float8_e8m0fnu": ("fp8", 1.0),
    "c10::Float4_e2m1fn_x2": ("fp4", 1.0),  # two values in one stored byte
    "c10::qint8": ("int8", 1.0),
    "c10::quint8": ("uint8", 1.0),
    "c10::qint32": ("int32", 4.0),
    "c10::complex<float>": ("complex64", 8.0),
    "c10::complex<double>": ("complex128", 16.0),
    "c10::complex<c10::Half>": ("complex32", 4.0),
}
ITEM_BYTES: Final[dict[str, float]] = dict(DTYPES.values())
SCALAR_TYPES: Final = {
    # c10::ScalarType as it appears among concrete inputs
    "0": "uint8", "1": "int8", "2": "int16", "3": "int32", "4": "int64", "5": "fp16", "6": "fp32", "7": "fp64",
    "8": "complex32", "9": "complex64", "10": "complex128", "11": "bool", "12": "int8", "13": "uint8", "14": "int32",
    "15": "bf16", "23": "fp8", "24": "fp8", "25": "fp8", "26": "fp8", "27": "uint16", "28": "uint32", "29": "uint64",
    "44": "fp8", "45": "fp4",
}  # fmt: skip


class Tensor(Struct, frozen=True):
    """A dense or strided tensor; `strides` is empty where the profile does not say."""

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] = ()

    @property
    def numel(self) -> int:
        return product(self.shape)

    @property
    def stored(self) -> int:
        """Elements in memory: a dimension of stride 0 (a broadcast) is stored once."""
        if len(self.strides) != len(self.shape):
            return self.numel
        return product(size for size, stride in zip(self.shape, self.strides, strict=True) if stride != 0 or size == 0)

    @property
    def item_bytes(self) -> float:
        return ITEM_BYTES[self.dtype]

    @property
    def bytes(self) -> float:
        return self.stored * self.item_bytes


class Call(Struct, frozen=True):
    """What was recorded of one op call. `args[i]` is a tensor, a tuple of tensors, a plain value's text or None."""

    op: str
    args: tuple[Tensor | tuple[Tensor, ...] | str | None, ...] = ()
    list_item_bytes: float = 0.0
    """Element size of tensor lists: of their recorded dtype, else from the kernel's name; 0 where it is unknown."""
    kernel: str = ""
    """The kernel that takes most of its time, for ops whose arguments do not say how much they move."""
    mark: IterationMark | None = None
    """Of the iteration around the call, for ops that read its requests' lengths."""
    inner: tuple[Call, ...] = ()
    """Calls made inside this one, for ops that are not handed what they work on."""
    cache_dtype: str = ""
    """Element type of the key and value cache, where a call that writes it is in the trace."""
    list_dtype: str = ""
    """Element type of tensor lists, known as their element size is."""
    replayed: bool = False
    """Recorded when a graph was captured: numbers among its arguments are the capture's, not the replay's."""

    def tensor(self, index: int | None) -> Tensor | None:
        value = self.args[index] if index is not None and -len(self.args) <= index < len(self.args) else None
        return value if isinstance(value, Tensor) else None

    def tensors(self, index: int) -> tuple[Tensor, ...]:
        value = self.args[index] if index < len(self.args) else None
        return value if isinstance(value, tuple) else ()

    def text(self, index: int | None) -> str:
        value = self.args[index] if index is not None and index < len(self.args) else None
        return value if isinstance(value, str) else ""

    def flag(self, index: int | None) -> bool:
        return self.text(index).lower() in ("true", "1")

    def integer(self, index: int | None, default: int = 0) -> int:
        text = self.text(index)
        return bounded.whole(text, default)

    def integers(self, index: int | None) -> tuple[int, ...]:
        """A list of numbers such as `[1, 1]`; empty where it is absent."""
        parts = [part.strip() for part in self.text(index).strip(BRACKETS).split(",")]
        return tuple(bounded.whole(part) for part in parts if WHOLE_NUMBER.fullmatch(part))

    def numbers(self, index: int | None) -> tuple[float, ...]:
        """A list of numbers such as `[2., 0.5]`; empty where it is absent."""
        parts = [part.strip() for part in self.text(index).strip(BRACKETS).split(",")]
        return tuple(number for part in parts if (number := bounded.number(part)) is not None)

    def flags(self, index: int | None) -> tuple[bool, ...]:
        return tuple(part.strip() == "True" for part in self.text(index).strip(BRACKETS).split(",") if part.strip())

    @property
    def all_tensors(self) -> tuple[Tensor, ...]:
        return tuple(arg for arg in self.args if isinstance(arg, Tensor))


def product(sizes: Iterable[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def parse_call(
    op: str,
    dims: str,
    types: str,
    strides: str,
    concrete: str,
    list_item_bytes: float = 0.0,
    kernel: str = "",
    list_dtype: str = "",
) -> Call:
    """A call from the four recorded lists, each a JSON text or empty. What is known of the elements of its tensor lists
    from elsewhere counts where their types are not recorded.

    >>> parse_call("aten::mm", "[[2, 3], [3, 4]]", '["float", "c10::Half"]', "[[3, 1], [4, 1]]", '["", ""]').tensor(1)
    Tensor(shape=(3, 4), dtype='fp16', strides=(4, 1))
    """
    shapes, dtypes, steps, values = (_decoded(text) for text in (dims, types, strides, concrete))
    count = max(len(shapes), len(dtypes), len(values))
    args = tuple(_argument(*(_at(part, index) for part in (shapes, dtypes, steps, values))) for index in range(count))
    members = (member for dtype in dtypes if isinstance(dtype, str) for member in LIST_MEMBER.findall(dtype))
    recorded = next((DTYPES[member] for member in members if member in DTYPES), None)
    list_dtype, list_item_bytes = recorded or (list_dtype, list_item_bytes)
    return Call(op, args, list_item_bytes, kernel, list_dtype=list_dtype)


def _decoded(text: str) -> list[object]:
    try:
        value = msgspec.json.decode(text) if text else []
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    return value if isinstance(value, list) else []


def _at(values: list[object], index: int) -> object:
    return values[index] if index < len(values) else None


def _argument(shape: object, dtype: object, strides: object, value: object) -> Tensor | tuple[Tensor, ...] | str | None:
    if dtype in ("TensorList", "Tensor[]") or _is_list_of_shapes(shape):
        # Lists carry shapes but no dtypes; a tensor of unknown element size still has its elements.
        steps = strides if isinstance(strides, list) else []
        shapes = shape if isinstance(shape, list) else []
        members = [_tensor(member, "float", _at(steps, index)) for index, member in enumerate(shapes)]
        return tuple(member for member in members if member is not None)
    spelled = profiler_spelling(dtype) if isinstance(dtype, str) else ""
    # "Int" and the like are types of numbers as well, in schemas.
    is_number = spelled != dtype and not shape and isinstance(value, str) and value
    if spelled in DTYPES and not is_number:
        return _tensor(shape, spelled, strides)
    return value if isinstance(value, str) and value else None


def _is_list_of_shapes(shape: object) -> bool:
    return isinstance(shape, list) and bool(shape) and all(isinstance(member, list) for member in shape)


def _tensor(shape: object, dtype: str, strides: object) -> Tensor | None:
    # A size of 0 hides no damage in the others: they are multiplied on their own by some formula.
    if not _are_sizes(shape) or product(max(1, size) for size in shape) > MAX_ELEMENTS:
        return None
    recorded_strides = tuple(strides) if _are_sizes(strides) and len(strides) == len(shape) else ()
    return Tensor(tuple(shape), DTYPES[dtype][0], recorded_strides)


def _are_sizes(values: object) -> TypeGuard[list[int]]:
    return isinstance(values, list) and all(
        isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ELEMENTS for value in values
    )
