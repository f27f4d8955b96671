"""triton-viz: the kernels of its examples, without its decorator."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
from driving import checkout, close, definitions, normal, run


def _example(path: str) -> Any:
    """Its decorator runs kernels in an interpreter of its own; here it gives the kernel as it is."""
    viz, clients = ModuleType("triton_viz"), ModuleType("triton_viz.clients")
    viz.trace = lambda *args, **kwargs: lambda kernel: kernel  # type: ignore[attr-defined]
    clients.Tracer = lambda: None  # type: ignore[attr-defined]
    sys.modules.update({"triton_viz": viz, "triton_viz.clients": clients})
    return definitions(checkout("triton-viz") / "examples" / path)


def slices() -> None:
    x, y = normal(16, 16, 32), normal(16, 16, 32)
    result = torch.empty_like(x)
    _example("visualizer/3dims.py").add_3d_slices(x, y, result)
    close(result, x + y)


def copy_9_dimensions() -> None:
    x = normal(2, 3, 4, 3, 4, 2, 4, 2, 3)
    result = torch.empty_like(x)
    _example("visualizer/9dims_copy.py").copy_9d_kernel[(-(-x.numel() // 1024),)](x, result, x.numel(), BLOCK=1024)
    close(result, x)


def indirect_load() -> None:
    x, at = normal(64), torch.randperm(64, device="cuda").int()
    result = torch.zeros_like(x)
    _example("visualizer/indirect_load.py").indirect_load_kernel[(1,)](x, at, result, BLOCK=16)
    close(result[:16], x[at[:16].long()])


def matmul() -> None:
    a, b = normal(30, 50), normal(50, 20)
    result = torch.empty(30, 20, device="cuda")
    sizes = (30, 20, 50, *a.stride(), *b.stride(), *result.stride())
    kernel = _example("visualizer/matmul.py").matmul_kernel
    kernel[(2, 2)](a, b, result, *sizes, BLOCK_M=16, BLOCK_N=16, BLOCK_K=32)
    close(result, a @ b, 1e-3)


run({name: value for name, value in globals().items() if callable(value) and name.islower() and name[0] != "_"})
