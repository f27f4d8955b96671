"""`Quality`: what is missing, damaged or assumed in a trace. Shown first, never hidden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from warplens_run.base import bounded
from warplens_run.base.units import plural

if TYPE_CHECKING:
    from warplens.model.table import Table

INFO: Final = "info"
WARNING: Final = "warning"
MOST_DETAIL: Final = 2000
"""Characters: a message is read."""

MESSAGES: Final[dict[str, tuple[str, str]]] = {
    # code: (severity, text); {detail} is filled in, and {count:noun} or {count:noun|nouns} is a count with its noun
    "no_gpu": (INFO, "no GPU work in the file: only host activity is reported"),
    "launches_only": (
        WARNING,
        "{count:launch|launches} recorded, but none of the GPU work: the profiler could not record the GPU, or stopped "
        "before the GPU had finished (synchronize first)",
    ),
    "counters_only": (
        WARNING,
        "hardware counters of {count:kernel} recorded in place of times of GPU work (table counters): without "
        "profiler_metrics, torch.profiler records the times",
    ),
    "no_cuda": (
        WARNING,
        "no CUDA calls in the file: the program used no GPU, or CUDA was not traced (nsys profile --trace=cuda,nvtx)",
    ),
    "other_accelerator": (WARNING, "work of {detail} is in the file and is not analysed: only GPUs are"),
    "no_host": (WARNING, "no ops, ranges or Python frames: kernels cannot be attributed to ops, modules or lines"),
    "no_stacks": (
        INFO,
        "no Python stacks: no module or line tables (record with with_stack=True or --stacks)",
    ),
    "no_shapes": (INFO, "no shapes: ops cannot be split by size (record with record_shapes=True)"),
    "no_steps": (INFO, "no steps marked: totals are for the whole trace (call prof.step() each iteration)"),
    "steps_guessed": (INFO, "steps are inferred from {detail}, not from ProfilerStep marks"),
    "generations": (
        INFO,
        "{count:generation} of a diffusion model marked ({detail}): each is a whole generation without tokens, "
        "so the tables of serving leave it out",
    ),
    "step_time_unused": (
        WARNING,
        "the given step time ({detail}) is not used: no cost of recording makes the recorded steps take it",
    ),
    "corrected_times": (INFO, "times are corrected for what recording cost: {detail}"),
    "passes_inferred": (
        INFO,
        "{count:forward pass|forward passes} of a served model inferred from {detail}: no engine marks them",
    ),
    "one_range": (INFO, "only what the host began in {detail}; other notes are about the whole trace"),
    "one_phase": (INFO, "only iterations that are {detail}; other notes are about the whole trace"),
    "short_steps": (
        INFO,
        "{count:step mark} left out: without GPU work, or with under 1 % of the run and little of its GPU work",
    ),
    "repeated_steps": (WARNING, "{count:step mark} with a number used before; only the first of each is a step"),
    "unlinked_kernels": (WARNING, "{count:GPU event} without a recorded launch ({detail} of GPU time)"),
    "no_op_kernels": (INFO, "{count:GPU event} launched outside any op ({detail} of GPU time)"),
    "graph_mode": (
        INFO,
        "{count:GPU event} from graph launches ({detail} of GPU time): no ops inside graphs; "
        "record their capture as well (warplens profile does; else --graph-capture FILE)",
    ),
    "graphs_joined": (
        INFO,
        "{count:GPU event} of graph launches have the ops of the graph's capture ({detail} of the graphs' GPU time)",
    ),
    "graphs_unjoined": (
        WARNING,
        "{count:graph launch|graph launches} not, or not wholly, joined with a capture: {detail}",
    ),
    "graph_frames": (
        INFO,
        "not all Python frames of captured graphs are shown: with so many replays, the table would be too large",
    ),
    "open_captures": (WARNING, "{count:capture} of graphs without a recorded beginning or end; not used"),
    "graph_capture_unused": (WARNING, "the capture of graphs was not used: {detail}"),
    "overlap": (INFO, "{count:GPU event} overlapping another on the same stream: sums can exceed busy time"),
    "improper_nesting": (INFO, "{count:host event} ending after the caller, by up to {detail}; kept"),
    "duplicate_correlation": (
        WARNING,
        "{count:launch|launches} with a correlation id used before; the nearest earlier one is used",
    ),
    "missing_devices": (INFO, "{detail}: listed in the file, without work in the trace"),
    "too_many_devices": (
        WARNING,
        "{count:GPU event} without a device number: {detail} devices are more than a trace can have",
    ),
    "truncated": (WARNING, "the file ends early: {detail}; events before that point are reported"),
    "sqlite_pending": (
        WARNING,
        "{detail} beside the file holds changes that are not read: the program that writes it is running or was killed "
        "(close it; opening the file with sqlite3 finishes what was begun)",
    ),
    "damaged": (WARNING, "{count:damaged section} skipped ({detail})"),
    "long_names": (WARNING, "{count:name} too long to show and cut"),
    "bad_text": (WARNING, "invalid UTF-8 was replaced"),
    "escaped_names": (
        INFO,
        "{count:name} with quotes that PyTorch's profiler did not escape: not valid JSON, but read as meant",
    ),
    "bad_args": (WARNING, "{count:event} with unreadable fields; these fields are omitted ({detail})"),
    "header": (WARNING, "the header of the file (devices, rank, versions) is damaged; some facts may be missing"),
    "repeated_array": (WARNING, "{count:event} skipped: the file has traceEvents more than once, and the last counts"),
    "not_events": (WARNING, "{count:entry|entries} skipped: not an event (no ph, or not an object)"),
    "unnamed": (WARNING, "{count:event} without a name"),
    "missing_duration": (WARNING, "{count:event} without a duration; counted as 0"),
    "negative_duration": (WARNING, "{count:event} with a negative duration; counted as 0"),
    "out_of_range": (
        WARNING,
        "{count:event} with impossible times (missing, NaN, infinite or off by years) or sizes; skipped",
    ),
    "unclosed": (WARNING, "{count:begin/end event} without a partner; skipped"),
    "chrome": (
        WARNING,
        "a plain Chrome trace, not a PyTorch profile: event kinds are inferred from names ({detail})",
    ),
    "unknown_gpu": (
        INFO,
        "no roofline: the limits of this GPU are not known ({detail}); give its name (gpu) or its limits (gpu_file)",
    ),
    "mangled": (INFO, "{count:mangled kernel name} (to demangle: pip install 'warplens[demangle]')"),
    "other_processes": (WARNING, "{count:more process|more processes} in the file; only the first is read"),
    "capture_note": (INFO, "during recording: {detail}"),
    "capture_ended": (WARNING, "the program failed ({detail}); what was recorded before is shown"),
    "bundle_damaged": (WARNING, "{count:file} not as in the manifest of the bundle ({detail})"),
    "bundle_values": (WARNING, "{count:value} of the bundle not as expected and omitted ({detail})"),
    "bundle_links": (WARNING, "{count:link} of the bundle not followed: outside of it ({detail})"),
    "timing_damaged": (WARNING, "the times of unrecorded steps in the bundle cannot be read ({detail})"),
    "counters_damaged": (WARNING, "the counters of the GPUs in the bundle cannot be read ({detail})"),
    "counters_other_clock": (
        WARNING,
        "the counters of the GPUs are not used: the trace's clock does not count from 1970",
    ),
    "no_plain_steps": (
        INFO,
        "no unrecorded steps were timed: the time of a step without the profiler is estimated (record with steps=N and "
        "wait=4 or more)",
    ),
    "plain_steps_after": (
        INFO,
        "unrecorded steps were timed only after the recording, when what the profiler loads can still slow the host "
        "(record with wait=4 or more)",
    ),
    "graph_level": (
        WARNING,
        "{count:CUDA graph launch|CUDA graph launches} recorded as a whole, without kernels (record with nsys "
        "profile --cuda-graph-trace=node)",
    ),
    "archive_traces": (
        WARNING,
        "the archive has {count:trace}; only {detail} is read: unpack it, and open the folder as ranks of one job",
    ),
    "zip_members": (INFO, "the archive has several files; {detail} is read"),
    "execution_trace": (INFO, "arguments of {count:op call} come from an ExecutionTrace ({detail} of ops)"),
    "execution_step": (
        INFO,
        "arguments of {count:op call} come from an ExecutionTrace of another step ({detail} of ops)",
    ),
    "execution_trace_unmatched": (WARNING, "{count:op call} without a match in the ExecutionTrace: {detail}"),
    "execution_collectives": (INFO, "an ExecutionTrace describes {count:collective}"),
    "execution_trace_unused": (WARNING, "its ExecutionTrace was not used: {detail}"),
    # Profiles of call paths, without a timeline.
    "no_timeline": (
        INFO,
        "sums by call path, no timeline: no gaps, steps or streams, and no shortest and longest kernel times",
    ),
    "no_gpu_times": (INFO, "no GPU times: only counts by call path, and no kernel table"),
    "no_frames": (INFO, 'no Python frames: no line table (record with context="python")'),
    "no_source_lines": (INFO, "no samples by line of the kernels' source: {detail}"),
    "profiler_work": (INFO, "{count:GPU event} ({detail} of GPU time) run by the profiler itself, for launch metadata"),
    "bad_metrics": (WARNING, "{count:metric value} not valid; counted as 0 ({detail})"),
    "odd_metrics": (INFO, "{count:metric value} omitted: a text or a list, not a number ({detail})"),
    "negative_metrics": (WARNING, "{count:negative amount}, as after an overflow; added as recorded ({detail})"),
    "user_metrics": (INFO, "added up along call paths, though the file does not say whether they may be: {detail}"),
    # Nsight Compute's counters.
    "kernel_by_kernel": (
        INFO,
        "each kernel is measured alone and replayed for every group of counters: times can differ from a normal run",
    ),
    "rounded_page": (INFO, "the details page has rounded values; the raw page has exact ones (ncu --page raw --csv)"),
    "report_part": (WARNING, "a part of the report is missing: {detail}"),
    # Memory.
    "memory_before": (
        INFO,
        "{count:allocation} of {detail} made before the memory history begins (it keeps the last events only, or was "
        "started later): held since before, without a time",
    ),
    "memory_differs": (
        WARNING,
        "{count:allocation} of {detail} in the memory history not as at its end: events are missing or out of order, "
        "and sums before the end can be off",
    ),
    "memory_assumed": (
        INFO,
        "{count:block} of {detail} from before the memory history whose rounding is not on record: counted as small as "
        "possible, up to 1 MiB below its size until it is freed",
    ),
    "memory_oom": (WARNING, "{count:allocation} of {detail} failed: out of memory"),
    "memory_not_recorded": (
        INFO,
        "{detail} of memory held since before the memory events begin: its holders are not on record",
    ),
    "memory_peak_outside": (
        INFO,
        "the run's largest amount of allocated memory was before the memory history begins: {detail}",
    ),
    "memory_clock": (
        INFO,
        "the memory history and the trace have different clocks: its times count from its own first event",
    ),
    "memory_untied": (
        INFO,
        "nothing shows that the memory snapshot is of this run: clocks cannot be compared, and the trace has no memory "
        "events to compare sizes with; findings on memory are of the snapshot",
    ),
    "memory_other_run": (
        WARNING,
        "the memory snapshot does not seem to be of this run: {detail}; it is not joined with the trace's ops and "
        "modules, and its findings are omitted (open it by itself)",
    ),
    "memory_unread": (WARNING, "the memory snapshot of the bundle cannot be read: {detail}"),
    "no_memory_times": (INFO, "the memory history has no times: its events are shown a microsecond apart"),
    "no_memory_history": (
        INFO,
        "a memory snapshot without a history: only its last moment is shown (call "
        "torch.cuda.memory._record_memory_history() before the program)",
    ),
    "snapshot_values": (WARNING, "{count:value} of the memory snapshot not as expected and omitted ({detail})"),
    "no_dram_bytes": (
        INFO,
        "no DRAM traffic in the file: open the raw page of a report recorded with ncu --set full or --set detailed",
    ),
    # The same as some of the above in words that fit other profilers than PyTorch's, and notes on their call paths.
    "no_python_tracer": (INFO, "no Python frames: no line table (record with ProfileOptions.python_tracer_level = 1)"),
    "no_python_context": (INFO, "no Python callers: no line table (record with proton.start(context='python'))"),
    "no_python": (INFO, "no Python frames: no module or line tables"),
    "no_op_shapes": (INFO, "no shapes: ops cannot be split by size"),
    "no_step_annotations": (
        INFO,
        "no steps marked: totals are for the whole trace (wrap each step in jax.profiler.StepTraceAnnotation)",
    ),
    "no_step_ranges": (
        INFO,
        "no steps marked: totals are for the whole trace (put each iteration into a range: NVTX, roctx)",
    ),
    "no_step_marks": (INFO, "no steps marked: totals are for the whole trace"),
    "no_hlo_op": (
        INFO,
        "{count:GPU event} in command buffers without an HLO op ({detail} of GPU time): attributed to the launch",
    ),
    "no_programs": (
        INFO,
        "{count:GPU event} in command buffers ({detail} of GPU time): their HLO ops are in the run's .xplane.pb",
    ),
    "callers_only": (INFO, "no CPU times: callers are recorded without times; the cause of idle time is unknown"),
    "regions_only": (INFO, "times of regions inside kernels, by warp, and no GPU time: see the table regions"),
    "assumed_clock": (
        INFO,
        "region times are GPU clock ticks, counted by Proton as 1 ns each: shares are exact, times are not",
    ),
}


class _Count(int):
    """A number that is formatted with its noun."""

    def __format__(self, nouns: str) -> str:
        return plural(int(self), *nouns.split("|"))


class _AnyCount(str):
    """Stands for a number where a note is explained."""

    def __format__(self, nouns: str) -> str:
        return f"N {nouns.split('|')[1] if '|' in nouns else nouns + 's'}"


def explained(code: str) -> str:
    """What a note says, whatever its count and detail."""
    text = MESSAGES[code][1]
    return text.format(count=_AnyCount(), detail="…")


class Note(msgspec.Struct, frozen=True):
    """One thing to know about the trace: a stable code, how many events it touches, a detail."""

    code: str
    count: int = 0
    detail: str = ""

    def __post_init__(self) -> None:
        if len(self.detail) > MOST_DETAIL or not self.detail.isascii():  # it may quote names of a file
            msgspec.structs.force_setattr(self, "detail", bounded.text(self.detail, MOST_DETAIL))

    @property
    def severity(self) -> str:
        return MESSAGES[self.code][0]

    @property
    def message(self) -> str:
        return MESSAGES[self.code][1].format(count=_Count(self.count), detail=self.detail)


class Quality(msgspec.Struct, frozen=True):
    """The notes of a trace, warnings first, then what can be given without recording again."""

    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.notes, key=lambda note: (note.severity != WARNING, note.code != "unknown_gpu", note.code))
        msgspec.structs.force_setattr(self, "notes", tuple(ordered))

    def with_notes(self, *notes: Note) -> Quality:
        return Quality((*self.notes, *notes))

    def has(self, code: str) -> bool:
        return any(note.code == code for note in self.notes)


def notes_of(quality: Table) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of the table `quality` what affects the numbers, and what is only not recorded."""
    rows = quality.to_dicts()
    warnings = tuple(str(row["message"]) for row in rows if row["severity"] == WARNING)
    return warnings, tuple(str(row["message"]) for row in rows if row["severity"] != WARNING)
