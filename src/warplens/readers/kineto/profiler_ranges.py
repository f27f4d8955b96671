"""What CUPTI's range profiler measured: hardware counters of single kernels, in place of their times.

PyTorch writes them where `profiler_metrics` are asked for (`torch.profiler._ExperimentalConfig`): an event of the
category `cuda_profiler_range` per kernel, or one for all of the run, with a value for each counter. Its times are
shares of the recording, not the kernel's. The counters' names are the program's choice, so they are read from the
text once more; files with them are small, because measuring a kernel takes tens of milliseconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Final

import msgspec
import polars as pl

from warplens.model.kinds import CODE
from warplens.model.trace import SIDE_FRAMES, Trace
from warplens.readers.kineto.events import CUT, array_start, closings
from warplens.readers.kineto.records import MISSING, NO_RAW, UNREADABLE
from warplens_run.base import bounded

CATEGORY: Final = "cuda_profiler_range"
LAST_BYTES: Final = 1 << 20
"""Of a file that ends early: where its last whole event is looked for."""
MOST_TRIES: Final = 100
MOST_COUNTERS: Final = 1000


class _Event(msgspec.Struct, gc=False):
    cat: str = ""
    ts: float = MISSING
    args: msgspec.Raw = NO_RAW


_EVENTS: Final = msgspec.json.Decoder(list[_Event], strict=False)
_COUNTERS: Final = msgspec.json.Decoder(dict[str, object])


def with_range_counters(trace: Trace, content: bytes) -> Trace:
    """The trace with the counters of its ranges; without any where the text is damaged before them."""
    measured = sorted((event for event in _events(content) if event.cat == CATEGORY), key=lambda event: event.ts)
    ranges = trace.events.filter(pl.col("kind") == CODE["counter"]).sort("start_ns", "id")["id"].to_list()
    if len(measured) != len(ranges):
        return trace
    rows = [
        (row, bounded.text(name), value)
        for row, event in zip(ranges, measured, strict=True)
        for name, recorded in _counters(event.args).items()
        if (value := bounded.number(recorded)) is not None
    ]
    added = pl.DataFrame(rows, schema=SIDE_FRAMES["metrics"], orient="row")
    counters = added["metric"].unique(maintain_order=True).head(MOST_COUNTERS)
    return replace(trace, metrics=pl.concat([trace.metrics, added.filter(pl.col("metric").is_in(counters.implode()))]))


def _events(text: bytes) -> list[_Event]:
    start = array_start(text)
    last_cuts = [cut.start() + 1 for cut in CUT.finditer(text, max(start, len(text) - LAST_BYTES))]
    ends: Iterable[int] = chain(closings(text, start), last_cuts[: -MOST_TRIES - 1 : -1])
    for end in ends:
        with contextlib.suppress(*UNREADABLE):
            return _EVENTS.decode(b"".join((b"[", memoryview(text)[start:end], b"]")))
    return []


def _counters(args: msgspec.Raw) -> dict[str, object]:
    try:
        return _COUNTERS.decode(args)
    except UNREADABLE:
        return {}
