"""What PyTorch's CUDA allocator did while a window was recorded: its history, its state, its statistics.

The history of a whole run does not fit anywhere, and keeping it slows steps down that are timed. So the allocator notes
where memory was allocated from the start to the first step's end, when weights and optimizer states are made, and from
then on only in the recorded window, whose snapshot has every allocation and release.
"""

from __future__ import annotations

import contextlib
import gzip
import pickle
import time
from pathlib import Path
from typing import Any, Final

from warplens_run.capture.memory_tensors import NamedTensors
from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import GZIP_LEVEL, Staging

MOST_ENTRIES: Final = 200_000
"""Allocations and releases, the last ones of the window: some ten MB as they are stored."""


NAMED_STEPS: Final = 2
"""Of a run that is recorded whole: optimizers make their states in their first step."""


class MemoryHistory:
    """Records the memory of one run; with `is_whole` the window is all of it."""

    def __init__(self, torch: Any, staging: Staging, *, is_whole: bool) -> None:
        self._torch, self._staging, self._is_whole = torch, staging, is_whole
        self.notes: list[str] = []
        self.tensors = NamedTensors(torch)
        self._has_cuda = bool(torch.cuda.is_available())
        self._is_on = self._is_window = self._is_over = self._is_written = False
        self._start: dict[int, dict[str, int]] = {}
        self._blocks: dict[int, list[tuple[int, int]]] = {}
        """Address and size of what is in use when the window begins, by device."""
        self._start_ns = 0
        self._oom: dict[str, int] | None = None
        if not self._has_cuda:
            self.notes.append("no CUDA allocator here: only the profiler's memory events are recorded, and no snapshot")

    def begin_run(self) -> None:
        self.tensors.watch()
        if self._has_cuda:
            # Not before the program itself has CUDA initialised: it may want to fork first.
            self._torch.cuda._lazy_call(self._on_cuda)

    def step_ended(self, number: int) -> None:
        """The program has made this many steps."""
        if self._is_whole:
            # A program that has ended may hold nothing any more.
            if number <= NAMED_STEPS:
                self._collect()
        elif not self._is_window:
            self._switch(False)

    def begin_window(self) -> None:
        self._is_window, self._is_written = True, False
        self._start_ns = time.time_ns()
        self._start = self._statistics()
        self.tensors.begin_window()
        if self._has_cuda and self._torch.cuda.is_initialized():
            self._note_blocks()
            self._switch(True, entries=MOST_ENTRIES)

    def end_window(self, *, is_kept: bool = True) -> None:
        """Write what the window leaves, unless a better one has been written; a failure is a note."""
        if not self._is_window or self._is_written:
            return
        self._is_window, self._is_written = False, True
        if not is_kept:
            self._switch(False)
            return
        try:
            end_ns = time.time_ns()
            # First: what this makes itself is not the program's.
            if self._has_cuda and self._torch.cuda.is_initialized():
                self._write_snapshot(self._staging.path(bundle_files.MEMORY_SNAPSHOT))
            self._collect()
            self._write_facts(end_ns)
        except Exception as error:  # noqa: BLE001 - a full disk, or an allocator that has no history
            self.notes.append(f"no memory snapshot: {type(error).__name__}: {error}")
        self._switch(False)

    def stop(self) -> None:
        self.end_window()
        if self._oom is not None and not self._is_written:
            self._write_facts(time.time_ns())
        self.forget()

    def forget(self) -> None:
        self._switch(False)
        self._is_over = True
        self.tensors.forget()

    def _note_blocks(self) -> None:
        """Events have the sizes that were asked for, and the allocator's sums those of blocks."""
        try:
            for segment in self._torch.cuda.memory._snapshot()["segments"]:
                blocks = self._blocks.setdefault(int(segment["device"]), [])
                address = int(segment["address"])
                for block in segment["blocks"]:
                    if block["state"] != "inactive":
                        blocks.append((int(block.get("address", address)), int(block["size"])))
                    address += int(block["size"])
        except Exception as error:  # noqa: BLE001 - the snapshot's form is PyTorch's own
            self.notes.append(f"the blocks in use are not known: {type(error).__name__}: {error}")

    def _collect(self) -> None:
        try:
            self.tensors.collect()
        except Exception as error:  # noqa: BLE001 - modules are the program's own, and so are their surprises
            self.notes.append(f"tensors are not named: {type(error).__name__}: {error}")

    def _on_cuda(self) -> None:
        """CUDA has just been initialised."""
        if self._is_over:
            return
        is_window = self._is_window or self._is_whole
        self._switch(True, entries=MOST_ENTRIES if is_window else 1)
        attach = getattr(self._torch._C, "_cuda_attach_out_of_memory_observer", None)
        if attach is not None:
            with contextlib.suppress(Exception):
                attach(self._on_out_of_memory)

    def _switch(self, is_on: bool, entries: int = 1) -> None:
        """Let the allocator keep its history, or not; one that the program asked for stays as it is."""
        if not self._has_cuda or (not is_on and not self._is_on):
            return
        try:
            asked = getattr(self._torch._C, "_cuda_isHistoryEnabled", None)
            if is_on and not self._is_on and asked is not None and asked():
                return
            record = self._torch.cuda.memory._record_memory_history
            if is_on:
                record("all", context="all", stacks="python", max_entries=entries)
            else:
                record(None)
            self._is_on = is_on
        except Exception as error:  # noqa: BLE001 - of another allocator, or another PyTorch
            self.notes.append(f"the allocator keeps no history: {type(error).__name__}: {error}")
            self._is_on = False

    def _on_out_of_memory(self, device: int, requested: int, total: int, free: int) -> None:
        """The first time only: a program that survives it may go on and meet it often."""
        if self._oom is not None or self._is_over:
            return
        self._oom = {"device": device, "requested": requested, "total": total, "free": free, "time_ns": time.time_ns()}
        with contextlib.suppress(Exception):  # there is little memory left for anything
            self._write_snapshot(self._staging.path(bundle_files.MEMORY_SNAPSHOT_OOM))

    def _write_snapshot(self, path: Path) -> None:
        snapshot = self._torch.cuda.memory._snapshot()
        try:
            with gzip.open(path, "wb", compresslevel=GZIP_LEVEL) as stream:
                pickle.dump(snapshot, stream)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _write_facts(self, end_ns: int) -> None:
        devices = {}
        for device, end in self._statistics().items():
            devices[str(device)] = {
                "start": self._start.get(device, {}),
                "end": end,
                "blocks": self._blocks.get(device, []),
                "max_memory_allocated": end.get("allocated_bytes.all.peak", 0),
                "max_memory_reserved": end.get("reserved_bytes.all.peak", 0),
            }
        facts: dict[str, Any] = {"version": bundle_files.MEMORY_VERSION, "devices": devices}
        facts |= {"window_ns": [self._start_ns, end_ns], "tensors": self.tensors.rows()}
        if self._oom is not None:
            facts["out_of_memory"] = self._oom
        self._staging.write_json(bundle_files.MEMORY_FACTS, facts, indent=None)

    def _statistics(self) -> dict[int, dict[str, int]]:
        """`torch.cuda.memory_stats` of each device that was used."""
        cuda = self._torch.cuda
        if not self._has_cuda or not cuda.is_initialized():
            return {}
        stats = {device: dict(cuda.memory_stats(device)) for device in range(cuda.device_count())}
        return {device: values for device, values in stats.items() if values.get("reserved_bytes.all.peak")}
