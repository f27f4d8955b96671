"""Recording with PyTorch's own profiler (CUPTI or roctracer inside).

An ExecutionTrace slows a step down several times over, so by default it is recorded of one step of its own, beside the
steps that are measured: the last one before them, or else the first one after. That step's trace is kept as well; the
reader ties the two together call by call, and from there to the measured steps by what was called with what.

Recording ops slows the host down as well. So some more steps are recorded with the GPU's activity only, which costs far
less, and steps before and after everything that is recorded are timed without a profiler.

Where the steps are to be found, whatever comes first is recorded and replaced by what is better: ops from the start on,
the first steps, and from the third on the steps that are wanted. So a program that ends early leaves what there was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from warplens_run.base.errors import WarplensError
from warplens_run.base.units import plural
from warplens_run.capture.backend_facts import BackendFacts
from warplens_run.capture.environment import seconds_from
from warplens_run.capture.graph_captures import CaptureHost, GraphCaptures, RunningRecording
from warplens_run.capture.memory_history import MemoryHistory
from warplens_run.capture.plain_steps import PlainSteps, wait_for_gpu, write_timing
from warplens_run.capture.plan import RecordingPlan
from warplens_run.capture.recorded_files import FILE_OF_PHASE, RecordedFiles, RecordedPart
from warplens_run.capture.scopes import Metrics
from warplens_run.capture.step_search import StepSearch
from warplens_run.capture.steps import StepSource
from warplens_run.capture.ticker import TICK_SECONDS, Ticker, is_inside_op
from warplens_run.capture.torch_phases import ARGUMENTS, FIRST, FULL, LIGHT, MEASURED, START, RecordingPhases
from warplens_run.capture.torch_recording import (
    OtherProfiler,
    Recording,
    holds_ops,
    import_torch,
    is_enabled,
    record_ops,
    records_gpu,
)
from warplens_run.capture.torch_regions import OpenRegions, ScopeRegion, StepMark
from warplens_run.capture.tree_process import TreeProcess
from warplens_run.capture.triton_launches import LaunchRecorder
from warplens_run.formats import bundle_files
from warplens_run.formats.bundle import Staging

PIECE_SECONDS: Final = seconds_from("WARPLENS_PIECE_SECONDS", default=2.0)
"""A tree is folded in pieces, so that a long run needs no more memory than a short one: a piece ends with the first
step or scope after this time."""
LONGEST_SECONDS: Final = PIECE_SECONDS + 0.5
"""A piece of a program without those ends wherever the program is."""


class TorchBackend:
    """One session; PyTorch allows one at a time in a process."""

    name = "torch"

    def __init__(self, plan: RecordingPlan, staging: Staging) -> None:
        self.plan, self.staging = plan, staging
        self.torch = import_torch()
        self.notes: list[str] = []
        self.has_gpu = bool(self.torch.cuda.is_available())
        self._phases = RecordingPhases(plan, can_be_light=records_gpu(self.torch))
        self._plain = PlainSteps(self._settle, has_gpu=self.has_gpu)
        self._light_marks_ns: list[int] = []
        """When the light pass began, and the ends of its steps."""
        self._recording: Recording | None = None
        self._next: Recording | None = None
        self._opened = ""
        """What `_recording` is for; asked at every launch of a Triton kernel, so it is not computed."""
        self._other_profiler: OtherProfiler | None = None
        self._files = RecordedFiles(staging)
        self._whole_steps = 0
        """Of the recording that runs."""
        self._written: tuple[RecordedPart, bool] | None = None
        self._regions = OpenRegions()
        self._mark = StepMark(self._regions)
        self._folder = TreeProcess(staging) if plan.data == "tree" else None
        self._ticker: Ticker | None = None
        self.busy = threading.Lock()
        wants_frames = plan.stacks or plan.context == "python"
        self.search = (
            StepSearch(self._phases, self, wants_frames=wants_frames) if plan.steps and plan.data == "trace" else None
        )
        self._home = threading.get_ident()
        self._created = self._began = time.monotonic()
        self._paused_at: float | None = None
        self._is_over = self._has_ops = False
        self._captures = self._watched_captures()
        wants_memory = plan.memory and plan.data == "trace"
        self._memory = MemoryHistory(self.torch, staging, is_whole=not plan.steps) if wants_memory else None
        self._failure: Exception | None = None
        if not self.has_gpu:
            self.notes.append("no GPU visible to PyTorch: only the host's side is recorded")
        if plan.data == "trace" and plan.execution_trace == "step" and not plan.steps:
            self.notes.append("no ExecutionTrace: it needs a step of its own (option steps), or execution_trace=all")

    def start(self) -> None:
        if is_enabled(self.torch):
            raise WarplensError("PyTorch's profiler is recording already, and there can be one at a time in a process")
        record_ops(self.torch, True)
        self._captures.install()
        if self._memory is not None:
            self._memory.begin_run()
        self._open(self._phases.now)
        if self.plan.steps and self._phases.now == MEASURED:
            self._mark.open(self._phases.steps_seen, self._recording)
        ticks = self._end_long_piece if self._folder is not None and not self.plan.steps else None
        ticks = self.search.look if self.search is not None and self.plan.early else ticks
        if ticks is not None and threading.current_thread() is threading.main_thread():
            self._ticker = Ticker(TICK_SECONDS, ticks)

    def pause(self) -> None:
        self._paused_at = time.monotonic()
        self._plain.drop()
        if self._phases.now == LIGHT:
            # Its steps follow each other, or they would not show how launches do.
            self._phases.end_light()
            self._close(LIGHT, is_whole=self._has_light_step)
        if self._recording is None or self._recording.toggle(False):
            return
        if self._folder is not None and self._recording.every_thread:
            self._close(MEASURED)
        elif not any("cannot pause" in note for note in self.notes):
            recorded = "all threads" if self._recording.every_thread else "what another thread began"
            self.notes.append(f"PyTorch's profiler cannot pause while it records {recorded}: everything was recorded")

    def resume(self) -> None:
        if self._paused_at is not None:
            self._began += time.monotonic() - self._paused_at
            self._paused_at = None
        if self._recording is not None:
            self._recording.toggle(True)
        else:
            self._fold_piece(PIECE_SECONDS)

    def step(self) -> None:
        if self._captures.is_open:
            # Of a step that is being captured nothing runs, and what ending a recording does would end the capture.
            return
        with self.busy:
            before = self._phases.now
            self._read_clocks(before)
            self._mark.close()
            self._whole_steps += self._recording is not None
            self._phases.advance(is_recorded=self._recording is not None)
            after = self._phases.now
            if self._memory is not None:
                self._memory.step_ended(self._phases.steps_seen)
            if before != after or (after == FIRST and self._recording is None):
                self._close(before)
                self._try(self._open, after)
            elif not after:
                self._try(self._warm)
            if (window := self._phases.plain_window()) is not None and not self._is_over:
                self._plain.begin(*window)
            elif self._phases.begins_sampled and not self._is_over:
                self._plain.begin_sampled()
        self._fold_piece(PIECE_SECONDS)
        if after in (FIRST, MEASURED):
            self._mark.open(self._phases.steps_seen, self._recording)

    def may_switch(self) -> bool:
        return not self._captures.is_open and (self._recording is None or self._recording.can_stop_here)

    def switch(self, before: str, after: str) -> None:
        self._mark.drop()
        self._close(before, is_whole=before in FULL)
        self._mark.close()
        self._try(self._open, after)
        if after == FIRST:
            self._mark.open(self._phases.steps_seen, self._recording)

    def has_work(self) -> bool:
        return self._files.kept is not None and self._files.kept.has_ops

    def forget_steps(self, *, with_profile: bool) -> None:
        self._plain.drop()
        self._plain.windows.clear()
        self._light_marks_ns = []
        self._files.forget_steps(with_profile=with_profile)

    def _read_clocks(self, phase: str) -> None:
        """At a mark, before anything else takes time."""
        if phase == LIGHT and self._recording is not None:
            self._light_marks_ns.append(time.time_ns())
        self._plain.mark()

    def _settle(self) -> bool:
        """Wait for the GPU; False where that is not possible, or a profiler of the program's own is recording."""
        return not is_enabled(self.torch) and wait_for_gpu(self.torch)

    def stop(self) -> BackendFacts:
        """Everything recorded is in the bundle's folder afterwards."""
        self._plain.finish()
        if self.search is not None:
            self.search.stop()
        self._captures.finish()
        if self._ticker is not None:
            self._ticker.stop()
        with self.busy:
            if self._folder is not None and self._recording is None and not (self.plan.steps or self._is_over):
                self._folder.skipped_seconds += time.monotonic() - self._began
            self._close_at_end()
            self._mark.close()
            self._is_over = True
            self._try(self._files.pack)
        if self._folder is not None:
            self._folder.finish()
            self.notes += self._folder.notes()
        if self._failure is not None and not self._is_kept():
            raise self._failure
        is_light_kept = (self.staging.folder / bundle_files.LIGHT_TRACE).exists()
        write_timing(self.staging, self._plain.windows, self._light_marks_ns if is_light_kept else ())
        self._captures.write()
        if self._memory is not None:
            self._memory.stop()
            self.notes += self._memory.notes
        self._add_notes()
        recorded = self._phases.measured
        if self.search is None:
            return BackendFacts(self._phases.steps_seen, self.has_gpu, recorded)
        self.notes += self.search.summary(self._files.kept, self.plan.steps)
        return self.search.facts(self._files.kept, gpu=self.has_gpu, recorded=recorded)

    def forget(self) -> None:
        """In a forked child: the recording is the parent's, and does not include what the child does."""
        self._is_over = True
        self._recording = self._next = None
        self._plain.drop()
        self._captures.forget()
        if self._memory is not None:
            self._memory.forget()
        if self._other_profiler is not None:
            self._other_profiler.forget()
        if self._ticker is not None:
            self._ticker.stop()
        # Else the child would go on filling its copy of the profiler's memory.
        record_ops(self.torch, False)

    @property
    def records_scopes(self) -> bool:
        recording = self._recording or self._captures.recording
        return recording is not None and recording.records_scopes

    def is_measuring(self) -> bool:
        return self._recording is not None and self._opened in FULL

    def is_timing(self) -> bool:
        return self._recording is not None or self._plain.is_open

    def watch_launches(self, recorder: LaunchRecorder) -> None:
        recorder.captured = self._captures.open_launches
        self._captures.launch_order = recorder.order
        self._files.follow(recorder.order, self._captures.replays)

    def enter(self, name: str, metrics: Metrics) -> ScopeRegion:
        return self._regions.enter(name, metrics, self._recording or self._captures.recording)

    def exit(self, handle: ScopeRegion, depth: int) -> None:
        self._regions.exit(handle)
        if self._folder is not None:
            self._fold_piece(PIECE_SECONDS)

    def _open(self, phase: str) -> None:
        if self._is_over:
            return
        self._captures.settle()
        if not phase:
            self._warm()
        elif is_enabled(self.torch):
            self._end("was recording")
        else:
            self._recording, self._next = self._next or self._new_recording(phase), None
            self._opened = phase
            self._whole_steps = 0
            if phase in FULL:
                self._files.begin()
            if self._memory is not None and phase in (FIRST, MEASURED):
                self._memory.begin_window()
            self._recording.start()
            self._began = time.monotonic()
            self._other_profiler = OtherProfiler(self.torch, self._on_other_profiler)
            self._regions.reopen(self._recording)
            if phase == LIGHT:
                self._light_marks_ns = [time.time_ns()]
            if self._paused_at is not None:
                self._recording.toggle(False)

    def _warm(self) -> None:
        if self._phases.is_warming and self._next is None and not self._is_over:
            self._next = self._new_recording(MEASURED)
            self._next.prepare()

    def _new_recording(self, phase: str) -> Recording:
        plan = self.plan
        is_trace = plan.data == "trace"
        wants = phase == ARGUMENTS or (phase == MEASURED and is_trace and plan.execution_trace == "all")
        return Recording(
            self.torch,
            shapes=plan.shapes and is_trace and phase != LIGHT,
            memory=plan.memory and phase in FULL and is_trace,
            stacks=(plan.stacks or plan.context == "python") and phase in (FIRST, MEASURED),
            sync_events=plan.sync_events and is_trace and phase in FULL,
            gpu_only=phase == LIGHT,
            # What a thread began only that thread could end, and it may be gone by then; marks may come from another.
            every_thread=plan.threads
            or phase in (START, FIRST)
            or threading.current_thread() is not threading.main_thread(),
            execution_trace=self._files.arguments if wants else None,
        )

    def _watched_captures(self) -> GraphCaptures:
        """A tree has no place for ops of captures; they are watched all the same, so that nothing disturbs them."""
        host = CaptureHost(
            make_recording=self._capture_recording,
            running=self._running,
            is_measuring=self.is_measuring,
            steps_seen=lambda: self._phases.steps_seen,
            release_prepared=self._release_prepared,
            opened=self._regions.reopen,
            closing=self._regions.close,
        )
        most = self.plan.graph_captures if self.plan.data == "trace" else 0
        return GraphCaptures(self.torch, self.staging, host, most=most)

    def _capture_recording(self) -> Recording:
        is_main = threading.current_thread() is threading.main_thread()
        return Recording(
            self.torch, shapes=True, stacks=True, memory=False, every_thread=self.plan.threads or not is_main
        )

    def _running(self) -> RunningRecording | None:
        if self._recording is None:
            return None
        if self._opened in (START, FIRST) and self._recording.can_stop_here:
            # What is captured is replayed in later steps: it must not go with what they replace.
            self._close(self._opened)
            self._phases.cut()
            return None
        if self._opened == LIGHT:
            return RunningRecording(why="the light pass, which has no ops, was being recorded")
        if self._paused_at is not None:
            return RunningRecording(why="the recording was paused")
        return RunningRecording(file=FILE_OF_PHASE[self._opened])

    def _release_prepared(self) -> None:
        self._next = None

    def _try(self, action: Callable[..., None], *args: Any) -> None:
        """While the program runs: a failure ends the recording, not the program."""
        try:
            action(*args)
        except Exception as error:  # noqa: BLE001 - a full disk, or whatever PyTorch raises
            self._failure = self._failure or error
            self._recording, self._is_over = None, True

    def _close(self, phase: str, *, is_whole: bool = True) -> None:
        """End what is being recorded, and keep it unless it is a part of a step that had to be whole."""
        self._try(self._keep, phase, is_whole)

    def _close_at_end(self) -> None:
        """As `_close`, where no more steps come: the mark that is open has no end, and a step for arguments neither."""
        self._mark.drop()
        phase = self._phases.now
        if self._written is not None:  # the program was interrupted during this
            self._try(self._file, *self._written)
        self._close(phase, is_whole=phase in FULL or (phase == LIGHT and self._has_light_step))

    @property
    def _has_light_step(self) -> bool:
        return len(self._light_marks_ns) > 1

    def _keep(self, phase: str, is_whole: bool) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        if self._other_profiler is not None:
            self._other_profiler.forget()
        self._regions.close()
        source = StepSource.NONE if self.search is None else self.search.source
        part = RecordedPart(phase, self._whole_steps, source, seconds)
        self._written = part, is_whole
        if not recording.stop(self._files.trace):
            self._end("replaced this one")
            self._written = None
            return
        part = replace(part, has_ops=holds_ops(self._files.trace))
        self._has_ops |= part.has_ops
        if self._memory is not None and phase in (FIRST, MEASURED):
            self._memory.end_window(is_kept=self._files.is_better(part))
        if self._folder is not None:
            self._folder.add(self._files.trace, seconds)
            self._written = None
        else:
            self._file(part, is_whole)

    def _file(self, part: RecordedPart, is_whole: bool) -> None:
        """Put what was written into the bundle."""
        if not is_whole:
            self._files.drop()
        elif self._files.trace.exists():
            self._phases.has_arguments |= self._files.take(part, self._mark.renames())
        self._written = None

    def _fold_piece(self, seconds: float) -> None:
        """End a piece of a tree that is older than this, or begin one as soon as the last one is folded."""
        folder, recording = self._folder, self._recording
        if folder is None or self.plan.steps or self._paused_at is not None or self._is_over or self._captures.is_open:
            return
        if self._home != threading.get_ident() and not (self.plan.threads and recording and recording.every_thread):
            return
        is_mine = False
        try:
            is_mine = self.busy.acquire(blocking=False)
            if not is_mine:  # another thread holds it, or the ticker interrupted it
                return
            age = time.monotonic() - self._began
            if self._recording is None:
                if folder.is_idle:
                    folder.skipped_seconds += age
                    self._try(self._open, MEASURED)
            elif age > seconds:
                self._close(MEASURED)
        finally:
            if is_mine:
                self.busy.release()

    def _end_long_piece(self) -> None:
        if not is_inside_op():
            self._fold_piece(LONGEST_SECONDS)

    def _on_other_profiler(self) -> None:
        """The program starts PyTorch's profiler itself; what was recorded so far is kept."""
        if self._recording is None:
            return
        self._close_at_end()
        self._end("was started")

    def _end(self, predicate: str) -> None:
        if not self._is_over:
            after = time.monotonic() - self._created
            self.notes.append(
                f"the program's own PyTorch profiler {predicate} after {after:.1f} s; only one can run at a time, and "
                "nothing is recorded from then on"
            )
        self._is_over = True

    def _is_kept(self) -> bool:
        return any((self.staging.folder / name).exists() for name in (bundle_files.TRACE, bundle_files.TREE))

    def _add_notes(self) -> None:
        plan = self.plan
        if self._failure is not None:
            self.notes.append(f"the recording ended early: {self._failure}")
        if not self._has_ops and (self._phases.measured or not plan.steps or plan.early):
            self.notes.append("the program ran no PyTorch op while it was recorded")
        escaped = self._files.escaped_names + self._captures.escaped_names
        if escaped := escaped + (self._folder.escaped_names if self._folder is not None else 0):
            self.notes.append(f"PyTorch's profiler did not escape the quotes in {plural(escaped, 'name')}: corrected")
        self.notes += self._captures.notes() if plan.data == "trace" and plan.graph_captures else []
        self.notes += self._phases.notes(light_steps=max(0, len(self._light_marks_ns) - 1))
        if self._regions.unheard:
            count = len(self._regions.unheard)
            self.notes.append(
                f"scopes on {plural(count, 'other thread')} were not recorded: PyTorch's profiler records the thread "
                "that starts it (the option threads records all)"
            )
