"""What is decoded of an event and of a file's header. Format: Chromium's "Trace Event Format" document, with the
fields that PyTorch's Kineto adds under `args`.
"""

from __future__ import annotations

import math
from typing import Literal

import msgspec
from msgspec import Raw, Struct, field

MISSING = math.nan
NO_RAW = Raw()


class KinetoArgs(Struct, gc=False):
    """The fields of `args` that some table needs. Raw ones are interned as text and parsed once."""

    # In the order in which profilers write them: a key is first looked for after the one before it.
    external_id: int = field(name="External id", default=-1)
    sequence: int = field(name="Sequence number", default=-1)
    forward_thread: int = field(name="Fwd thread id", default=-1)
    concrete_inputs: Raw = field(name="Concrete Inputs", default=NO_RAW)
    input_types: Raw = field(name="Input type", default=NO_RAW)
    input_strides: Raw = field(name="Input Strides", default=NO_RAW)
    input_dims: Raw = field(name="Input Dims", default=NO_RAW)
    device: int = -1
    stream: int = -1
    correlation: int = -1
    registers: int = field(name="registers per thread", default=-1)
    shared_memory: int = field(name="shared memory", default=-1)
    grid: Raw = NO_RAW
    block: Raw = NO_RAW
    occupancy: float = field(name="est. achieved occupancy %", default=-1.0)
    bytes: int = -1
    collective: str | None = field(name="Collective name", default=None)
    dtype: str | None = None
    in_elements: int = field(name="In msg nelems", default=-1)
    out_elements: int = field(name="Out msg nelems", default=-1)
    group_size: int = field(name="Group size", default=-1)
    group: str | int | None = field(name="Process Group Name", default=None)
    group_description: str | None = field(name="Process Group Description", default=None)
    ranks: str | list[object] | None = field(name="Process Group Ranks", default=None)
    seq: int = field(name="Seq", default=-1)
    source_rank: int = field(name="Src Rank", default=-1)
    target_rank: int = field(name="Dst Rank", default=-1)
    in_splits: str | list[object] | None = field(name="In split size", default=None)
    out_splits: str | list[object] | None = field(name="Out split size", default=None)
    memory_bytes: int = field(name="Bytes", default=0)
    memory_allocated: int = field(name="Total Allocated", default=-1)
    memory_reserved: int = field(name="Total Reserved", default=-1)
    memory_device: int = field(name="Device Id", default=-1)
    memory_device_type: int = field(name="Device Type", default=-1)
    memory_address: int = field(name="Addr", default=-1)
    label: str | int | float | None = field(name="name", default=None)


class KinetoEvent(Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str | None = None
    tid: int | str | None = None
    ts: float = MISSING
    dur: float = MISSING
    id: int | str | None = None
    args: KinetoArgs | None = None


class KinetoHeader(Struct):
    """The keys of the file other than `traceEvents`; the rest is ignored."""

    schemaVersion: object = None  # noqa: N815 - the file's own spelling
    deviceProperties: object = None  # noqa: N815
    distributedInfo: object = None  # noqa: N815
    displayTimeUnit: object = None  # noqa: N815
    with_stack: object = None
    record_shapes: object = None
    profile_memory: object = None
    cuda_runtime_version: object = None
    cuda_driver_version: object = None
    hip_runtime_version: object = None
    hip_driver_version: object = None
    baseTimeNanoseconds: object = None  # noqa: N815
    traceName: object = None  # noqa: N815
    warplens_scopes: object = None
    warplens_converted: object = None


UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
PHASES = ("X", "B", "E", "M", "s", "t", "f", "i", "I", "C")
CATEGORIES = (
    *("cpu_op", "user_annotation", "python_function", "cuda_runtime", "cuda_driver", "kernel", "gpu_memcpy"),
    *("gpu_memset", "gpu_user_annotation", "cuda_sync", "overhead", "Trace", "ac2g", "fwdbwd", "cpu_instant_event"),
)
UsualKinetoEvent = msgspec.defstruct(
    "UsualKinetoEvent",
    [
        (field.name, {"ph": Literal[PHASES], "cat": Literal[CATEGORIES]}.get(field.name, field.type), field.default)
        for field in msgspec.structs.fields(KinetoEvent)
    ],
    gc=False,
    module=__name__,
)
"""An `KinetoEvent` of a current profiler: phases and categories from a list cost no new string each, 4 % of reading."""

DECODERS = tuple(msgspec.json.Decoder(list[kind], strict=False) for kind in (UsualKinetoEvent, KinetoEvent))  # type: ignore[valid-type]
HEADER_DECODER = msgspec.json.Decoder(KinetoHeader, strict=False)
