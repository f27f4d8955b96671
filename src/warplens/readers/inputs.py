"""What a path leads to, a file or a bundle, before and after it is read: one identity, one profile."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from warplens.model.call_paths import CallPaths
from warplens.model.quality import Note
from warplens.model.trace import Distributed, Meta, Trace
from warplens.readers import bundle, registry
from warplens.readers.shared import stored_file
from warplens.readers.shared.stored_file import StoredFile
from warplens_run.base.errors import FormatError, UsageError, WarplensError
from warplens_run.formats.bundle_files import EXECUTION_STEP, EXECUTION_TRACE, TRACE

if TYPE_CHECKING:
    from warplens.readers.bundle.counters import RecordedCounters
    from warplens.readers.bundle.launches import Launches
    from warplens.readers.bundle.light import StoredLightPass
    from warplens.readers.bundle.memory import StoredMemory
    from warplens.readers.bundle.reader import Bundle
    from warplens.readers.bundle.timing import PlainWindow
    from warplens.readers.shared.graph_files import GraphFiles


class Input(msgspec.Struct):
    """A profile that can be read once, with its ExecutionTrace and the notes of its capture."""

    profile: StoredFile
    content_hash: str
    shown_path: Path
    calls: StoredFile | None = None
    """The ExecutionTrace."""
    must_join: bool = False
    """Whether the user gave the ExecutionTrace: one that cannot be used is an error then, and else a note."""
    step: StoredFile | None = None
    """The trace of the step that the ExecutionTrace is of, where it is not the profile itself."""
    notes: tuple[Note, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    rank: Distributed | None = None
    plain_step_ns: float | None = None
    """A step's time without the profiler, where the capture measured it."""
    memory: StoredMemory | None = None
    """The allocator's snapshot of the same run."""
    light: StoredLightPass | None = None
    """Steps of the same run with the GPU's activity only."""
    launches: Launches | None = None
    """Triton kernels that the program launched itself."""
    counters: RecordedCounters | None = None
    """Readings of the GPUs that were sampled beside the profile."""
    plain_windows: tuple[PlainWindow, ...] = ()
    """Unrecorded steps of the same run that were timed."""
    source_lines: dict[tuple[str, int], str] = {}
    """The texts of lines of kernels that were sampled, by file and number."""
    graphs: tuple[GraphFiles, ...] = ()
    """Captures of the trace's graphs, as the user gives them."""
    bundle: Bundle | None = None
    """Which may hold captures of graphs too; they are read where the trace launches graphs."""

    def read(self, *, arguments: bool = True) -> Trace | CallPaths:
        """Without `arguments`, an ExecutionTrace only describes collectives, and one that cannot be read is a note."""
        size = len(self.profile.stored)
        meta = Meta(source=str(self.shown_path), format="", size_bytes=size, content_hash=self.content_hash)
        text = b""
        if self.calls is None:
            profile = registry.read_stored(self.profile, meta, self.notes)
        else:  # joining it needs the text once more
            text, notes = self.profile.unwrap()
            profile = registry.read(text, meta, [*notes, *self.notes], max_bytes=self.profile.max_bytes)
        facts = {**profile.meta.facts, **dict(self.facts)}
        # The profiler forgets which rank it was where the program closes its process group first.
        rank = profile.meta.distributed or self.rank
        meta = msgspec.structs.replace(profile.meta, facts=facts, distributed=rank, plain_step_ns=self.plain_step_ns)
        profile = replace(profile, meta=meta)
        if self.source_lines and isinstance(profile, CallPaths):
            profile = replace(profile, source_lines=self.source_lines)
        if self.launches is not None and isinstance(profile, Trace):
            from warplens.readers.bundle.launches import join as join_launches

            profile = join_launches(profile, self.launches)
        if self.counters is not None and isinstance(profile, Trace):
            from warplens.readers.bundle.counters import join as join_counters

            profile = join_counters(profile, self.counters, self.plain_windows)
        if self.calls is None:
            return profile
        join = self._with_arguments if arguments else self._with_collectives
        try:
            return join(profile, text, self.calls)
        except WarplensError as error:
            if self.must_join and arguments:
                raise
            return replace(profile, quality=profile.quality.with_notes(_unused(error.message)))

    def _with_arguments(self, profile: Trace | CallPaths, text: bytes, calls: StoredFile) -> Trace:
        if isinstance(profile, CallPaths):
            raise UsageError("only a PyTorch trace has an ExecutionTrace", hint="omit the ExecutionTrace")
        from warplens.readers.execution_trace.join import join
        from warplens.readers.execution_trace.step import carry_over

        nodes = calls.unwrap()[0]
        if self.step is None:
            return join(profile, text, nodes, str(calls.path))
        step_text, notes = self.step.unwrap()
        step_trace = registry.read(
            step_text, Meta(source=str(self.step.path), format=""), notes, max_bytes=self.step.max_bytes
        )
        if isinstance(step_trace, CallPaths):
            raise FormatError("not a trace", where=str(self.step.path))
        return carry_over(profile, join(step_trace, step_text, nodes, str(calls.path)))

    def _with_collectives(self, profile: Trace | CallPaths, text: bytes, calls: StoredFile) -> Trace | CallPaths:
        from warplens.readers.execution_trace.collectives import CALL, describe_collectives, with_groups
        from warplens.readers.execution_trace.nodes import decode_nodes

        if isinstance(profile, CallPaths):
            return profile
        nodes = decode_nodes(calls.unwrap()[0], str(calls.path))
        if self.step is not None:  # the calls of another step have other numbers: its groups count
            return with_groups(profile, nodes)
        described = describe_collectives(profile, text, nodes)
        if CALL in profile.names and not described.quality.has("execution_collectives"):
            unused = _unused("its collectives are not those of the trace")
            described = replace(described, quality=described.quality.with_notes(unused))
        return described


def _unused(why: str) -> Note:
    return Note("execution_trace_unused", detail=why)


def find(
    path: Path, execution_trace: Path | None = None, *, max_bytes: int = 0, graph_captures: Sequence[Path] = ()
) -> Input:
    """What is at a path; `execution_trace` is one of the same run, `max_bytes` what a file may unpack to.

    `graph_captures` are traces of captures of the run's graphs, or folders of them.
    """
    stored_file.refuse_stream(path)
    bundle_files = bundle.find(path, max_bytes)
    entry = _of_bundle(path, bundle_files) if bundle_files is not None else _of_file(path, max_bytes)
    if graph_captures:
        from warplens.readers.graph_captures import find_captures

        graphs = tuple(find_captures(capture, max_bytes) for capture in graph_captures)
        together = _hash_of(entry.content_hash, *(files.content_hash for files in graphs))
        entry = msgspec.structs.replace(entry, graphs=graphs, content_hash=together)
    if execution_trace is None:
        return entry
    calls = stored_file.load(execution_trace, max_bytes)
    both = _hash_of(entry.content_hash, calls.content_hash)
    return msgspec.structs.replace(entry, calls=calls, must_join=True, step=None, content_hash=both)


def _hash_of(*hashes: str) -> str:
    return hashlib.blake2b(" ".join(hashes).encode(), digest_size=16).hexdigest()


def _of_file(path: Path, max_bytes: int) -> Input:
    profile = stored_file.load(path, max_bytes)
    return Input(profile, profile.content_hash, path)


def _of_bundle(path: Path, bundle_files: Bundle) -> Input:
    profile = bundle_files.profile
    is_torch = profile == TRACE
    calls, step = (bundle_files.stored(name) if is_torch else None for name in (EXECUTION_TRACE, EXECUTION_STEP))
    return Input(
        StoredFile(path / profile, bundle_files.files[profile], bundle_files.max_bytes),
        bundle_files.content_hash,
        path,
        calls,
        step=step,
        notes=tuple(bundle_files.notes()),
        facts=tuple(bundle_files.facts().items()),
        rank=bundle_files.rank,
        plain_step_ns=bundle_files.plain_step_ns,
        memory=bundle_files.memory,
        light=bundle_files.light,
        launches=bundle_files.launches if is_torch else None,
        counters=bundle_files.counters,
        plain_windows=bundle_files.plain_windows,
        source_lines={} if is_torch else bundle_files.source_lines,
        bundle=bundle_files if is_torch else None,
    )
