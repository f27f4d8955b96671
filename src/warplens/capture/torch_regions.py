"""The scopes that are open while PyTorch's profiler comes and goes: each recording shows those it began inside of."""

from __future__ import annotations

import threading
from typing import Any

from warplens.capture.scopes import Metrics
from warplens.capture.torch_recording import Recording


class Region:
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
        self._threads: dict[int, list[Region]] = {}
        self.unheard: set[int] = set()
        """Threads with scopes that the profiler does not hear of."""

    def enter(self, name: str, metrics: Metrics, recording: Recording | None) -> Region:
        region = Region(name)
        self._threads.setdefault(region.thread, []).append(region)
        if recording is not None and recording.is_running:
            if recording.hears_this_thread:
                region.open(recording, metrics)
            else:
                self.unheard.add(region.thread)
        return region

    def exit(self, region: Region) -> None:
        self.drop(region)
        region.close()

    def drop(self, region: Region) -> None:
        """Leave it to end by itself."""
        own = self._threads.get(region.thread, [])
        if region in own:
            own.remove(region)
        if not own:
            self._threads.pop(region.thread, None)

    def reopen(self, recording: Recording) -> None:
        """Mark this thread's open scopes in a recording that begins inside them; their metrics were told before."""
        for region in self._here():
            region.open(recording, {})

    def close(self) -> None:
        """End their marks in a recording that ends."""
        for region in reversed(self._here()):
            region.close()

    def _here(self) -> list[Region]:
        return list(self._threads.get(threading.get_ident(), ()))
