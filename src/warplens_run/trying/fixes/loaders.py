"""Batches in pinned memory, and copies of them to the GPU that do not wait."""

from __future__ import annotations

import functools
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.trying.fixes.protocol import live, replaced

POLL_SECONDS: Final = 0.02
"""How long a thread that pins batches takes to notice its end."""


@dataclass(frozen=True)
class Pinning:
    """What is done to a batch with the fix, and undone to those that were loaded ahead."""

    pin: Callable[[Any], Any]
    unpin: Callable[[Any], Any]


class PinnedLoaders:
    """Every DataLoader pins its batches: those of worker processes in a thread, as `pin_memory=True` does.

    Loaders that are in the middle of an epoch go on with it, on the same batches.
    """

    name = "pinned loaders"
    needs_op = ""

    def __init__(self, torch: Any, pinning: Pinning | None = None) -> None:
        if pinning is None and not torch.cuda.is_available():
            raise WarplensError(f"{self.name}: there is no GPU to copy to")
        self._torch = torch
        self._module = torch.utils.data.dataloader
        self._pinning = pinning or Pinning(torch.utils.data._utils.pin_memory.pin_memory, self._unpinned)
        self._stages: list[_ThreadStage | _PlainStage] = []
        self._undo: list[Callable[[], None]] = []

    def switch(self, on: bool) -> None:
        if not on:
            while self._undo:
                self._undo.pop()()
            while self._stages:
                self._stages.pop().remove()
            return
        loaders = live(self._module.DataLoader)
        if not loaders:
            raise WarplensError("the program has no DataLoader whose batches could be pinned")
        if all(loader.pin_memory for loader in loaders):
            raise WarplensError("the program's loaders pin their batches already")
        for iterator in live(self._module._BaseDataLoaderIter):
            self._add_stage(iterator)
        tensor = self._torch.Tensor
        self._undo = [
            replaced(self._module.DataLoader, "__iter__", self._pinned_from_now_on),
            *(replaced(tensor, name, self._without_waiting) for name in ("to", "cuda")),
        ]

    def _add_stage(self, iterator: Any) -> None:
        if not iterator._pin_memory:
            has_workers = isinstance(iterator, self._module._MultiProcessingDataLoaderIter)
            self._stages.append((_ThreadStage if has_workers else _PlainStage)(self._torch, iterator, self._pinning))

    def _pinned_from_now_on(self, iterate: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Iterator[Any]]:
        @functools.wraps(iterate)
        def begin(loader: Any) -> Iterator[Any]:
            iterator = iterate(loader)
            self._add_stage(iterator)
            return iterator

        return begin

    def _without_waiting(self, copy: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(copy)
        def call(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            is_chosen = "non_blocking" in kwargs or any(isinstance(arg, bool) for arg in args)
            # Only from pinned memory: what is copied to the host must have arrived before it is read.
            if not is_chosen and tensor.device.type == "cpu" and tensor.is_pinned():
                kwargs["non_blocking"] = True
            return copy(tensor, *args, **kwargs)

        return call

    def _unpinned(self, batch: Any) -> Any:
        tensor = self._torch.Tensor
        return self._torch.utils._pytree.tree_map(
            lambda part: part.clone() if isinstance(part, tensor) and part.is_pinned() else part, batch
        )


class _PlainStage:
    """Of a loader without workers: it pins where it loads."""

    def __init__(self, torch: Any, iterator: Any, pinning: Pinning) -> None:
        self._iterator = iterator
        self._own = iterator._next_data
        iterator._next_data = lambda: pinning.pin(self._own())

    def remove(self) -> None:
        vars(self._iterator).pop("_next_data", None)


class _ThreadStage:
    """Of a loader with workers: a thread between them and the program, as a loader that pins has one."""

    def __init__(self, torch: Any, iterator: Any, pinning: Pinning) -> None:
        self._torch, self._iterator, self._pinning = torch, iterator, pinning
        self._done = threading.Event()
        self._pinned: queue.Queue[Any] = queue.Queue()
        self._device = torch.cuda.current_device() if torch.cuda.is_available() else None
        if isinstance(iterator._data_queue, _LoadedAhead):
            for number, batch in iterator._data_queue.items:
                self._pinned.put((number, self._changed(batch, pinning.pin)))
        self._change_early(pinning.pin)
        iterator._data_queue = self._pinned
        iterator._pin_memory = True
        # Under these names a loader that ends finds its thread, and ends it.
        iterator._pin_memory_thread_done_event = self._done
        iterator._pin_memory_thread = threading.Thread(target=self._run, daemon=True)
        iterator._pin_memory_thread.start()

    def remove(self) -> None:
        iterator = self._iterator
        self._done.set()
        iterator._pin_memory_thread.join()
        self._change_early(self._pinning.unpin)
        ahead = [(number, self._changed(batch, self._pinning.unpin)) for number, batch in _taken(self._pinned)]
        iterator._data_queue = _LoadedAhead(iterator, ahead) if ahead else iterator._worker_result_queue
        iterator._pin_memory = False
        del iterator._pin_memory_thread, iterator._pin_memory_thread_done_event

    def _change_early(self, change: Callable[[Any], Any]) -> None:
        """Batches that came before their turn wait in the loader itself."""
        waiting = self._iterator._task_info
        for number, (worker, *batches) in list(waiting.items()):
            if batches:
                waiting[number] = (worker, *(self._changed(batch, change) for batch in batches))

    def _changed(self, batch: Any, change: Callable[[Any], Any]) -> Any:
        """The failure of a worker is passed on in the place of a batch."""
        return batch if isinstance(batch, self._torch._utils.ExceptionWrapper) else change(batch)

    def _run(self) -> None:
        self._torch.set_num_threads(1)  # of this thread only: the copy must not take every core
        if self._device is not None:
            self._torch.cuda.set_device(self._device)
        loaded = self._iterator._worker_result_queue
        while not self._done.is_set():
            try:
                number, batch = loaded.get(timeout=POLL_SECONDS)
            except queue.Empty:
                continue
            self._pinned.put((number, self._changed(batch, self._pinning.pin)))


class _LoadedAhead:
    """Batches that the thread had taken from the workers; when they are used up, the workers' own queue is back."""

    def __init__(self, iterator: Any, items: list[Any]) -> None:
        self.items = deque(items)
        self._iterator = iterator

    def get(self, timeout: float | None = None) -> Any:
        item = self.items.popleft()
        if not self.items:
            self._iterator._data_queue = self._iterator._worker_result_queue
        return item


def _taken(items: queue.Queue[Any]) -> Iterator[Any]:
    while True:
        try:
            yield items.get_nowait()
        except queue.Empty:
            return
