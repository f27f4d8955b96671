"""The fp64 shadow of memory, and how far what a launch stored is from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from warplens_lab.tracing.records import NumberError, TensorInfo
from warplens_lab.tracing.watching.memory import Memory
from warplens_lab.tracing.watching.values import decoded

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FloatKind:
    mantissa_bits: int
    least_exponent: int
    largest: float


FLOAT_KINDS: Final = {
    "float64": FloatKind(52, -1022, 1.7976931348623157e308),
    "float32": FloatKind(23, -126, 3.4028234663852886e38),
    "float16": FloatKind(10, -14, 65504.0),
    "bfloat16": FloatKind(7, -126, 3.3895313892515355e38),
    "float8_e4m3fn": FloatKind(3, -6, 448.0),
    "float8_e5m2": FloatKind(2, -14, 57344.0),
    "float8_e4m3fnuz": FloatKind(3, -7, 240.0),
    "float8_e5m2fnuz": FloatKind(2, -15, 57344.0),
}
MOST_ULPS: Final = 1e12
"""An infinity where the shadow has a number counts so much."""


@dataclass
class WideStorage:
    values: Floats
    known: Bools


class WideMemory:
    """What the launch has stored, in fp64, by the storage's number and the element's unit in it."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._storages: dict[int, WideStorage] = {}

    def store(self, number: int, places: Places, values: Floats) -> None:
        wide = self._wide(number)
        wide.values[places], wide.known[places] = values, True

    def load(self, number: int, places: Places, values: Floats) -> Floats:
        """The shadow of what is loaded: the value itself where this launch has not stored it."""
        wide = self._storages.get(number)
        if wide is None:
            return values
        return np.where(wide.known[places], wide.values[places], values)

    def combine(self, number: int, places: Places, before: Floats, values: Floats, operation: Any) -> None:
        """An atomic; several lanes may be on one element."""
        wide = self._wide(number)
        fresh = ~wide.known[places]
        wide.values[places[fresh]], wide.known[places] = before[fresh], True
        operation.at(wide.values, places, values)

    def forget(self, number: int, places: Places) -> None:
        if number in self._storages:
            self._storages[number].known[places] = False

    def _wide(self, number: int) -> WideStorage:
        wide = self._storages.get(number)
        if wide is None:
            size = self.memory.storages[number].shadow.size
            wide = self._storages[number] = WideStorage(np.zeros(size), np.zeros(size, bool))
        return wide

    def errors(self, inputs: set[str], growth: tuple[int, float]) -> tuple[NumberError, ...]:
        """One record per tensor of floats that was stored to."""
        rows: list[NumberError] = []
        for info, tensor in zip(self.memory.tensors, self.memory.host_tensors, strict=True):
            wide = self._storages.get(info.storage)
            if wide is None or info.dtype not in FLOAT_KINDS or not tensor.numel():
                continue
            row = self._error(info, tensor, wide, inputs, growth)
            if row is not None and all((row.tensor, row.elements) != (other.tensor, other.elements) for other in rows):
                rows.append(row)
        return tuple(rows)

    def _error(
        self, info: TensorInfo, tensor: Any, wide: WideStorage, inputs: set[str], growth: tuple[int, float]
    ) -> NumberError | None:
        width = info.itemsize // self.memory.storages[info.storage].unit
        known, shadow = (_of_view(array, info, width) for array in (wide.known, wide.values))
        if not known.any():
            return None
        values = _numbers(tensor)
        ulps = np.where(known, errors_in_ulps(values, shadow, info.dtype), -1.0)
        coarsest = min({info.dtype, *inputs} & set(FLOAT_KINDS), key=lambda name: FLOAT_KINDS[name].mantissa_bits)
        judged = errors_in_ulps(values, shadow, coarsest)[known]
        place = tuple(int(at) for at in np.unravel_index(int(ulps.argmax()), ulps.shape))
        return NumberError(
            info.name,
            info.dtype,
            int(np.count_nonzero(known)),
            float(ulps.max()),
            float(np.median(ulps[known])),
            coarsest,
            float(np.median(judged)),
            place,
            _finite(values[place]),
            _finite(shadow[place]),
            *growth,
        )


def errors_in_ulps(values: Floats, shadow: Floats, dtype: str) -> Floats:
    """
    >>> errors_in_ulps(np.array([1.0, 2.0]), np.array([1.0, 2.0 + 2.0**-21]), "float32").tolist()
    [0.0, 2.0]
    """
    kind = FLOAT_KINDS[dtype]
    with np.errstate(all="ignore"):
        expected = np.clip(shadow, -kind.largest, kind.largest)
        _, exponents = np.frexp(expected)
        exponents = np.where(expected == 0, kind.least_exponent, exponents)
        ulp = np.ldexp(1.0, np.maximum(exponents - 1, kind.least_exponent) - kind.mantissa_bits)
        errors = np.abs(values - expected) / ulp
        alike = (values == shadow) | (np.isnan(values) & np.isnan(shadow))
        result: Floats = np.where(alike, 0.0, np.nan_to_num(errors, nan=MOST_ULPS, posinf=MOST_ULPS))
    return np.minimum(result, MOST_ULPS)


def _of_view(array: npt.NDArray[Any], info: TensorInfo, width: int) -> npt.NDArray[Any]:
    size = array.itemsize * width
    strides = tuple(stride * size for stride in info.strides)
    view: npt.NDArray[Any] = np.ndarray(info.shape, array.dtype, array.data, info.offset * size, strides)
    return view


def _numbers(tensor: Any) -> Floats:
    import torch

    numbers: Floats = tensor.detach().to(torch.float64).numpy()
    return numbers


def _finite(value: Any) -> float:
    """JSON has no infinity."""
    return float(np.nan_to_num(value))


def numbers_of(data: npt.NDArray[Any], dtype: str) -> Floats:
    """Values of the interpreter as fp64."""
    return np.asarray(decoded(data, dtype)).astype(np.float64)
