"""What a Triton kernel was launched with, as plain data: shapes and values, never the contents of tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

DTYPES: Final = {
    # as Triton names them: as PyTorch does
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "int1": "bool", "int8": "int8",
    "int16": "int16", "int32": "int32", "int64": "int64", "uint8": "uint8", "uint16": "uint16", "uint32": "uint32",
    "uint64": "uint64", "fp8e4nv": "float8_e4m3fn", "fp8e5": "float8_e5m2", "fp8e4b8": "float8_e4m3fnuz",
    "fp8e5b16": "float8_e5m2fnuz",
}  # fmt: skip
RANGED: Final = ("torch.int32", "torch.int64")
"""Indices, offsets and lengths are of these types: values out of bounds would end a replay."""


class ArgumentWriter:
    """Of one launch: storages are numbered in the order in which they appear."""

    def __init__(self, *, may_read: bool) -> None:
        self._may_read = may_read
        self._storages: dict[Any, int] = {}

    def written(self, values: Sequence[Any]) -> list[dict[str, Any]]:
        return [self.argument(value) for value in values]

    def argument(self, value: Any) -> dict[str, Any]:
        kind = type(value).__name__
        if kind == "constexpr" and hasattr(value, "value"):
            return self.argument(value.value)
        if value is None:
            return {"kind": "none"}
        if isinstance(value, (bool, int, str)):
            plain = bool if isinstance(value, bool) else int if isinstance(value, int) else str
            return {"kind": plain.__name__, "value": plain(value)}
        if isinstance(value, float):
            # JSON has no words for those that are not finite.
            return {"kind": "float", "value": float(value) if math.isfinite(value) else str(float(value))}
        if kind == "dtype" and type(value).__module__.startswith("triton.") and value.name in DTYPES:
            return {"kind": "dtype", "value": DTYPES[value.name]}
        if isinstance(value, (tuple, list)):
            return {"kind": "list", "items": self.written(value)}
        if callable(value) and isinstance(getattr(value, "src", None), str):
            return {"kind": "function", "value": str(value.__name__)}
        if kind == "TensorDescriptor":
            return self._descriptor(value)
        if hasattr(value, "untyped_storage") and hasattr(value, "stride"):
            return self._tensor(value)
        return {"kind": "strange", "value": kind}

    def _tensor(self, tensor: Any) -> dict[str, Any]:
        storage = tensor.untyped_storage()
        number = self._storages.setdefault(storage._cdata, len(self._storages))
        return {
            "kind": "tensor",
            "shape": list(map(int, tensor.shape)),
            "stride": list(map(int, tensor.stride())),
            "dtype": str(tensor.dtype).removeprefix("torch."),
            "storage": number,
            "offset": int(tensor.storage_offset()),
            "bytes": int(storage.nbytes()),
            "device": "cpu" if tensor.device.type == "cpu" else "cuda",
            **self._values(tensor),
        }

    def _values(self, tensor: Any) -> dict[str, Any]:
        """Smallest and largest of whole numbers, and whether they never fall, as offsets do; this waits for the GPU."""
        if not self._may_read or str(tensor.dtype) not in RANGED or not tensor.numel():
            return {}
        flat = tensor.detach().reshape(-1)
        low, high = (int(bound) for bound in flat.aminmax())
        return {"low": low, "high": high, "rising": bool((flat[1:] >= flat[:-1]).all())}

    def _descriptor(self, descriptor: Any) -> dict[str, Any]:
        sides = [list(map(int, part)) for part in (descriptor.shape, descriptor.strides, descriptor.block_shape)]
        items = [self.argument(descriptor.base), *map(self.argument, sides)]
        return {"kind": "descriptor", "value": str(descriptor.padding), "items": items}
