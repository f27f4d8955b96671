"""What is asked of PyTorch's classes while captures of CUDA and HIP graphs are watched: methods wrapped, and put back.

`torch.cuda.graph`, `make_graphed_callables`, cudagraph trees of `torch.compile` and servers that call
`CUDAGraph.capture_begin` themselves all come through the methods of one class.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol


class CaptureListener(Protocol):
    """Called around captures; what it raises would reach the program, so it raises nothing."""

    def begin(self, graph: Any) -> None: ...

    def end(self, graph: Any, *, is_whole: bool) -> None: ...

    def instantiated(self, graph: Any) -> None: ...

    def replay(self, graph: Any) -> None: ...


class Patches:
    """Methods that are replaced until `remove`."""

    def __init__(self) -> None:
        self._replaced: list[tuple[Any, str, Any, Any]] = []

    def wrap(self, cls: Any, name: str, make: Callable[[Any], Any]) -> None:
        before = getattr(cls, name, None)
        if before is None:
            return
        # A class of the program's may look at the name or the source of what it inherits, and so does TorchScript.
        after = functools.wraps(before)(make(before))
        setattr(cls, name, after)
        self._replaced.append((cls, name, before, after))

    def remove(self) -> None:
        for cls, name, before, after in reversed(self._replaced):
            # What was put on top of it since keeps it.
            if getattr(cls, name, None) is after:
                setattr(cls, name, before)
        self._replaced.clear()


def watch_graphs(patches: Patches, graph_class: Any, listener: CaptureListener) -> None:
    """Call the listener around every capture and before every replay."""

    def around_begin(before: Any) -> Any:
        def capture_begin(graph: Any, *args: Any, **kwargs: Any) -> Any:
            # Before: starting a profiler inside a capture may end the capture.
            listener.begin(graph)
            try:
                return before(graph, *args, **kwargs)
            except BaseException:
                listener.end(graph, is_whole=False)
                raise

        return capture_begin

    def around_end(before: Any) -> Any:
        def capture_end(graph: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                result = before(graph, *args, **kwargs)
            except BaseException:
                listener.end(graph, is_whole=False)
                raise
            listener.end(graph, is_whole=True)
            return result

        return capture_end

    def around_instantiate(before: Any) -> Any:
        def instantiate(graph: Any, *args: Any, **kwargs: Any) -> Any:
            result = before(graph, *args, **kwargs)
            listener.instantiated(graph)
            return result

        return instantiate

    def around_replay(before: Any) -> Any:
        def replay(graph: Any, *args: Any, **kwargs: Any) -> Any:
            listener.replay(graph)
            return before(graph, *args, **kwargs)

        return replay

    patches.wrap(graph_class, "capture_begin", around_begin)
    patches.wrap(graph_class, "capture_end", around_end)
    patches.wrap(graph_class, "instantiate", around_instantiate)
    patches.wrap(graph_class, "replay", around_replay)


class OpenAnnotations(threading.local):
    """The names of the program's `record_function`s that are open on this thread, the outermost first.

    A profiler that starts inside one does not see it, and a server says there which batch size it captures.
    """

    def __init__(self) -> None:
        self.names: list[str] = []

    def watch(self, patches: Patches, cls: Any) -> None:
        def around_enter(before: Any) -> Any:
            def enter(region: Any) -> Any:
                self.names.append(region.name)
                return before(region)

            return enter

        def around_exit(before: Any) -> Any:
            def leave(region: Any, *error: Any) -> Any:
                names = self.names
                # Of several that overlap, or one that was entered before this watched.
                if names and names[-1] == region.name:
                    names.pop()
                elif region.name in names:
                    del names[len(names) - 1 - names[::-1].index(region.name)]
                return before(region, *error)

            return leave

        patches.wrap(cls, "__enter__", around_enter)
        patches.wrap(cls, "__exit__", around_exit)


class PreparedProfilers:
    """Whether a profiler of PyTorch's has been prepared and has not ended: one that is started meanwhile spoils it."""

    def __init__(self) -> None:
        self._last: weakref.ref[Any] | None = None

    def watch(self, patches: Patches, cls: Any) -> None:
        def around(before: Any) -> Any:
            def _prepare_trace(profiler: Any) -> Any:
                self._last = weakref.ref(profiler)
                return before(profiler)

            return _prepare_trace

        patches.wrap(cls, "_prepare_trace", around)

    @property
    def is_pending(self) -> bool:
        profiler = None if self._last is None else self._last()
        return profiler is not None and getattr(profiler, "kineto_results", None) is None
