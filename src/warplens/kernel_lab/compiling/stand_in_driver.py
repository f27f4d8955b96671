"""What a script asks of a GPU before it launches anything, answered as an NVIDIA H100 would answer.

A driver for Triton, and the members of `torch.cuda` that need no GPU to be answered. Standard library at import.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

CAPABILITY: Final = (9, 0)
WARP_SIZE: Final = 32
MEMORY_BYTES: Final = 80 * 2**30
PROPERTIES: Final = {
    "name": "NVIDIA H100 80GB HBM3",
    "major": CAPABILITY[0],
    "minor": CAPABILITY[1],
    "total_memory": MEMORY_BYTES,
    "multi_processor_count": 132,
    "warp_size": WARP_SIZE,
    "regs_per_multiprocessor": 65536,
    "max_threads_per_block": 1024,
    "max_threads_per_multi_processor": 2048,
    "shared_memory_per_block": 49152,
    "shared_memory_per_block_optin": 232448,
    "shared_memory_per_multiprocessor": 233472,
    "L2_cache_size": 50 * 2**20,
}
"""As PyTorch names them."""
TRITON_PROPERTIES: Final = {
    "max_shared_mem": PROPERTIES["shared_memory_per_block_optin"],
    "max_num_regs": PROPERTIES["regs_per_multiprocessor"],
    "multiprocessor_count": PROPERTIES["multi_processor_count"],
    "warpSize": WARP_SIZE,
}


class GpuRequest:
    """Whether the script has asked for a GPU, and at which of its lines first.

    `device` is the CPU's, an object of its own: where the script hands it back, it means the GPU.
    """

    def __init__(self, script: Path | None = None) -> None:
        self.script = str(script.resolve()) if script else ""
        self.happened = False
        self.line: int | None = None
        self.device: Any = None

    def record(self) -> None:
        if self.happened:
            return
        self.happened = True
        frame = sys._getframe(1)
        while frame is not None and str(Path(frame.f_code.co_filename).resolve()) != self.script:
            frame = frame.f_back  # type: ignore[assignment]
        self.line = frame.f_lineno if frame is not None else None


def stand_in_driver(gpu_request: GpuRequest) -> Any:
    """Triton's active driver where it has none: a kind of its CUDA driver that never touches one."""
    base = _cuda_driver()

    class StandIn(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            self.utils = SimpleNamespace(get_device_properties=lambda device=0: dict(TRITON_PROPERTIES))

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, device: Any) -> None:
            return None

        def get_current_stream(self, device: Any = 0) -> int:
            return 0

        def get_device_capability(self, device: Any = 0) -> tuple[int, int]:
            return CAPABILITY

        def get_current_target(self) -> Any:
            from triton.backends.compiler import GPUTarget

            return GPUTarget("cuda", CAPABILITY[0] * 10 + CAPABILITY[1], WARP_SIZE)

        def get_active_torch_device(self) -> Any:
            import torch

            gpu_request.record()
            return gpu_request.device or torch.device("cpu")

        def get_device_interface(self) -> Any:
            import torch

            return torch.cuda

        def get_benchmarker(self) -> Any:
            return once

        def get_empty_cache_for_benchmark(self) -> Any:
            import torch

            return torch.empty(1, dtype=torch.int)

        def clear_cache(self, cache: Any) -> None:
            return None

    return StandIn()


def _cuda_driver() -> Any:
    try:
        from triton.backends.nvidia.driver import CudaDriver
    except ImportError:
        return object
    return CudaDriver


def once(
    fn: Callable[[], Any], *args: Any, quantiles: Any = None, return_mode: str = "mean", **kwargs: Any
) -> float | list[float]:
    """In place of `triton.testing.do_bench`: the interpreter's time says nothing, so one run is enough."""
    started = time.perf_counter()
    fn()
    milliseconds = (time.perf_counter() - started) * 1e3
    if quantiles is not None:
        return [milliseconds] * len(quantiles) if len(quantiles) > 1 else milliseconds
    return [milliseconds] if return_mode == "all" else milliseconds


class StandInEvent:
    """`torch.cuda.Event` by the host's clock: all work is done when it is asked for."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.at = 0.0

    def record(self, stream: Any = None) -> None:
        self.at = time.perf_counter()

    def elapsed_time(self, end: StandInEvent) -> float:
        return (end.at - self.at) * 1e3

    def synchronize(self) -> None:
        return None

    def wait(self, stream: Any = None) -> None:
        return None

    def query(self) -> bool:
        return True


class StandInStream:
    """`torch.cuda.Stream`, on which nothing ever waits."""

    cuda_stream = 0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        return None

    def __enter__(self) -> StandInStream:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def record_event(self, event: StandInEvent | None = None) -> StandInEvent:
        recorded = event or StandInEvent()
        recorded.record()
        return recorded

    def synchronize(self) -> None:
        return None

    def wait_stream(self, stream: Any) -> None:
        return None

    def wait_event(self, event: Any) -> None:
        return None

    def query(self) -> bool:
        return True


def torch_cuda_members(torch: Any, gpu_request: GpuRequest) -> dict[str, Any]:
    """By name, the members that replace those of `torch.cuda` meanwhile."""

    def asking(answer: Callable[..., Any]) -> Callable[..., Any]:
        def member(*args: Any, **kwargs: Any) -> Any:
            gpu_request.record()
            return answer(*args, **kwargs)

        return member

    def giving(value: Any) -> Callable[..., Any]:
        """A function of its own each time: PyTorch's compiler refuses one function under two names."""
        return lambda *args, **kwargs: value

    harmless = ("synchronize", "set_device", "init", "set_stream")
    quiet = ("empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated", "set_rng_state", "ipc_collect")
    empty = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "is_bf16_supported": lambda *args, **kwargs: True,
        "get_device_name": lambda device=None: PROPERTIES["name"],
        "get_device_capability": lambda device=None: CAPABILITY,
        "get_device_properties": lambda device=None: SimpleNamespace(**PROPERTIES),
        "mem_get_info": lambda device=None: (MEMORY_BYTES, MEMORY_BYTES),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "current_stream": lambda device=None: StandInStream(),
        "default_stream": lambda device=None: StandInStream(),
        "stream": asking(lambda stream: nullcontext(stream)),
        "device": asking(lambda device: nullcontext()),
        "device_of": asking(lambda tensor: nullcontext()),
        "Stream": StandInStream,
        "Event": StandInEvent,
        **{name: asking(giving(None)) for name in harmless},
        **{name: giving(None) for name in quiet},
        **{name: giving(0) for name in empty},
    }
