"""Which meter belongs to which GPU, over made-up drivers: nvidia-ml-py, the driver's library, amdsmi, none at all."""

# ruff: noqa: N802 - the drivers' own names

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from warplens_run.base.nvml import library as nvml_library
from warplens_run.base.nvml.library import FieldValue, Library
from warplens_run.meter import MeterError, find_meter, find_meters, why_none
from warplens_run.meter.protocols import Absent

Install = Callable[..., "FakeNvml"]
VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
)


class FakeNvml(ModuleType):
    """A module with nvidia-ml-py's names, over GPUs that are dictionaries."""

    class NVMLError(Exception):
        pass

    def __init__(self, gpus: list[dict[str, Any]], broken: str = "") -> None:
        super().__init__("pynvml")
        self.gpus, self.broken = gpus, broken

    def nvmlInit(self) -> None:
        if self.broken:
            raise self.NVMLError(self.broken)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self.gpus[index]

    def nvmlDeviceGetName(self, handle: dict[str, Any]) -> Any:
        return handle["name"]

    def nvmlDeviceGetUUID(self, handle: dict[str, Any]) -> Any:
        return handle["uuid"]

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: dict[str, Any]) -> int:
        return self._value(handle, "mj")

    def nvmlDeviceGetPowerUsage(self, handle: dict[str, Any]) -> int:
        return self._value(handle, "mw")

    def nvmlDeviceGetFieldValues(self, handle: dict[str, Any], fields: list[int]) -> list[Any]:
        assert fields == [186]
        kind, value = handle.get("instant", (1, None))
        name = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal")[kind]
        return [
            SimpleNamespace(
                nvmlReturn=3 if value is None else 0, valueType=kind, value=SimpleNamespace(**{name: value})
            )
        ]

    def _value(self, handle: dict[str, Any], name: str) -> int:
        if name not in handle:
            raise self.NVMLError("Not Supported")
        return int(handle[name])


def gpu(number: int, **facts: Any) -> dict[str, Any]:
    return {"name": "NVIDIA H200", "uuid": f"GPU-{number}{number}aa-bb", "mj": 1000 * number, **facts}


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No driver, no library, no variable, no PyTorch that has a say."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("pynvml", "amdsmi", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(nvml_library, "LIBRARY", "libno-such-library.so.1")
    yield


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def put(*gpus: dict[str, Any], broken: str = "") -> FakeNvml:
        module = FakeNvml(list(gpus), broken)
        monkeypatch.setitem(sys.modules, "pynvml", module)
        return module

    return put


def test_without_any_driver_there_is_none_and_a_reason() -> None:
    assert find_meter() is None
    assert why_none() == "no NVML (neither nvidia-ml-py nor libnvidia-ml.so.1 is installed); no amdsmi"
    assert find_meters() == {}


def test_a_driver_that_does_not_run_says_so(install: Install) -> None:
    install(broken="Driver Not Loaded")
    assert find_meter() is None
    assert "NVML: Driver Not Loaded" in why_none()


def test_the_counter_is_in_millijoules_and_instant_power_in_milliwatts(install: Install) -> None:
    install(gpu(0, mj=123_456, instant=(1, 121_500)))
    meter = find_meter()
    assert meter is not None
    assert why_none() == ""
    assert (meter.name, meter.gpu, meter.uuid) == ("NVML total energy, NVIDIA H200", "NVIDIA H200", "GPU-00aa-bb")
    assert (meter.joules(), meter.watts(), meter.is_sampled) == (123.456, 121.5, False)


@pytest.mark.parametrize("kind", range(6))
def test_instant_power_is_read_whatever_its_type(install: Install, kind: int) -> None:
    install(gpu(0, instant=(kind, 98_000)))
    meter = find_meter()
    assert meter is not None
    assert meter.watts() == 98


def test_no_instant_power_is_none(install: Install) -> None:
    install(gpu(0))
    meter = find_meter()
    assert meter is not None
    assert meter.watts() is None


def test_older_packages_that_answer_in_bytes(install: Install) -> None:
    install(gpu(0, name=b"Tesla V100", uuid=b"GPU-00aa-bb"))
    meter = find_meter(uuid="00aa-bb")
    assert meter is not None
    assert meter.gpu == "Tesla V100"


def test_a_gpu_without_a_counter_has_its_power_sampled(install: Install) -> None:
    facts = gpu(0, name="GTX 1080", mw=180_000)
    del facts["mj"]
    install(facts)
    meter = find_meter()
    assert meter is not None
    assert meter.is_sampled
    assert meter.name == "sampled power, GTX 1080"
    assert meter.watts() == 180


def test_a_gpu_with_neither_counter_nor_power_has_no_meter(install: Install) -> None:
    facts = gpu(0)
    del facts["mj"]
    install(facts)
    assert find_meter() is None
    assert "Not Supported" in why_none()


def test_a_counter_that_stops_working_is_an_expected_failure(install: Install) -> None:
    module = install(gpu(0))
    meter = find_meter()
    assert meter is not None
    del module.gpus[0]["mj"]
    with pytest.raises(MeterError, match="NVML: Not Supported"):
        meter.joules()


@pytest.mark.parametrize(
    ("visible", "device", "uuid"),
    [
        ("2,0", 0, "GPU-22aa-bb"),
        ("2,0", 1, "GPU-00aa-bb"),
        (" 1 , 2", 1, "GPU-22aa-bb"),
        ("GPU-11", 0, "GPU-11aa-bb"),
        ("1,-1,2", 0, "GPU-11aa-bb"),
    ],
)
def test_cuda_visible_devices_is_followed(
    install: Install, monkeypatch: pytest.MonkeyPatch, visible: str, device: int, uuid: str
) -> None:
    install(gpu(0), gpu(1), gpu(2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    meter = find_meter(device)
    assert meter is not None
    assert meter.uuid == uuid


@pytest.mark.parametrize(
    ("visible", "device", "reason"),
    [
        ("1,-1,2", 1, "no GPU 1 (CUDA would see 1)"),
        ("", 0, "no GPU 0 (CUDA would see 0)"),
        ("7", 0, "no GPU 7 on this machine"),
        ("GPU-9", 0, "NVML has no GPU GPU-9"),
        ("MIG-1234", 0, "a MIG slice has no meter of its own"),
        ("0", -1, "no GPU -1"),
    ],
)
def test_what_cuda_visible_devices_hides_has_no_meter(
    install: Install, monkeypatch: pytest.MonkeyPatch, visible: str, device: int, reason: str
) -> None:
    install(gpu(0), gpu(1), gpu(2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert find_meter(device) is None
    assert reason in why_none(device)


def test_every_visible_gpu_has_its_meter(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(gpu(0), gpu(1), gpu(2))
    assert list(find_meters()) == [0, 1, 2]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,1")
    found = find_meters()
    assert [each.uuid for each in found.values() if not isinstance(each, Absent)] == ["GPU-22aa-bb", "GPU-11aa-bb"]


def test_a_beginning_that_fits_two_gpus_fits_none(install: Install) -> None:
    install(gpu(0, uuid="GPU-aa1"), gpu(1, uuid="GPU-aa2"))
    assert find_meter(uuid="GPU-aa") is None
    assert find_meter(uuid="GPU-aa2") is not None


def test_among_different_gpus_a_number_is_sure_only_in_bus_order(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(gpu(0), gpu(1, name="NVIDIA T400"))
    assert find_meter(1) is None
    assert "CUDA_DEVICE_ORDER=PCI_BUS_ID" in why_none(1)
    assert find_meter(uuid="GPU-11aa-bb") is not None
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert find_meter(1) is not None


def fake_torch(uuids: list[str], *, is_initialized: bool = True) -> Any:
    return SimpleNamespace(
        version=SimpleNamespace(hip=None),
        cuda=SimpleNamespace(
            is_initialized=lambda: is_initialized,
            device_count=lambda: len(uuids),
            get_device_properties=lambda device: SimpleNamespace(uuid=uuids[device]),
        ),
    )


def test_pytorchs_own_number_wins_where_it_uses_the_gpus(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install(gpu(0), gpu(1, name="NVIDIA T400"))
    monkeypatch.setitem(sys.modules, "torch", fake_torch(["11aa-bb", "00aa-bb"]))
    meter = find_meter(0)
    assert meter is not None
    assert meter.uuid == "GPU-11aa-bb"
    monkeypatch.setitem(sys.modules, "torch", fake_torch(["11aa-bb"], is_initialized=False))
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    meter = find_meter(0)
    assert meter is not None
    assert meter.uuid == "GPU-00aa-bb"


class FakeLibrary:
    """The C functions of one GPU: they answer with a status and write through the pointers they are given."""

    def __init__(self, *, field_status: int = 0) -> None:
        self.field_status = field_status

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:
        count._obj.value = 1
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:
        handle._obj.value = 4096 + index.value
        return 0 if index.value == 0 else 2

    def nvmlDeviceGetName(self, handle: Any, buffer: Any, size: Any) -> int:
        assert handle.value == 4096
        buffer.value = b"NVIDIA H200"
        return 0

    def nvmlDeviceGetUUID(self, handle: Any, buffer: Any, size: Any) -> int:
        buffer.value = b"GPU-1234"
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: Any, energy: Any) -> int:
        energy._obj.value = 5_000_000_000_000
        return 0

    def nvmlDeviceGetFieldValues(self, handle: Any, count: Any, values: Any) -> int:
        value = values._obj[0]
        assert (count.value, value.fieldId, value.scopeId) == (1, 186, 0)
        value.valueType, value.nvmlReturn, value.value.uiVal = 1, self.field_status, 120_000
        return 0


def test_without_nvidia_ml_py_the_drivers_library_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml_library, "open_library", lambda: Library(FakeLibrary()))
    meter = find_meter()
    assert meter is not None
    assert (meter.gpu, meter.uuid) == ("NVIDIA H200", "GPU-1234")
    assert (meter.joules(), meter.watts()) == (5e9, 120.0)


def test_the_drivers_library_without_instant_power_or_a_second_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library(FakeLibrary(field_status=3))
    monkeypatch.setattr(nvml_library, "open_library", lambda: library)
    meter = find_meter()
    assert meter is not None
    assert meter.watts() is None
    assert find_meter(1) is None
    with pytest.raises(nvml_library.NVMLError, match="answers 2"):
        library.nvmlDeviceGetHandleByIndex(1)
    with pytest.raises(nvml_library.NVMLError, match="has no nvmlDeviceGetPowerUsage"):
        library.nvmlDeviceGetPowerUsage(None)


def test_a_field_is_laid_out_as_in_nvmls_header() -> None:
    offsets = {name: getattr(FieldValue, name).offset for name in ("scopeId", "timestamp", "valueType", "value")}
    assert offsets == {"scopeId": 4, "timestamp": 8, "valueType": 24, "value": 32}
    assert ctypes.sizeof(FieldValue) == 40


class FakeSmi(ModuleType):
    class AmdSmiException(Exception):  # noqa: N818 - amdsmi's name
        pass

    def __init__(self, gpus: list[dict[str, Any]]) -> None:
        super().__init__("amdsmi")
        self.gpus = gpus

    def amdsmi_init(self) -> None:
        pass

    def amdsmi_get_processor_handles(self) -> list[dict[str, Any]]:
        return self.gpus

    def amdsmi_get_gpu_asic_info(self, handle: dict[str, Any]) -> dict[str, Any]:
        return {"market_name": "AMD Instinct MI300X"}

    def amdsmi_get_gpu_device_uuid(self, handle: dict[str, Any]) -> str:
        return str(handle["uuid"])

    def amdsmi_get_energy_count(self, handle: dict[str, Any]) -> dict[str, Any]:
        if "count" not in handle:
            raise self.AmdSmiException("not supported")
        return {handle.get("key", "energy_accumulator"): handle["count"], "counter_resolution": 15.3, "timestamp": 1}

    def amdsmi_get_power_info(self, handle: dict[str, Any]) -> dict[str, Any]:
        return {"current_socket_power": handle.get("watts", "N/A")}


def test_amds_counter_is_in_units_of_its_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", FakeSmi([
        {"uuid": "a", "count": 1_000_000, "watts": 140},
        {"uuid": "b", "count": 2_000_000, "key": "power"},
        {"uuid": "c"},
    ]))  # fmt: skip
    first, second = find_meter(0), find_meter(1)
    assert first is not None
    assert second is not None
    assert first.name == "amdsmi energy count, AMD Instinct MI300X"
    assert (first.joules(), first.watts()) == (pytest.approx(15.3), 140)
    assert (second.joules(), second.watts()) == (pytest.approx(30.6), None)
    assert find_meter(2) is None
    assert "amdsmi: not supported" in why_none(2)
    assert len(find_meters()) == 3


def test_hips_variables_choose_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amdsmi", FakeSmi([{"uuid": str(each), "count": each} for each in range(4)]))
    monkeypatch.setenv("ROCR_VISIBLE_DEVICES", "3,1")
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    meter = find_meter(0)
    assert meter is not None
    assert meter.uuid == "1"
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "GPU-77")
    assert "HIP_VISIBLE_DEVICES=GPU-77" in why_none(0)
