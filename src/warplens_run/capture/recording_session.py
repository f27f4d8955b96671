"""One recording, from its start to the bundle that it leaves."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warplens_run import __version__
from warplens_run.base.errors import WarplensError
from warplens_run.capture import environment, scopes
from warplens_run.capture.backend_facts import BackendFacts
from warplens_run.capture.backends import Backend, make_backend
from warplens_run.capture.kernel_sources import copy_inductor_sources
from warplens_run.capture.launch import rank
from warplens_run.capture.masking import without_secrets
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.step_search import StepSearch
from warplens_run.capture.triton_hook import TritonHook
from warplens_run.capture.triton_launches import LaunchRecorder
from warplens_run.counters.process import CounterProcess, torch_gpus, visible_gpus
from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import Staging


@dataclass(frozen=True)
class Ending:
    """How the recorded program ended, as the manifest has it."""

    status: str = "complete"
    exit_code: int | None = None
    error: str | None = None


COMPLETE: Final = Ending()
WITH_COUNTERS: Final = ("torch", "jax")
"""Backends whose traces have times of the clock that samples have."""


def _present(record: BackendFacts | Ending) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if value is not None}


class Session:
    """One recording; `command` is what ran, where `warplens profile` began it.

    `changed` is called when it begins to record scopes and when it stops.
    """

    def __init__(
        self,
        number: int,
        target: Path,
        plan: RecordingPlan,
        *,
        force: bool = False,
        source: str = "",
        command: Sequence[str] | None = None,
        changed: Callable[[], None],
    ) -> None:
        self.number = number
        self._changed = changed
        self.is_commanded = command is not None
        # Now: the program may change its arguments.
        self._command = without_secrets(command or ["python", *getattr(sys, "argv", [])])
        self.staging = Staging(target, force=force)
        self.is_active = self.is_own = False
        """Whether it records now, and whether the program itself has chosen from where."""
        self._hook = TritonHook(lambda: self.backend.records_scopes)
        self._counters: CounterProcess | None = None
        self._began = time.time()
        scopes.take_omitted_count()
        try:
            self.backend: Backend = make_backend(plan, self.staging, source)
            self.search: StepSearch | None = getattr(self.backend, "search", None)
            self._launches = LaunchRecorder(self.backend.is_measuring)
            self.backend.watch_launches(self._launches)
            self._clocks = environment.clocks()
            # Before the backend: what starting a process and loading NVML costs is not recorded.
            self._counters = self._counter_process(plan)
            self.backend.start()
        except BaseException:
            self._stop_counters()
            self.staging.discard()
            raise
        self.plan = plan
        self.activate(first=True)

    def activate(self, *, first: bool = False) -> None:
        if self.is_active:
            return
        if not first:
            self.backend.resume()
        self.is_active = True
        # Proton records launches by itself.
        is_hooked = self.plan.hook == "triton" and self.backend.name == "torch"
        self._hook.install(launches=is_hooked)
        if is_hooked and self.plan.data == "trace":
            self._launches.install()
        self._changed()

    def deactivate(self) -> None:
        if self.is_active:
            if self.search is not None:
                self.search.pauses()
            self._detach()
            self.backend.pause()

    def begin_own(self) -> None:
        """The program, which is recorded already, starts a session of its own."""
        if self.search is not None and self.search.record_rest():
            self.is_own = True
            self.note_once("the program's own warplens.start began the recording; its name and options are not used")
        elif not self.is_own:
            chosen = "steps" if self.plan.steps else "the whole run"
            self.note_once(f"the program's own warplens.start was ignored: `warplens profile` records {chosen}")

    def finalize(self, ending: Ending) -> Path:
        self._detach()
        self._stop_counters()
        try:
            recorded = self.backend.stop()
            self._add_optional_files()
            facts = {**self._facts(), **_present(recorded), **_present(ending), "notes": self.backend.notes}
            self.staging.seal(facts)
        except WarplensError:
            self.staging.discard()
            raise
        except OSError as error:
            self.staging.discard()
            raise WarplensError(f"cannot write {self.staging.target}: {error.strerror or error}") from error
        except Exception as error:
            self.staging.discard()
            raise WarplensError(f"the recording failed: {type(error).__name__}: {error}") from error
        except BaseException:
            self.staging.discard()
            raise
        return self.staging.publish()

    def abandon(self) -> None:
        """Stop, and keep nothing."""
        self._detach()
        self._stop_counters()
        try:
            self.backend.stop()
        finally:
            self.staging.discard()

    def forget(self) -> None:
        """In a forked child: the recording is the parent's."""
        self.is_active = False
        self._remove_hooks()
        self.backend.forget()
        if self._counters is not None:
            self._counters.forget()

    def note_once(self, text: str) -> None:
        if text not in self.backend.notes:
            self.backend.notes.append(text)

    def _detach(self) -> None:
        self.is_active = False
        self._remove_hooks()
        self._changed()

    def _counter_process(self, plan: RecordingPlan) -> CounterProcess | None:
        if not plan.counters:
            return None
        if plan.data != "trace" or self.backend.name not in WITH_COUNTERS:
            self.backend.notes.append("no GPU counters: only traces of PyTorch and JAX are recorded with them")
            return None
        gpus = torch_gpus if self.backend.name == "torch" else visible_gpus
        return CounterProcess(self.staging, lambda: self.is_active and self.backend.is_timing(), gpus=gpus)

    def _stop_counters(self) -> None:
        counters, self._counters = self._counters, None
        if counters is not None:
            counters.stop()
            self.backend.notes += counters.notes

    def _remove_hooks(self) -> None:
        self._hook.remove()
        self._launches.remove()

    def _add_optional_files(self) -> None:
        """None of this is worth losing a recording for."""
        parts = (
            ("environment", self._write_environment),
            ("kernel sources", self._write_sources),
            ("launches of Triton kernels", self._write_launches),
        )
        for content, write in parts:
            try:
                write()
            except Exception as error:  # noqa: BLE001 - asks many parts of many packages, each with failures of its own
                self.backend.notes.append(f"no {content}: {error}")
        if count := scopes.take_omitted_count():
            self.backend.notes.append(f"{count} values of scopes' metrics are not finite and are omitted")

    def _facts(self) -> dict[str, Any]:
        number, world = rank()
        return {
            "warplens": __version__,
            "command": self._command,
            "backend": self.backend.name,
            "data": self.plan.data,
            "context": self.plan.context,
            "rank": number,
            "world_size": world,
            "seconds": round(time.time() - self._began, 3),
        }

    def _write_environment(self) -> None:
        clocks = {"start": self._clocks, "end": environment.clocks()}
        self.staging.write_json(bundle_files.ENVIRONMENT, {**environment.facts(), "clocks": clocks})

    def _write_sources(self) -> None:
        copy_inductor_sources(self.staging)
        for name, text in self._hook.sources.items():
            self.staging.path(f"{bundle_files.KERNELS}/{name}").write_text(text, encoding="utf-8")
        if self._hook.compiled:
            self.staging.write_json(f"{bundle_files.KERNELS}/triton/compiled.json", self._hook.compiled)

    def _write_launches(self) -> None:
        self.backend.notes += self._launches.notes
        for name, content in self._launches.files():
            if isinstance(content, str):
                self.staging.path(name).write_text(content, encoding="utf-8")
            else:
                # Without indentation: the order of launches is a number each.
                self.staging.path(name).write_text(json.dumps(content) + "\n", encoding="utf-8")
