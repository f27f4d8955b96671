"""Reads the linked trace of a path, from the cache where it is there."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import polars as pl

from warplens.model.call_paths import CallPaths
from warplens.model.trace import Trace
from warplens.passes import run_passes
from warplens.profiles.graph_reading import with_graphs
from warplens.readers import cache as trace_cache
from warplens.readers import inputs
from warplens.readers.registry import READER
from warplens_run.base.errors import FormatError
from warplens_run.base.machine import return_memory

if TYPE_CHECKING:
    from warplens.readers.bundle.light import StoredLightPass
    from warplens.readers.bundle.memory import StoredMemory

MANY_EVENTS: Final = 1_000_000
"""Of fewer, memory is kept for what comes next: to give it back and take it again costs 2 % of a report."""


class Read(NamedTuple):
    """A trace, and what belongs to it and is read when it is asked for."""

    contents: Trace | CallPaths
    light: StoredLightPass | None = None
    memory: StoredMemory | None = None


def read(path: Path, *, cache: bool = True, max_bytes: int = 0) -> Trace | CallPaths:
    """The linked trace of a file or bundle, from the cache where it is there; or its call paths."""
    return read_with_light(path, cache=cache, execution_trace="", max_bytes=max_bytes).contents


def read_rank(opened: inputs.Input) -> Trace | CallPaths:
    """The linked trace without what a job does not need, the arguments of ops; never from or to the cache."""
    return _linked(opened, opened.shown_path, arguments=False)


def read_with_light(
    path: Path,
    *,
    cache: bool,
    execution_trace: str | os.PathLike[str],
    max_bytes: int,
    graph_captures: Sequence[Path] = (),
) -> Read:
    calls = Path(execution_trace) if execution_trace else None
    opened = inputs.find(path, calls, max_bytes=max_bytes, graph_captures=graph_captures)
    light, memory = opened.light, opened.memory
    cached = trace_cache.load(opened.content_hash, str(path)) if cache else None
    if cached is not None:
        return Read(cached, light, memory)
    trace = _linked(opened, path, arguments=True)
    if isinstance(trace, CallPaths):
        return Read(trace)
    del opened
    if len(trace) > MANY_EVENTS:
        return_memory()  # of the text and its columns before they were sorted, a third of all
    if cache and READER not in trace.meta.facts:
        trace_cache.save(trace)
    return Read(trace, light, memory)


def _linked(opened: inputs.Input, path: Path, *, arguments: bool) -> Trace | CallPaths:
    try:
        trace = opened.read(arguments=arguments)
        if isinstance(trace, CallPaths):
            return trace
        return run_passes(trace, join_graphs=partial(with_graphs, opened) if arguments else None)
    except pl.exceptions.PanicException as error:  # not a subclass of Exception: nothing else would catch it
        raise FormatError(f"cannot be read: an internal error of Polars ({error})", where=str(path)) from error


def read_light(light: StoredLightPass) -> Trace | None:
    trace = light.read()
    return None if trace is None else run_passes(trace)
