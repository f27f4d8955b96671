"""A trace in one file: a zip of `header.json` (the records) and `arrays.bin` (raw little-endian numbers).

In the header an array is {"at": first byte, "dtype": "<i4", "shape": […], "as": type once read}. Whole numbers are
written in the smallest type that holds them. Nothing is pickled. Offsets and masks are kept as the trace has them: a
grid as its strides, a box of lanes as its bounds, anything else lane by lane.
"""

from __future__ import annotations

import math
import os
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from warplens.readers.shared.typed_json import decode_typed
from warplens_lab.tracing.records import NO_TENSOR, Array, Events, KernelTrace, TracedLaunch
from warplens_run.base.errors import FormatError
from warplens_run.base.files import whole_file

FORMAT: Final = "warplens kernel trace"
VERSION: Final = 1
HEADER: Final = "header.json"
ARRAYS: Final = "arrays.bin"
ALIGNMENT: Final = 8
MOST_BYTES: Final = 1 << 34
"""More than any trace that a visualizer could open; a file that claims more is not read."""
NUMBER_KINDS: Final = "biuf"
DAMAGE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    msgspec.DecodeError,
    KeyError,
    ValueError,
    TypeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    OverflowError,
)


@dataclass(frozen=True)
class _TraceFile:
    """The header: which format this is, then the records."""

    format: str
    version: int
    trace: KernelTrace


@dataclass(frozen=True)
class _Version:
    format: str
    version: int


def save(trace: KernelTrace, path: str | os.PathLike[str], *, force: bool = True) -> None:
    """Writes the trace whole: the file appears when it is complete."""
    arrays = _Writer()
    header = msgspec.json.encode(_TraceFile(FORMAT, VERSION, trace), enc_hook=arrays.reference)
    with (
        whole_file(Path(path), force=force) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        archive.writestr(HEADER, header)
        archive.writestr(ARRAYS, b"".join(arrays.pieces))


def load(path: str | os.PathLike[str]) -> KernelTrace:
    """Reads what `save` wrote; a file that is damaged or something else is one `FormatError`."""
    where = os.fspath(path)
    try:
        return _read(Path(path), where)
    except FormatError:
        raise
    except OSError as error:
        raise FormatError(error.strerror or str(error), where=where) from error
    except DAMAGE as error:
        raise FormatError(f"not a whole trace of kernels: {error}", where=where) from error


def _read(path: Path, where: str) -> KernelTrace:
    with zipfile.ZipFile(path) as archive:
        if archive.getinfo(HEADER).file_size + archive.getinfo(ARRAYS).file_size > MOST_BYTES:
            raise FormatError(f"claims to hold more than {MOST_BYTES} bytes", where=where)
        header, numbers = archive.read(HEADER), archive.read(ARRAYS)
    kind = msgspec.json.decode(header, type=_Version)
    if kind.format != FORMAT:
        raise FormatError("not a trace of kernels", where=where)
    if kind.version != VERSION:
        hint = "read it with the Warplens that wrote it" if kind.version < VERSION else "a newer Warplens wrote it"
        raise FormatError(f"version {kind.version} of the format; this reads version {VERSION}", where=where, hint=hint)
    content = decode_typed(header, _TraceFile, _Reader(numbers).array)
    for launch in content.trace.launches:
        _check(launch)
    return content.trace


class _Writer:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._size = 0

    def reference(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"cannot write {type(value).__name__}")
        stored = _narrowed(value)
        little = np.ascontiguousarray(stored.astype(stored.dtype.newbyteorder("<"), copy=False)).tobytes()
        padding = b"\0" * (-len(little) % ALIGNMENT)
        at = self._size
        self.pieces += [little, padding]
        self._size += len(little) + len(padding)
        return {
            "at": at,
            "dtype": stored.dtype.newbyteorder("<").str,
            "shape": list(value.shape),
            "as": value.dtype.str,
        }


class _Reader:
    def __init__(self, numbers: bytes) -> None:
        self._numbers = numbers

    def array(self, kind: type, reference: Any) -> Array:
        """An array from its reference; both types must be plain numbers, and all of it inside the file."""
        stored, restored = np.dtype(str(reference["dtype"])), np.dtype(str(reference["as"]))
        if stored.kind not in NUMBER_KINDS or restored.kind not in NUMBER_KINDS:
            raise ValueError(f"an array of type {stored}")
        shape = tuple(int(size) for size in reference["shape"])
        count, at = math.prod(shape), int(reference["at"])
        if min(shape, default=0) < 0 or at < 0 or at + count * stored.itemsize > len(self._numbers):
            raise ValueError("an array reaches outside the file")
        raw = np.frombuffer(self._numbers, stored, count, at)
        return raw.astype(restored.newbyteorder("=")).reshape(shape)


def _narrowed(value: Array) -> Array:
    if value.dtype != np.int64 or not value.size:
        return value
    low, high = int(value.min()), int(value.max())
    return value.astype(np.promote_types(np.min_scalar_type(low), np.min_scalar_type(high)))


def _check(launch: TracedLaunch) -> None:
    """Numbers that point at something must point inside it."""
    sites, tensors = len(launch.sites), len(launch.tensors)
    for pattern in launch.patterns:
        if pattern.strides is None and (pattern.offsets is None or pattern.offsets.size != math.prod(pattern.shape)):
            raise ValueError("a pattern without its offsets")
    for mask in launch.masks:
        if mask.bits is not None and len(mask.bits) != -(-math.prod(mask.shape) // 8):
            raise ValueError("a mask of the wrong size")
    for row in launch.accesses:
        _within((row.site, row.site), sites, 0, "statement")
        _within((row.tensor, row.tensor), tensors, NO_TENSOR, "tensor")
    for fault in launch.faults:
        _within((fault.site, fault.site), sites, 0, "statement")
        if fault.other_site is not None:
            _within((fault.other_site, fault.other_site), sites, 0, "statement")
    for number in launch.numbers:
        _within((number.site, number.site), sites, -1, "statement")
    if launch.events is not None:
        _check_events(launch, launch.events)


def _check_events(launch: TracedLaunch, events: Events) -> None:
    limits = {
        "program": (launch.programs, 0),
        "op": (len(events.ops), 0),
        "site": (len(launch.sites), 0),
        "tensor": (len(launch.tensors), NO_TENSOR),
        "pattern": (len(launch.patterns), -1),
        "mask": (len(launch.masks), -1),
        "shape": (len(events.shapes), -1),
        "base": (None, None),
    }
    for name, (limit, lowest) in limits.items():
        column = getattr(events, name)
        if column.shape != events.program.shape or column.ndim != 1 or column.dtype != np.int64:
            raise ValueError(f"the column {name} of the events has another length or type")
        if limit is not None and lowest is not None and len(column):
            _within((int(column.min()), int(column.max())), limit, lowest, name)


def _within(extremes: tuple[int, int], limit: int, lowest: int, name: str) -> None:
    if extremes[0] < lowest or extremes[1] >= limit:
        raise ValueError(f"a {name} that is not in the file")
