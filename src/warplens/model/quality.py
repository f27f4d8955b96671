"""`Quality`: what a trace can and cannot tell. Shown first, never hidden."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

INFO: Final = "info"
WARNING: Final = "warning"

MESSAGES: Final[dict[str, tuple[str, str]]] = {
    # code: (severity, what it means for the reader of the report; {count} and {detail} are filled in)
    "no_gpu": (INFO, "no GPU work in what was read: only the host's side is reported"),
    "no_host": (WARNING, "no CPU side: kernels cannot be tied to ops, modules or lines"),
    "no_stacks": (INFO, "no Python stacks: no module or line tables (record with with_stack=True)"),
    "no_shapes": (INFO, "no shapes: ops cannot be split by size (record with record_shapes=True)"),
    "no_steps": (INFO, "no steps marked: totals are for the whole trace (call prof.step() each iteration)"),
    "steps_guessed": (INFO, "steps are taken from {detail}, not from ProfilerStep marks"),
    "repeated_steps": (WARNING, "{count} step marks repeat an earlier number; only the first of each is a step"),
    "unlinked_kernels": (WARNING, "{count} GPU events have no recorded launch ({detail} of GPU time)"),
    "no_op_kernels": (INFO, "{count} GPU events were launched outside any op ({detail} of GPU time)"),
    "graph_mode": (INFO, "{count} GPU events come from graph launches ({detail} of GPU time): no op inside"),
    "overlap": (INFO, "{count} GPU events overlap another on the same stream: sums can exceed busy time"),
    "improper_nesting": (INFO, "{count} host events overlap their caller's end by up to {detail}; kept"),
    "duplicate_correlation": (
        WARNING,
        "{count} launches share a correlation id; the nearest earlier one is used",
    ),
    "missing_devices": (INFO, "{detail}: listed in the file but without work in it"),
    "truncated": (WARNING, "the file ends early: {detail}; what is intact is reported"),
    "damaged": (WARNING, "{count} damaged places in the file were skipped ({detail})"),
    "bad_text": (WARNING, "invalid UTF-8 was replaced"),
    "bad_args": (WARNING, "{count} events had unreadable fields; those fields were left out ({detail})"),
    "header": (WARNING, "the facts beside the events (devices, rank, versions) are damaged; some may be missing"),
    "not_events": (WARNING, "{count} entries are not events (no ph or not an object); skipped"),
    "unnamed": (WARNING, "{count} events have no name"),
    "missing_duration": (WARNING, "{count} events have no duration; counted as 0"),
    "negative_duration": (WARNING, "{count} events have a negative duration; counted as 0"),
    "out_of_range": (
        WARNING,
        "{count} events have impossible times (missing, NaN, infinite or off by years); skipped",
    ),
    "unclosed": (WARNING, "{count} begin/end events have no partner; skipped"),
    "chrome": (
        WARNING,
        "a plain Chrome trace, not a PyTorch profile: kinds are guessed from names ({detail})",
    ),
    "unknown_gpu": (
        INFO,
        "no roofline: the limits of this GPU are not known ({detail}); name it with --gpu or --gpu-file",
    ),
    "mangled": (INFO, "{count} kernel names stay mangled (pip install 'warplens[demangle]')"),
    "other_processes": (WARNING, "the file holds {count} more processes; only the first is read"),
    "capture_note": (INFO, "while recording: {detail}"),
    "capture_ended": (WARNING, "the program did not end well ({detail}); what was recorded until then is here"),
    "bundle_damaged": (WARNING, "{count} files are not what the bundle's manifest says ({detail})"),
    "other_ranks": (INFO, "rank {detail} is shown; {count} more ranks lie beside it"),
    "graph_level": (
        WARNING,
        "{count} launches of CUDA graphs are recorded as a whole, without their kernels (record with "
        "--cuda-graph-trace=node)",
    ),
    "zip_members": (INFO, "the archive holds several files; read {detail}"),
    "execution_trace": (INFO, "arguments of {count} op calls come from an ExecutionTrace ({detail} of ops)"),
    "execution_step": (
        INFO,
        "arguments of {count} op calls come from an ExecutionTrace of a step beside these ({detail} of ops)",
    ),
    "execution_trace_unmatched": (WARNING, "{count} op calls have no partner in the ExecutionTrace: {detail}"),
    "execution_trace_orphans": (INFO, "{count} calls ran inside one that the file does not hold; see their thread"),
    # Profiles of call paths, without a timeline.
    "no_timeline": (
        INFO,
        "sums by call path, no timeline: nothing on gaps, steps, streams, or the shortest and longest of many kernels",
    ),
    "no_gpu_times": (INFO, "no GPU times: only what was counted by call path, and no table of kernels"),
    "no_frames": (INFO, 'no Python frames: no lines (Proton records them with context="python")'),
    "profiler_work": (INFO, "{count} GPU events ({detail} of GPU time) ran for the profiler itself: launch metadata"),
    "bad_metrics": (WARNING, "{count} values of metrics are no usable numbers; counted as 0 ({detail})"),
    "odd_metrics": (INFO, "{count} values of metrics are texts or lists and are left out ({detail})"),
    "negative_metrics": (WARNING, "{count} amounts are negative, as after an overflow; added as they are ({detail})"),
    "user_metrics": (INFO, "the file does not say whether these may be added up along a path; here they are: {detail}"),
    # Nsight Compute's counters.
    "kernel_by_kernel": (
        INFO,
        "each kernel was measured alone and replayed for every group of counters: times can differ from a normal run's",
    ),
    "rounded_page": (INFO, "the details page rounds its values; the raw page has them whole (ncu --page raw --csv)"),
    "no_dram_bytes": (
        INFO,
        "no bytes of GPU memory counted: read the raw page of a report recorded with ncu --set full or --set detailed",
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
        "{count} GPU events inside command buffers match no HLO op ({detail} of GPU time): booked on their launch",
    ),
    "no_programs": (
        INFO,
        "{count} GPU events ({detail} of GPU time) lie in command buffers: the run's .xplane.pb tells their HLO ops",
    ),
    "callers_only": (INFO, "no CPU times: who called a kernel is recorded, not when; idle time has no known cause"),
    "regions_only": (INFO, "times of regions inside kernels, warp by warp, and no GPU time: see the table regions"),
    "assumed_clock": (
        INFO,
        "region times are ticks of the GPU's clock, which Proton takes for 1 ns each: true shares, not true times",
    ),
}


@dataclass(frozen=True)
class Note:
    """One thing to know about the trace: a stable code, how many events it touches, a detail."""

    code: str
    count: int = 0
    detail: str = ""

    @property
    def severity(self) -> str:
        return MESSAGES[self.code][0]

    @property
    def message(self) -> str:
        return MESSAGES[self.code][1].format(count=f"{self.count:,}", detail=self.detail)


@dataclass(frozen=True)
class Quality:
    """The notes of a trace, warnings first."""

    notes: tuple[Note, ...] = ()

    def __post_init__(self) -> None:
        ordered = sorted(self.notes, key=lambda note: (note.severity != WARNING, note.code))
        object.__setattr__(self, "notes", tuple(ordered))

    def with_notes(self, *notes: Note) -> Quality:
        return Quality((*self.notes, *notes))

    def has(self, code: str) -> bool:
        return any(note.code == code for note in self.notes)
