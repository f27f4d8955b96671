"""Captures of programs with Triton kernels of their own, made without a GPU: real launches, and a trace to match."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

import user_kernels
from support import kernel, launch
from triton_stub import stubbed
from warplens_run.capture.triton_launches import LaunchRecorder
from warplens_run.formats.bundle import Staging
from warplens_run.formats.bundle_files import TRACE

Event = tuple[str, tuple[int, ...], int]
"""Name, grid and threads of a kernel on the GPU."""


def scale(count: int = 1000, **options: Any) -> None:
    x = torch.ones(count)
    user_kernels.scale_shift[(8,)](x, torch.empty(count), count, 2.0, block=128, **options)


def softmax() -> None:
    x = torch.ones(16, 100)
    user_kernels.row_softmax[(16,)](x, torch.empty_like(x), 100)


def product(depth: int, activation: Any = None) -> None:
    a, b = torch.ones(64, depth), torch.ones(depth, 32)
    user_kernels.product[lambda given: (64 // given["block"], 1)](
        a, b, torch.empty(64, 32), 64, 32, depth, activation, 32
    )


def recorded(program: Callable[[], None], *, warm: Callable[[], None] | None = None) -> LaunchRecorder:
    """What a capture keeps of a program's launches; `warm` runs before anything is recorded."""
    is_measuring = [False]
    recorder = LaunchRecorder(lambda: is_measuring[0])
    with stubbed():
        recorder.install()
        try:
            if warm is not None:
                warm()
            is_measuring[0] = True
            program()
        finally:
            recorder.remove()
    return recorder


def seen_by_gpu(recorder: LaunchRecorder) -> list[Event]:
    """The kernels that these launches would be in a trace."""
    rows = [recorder.launches[index] for index in recorder.order]
    return [(row.kernel.name, (*row.grid, 1, 1)[:3], row.kernel.metadata.num_warps * 32) for row in rows]


def trace_events(kernels: Sequence[Event]) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    for number, (name, grid, threads) in enumerate(kernels, start=1):
        events.append(launch(10 * number, 2, number, name="cuLaunchKernelEx"))
        place = {"grid": list(grid), "block": [threads, 1, 1]}
        events.append(kernel(name, 10 * number + 5, 3, number, **place))
    return events


def bundle(
    target: Path, recorder: LaunchRecorder, kernels: Sequence[Event] | None = None, *more: Any, devices: Any = ()
) -> Path:
    """A capture bundle with these kernels on the GPU: those that the launches are, where none are given."""
    staging = Staging(target)
    events = [*trace_events(seen_by_gpu(recorder) if kernels is None else kernels), *more]
    staging.path(TRACE).write_bytes(
        gzip.compress(json.dumps({"deviceProperties": list(devices), "traceEvents": events}).encode())
    )
    for name, content in recorder.files():
        staging.path(name).write_text(content if isinstance(content, str) else json.dumps(content))
    return staging.finish({"backend": "torch", "gpu": True})
