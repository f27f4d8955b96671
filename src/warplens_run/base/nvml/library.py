"""The few calls of NVML that are needed, from the driver's own library, by the names that nvidia-ml-py gives them.

The C interface is stable: https://docs.nvidia.com/deploy/nvml-api
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

LIBRARY: Final = "libnvidia-ml.so.1"
TEXT_BYTES: Final = 96
"""Names and UUIDs are shorter."""


class NVMLError(Exception):
    """What NVML answers when it cannot."""


class FieldValue(ctypes.Structure):
    class Value(ctypes.Union):
        _fields_ = (("dVal", ctypes.c_double), ("uiVal", ctypes.c_uint), ("ulVal", ctypes.c_ulong),
                    ("ullVal", ctypes.c_ulonglong), ("sllVal", ctypes.c_longlong), ("siVal", ctypes.c_int))  # fmt: skip

    _fields_ = (("fieldId", ctypes.c_uint), ("scopeId", ctypes.c_uint), ("timestamp", ctypes.c_longlong),
                ("latencyUsec", ctypes.c_longlong), ("valueType", ctypes.c_uint), ("nvmlReturn", ctypes.c_uint),
                ("value", Value))  # fmt: skip


class Utilization(ctypes.Structure):
    """Percent of the time of the last sample period, of up to a second."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Memory(ctypes.Structure):
    """Bytes."""

    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def open_library() -> Library | None:
    try:
        return Library(ctypes.CDLL(LIBRARY))
    except OSError:
        return None


class Library:
    NVMLError = NVMLError

    def __init__(self, loaded: Any) -> None:
        self._loaded = loaded

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        self._call("nvmlInit_v2")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetCount_v2", ctypes.c_uint())

    def nvmlDeviceGetHandleByIndex(self, index: int) -> ctypes.c_void_p:  # noqa: N802
        handle = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
        return handle

    def nvmlDeviceGetName(self, handle: Any) -> str:  # noqa: N802
        return self._words("nvmlDeviceGetName", handle)

    def nvmlDeviceGetUUID(self, handle: Any) -> str:  # noqa: N802
        return self._words("nvmlDeviceGetUUID", handle)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong(), handle)

    def nvmlDeviceGetPowerUsage(self, handle: Any) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetPowerUsage", ctypes.c_uint(), handle)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: Any) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetEnforcedPowerLimit", ctypes.c_uint(), handle)

    def nvmlDeviceGetClockInfo(self, handle: Any, domain: int) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetClockInfo", ctypes.c_uint(), handle, ctypes.c_uint(domain))

    def nvmlDeviceGetMaxClockInfo(self, handle: Any, domain: int) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetMaxClockInfo", ctypes.c_uint(), handle, ctypes.c_uint(domain))

    def nvmlDeviceGetTemperature(self, handle: Any, sensor: int) -> int:  # noqa: N802
        return self._number("nvmlDeviceGetTemperature", ctypes.c_uint(), handle, ctypes.c_uint(sensor))

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Utilization:  # noqa: N802
        rates = Utilization()
        self._call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(rates))
        return rates

    def nvmlDeviceGetMemoryInfo(self, handle: Any) -> Memory:  # noqa: N802
        memory = Memory()
        self._call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(memory))
        return memory

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: Any) -> int:  # noqa: N802
        """Bits, as `nvmlDeviceGetCurrentClocksEventReasons`, its name since driver 535; drivers have both."""
        return self._number("nvmlDeviceGetCurrentClocksThrottleReasons", ctypes.c_ulonglong(), handle)

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[int]) -> list[FieldValue]:  # noqa: N802
        values = (FieldValue * len(fields))(*(FieldValue(fieldId=field) for field in fields))
        self._call("nvmlDeviceGetFieldValues", handle, ctypes.c_int(len(fields)), ctypes.byref(values))
        return list(values)

    def _number(self, name: str, into: Any, *arguments: Any) -> int:
        self._call(name, *arguments, ctypes.byref(into))
        return int(into.value)

    def _words(self, name: str, handle: Any) -> str:
        buffer = ctypes.create_string_buffer(TEXT_BYTES)
        self._call(name, handle, buffer, ctypes.c_uint(TEXT_BYTES))
        return buffer.value.decode(errors="replace")

    def _call(self, name: str, *arguments: Any) -> None:
        try:
            status = getattr(self._loaded, name)(*arguments)
        except AttributeError:
            raise NVMLError(f"this driver has no {name}") from None
        if status != 0:
            raise NVMLError(f"{name} answers {status}")
