"""What the profiler's events of synchronisation wait for: a stream, up to the call that recorded a CUDA event in it.

PyTorch writes them with `enable_cuda_sync_events` (category `cuda_sync`). Their own arguments are read from the text
once more, and only where there are such events: two more fields for every event would cost all traces.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import msgspec
import polars as pl

from warplens.model.kinds import CODE, NONE
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.kineto.records import UNREADABLE
from warplens_run.base import bounded

CATEGORY: Final = "cuda_sync"
MARK: Final = f'"{CATEGORY}"'.encode()
_ARGS: Final = re.compile(rb'"cuda_sync"[^{}]*(\{[^{}]*\})')


class _SyncArgs(msgspec.Struct, gc=False):
    correlation: int = NONE
    stream: int = msgspec.field(name="wait_on_stream", default=NONE)
    record: int = msgspec.field(name="wait_on_cuda_event_record_corr_id", default=NONE)


_DECODER: Final = msgspec.json.Decoder(_SyncArgs, strict=False)


def with_sync_waits(trace: Trace, text: bytes) -> Trace:
    """The trace with what its events of synchronisation wait for; those that name no stream are omitted."""
    waits = {args.correlation: args for args in _sync_args(text) if args.correlation >= 0 and args.stream >= 0}
    events = trace.events.filter(pl.col("kind") == CODE["sync"])
    rows = [
        (row, bounded.whole(args.stream, NONE), bounded.whole(args.record, NONE))
        for row, correlation in events.select("id", "correlation").iter_rows()
        if (args := waits.get(correlation)) is not None
    ]
    return replace(trace, waits=pl.DataFrame(rows, schema=SIDE_FRAMES["waits"], orient="row"))


def _sync_args(text: bytes) -> Iterator[_SyncArgs]:
    at = text.find(MARK)
    while at >= 0:
        found = _ARGS.match(text, at)
        if found is not None:
            with contextlib.suppress(*UNREADABLE):
                yield _DECODER.decode(found[1])
        at = text.find(MARK, at + len(MARK))
