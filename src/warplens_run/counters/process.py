"""The process that samples the GPUs' readings, as the recording session sees it."""

from __future__ import annotations

import contextlib
import functools
import json
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import Staging
from warplens_run.processes.child import TAKES_PART, Child, environment

LOOK_SECONDS: Final = 0.05
"""How often to see which GPUs the program uses, and whether its steps are recorded or timed now."""
END_SECONDS: Final = 10.0
SAMPLING: Final = "warplens_run.counters.sampling"
Gpus = list[tuple[int, str]]
"""Number, as CUDA counts, and UUID, empty where it is not known."""


class CounterProcess:
    """Samples while `is_wanted`; never raises, as it runs inside the program."""

    def __init__(
        self,
        staging: Staging,
        is_wanted: Callable[[], bool],
        *,
        gpus: Callable[[], Gpus],
        module: str = SAMPLING,
    ) -> None:
        self._file = staging.path(bundle_files.COUNTERS)
        self._is_wanted, self._gpus = is_wanted, gpus
        self.notes: list[str] = []
        self._last: dict[str, Any] = {}
        self._ended = threading.Event()
        self._process: Child | None = None
        try:
            self._process = Child(
                module,
                str(self._file),
                variables=environment(without=TAKES_PART),
                folder=self._file.parent,  # where -m looks for modules first: not among the program's own
            )
        except OSError as error:
            self._note(error.strerror or str(error))
        else:
            threading.Thread(target=self._watch, name="warplens counters", daemon=True).start()

    def stop(self) -> None:
        """Let it write what it has sampled."""
        self._ended.set()
        process, self._process = self._process, None
        if process is None:
            return
        process.send(json.dumps({"end": True}))
        try:
            ending = process.wait(END_SECONDS)
        except TimeoutError as error:
            self._note(str(error))
            return
        if ending.status:
            self._note(ending.last_line or str(ending))
        else:
            self._add_notes()

    def forget(self) -> None:
        """In a forked child: the process is the parent's, and so is the pipe to it."""
        self._ended.set()
        process, self._process = self._process, None
        if process is not None:
            process.forget()

    def _watch(self) -> None:
        process = self._process
        while process is not None and process.is_running and not self._ended.wait(LOOK_SECONDS):
            with contextlib.suppress(Exception):  # of a framework that is just being loaded or taken down
                state = {"on": bool(self._is_wanted()), "gpus": self._gpus()}
                if state != self._last:
                    self._last = state
                    process.send(json.dumps(state))

    def _add_notes(self) -> None:
        try:
            document = json.loads(self._file.read_bytes())
        except (OSError, ValueError) as error:
            self._note(str(error))
            return
        if not document["gpus"]:
            self._file.unlink()
            self._note("; ".join(document["notes"]) or "no GPU was used while steps were recorded or timed")
        elif document["notes"]:
            self.notes.append(f"no counters of {'; '.join(document['notes'])}")

    def _note(self, reason: str) -> None:
        self.notes.append(f"no GPU counters: {reason}")


def torch_gpus() -> Gpus:
    """The GPUs on which this process has a context of PyTorch's."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "cuda") or not torch.cuda.is_initialized() or torch.version.hip:
        return []
    from warplens_run.base.nvml.devices import torch_uuid

    has_context = getattr(torch._C, "_cuda_hasPrimaryContext", lambda device: True)
    return [(device, torch_uuid(device)) for device in range(torch.cuda.device_count()) if has_context(device)]


@functools.cache
def visible_gpus() -> Gpus:
    """All that CUDA would show: JAX takes them all."""
    from warplens_run.base.nvml import devices

    try:
        return [(device, "") for device in range(devices.count_visible(devices.load(own=True)))]
    except devices.NoNvmlError:
        return []
