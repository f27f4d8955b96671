"""What a script asks of a GPU before it launches anything, answered as one of the cards that stand in would answer.

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

from warplens_lab.compiling.stand_in_cards import CARDS, DEFAULT, StandInCard

CUDA_VERSION: Final = "13.0"
HIP_VERSION: Final = "7.0.0"
"""What `torch.version` answers; scripts only compare them with older ones."""


class GpuRequest:
    """Whether the script has asked for a GPU, and at which of its lines first.

    `device` is the CPU's, an object of its own: where the script hands it back, it means the GPU.
    """

    def __init__(self, script: Path | None = None, card: StandInCard = CARDS[DEFAULT]) -> None:
        self.script = str(script.resolve()) if script else ""
        self.card = card
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
    """Triton's active driver where it has none: a kind of its own driver for such a card that never touches one."""
    card = gpu_request.card
    base = _driver_class(card)

    class StandIn(base):  # type: ignore[misc, valid-type]
        def __init__(self) -> None:
            self.utils = SimpleNamespace(get_device_properties=lambda device=0: dict(card.triton_properties))

        def get_current_device(self) -> int:
            return 0

        def set_current_device(self, device: Any) -> None:
            return None

        def get_current_stream(self, device: Any = 0) -> int:
            return 0

        def get_device_capability(self, device: Any = 0) -> tuple[int, int]:
            return card.capability

        def get_current_target(self) -> Any:
            from triton.backends.compiler import GPUTarget

            if card.is_amd:
                return GPUTarget("hip", card.architecture, card.warp_size)
            return GPUTarget("cuda", int(card.architecture), card.warp_size)

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


def _driver_class(card: StandInCard) -> Any:
    """Scripts ask `isinstance` of it."""
    try:
        if card.is_amd:
            from triton.backends.amd.driver import HIPDriver

            return HIPDriver
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


class StandInDevice:
    """`torch.cuda.device`: there is one GPU, so none is switched to."""

    def __init__(self, device: Any = None) -> None:
        self.idx = 0
        self.prev_idx = 0

    def __enter__(self) -> StandInDevice:
        return self

    def __exit__(self, *error: object) -> None:
        return None


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


class StandInGenerator:
    """`torch.cuda`'s generator of random numbers, as far as kernels with their own take its seed and offset."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._state = torch.zeros(2, dtype=torch.int64)

    def get_state(self) -> Any:
        return self._state.clone().view(self._torch.uint8)

    def set_state(self, state: Any) -> None:
        self._state = state.clone().view(self._torch.int64)

    def manual_seed(self, seed: int) -> StandInGenerator:
        self._state = self._torch.tensor([seed, 0])
        return self

    def initial_seed(self) -> int:
        return int(self._state[0])

    def get_offset(self) -> int:
        return int(self._state[1])

    def set_offset(self, offset: int) -> None:
        self._state[1] = offset


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

    card = gpu_request.card
    harmless = ("synchronize", "set_device", "init", "set_stream")
    quiet = ("empty_cache", "reset_peak_memory_stats", "reset_max_memory_allocated", "set_rng_state", "ipc_collect")
    empty = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    return {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "is_bf16_supported": lambda *args, **kwargs: True,
        "get_device_name": lambda device=None: card.name,
        "get_device_capability": lambda device=None: card.capability,
        "get_device_properties": lambda device=None: SimpleNamespace(**card.properties),
        "mem_get_info": lambda device=None: (card.memory, card.memory),
        "get_rng_state": lambda device=None: torch.get_rng_state(),
        "current_stream": lambda device=None: StandInStream(),
        "default_stream": lambda device=None: StandInStream(),
        "stream": asking(lambda stream: nullcontext(stream)),
        "device": asking(StandInDevice),
        "_DeviceGuard": asking(StandInDevice),
        "device_of": asking(StandInDevice),
        "default_generators": (StandInGenerator(torch),),
        "Stream": StandInStream,
        "Event": StandInEvent,
        **{name: asking(giving(None)) for name in harmless},
        **{name: giving(None) for name in quiet},
        **{name: giving(0) for name in empty},
    }


def torch_version_members(torch: Any, card: StandInCard) -> dict[str, Any]:
    """A build without CUDA names no version of it, which scripts take for a machine without a GPU."""
    if card.is_amd:
        return {"hip": torch.version.hip or HIP_VERSION, "cuda": None}
    return {"cuda": torch.version.cuda or CUDA_VERSION, "hip": None}
