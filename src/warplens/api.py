"""The Python way in: `open` a profile, `report` it, `diff` two of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from warplens import lab
from warplens.analyses import Options
from warplens.hardware import gpu_named, load_gpu_file
from warplens.model.call_paths import CallPaths
from warplens.model.table import Table
from warplens.model.trace import Trace
from warplens.outputs import plan_outputs, write
from warplens.profiles.file_kinds import (
    MEMORY_SNAPSHOT,
    PROOF,
    PROOF_PLAN,
    REPLAY_PLAN,
    REPLAY_RESULT,
    file_kind,
)
from warplens.profiles.options import OF_ONE_TRACE, parse_size, split_rules
from warplens.profiles.reading import read, read_light, read_with_light
from warplens.profiles.trace import TABLE_NAMES, Profile
from warplens.ranks.finding_files import captured_trace, is_job_folder
from warplens_run.base.errors import FormatError, UsageError
from warplens_run.base.loading import loaded
from warplens_run.base.units import listed

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import Unpack

    from warplens.cluster import OnProgress
    from warplens.model.memory_facts import RecordedMemory
    from warplens.profiles.comparison import Comparison
    from warplens.profiles.job import JobProfile
    from warplens.profiles.opened import Opened
    from warplens.profiles.options import OpenOptions, Rules
    from warplens.readers.bundle.memory import StoredMemory
    from warplens_run.formats.proof_result import ProofResult
    from warplens_run.formats.replay_result import ReplayResult


def open(
    path: str | os.PathLike[str],
    *,
    cache: bool = True,
    rules: Rules = (),
    gap_us: float = 10.0,
    short_us: float = 10.0,
    gpu: str = "",
    gpu_file: str | os.PathLike[str] = "",
    min_gain_percent: float = Options.min_gain_percent,
    step_ms: float = 0.0,
    execution_trace: str | os.PathLike[str] = "",
    graph_captures: Sequence[str | os.PathLike[str]] = (),
    ncu: Sequence[str | os.PathLike[str]] = (),
    memory_snapshot: str | os.PathLike[str] = "",
    replay: str | os.PathLike[str] = "",
    proof: str | os.PathLike[str] = "",
    max_size: str = "",
    phase: str = "",
    range: str = "",
) -> Opened:
    """Open a profile: a trace of any profiler, a capture bundle, or sums by call path (plain, .gz or .zip).

    Also what Warplens itself writes: kernel facts, kernel traces (.wkt) and results of a replay; and memory
    snapshots of PyTorch. Each is an `Opened`.

    `rules` are kernel-category rules that come before the built-in ones: `Rule` values or TOML files. `gpu` names the
    GPU whose limits apply, `gpu_file` is a TOML file that describes one; without them the trace's own header decides.
    `step_ms` is the time of a step without the profiler, where it is known, for what is simulated. Findings that win
    less than `min_gain_percent` of a step are omitted. `execution_trace` is the ExecutionTrace of the same run, for
    what a PyTorch trace does not say of its ops' arguments; `graph_captures` are traces of captures of this run's CUDA
    or HIP graphs, or folders of them, so that kernels of graph launches get the ops, shapes and modules of the capture
    (those beside the only trace of a folder are found); `ncu` are CSV pages or reports of Nsight Compute on the same
    program, for the table `measured_kernels`; `memory_snapshot` is one that PyTorch's allocator wrote in the same run,
    for the tables on memory; `replay` is the result of running a plan of this trace, for the tables of that name;
    `proof` is what experiments for this trace's findings measured. A packed file that unpacks to more than `max_size`
    ("16GiB") is refused; without it, to more than 64 times its size or 4 GiB, whichever is more, or half of the free
    memory. `phase` keeps only the iterations of a served model that are `prefill`, `decode` or `mixed`, `range`
    what the host began in a range ("1.2s-1.5s", or an annotation: "forward", "forward#2") and the GPU work that it
    launched.

    >>> profile = open("samples/kineto/gpt2_train_step.json.gz", min_gain_percent=5)
    >>> profile.has_timeline, profile.hardware.name
    (True, 'H200')
    """
    if gpu and gpu_file:
        raise UsageError("gpu and gpu_file name two GPUs", hint="give one of them")
    if (phase or range) and (replay or proof):
        raise UsageError("a replay or a proof is about the whole trace, not about a part", hint="omit one of them")
    if (captured := captured_trace(Path(path))) is not None:
        path, graph_captures = captured.trace, [*graph_captures, *captured.captures]
        execution_trace = execution_trace or captured.execution_trace or ""
    if is_job_folder(Path(path)):
        _refuse_for_job(short_us=short_us, gpu=gpu, gpu_file=gpu_file, step_ms=step_ms, execution_trace=execution_trace,
                        graph_captures=tuple(graph_captures), ncu=tuple(ncu), replay=replay, proof=proof,
                        memory_snapshot=memory_snapshot,
                        phase=phase, range=range)  # fmt: skip
        return open_ranks(
            [path], cache=cache, rules=rules, gap_us=gap_us, min_gain_percent=min_gain_percent, max_size=max_size
        )
    max_bytes = parse_size(max_size)
    own_file = _own_file(Path(path), gpu, max_bytes)
    if own_file is not None:
        if execution_trace or graph_captures or ncu or memory_snapshot or replay or proof or phase or range:
            raise UsageError(f"{path} is not a trace", hint="omit what is joined to a trace")
        return own_file
    chosen = load_gpu_file(Path(gpu_file)) if gpu_file else gpu_named(gpu) if gpu else None
    options = Options(round(gap_us * 1000), round(short_us * 1000), min_gain_percent, step_ms * 1e6)
    contents, light, memory = read_with_light(
        Path(path),
        cache=cache,
        execution_trace=execution_trace,
        max_bytes=max_bytes,
        graph_captures=[Path(capture) for capture in graph_captures],
    )
    if isinstance(contents, CallPaths):
        _refuse_for_paths(memory_snapshot, graph_captures, replay or proof, phase or range)
        from warplens.profiles.call_paths import PathsProfile  # most profiles are traces

        return PathsProfile(contents, rules, options, chosen)
    counters = _counters([Path(page) for page in ncu], max_bytes)
    result = _replayed(Path(replay), contents) if replay else None
    light_reader = None if light is None else partial(read_light, light)
    proved = _proof(Path(proof), contents) if proof else None
    memory_reader = _memory_reader(memory_snapshot, memory, max_bytes)
    profile = Profile(contents, rules, options, chosen, counters, result, light_reader, proved, memory_reader)
    profile = profile.of_range(range) if range else profile
    return profile.of_phase(phase) if phase else profile


def _refuse_for_paths(memory_snapshot: object, graph_captures: object, replayed: object, part: object) -> None:
    """What only a trace can be joined with, or restricted to."""
    reasons = (
        (memory_snapshot, "only a trace can be joined with a memory snapshot", "open the snapshot by itself"),
        (graph_captures, "only a trace can be joined with captures of graphs", "omit the captures"),
        (replayed, "only a trace can be replayed", "omit the replay and the proof"),
        (part, "only a trace has phases of serving and ranges of time", "omit them"),
    )
    for given, reason, hint in reasons:
        if given:
            raise UsageError(reason, hint=hint)


def open_ranks(
    paths: Sequence[str | os.PathLike[str]],
    *,
    cache: bool = True,
    rules: Rules = (),
    gap_us: float = 10.0,
    min_gain_percent: float = Options.min_gain_percent,
    drawn: Sequence[int] = (),
    cluster: str | Executor = "",
    on_progress: OnProgress | None = None,
    max_size: str = "",
) -> JobProfile:
    """Open the traces or capture bundles of many ranks as one run: folders, files or patterns.

    `cluster` names where they are read: processes of this machine, or Dask (`local`, `tcp://host:8786`, a scheduler
    file, `slurm`); or it is an executor of `concurrent.futures`, which stays open. Findings that win less than
    `min_gain_percent` of a step are omitted. `drawn` are ranks whose timelines the page has in addition to those that
    matter. `max_size` is what each file may unpack to, as for `open`.

    >>> open_ranks(["samples/ranks/nccl4"]).verdict().partition(" since")[0]
    'Rank 1 is 21.1 ms slower per step'
    """
    from warplens.profiles.job import open_job

    files, values = split_rules(rules)
    if values:
        raise UsageError("rules of a job are files: processes of their own read them")
    return open_job(paths, cache=cache, rules=[str(file) for file in files], gap_ns=round(gap_us * 1000), drawn=drawn,
                    min_gain_percent=min_gain_percent, cluster=cluster, on_progress=on_progress,
                    max_bytes=parse_size(max_size))  # fmt: skip


def _refuse_for_job(**given: object) -> None:
    """What is about one trace must not be ignored where a folder of ranks is opened."""
    names = [name for name, default in OF_ONE_TRACE.items() if given[name] != default]
    if names:
        verb = "is" if len(names) == 1 else "are"
        hint = "open one of its ranks by its own path"
        raise UsageError(f"{listed(names)} {verb} for one trace, not for the ranks of a job", hint=hint)


def _own_file(path: Path, gpu: str, max_bytes: int) -> Opened | None:
    """What a file of Warplens itself or a memory snapshot contains; None for profiles, which are by far the most."""
    kind = file_kind(path)
    if kind in lab.KINDS:
        opened: Opened = loaded(lab.KINDS[kind])(path, gpu)
        return opened
    if kind == REPLAY_RESULT:
        from warplens.profiles.replay import open_replay

        return open_replay(path)
    if kind == MEMORY_SNAPSHOT:
        from warplens.profiles.memory_snapshot import open_memory_snapshot

        return open_memory_snapshot(path, max_bytes)
    if kind in (PROOF, PROOF_PLAN):
        hint = "warplens report TRACE --proof PROOF" if kind == PROOF else "run it: warplens prove run PLAN"
        raise FormatError(f"a {'proof' if kind == PROOF else 'proof plan'}, not a profile", where=str(path), hint=hint)
    if kind == REPLAY_PLAN:
        raise FormatError("a replay plan, not a profile", where=str(path), hint="run it: warplens replay run PLAN")
    return None


def _memory_reader(
    path: str | os.PathLike[str], stored: StoredMemory | None, max_bytes: int
) -> Callable[[], RecordedMemory | None] | None:
    """What reads the snapshot beside a trace; one that the user names is read at once, and wrong ones are an error."""
    if not path:
        return None if stored is None else lru_cache(1)(stored.read)
    from warplens.model.memory_facts import RecordedMemory
    from warplens.readers.memory_snapshot.reader import read as read_snapshot

    recorded = RecordedMemory(read_snapshot(Path(path), max_bytes))
    return lambda: recorded


def _counters(pages: Sequence[Path], max_bytes: int) -> tuple[Table, ...]:
    """The tables of Nsight Compute's pages, of each name the first: of counters the source page has the fewest."""
    read_pages: list[CallPaths] = []
    for page in pages:
        paths = read(page, cache=False, max_bytes=max_bytes)
        if not isinstance(paths, CallPaths) or "counters" not in {table.name for table in paths.extra}:
            hint = "ncu --page raw --csv --import x.ncu-rep"
            raise UsageError(f"{page} is not a page or report of Nsight Compute", hint=hint)
        read_pages.append(paths)
    tables: dict[str, Table] = {}
    for paths in sorted(read_pages, key=lambda paths: paths.meta.facts.get("page") == "source"):
        for table in paths.extra:
            tables.setdefault(table.name, table)
    return tuple(tables.values())


def _replayed(path: Path, trace: Trace) -> ReplayResult:
    """The result of a replay, which must be one of this trace."""
    from warplens_run.formats import replay_result as result_file

    result = result_file.load(path)
    if result.gpu_ns != int(trace.events["dur_ns"].gather(trace.gpu_rows).sum()):
        hint = "replay run on a plan of this trace makes one"
        raise UsageError(f"{path} is the replay of another trace ({result.trace})", hint=hint)
    return result


def _proof(path: Path, trace: Trace) -> ProofResult:
    """What experiments measured, which must be for this trace's findings."""
    from warplens_run.formats import proof_result as result_file

    result = result_file.load(path)
    if result.content_hash != trace.meta.content_hash:
        raise UsageError(f"{path} is the proof for another trace ({result.trace})", hint="warplens prove makes one")
    return result


def report(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    *,
    tables: str = "csv",
    force: bool = False,
    **options: Unpack[OpenOptions],
) -> Opened:
    """Open a profile and write its report; outputs are chosen by path (`x.html`, `x.xlsx`, `x.md`, `dir/` …).

    `tables` (csv, csv-safe or parquet) is the format of a directory's files; `options` are those of `warplens.open`.
    """
    files = [output] if isinstance(output, (str, os.PathLike)) else output
    outputs = [os.fspath(file) for file in files]
    plan = partial(plan_outputs, outputs, tables=tables, force=force, inputs=[os.fspath(path)])
    plan(names=TABLE_NAMES)  # before the work, so that a bad path is reported at once
    opened = open(path, **options)
    for target in plan(names=opened.report_names):
        write(target, opened.document())
    return opened


def diff(
    a: str | os.PathLike[str] | Opened,
    b: str | os.PathLike[str] | Opened | None = None,
    *,
    whole: bool = False,
    steps: str = "",
    **options: Unpack[OpenOptions],
) -> Comparison:
    """What changed from A to B: two profiles or jobs, as paths or opened.

    Times are per step where both have steps with GPU work, unless `whole` asks for the whole traces; `options` are
    those of `warplens.open`. Without B, `steps` names two of A's own: `"3,7"`, `"1-3,7"` for the mean of three, or
    `"usual"` for the median step and the slowest.
    """
    from warplens.profiles import comparison
    from warplens.profiles.call_paths import PathsProfile
    from warplens.profiles.job import JobProfile

    if b is None or steps:
        if b is not None or not steps:
            raise UsageError("two profiles, or one and two of its steps, are compared", hint="for example 3,7")
        one = open(a, **options) if isinstance(a, (str, os.PathLike)) else a
        if not one.has_timeline or isinstance(one, JobProfile):
            raise UsageError(f"{one.source} is not a trace with steps", hint="compare steps of a trace, one rank's say")
        return comparison.compare_steps(one.with_timeline(), steps)
    first, second = (open(side, **options) if isinstance(side, (str, os.PathLike)) else side for side in (a, b))
    jobs = [side for side in (first, second) if isinstance(side, JobProfile)]
    if len(jobs) == 2:
        from warplens.profiles.job_comparison import compare_jobs

        return compare_jobs(jobs[0], jobs[1])
    if jobs:
        other = second if jobs[0] is first else first
        hint = "compare two jobs, or one rank of each: --rank N"
        raise UsageError(f"{jobs[0].source} contains the ranks of a job, {other.source} does not", hint=hint)
    if first.has_timeline and second.has_timeline:
        return comparison.compare_profiles(first.with_timeline(), second.with_timeline(), whole=whole)
    if isinstance(first, PathsProfile) and isinstance(second, PathsProfile):
        return comparison.compare_paths(first, second)
    if first.has_timeline != second.has_timeline:
        timed, untimed = (first, second) if first.has_timeline else (second, first)
        raise UsageError(
            f"{timed.source} has a timeline, {untimed.source} has none", hint="compare two profiles of the same kind"
        )
    raise UsageError(f"{first.source} and {second.source} cannot be compared", hint="compare two profiles")
