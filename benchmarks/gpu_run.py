"""Where a measurement runs: the device, its clock, warm-up, and one failure that does not end the others."""

from __future__ import annotations

import gc
import platform
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

try:
    import triton
except ImportError:
    triton = None

Step = Callable[[], Any]

CYCLE = 6  # steps after which a run repeats itself: one straggler in each
WARM_S = 0.5


class NeedsCudaError(Exception):
    """The pair has no meaning without a CUDA device (or without Triton)."""


@dataclass(frozen=True)
class Run:
    """Where a pair runs and at which scale."""

    device: str
    tiny: bool

    @property
    def cuda(self) -> bool:
        return self.device == "cuda"

    def size(self, full: int, tiny: int) -> int:
        return tiny if self.tiny else full

    def randn(self, *shape: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.randn(*shape, device=self.device, dtype=dtype)

    def sync(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def mark(self) -> Any:
        """A point in time on the device, without making the host wait for it."""
        if not self.cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_ms(self, first: Any, second: Any) -> float:
        return first.elapsed_time(second) if self.cuda else (second - first) * 1e3


def need_triton(run: Run) -> int:
    """The number of SMs, where there is a device and a compiler to use them directly."""
    if not run.cuda:
        raise NeedsCudaError("needs a CUDA device")
    if triton is None:
        raise NeedsCudaError("needs Triton")
    return torch.cuda.get_device_properties(0).multi_processor_count


@contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    was = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = was


def warm(run: Run, step: Step) -> None:
    """Whole cycles until compilers, allocators and clocks have settled."""
    started = time.perf_counter()
    while True:
        for _ in range(CYCLE):
            step()
        run.sync()
        if run.tiny or time.perf_counter() - started > WARM_S:
            return


def release(run: Run) -> None:
    """Give back what the last build held, so that no run is measured in the memory of another."""
    torch._dynamo.reset()
    gc.collect()
    if run.cuda:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


def attempt(run: Run, what: Callable[[], Any]) -> tuple[Any, str]:
    """The result and "ok", or None and what went wrong: one pair must not end the others."""
    try:
        torch.manual_seed(1)
        return what(), "ok"
    except NeedsCudaError as error:
        return None, f"skipped: {error}"
    except Exception as error:  # noqa: BLE001
        traceback.print_exc(limit=-3)
        return None, f"error: {type(error).__name__}: {str(error)[:300]}"
    finally:
        with suppress(RuntimeError):  # a device that has failed once fails here too
            release(run)


def versions(run: Run) -> dict[str, Any]:
    found: dict[str, Any] = {"torch": torch.__version__, "python": platform.python_version(), "device": run.device}
    found |= {"triton": getattr(triton, "__version__", None), "cuda": torch.version.cuda, "tiny": run.tiny}
    if run.cuda:
        card = torch.cuda.get_device_properties(0)
        found |= {"name": card.name, "sms": card.multi_processor_count, "memory_bytes": card.total_memory}
        found |= {"cudnn": torch.backends.cudnn.version(), "l2_bytes": card.L2_cache_size}
    return found
