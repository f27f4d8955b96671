"""What torch raises while a workload runs, in the words of this program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from warplens_run.base.errors import WarplensError
from warplens_run.workloads.libraries import load_torch
from warplens_run.workloads.memory import out_of_memory
from warplens_run.workloads.options import WorkloadPlan

COMPILER_MODULES = ("torch._dynamo", "torch._inductor", "torch._functorch")


@contextmanager
def explained(plan: WorkloadPlan) -> Iterator[None]:
    """Out of memory and failed compilation become one line and a hint; all else passes as it is."""
    torch = load_torch()
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise out_of_memory(f"out of GPU memory: {_first_line(error)}", plan) from error
    except RuntimeError as error:
        if type(error).__module__.startswith(COMPILER_MODULES):
            raise WarplensError(
                f"torch.compile failed: {_first_line(error)}",
                hint="it needs a C++ compiler (and Triton on a GPU); or omit compile",
                options=("compile",),
            ) from error
        if "DefaultCPUAllocator" in str(error):
            raise out_of_memory("out of memory", plan) from error
        raise


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
