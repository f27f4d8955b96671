"""CUDA graphs: work recorded once and replayed without the CPU's part in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warplens_run.base.errors import WarplensError

WARMUPS = 3
"""Libraries choose and allocate in their first calls, which a graph cannot hold."""

WITHOUT = "omit cuda_graph; a newer torch or transformers may record it"
Work = Callable[[], Any]
"""Runs once and returns what it made, on the device."""


def captured(torch: Any, work: Work) -> Work:
    """`work`, run a few times and then recorded: replaying it writes to the same tensors each time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARMUPS):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            output = work()
    except torch.cuda.OutOfMemoryError:
        raise
    except RuntimeError as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise WarplensError(f"this cannot be recorded as a CUDA graph: {reason}", hint=WITHOUT) from error

    def replay() -> Any:
        graph.replay()
        return output

    return replay
