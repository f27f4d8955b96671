"""For a CPU that lacks a kernel for a small float: the same unit in float32."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from warplens_run.formats.replay_plan import DTYPES, Argument, Storage, TensorView, Unit
from warplens_run.replay.faults import BadUnit

WIDE: Final = "float32"
NARROW: Final = (
    "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip


def narrow_dtypes(unit: Unit) -> list[str]:
    """Those of the unit's dtypes that would be widened."""
    return sorted({storage.dtype for storage in unit.storages} & set(NARROW))


def widened(unit: Unit) -> Unit:
    """Shapes, strides and offsets count elements, so they stay."""
    return replace(
        unit,
        storages=tuple(map(_storage, unit.storages)),
        arguments=tuple(_argument(argument, unit) for argument in unit.arguments),
    )


def _storage(storage: Storage) -> Storage:
    if storage.dtype not in NARROW:
        return storage
    return replace(storage, dtype=WIDE, bytes=storage.bytes // DTYPES[storage.dtype] * DTYPES[WIDE])


def _argument(argument: Argument, unit: Unit) -> Argument:
    tensor = argument.tensor and _tensor(argument.tensor, unit.storages[argument.tensor.storage])
    value = WIDE if argument.kind == "dtype" and argument.value in NARROW else argument.value
    return replace(argument, value=value, tensor=tensor, items=tuple(_argument(item, unit) for item in argument.items))


def _tensor(tensor: TensorView, storage: Storage) -> TensorView:
    if tensor.dtype not in NARROW and storage.dtype not in NARROW:
        return tensor
    if tensor.dtype not in NARROW or DTYPES[tensor.dtype] != DTYPES[storage.dtype]:
        raise BadUnit(f"a storage of {storage.dtype} that is read as {tensor.dtype} cannot be widened")
    return replace(tensor, dtype=WIDE)
