"""A replay plan: the units of a trace as data, with what each call was given and what it launched.

A plan holds no code but the sources of generated kernels that its Triton units need, as text and apart from the rest
(`sources`); nothing of them runs unless it is asked for. `load` checks everything that can be checked without PyTorch.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from warplens_run.base.errors import FormatError
from warplens_run.formats.records import MAX_COUNT, SCALARS, SPECIAL_FLOATS, decode, encode, load_json, save_json

FORMAT: Final = "warplens-replay-plan"
VERSION: Final = 1
READY: Final = "ready"
REFUSED: Final = "refused"
LEFT_OUT: Final = "left out"
STATUSES: Final = (READY, REFUSED, LEFT_OUT)
APPROXIMATE: Final = "approximate: "
"""How the note of a unit begins whose inputs are not recorded, but found elsewhere in the trace."""
DTYPES: Final = {
    # name in PyTorch: bytes of one element
    "bool": 1, "uint8": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "uint32": 4, "uint64": 8,
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
    "float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
    "float4_e2m1fn_x2": 1,
}  # fmt: skip
FILLS: Final = {
    # kind: what a storage is filled with
    "normal": "random, mean 0, deviation 1",
    "rectified": "normal, with zero for what is below zero, as ReLU leaves it",
    "masked": "normal, with zero for half of it, as ReLU's backward pass leaves it",
    "uniform": "random, from low up to high",
    "integers": "random whole numbers, from low up to, but not including, high",
    "permutation": "the whole numbers from low up to, but not including, high, each as often, in random order",
    "ramp": "low, low + step, low + 2 step …, at most high",
    "constant": "low everywhere",
    "shares": "low divided into step whole numbers that differ by one at most, the larger ones first",
    "digits": "the sum of (place // stride) % size × step over triples of stride, size and step",
}
ARGUMENTS: Final = (
    # what an argument may be; of a `choice` the first of its items that launches the right kernels is the one
    "tensor", "undefined", "none", "int", "float", "bool", "str", "complex", "dtype", "device", "layout",
    "memory_format", "list", "choice",
    # of Triton kernels only: a function of the source, and a tensor with the shape, strides and block of a descriptor
    "function", "descriptor",
)  # fmt: skip
VALUE_TYPES: Final = {
    "int": int, "float": float, "bool": bool, "str": str, "dtype": str, "device": str, "layout": str,
    "memory_format": str, "function": str, "descriptor": str,
}  # fmt: skip
LAYOUTS: Final = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "jagged")
MEMORY_FORMATS: Final = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")
WORDS: Final = {"dtype": tuple(DTYPES), "layout": LAYOUTS, "memory_format": MEMORY_FORMATS}
"""Kinds of arguments that are one of PyTorch's names, with or without `torch.` before it."""
OP_NAME: Final = re.compile(r"[A-Za-z_]\w*::\w+", re.ASCII)
OVERLOAD: Final = re.compile(r"\w{0,80}", re.ASCII)
IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)
DEVICE: Final = re.compile(r"(cuda|cpu|meta)(:\d{1,3})?", re.ASCII)
PLAN_ID: Final = re.compile(r"[\w.:-]{1,80}")
UNIT_NAME: Final = re.compile(r"[\w.:-]{1,80}")
MAX_CHOICES: Final = 32
MAX_SIDE: Final = 1 << 40
MAX_DIGITS: Final = 8
INT64: Final = 1 << 63
INT32: Final = 1 << 31


@dataclass(frozen=True)
class Fill:
    kind: str = "normal"
    low: float = 0.0
    high: float = 1.0
    step: float = 1.0
    digits: tuple[int, ...] = ()


@dataclass(frozen=True)
class Storage:
    """Memory of one or more tensors of a call; two tensors with one storage share it."""

    bytes: int
    dtype: str
    fill: Fill = Fill()
    device: str = "cuda"
    """cuda or cpu; which GPU is the runner's choice."""
    written: bool = False
    """The op changes it, so it must be set back between calls."""
    pinned: bool = False
    reuse_bytes: int | None = None
    """Bytes that the run touched since it last touched this storage (median of the calls); None: not for long, or
    unknown. What is less than the GPU's cache was still in it."""


@dataclass(frozen=True)
class TensorView:
    storage: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: str
    offset: int = 0


@dataclass(frozen=True)
class Argument:
    """`value` for numbers and words (a complex number as two), `tensor` for tensors, `items` for lists and choices."""

    kind: str
    value: Any = None
    tensor: TensorView | None = None
    items: tuple[Argument, ...] = ()

    def __post_init__(self) -> None:
        if self.kind == "float" and isinstance(self.value, str):  # how JSON writes what it has no numbers for
            object.__setattr__(self, "value", SPECIAL_FLOATS.get(self.value, self.value))


@dataclass(frozen=True)
class Times:
    """Durations in the trace, in ns, each of one call (or of one kernel in it)."""

    total_ns: int
    median_ns: float
    p10_ns: float
    p90_ns: float
    min_ns: int
    max_ns: int


@dataclass(frozen=True)
class Kernel:
    """One piece of GPU work that a call launches, in the order of launching."""

    name: str
    kind: str
    """kernel, memcpy or memset"""
    times: Times
    category: str = ""
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    bytes: int | None = None


@dataclass(frozen=True)
class SourceKernel:
    """A Triton kernel: its source (a key of the plan's `sources`) and the configuration that ran."""

    source: str
    kernel: str
    config: dict[str, int | bool | str] = field(default_factory=dict)
    """num_warps, num_stages, and of a kernel that Inductor wrote block sizes by name; empty where the trace does not
    show them."""
    grid: tuple[int, ...] = ()
    """Of a kernel that the program launches itself; Inductor's compute it from their arguments."""


@dataclass(frozen=True)
class Unit:
    id: str
    op: str
    kernels: tuple[Kernel, ...]
    count: int
    times: Times
    api: str
    """What can launch it again: library call, ATen op, custom CUDA, Triton source, memcpy/memset"""
    overload: str = ""
    schema: str = ""
    arguments: tuple[Argument, ...] = ()
    """One per argument of the schema, in its order; of a Triton kernel, as its launch records them, or one per
    parameter where the program launches it itself."""
    storages: tuple[Storage, ...] = ()
    status: str = READY
    reason: str = ""
    family: str = ""
    category: str = ""
    notes: tuple[str, ...] = ()
    triton: SourceKernel | None = None


@dataclass(frozen=True)
class KernelSource:
    """The text of a generated kernel's file."""

    text: str
    sha256: str


def source_of(text: str) -> KernelSource:
    return KernelSource(text, hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True)
class Rest:
    """GPU work of the trace that belongs to no unit."""

    kernel: str
    kind: str
    count: int
    total_ns: int
    reason: str


@dataclass(frozen=True)
class TracedGpu:
    name: str = ""
    compute: str = ""
    memory_bytes: int = 0
    multiprocessors: int = 0


@dataclass(frozen=True)
class ReplayPlan:
    trace: str
    """The file's name."""
    content_hash: str
    gpu_ns: int
    """GPU time of the whole trace: Σ of its units and of `rest`."""
    wall_ns: int
    units: tuple[Unit, ...]
    rest: tuple[Rest, ...] = ()
    gpus: tuple[TracedGpu, ...] = ()
    settings: dict[str, str | int | float | bool] = field(default_factory=dict)
    """PyTorch's switches that choose kernels, as they were, by their names under `torch`."""
    versions: dict[str, str] = field(default_factory=dict)
    sources: dict[str, KernelSource] = field(default_factory=dict)
    exact: bool = False
    """Whether an ExecutionTrace said what the calls were given."""
    id: str = ""
    """By which results name the plan: given when it is saved, copied by whatever runs it."""
    format: str = FORMAT
    version: int = VERSION


def load(path: Path) -> ReplayPlan:
    """The plan in a file, checked. One from before plans had ids gets the id that its results know it by."""
    return parse(load_json(path), str(path))


def fingerprint(plan: ReplayPlan) -> str:
    """Of what the plan says without its id: a plan that was edited keeps its id and has another fingerprint."""
    return _content_hash(to_json(plan))


def with_id(plan: ReplayPlan) -> ReplayPlan:
    """A plan of the same content gets the same id, so that planning a trace again does not lose what has run."""
    return plan if plan.id else replace(plan, id=fingerprint(plan))


def _content_hash(value: dict[str, Any]) -> str:
    content = {name: item for name, item in value.items() if name != "id"}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def parse(value: Any, where: str = "") -> ReplayPlan:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise FormatError("not a replay plan", where=where, hint="warplens replay plan TRACE -o plan.json makes one")
    version = value.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError("a replay plan without a version", where=where)
    if version > VERSION:
        raise FormatError(
            f"a replay plan of version {version}; this Warplens reads up to {VERSION}",
            where=where,
            hint="update Warplens",
        )
    try:
        plan = decode(ReplayPlan, value)
        _check_totals(plan)
        for number, unit in enumerate(plan.units):
            _check_unit(unit, f"units[{number}]")
        _check_names(plan)
        if plan.id and not PLAN_ID.fullmatch(plan.id):
            raise FormatError(f"not a name of letters, digits and _ . : -: {plan.id[:80]!r}", where="id")
    except FormatError as error:
        raise FormatError(str(error), where=where, hint="was it edited by hand?") from error
    return plan if plan.id else replace(plan, id=_content_hash(value))


def save(path: Path, plan: ReplayPlan, *, force: bool = True) -> None:
    save_json(path, to_json(with_id(plan)), force=force)


def to_json(plan: ReplayPlan) -> dict[str, Any]:
    # Format and version are always there, whatever the defaults.
    written: dict[str, Any] = {"format": plan.format, "version": plan.version} | encode(plan)
    return written


def _check_totals(plan: ReplayPlan) -> None:
    for where, ns in (("gpu_ns", plan.gpu_ns), ("wall_ns", plan.wall_ns)):
        if ns < 0:
            raise FormatError(f"a negative time: {ns}", where=where)
    for number, rest in enumerate(plan.rest):
        if rest.count < 0 or rest.total_ns < 0:
            raise FormatError("a negative count or time", where=f"rest[{number}]")


def _check_names(plan: ReplayPlan) -> None:
    ids: set[str] = set()
    for unit in plan.units:
        if unit.id in ids:
            raise FormatError(f"two units have the id {unit.id!r}")
        ids.add(unit.id)
        if unit.triton is not None and unit.status == READY and unit.triton.source not in plan.sources:
            raise FormatError(f"unit {unit.id!r} needs a source that the plan does not contain")
    for name, source in plan.sources.items():
        if hashlib.sha256(source.text.encode()).hexdigest() != source.sha256:
            raise FormatError(f"source {name!r} is not the one that was recorded (its SHA-256 differs)")


def _check_unit(unit: Unit, where: str) -> None:
    if unit.status not in STATUSES:
        raise FormatError(f"not one of {', '.join(STATUSES)}: {unit.status!r}", where=f"{where}.status")
    if not UNIT_NAME.fullmatch(unit.id):
        raise FormatError(f"not a name of letters, digits and _ . : -: {unit.id[:80]!r}", where=f"{where}.id")
    if not 1 <= unit.count <= MAX_COUNT:
        raise FormatError(f"not a count: {unit.count}", where=f"{where}.count")
    if not all(0 <= ns < math.inf for ns in vars(unit.times).values()):
        raise FormatError("a time that is negative or not finite", where=f"{where}.times")
    if unit.status != READY:
        return
    if unit.triton is None and not OP_NAME.fullmatch(unit.op):
        raise FormatError(f"not the name of an op: {unit.op!r}", where=f"{where}.op")
    if not OVERLOAD.fullmatch(unit.overload):
        raise FormatError(f"not the name of an overload: {unit.overload[:80]!r}", where=f"{where}.overload")
    if unit.triton is not None:
        _check_kernel(unit.triton, f"{where}.triton")
    for number, storage in enumerate(unit.storages):
        _check_storage(storage, f"{where}.storages[{number}]")
    for number, argument in enumerate(unit.arguments):
        _check_argument(argument, unit, f"{where}.arguments[{number}]")


def _check_kernel(kernel: SourceKernel, where: str) -> None:
    """A script of the unit writes these names as they are."""
    if not all(1 <= side < INT32 for side in kernel.grid):
        raise FormatError(f"not a grid: {kernel.grid}", where=f"{where}.grid")
    odd = next((name for name in (kernel.kernel, *kernel.config) if not IDENTIFIER.fullmatch(name)), None)
    if odd is not None:
        raise FormatError(f"not a name: {odd[:80]!r}", where=where)


def _check_storage(storage: Storage, where: str) -> None:
    if storage.dtype not in DTYPES:
        raise FormatError(f"no dtype: {storage.dtype!r}", where=f"{where}.dtype")
    if storage.device not in ("cuda", "cpu"):
        raise FormatError(f"neither cuda nor cpu: {storage.device!r}", where=f"{where}.device")
    if storage.fill.kind not in FILLS:
        raise FormatError(f"not one of {', '.join(FILLS)}: {storage.fill.kind!r}", where=f"{where}.fill.kind")
    if not all(map(math.isfinite, (storage.fill.low, storage.fill.high, storage.fill.step))):
        raise FormatError("a number that is not finite", where=f"{where}.fill")
    if storage.fill.kind == "shares" and not (0 <= storage.fill.low <= MAX_SIDE and 1 <= storage.fill.step <= MAX_SIDE):
        raise FormatError("not a total and a number of shares", where=f"{where}.fill")
    if not _are_digits(storage.fill.digits):
        raise FormatError("not triples of stride, size and step", where=f"{where}.fill.digits")
    if not 0 <= storage.bytes <= MAX_SIDE:
        raise FormatError(f"no size: {storage.bytes}", where=f"{where}.bytes")


def _are_digits(digits: tuple[int, ...]) -> bool:
    if len(digits) % 3 or len(digits) > 3 * MAX_DIGITS:
        return False
    return all(1 <= number <= MAX_SIDE for offset in (0, 1) for number in digits[offset::3])


def _check_argument(argument: Argument, unit: Unit, where: str) -> None:
    if argument.kind not in ARGUMENTS:
        raise FormatError(f"not one of {', '.join(ARGUMENTS)}: {argument.kind!r}", where=f"{where}.kind")
    if argument.kind == "tensor":
        _check_tensor(argument.tensor, unit, where)
    if argument.kind in VALUE_TYPES:
        words, fits = SCALARS[VALUE_TYPES[argument.kind]]
        if not fits(argument.value):
            raise FormatError(f"not {words}: {argument.value!r}", where=f"{where}.value")
    if argument.kind == "int" and not -INT64 <= argument.value < INT64:
        raise FormatError("a whole number beyond 64 bits", where=f"{where}.value")
    _check_word(argument, where)
    if argument.kind == "choice" and not 1 <= len(argument.items) <= MAX_CHOICES:
        raise FormatError("a choice with no items or too many", where=where)
    for number, item in enumerate(argument.items):
        _check_argument(item, unit, f"{where}.items[{number}]")


def _check_word(argument: Argument, where: str) -> None:
    """Names reach PyTorch, and scripts as they are: each is one that is known."""
    value = argument.value
    words = WORDS.get(argument.kind)
    if words is not None and value.removeprefix("torch.") not in words:
        raise FormatError(f"no {argument.kind.replace('_', ' ')}: {value[:80]!r}", where=f"{where}.value")
    if argument.kind == "device" and not DEVICE.fullmatch(value):
        raise FormatError(f"no device: {value[:80]!r}", where=f"{where}.value")
    if argument.kind == "function" and not IDENTIFIER.fullmatch(value):
        raise FormatError(f"not a name: {value[:80]!r}", where=f"{where}.value")
    if argument.kind == "complex" and not _is_complex(value):
        raise FormatError("not a complex number", where=f"{where}.value")


def _is_complex(value: Any) -> bool:
    _, fits = SCALARS[float]
    return isinstance(value, (list, tuple)) and len(value) == 2 and all(map(fits, value))


def _check_tensor(tensor: TensorView | None, unit: Unit, where: str) -> None:
    if tensor is None:
        raise FormatError("a tensor without shape, stride and dtype", where=where)
    if tensor.dtype not in DTYPES:
        raise FormatError(f"no dtype: {tensor.dtype!r}", where=f"{where}.tensor.dtype")
    if not 0 <= tensor.storage < len(unit.storages):
        raise FormatError(f"no storage {tensor.storage}", where=f"{where}.tensor.storage")
    if len(tensor.shape) != len(tensor.stride) or tensor.offset < 0:
        raise FormatError("shape, stride and offset do not fit together", where=f"{where}.tensor")
    if any(side < 0 or side > MAX_SIDE for side in (*tensor.shape, *tensor.stride)):
        raise FormatError("not a valid size or stride", where=f"{where}.tensor")
    if extent(tensor) * DTYPES[tensor.dtype] > unit.storages[tensor.storage].bytes:
        raise FormatError("the tensor extends beyond its storage", where=f"{where}.tensor")


def extent(tensor: TensorView) -> int:
    """Elements from the storage's start to the tensor's last one.

    >>> extent(TensorView(0, (2, 3), (3, 1), "float32")), extent(TensorView(0, (4, 0), (1, 1), "float32", offset=2))
    (6, 2)
    """
    if 0 in tensor.shape:
        return tensor.offset
    last = sum((side - 1) * step for side, step in zip(tensor.shape, tensor.stride, strict=True))
    return tensor.offset + last + 1
