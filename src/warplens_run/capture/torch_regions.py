"""The scopes that are open while PyTorch's profiler comes and goes: each recording shows those it began inside of."""

from __future__ import annotations

import threading
from typing import Any, Final

from warplens_run.capture.scopes import Metrics
from warplens_run.capture.torch_recording import Recording
from warplens_run.capture.trace_to_tree import AFTER_STEPS, STEP

NO_STEP: Final = "(no whole step)"
"""A mark that is open when a recording ends without a step."""


class ScopeRegion:
    """An open scope, with its mark in what is being recorded now, if anything is."""

    __slots__ = ("mark", "name", "thread")

    def __init__(self, name: str) -> None:
        self.name = name
        self.thread = threading.get_ident()
        self.mark: Any = None

    def open(self, recording: Recording, metrics: Metrics) -> None:
        recording.log.enter(self.name, metrics)
        mark = recording.torch.profiler.record_function(recording.names.plain(self.name))
        mark.__enter__()
        self.mark = mark

    def close(self) -> None:
        mark, self.mark = self.mark, None
        if mark is not None:
            mark.__exit__(None, None, None)


class OpenRegions:
    """The open scopes of every thread."""

    def __init__(self) -> None:
        self._threads: dict[int, list[ScopeRegion]] = {}
        self.unheard: set[int] = set()
        """Threads with scopes that the profiler does not record."""

    def enter(self, name: str, metrics: Metrics, recording: Recording | None) -> ScopeRegion:
        region = ScopeRegion(name)
        self._threads.setdefault(region.thread, []).append(region)
        if recording is not None and recording.records_scopes:
            if recording.records_this_thread:
                region.open(recording, metrics)
            else:
                self.unheard.add(region.thread)
        return region

    def exit(self, region: ScopeRegion) -> None:
        self.drop(region)
        region.close()

    def drop(self, region: ScopeRegion) -> None:
        """Leave it to end by itself."""
        regions = self._threads.get(region.thread, [])
        if region in regions:
            regions.remove(region)
        if not regions:
            self._threads.pop(region.thread, None)

    def reopen(self, recording: Recording) -> None:
        """Mark this thread's open scopes in a recording that begins inside them; their metrics are recorded already."""
        if recording.records_scopes:
            for region in self._thread_regions():
                region.open(recording, {})

    def close(self) -> None:
        """End their marks in a recording that ends."""
        for region in reversed(self._thread_regions()):
            region.close()

    def _thread_regions(self) -> list[ScopeRegion]:
        return list(self._threads.get(threading.get_ident(), ()))


class StepMark:
    """The mark of the step that is being recorded."""

    def __init__(self, regions: OpenRegions) -> None:
        self._regions = regions
        self._region: ScopeRegion | None = None
        self._step = 0

    def open(self, step: int, recording: Recording | None) -> None:
        self._step, self._region = step, self._regions.enter(f"{STEP}{step}", {}, recording)

    def drop(self) -> None:
        """Leave it without an end, where the recording ends before its step does."""
        if self._region is not None:
            self._regions.drop(self._region)

    def close(self) -> None:
        region, self._region = self._region, None
        if region is not None:
            self._regions.exit(region)

    def renames(self) -> list[tuple[bytes, bytes]]:
        """The name of a mark without an end in the trace, and what takes its place."""
        if self._region is None:
            return []
        name = AFTER_STEPS if self._step else NO_STEP
        return [(f'"{STEP}{self._step}"'.encode(), f'"{name}"'.encode())]
