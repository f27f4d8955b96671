"""Events of a trace as those of a Chrome trace, with the fields that PyTorch's profiler writes.

Format: Chromium's "Trace Event Format" document; viewers are Perfetto and chrome://tracing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from warplens.model.kinds import CODE, GPU_WORK, KINDS
from warplens.model.rank_timeline import RankTimeline
from warplens.model.trace import Ints, Trace
from warplens.outputs.json_texts import arguments, as_json, joined, labelled, microseconds, quoted, sparse
from warplens.outputs.perfetto_lanes import Track

CATEGORY_OF_KIND: Final = {
    "python": "python_function",
    "module": "python_function",
    "op": "cpu_op",
    "annotation": "user_annotation",
    "runtime": "cuda_runtime",
    "kernel": "kernel",
    "memcpy": "gpu_memcpy",
    "memset": "gpu_memset",
    "comm": "cpu_op",
    "sync": "cuda_sync",
    "gpu_annotation": "gpu_user_annotation",
    "overhead": "overhead",
    "counter": "cuda_profiler_range",
    "other": "Trace",
}
SPEC_KEYS: Final = ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")
COLLECTIVE_KEYS: Final = {
    "collective": "Collective name",
    "dtype": "dtype",
    "in_elements": "In msg nelems",
    "out_elements": "Out msg nelems",
    "group_size": "Group size",
    "group": "Process Group Name",
    "description": "Process Group Description",
    "ranks": "Process Group Ranks",
    "seq": "Seq",
    "in_splits": "In split size",
    "out_splits": "Out split size",
}
PIECE_EVENTS: Final = 1 << 14
"""Four times as many take 3 % less CPU and 160 MB more."""
IDS_OF_RANK: Final = 1 << 40
"""Ids of launches are distinct within a trace only: of several in one file, each has a range of its own."""


def track_texts(tracks: list[Track]) -> pl.Series:
    """Per track: what places an event on it."""
    return pl.Series([f',"pid":{track.pid},"tid":{track.tid},"ts":' for track in tracks], dtype=pl.String)


@dataclass(frozen=True)
class EventTexts:
    """The events of a timeline as texts, piece by piece; `first_id` is added to ids, `shift_ns` to times."""

    timeline: RankTimeline
    place: pl.Series
    track_of_event: Ints
    shift_ns: int
    first_id: int

    @property
    def _trace(self) -> Trace:
        return self.timeline.trace

    def pieces(self) -> Iterator[pl.Series]:
        rows = np.flatnonzero(self.track_of_event >= 0)
        for first in range(0, len(rows), PIECE_EVENTS):
            yield self._piece(rows[first : first + PIECE_EVENTS])

    def _piece(self, rows: Ints) -> pl.Series:
        trace = self._trace
        kind = trace.ints("kind")[rows]
        parts: list[pl.Series | str] = [
            self._heads.gather(kind),
            self._names.gather(trace.ints("name")[rows]),
            self.place.gather(self.track_of_event[rows]),
            microseconds(trace.ints("start_ns")[rows] + self.shift_ns),
            ',"dur":',
            microseconds(trace.ints("dur_ns")[rows]),
            self._arguments(rows, kind),
            "}",
        ]
        return joined(parts, len(rows))

    def _arguments(self, rows: Ints, kind: Ints) -> pl.Series:
        """Per kind, as each has its own; then in the order of the rows again."""
        texts, order = [], []
        for kinds, make in self._makers.items():
            members = np.flatnonzero(np.isin(kind, [CODE[name] for name in kinds]))
            if len(members):
                text = make(rows[members])
                is_empty = text == ""
                inner = joined([',"args":{', text.str.strip_prefix(","), "}"], len(members))
                texts.append(pl.Series([""], dtype=pl.String).zip_with(is_empty, inner))
                order.append(members)
        without = np.setdiff1d(np.arange(len(rows)), np.concatenate([*order, np.empty(0, np.int64)]))
        texts.append(pl.repeat("", len(without), dtype=pl.String, eager=True))
        in_order: pl.Series = pl.concat(texts).gather(np.argsort(np.concatenate([*order, without]), kind="stable"))
        return in_order

    @cached_property
    def _makers(self) -> dict[tuple[str, ...], Callable[[Ints], pl.Series]]:
        return {
            GPU_WORK: self._gpu,
            ("op", "annotation", "comm"): self._op,
            ("runtime", "sync"): self._call,
            ("counter",): self._sides,
        }

    @cached_property
    def _heads(self) -> pl.Series:
        return pl.Series([f'{{"ph":"X","cat":"{CATEGORY_OF_KIND[kind]}","name":' for kind in KINDS])

    @cached_property
    def _names(self) -> pl.Series:
        return pl.Series([quoted(name) for name in self._trace.names], dtype=pl.String)

    def _ids(self, key: str, column: str, rows: Ints) -> pl.Series:
        values = self._trace.ints(column)[rows].astype(np.int64)
        return labelled(key, np.where(values >= 0, values + self.first_id, values))

    def _ints(self, key: str, column: str, rows: Ints) -> pl.Series:
        return labelled(key, self._trace.ints(column)[rows])

    def _gpu(self, rows: Ints) -> pl.Series:
        positions = np.searchsorted(self._trace.gpu_rows, rows)
        parts = [
            self._ids("External id", "external_id", rows),
            self._ints("device", "device", rows),
            self._ints("stream", "stream", rows),
            self._ids("correlation", "correlation", rows),
            self._coded(self._geometries, "geometry", rows),
            arguments(self.timeline.gpu[positions]),
            self._ints("step", "step", rows),
            self._sides(rows),
        ]
        return joined(parts, len(rows))

    def _op(self, rows: Ints) -> pl.Series:
        parts = [
            self._ids("External id", "external_id", rows),
            self._ints("Sequence number", "sequence", rows),
            self._ints("Fwd thread id", "forward_thread", rows),
            self._coded(self._specs, "spec", rows),
            self._ints("step", "step", rows),
            self._sides(rows),
        ]
        return joined(parts, len(rows))

    def _call(self, rows: Ints) -> pl.Series:
        parts = [
            self._ids("External id", "external_id", rows),
            self._ids("correlation", "correlation", rows),
            self._ints("device", "device", rows),
            self._ints("stream", "stream", rows),
            self._sides(rows),
        ]
        return joined(parts, len(rows))

    def _coded(self, texts: pl.Series, column: str, rows: Ints) -> pl.Series:
        """The last text is for events without one."""
        codes = self._trace.ints(column)[rows]
        return texts.gather(np.where(codes >= 0, codes, len(texts) - 1))

    @cached_property
    def _specs(self) -> pl.Series:
        texts = ["".join(_raw(key, text) for key, text in zip(SPEC_KEYS, row, strict=True)) for row in
                 self._trace.specs.iter_rows()]  # fmt: skip
        return pl.Series([*texts, ""], dtype=pl.String)

    @cached_property
    def _geometries(self) -> pl.Series:
        frame = self._trace.geometries
        numbers = frame.select(
            pl.col("registers").alias("registers per thread"),
            pl.col("shared_memory_bytes").alias("shared memory"),
            pl.when(pl.col("occupancy_percent") >= 0).then("occupancy_percent").alias("est. achieved occupancy %"),
        )
        sizes = [_raw("grid", grid) + _raw("block", block) for grid, block in frame.select("grid", "block").iter_rows()]
        texts = joined([pl.Series(sizes, dtype=pl.String), arguments(numbers)], frame.height)
        return pl.concat([texts, pl.Series([""], dtype=pl.String)])

    @cached_property
    def _side_texts(self) -> tuple[Ints, list[str]]:
        """What only few events have, sorted by event: bytes of copies, collectives, waits, metrics of scopes."""
        trace = self._trace
        waits = trace.waits.select(
            "id",
            pl.col("stream").alias("wait_on_stream"),
            pl.when(pl.col("record") >= 0)
            .then(pl.col("record") + self.first_id)
            .alias("wait_on_cuda_event_record_corr_id"),
        )
        ids, texts = [], []
        for frame in (trace.copies, _collectives(trace), waits):
            ids.append(frame["id"].to_numpy().astype(np.int64))
            texts += arguments(frame.drop("id")).to_list()
        metrics = trace.metrics.iter_rows()
        ids.append(trace.metrics["id"].to_numpy().astype(np.int64))
        texts += [f",{quoted(metric)}:{value!r}" if np.isfinite(value) else "" for _, metric, value in metrics]
        every = np.concatenate(ids)
        order = np.argsort(every, kind="stable")
        return every[order], [texts[index] for index in order.tolist()]

    def _sides(self, rows: Ints) -> pl.Series:
        ids, texts = self._side_texts
        first, last = np.searchsorted(ids, [rows[0], rows[-1] + 1])
        positions = np.searchsorted(rows, ids[first:last])
        is_here = rows[np.minimum(positions, len(rows) - 1)] == ids[first:last]
        chosen = [text for text, here in zip(texts[first:last], is_here.tolist(), strict=True) if here]
        return sparse(len(rows), positions[is_here], chosen)


def _collectives(trace: Trace) -> pl.DataFrame:
    """A send names the rank that it sends to, a receive the one that it receives from."""
    peer, receives = pl.col("peer"), pl.col("collective").str.contains("(?i)recv").fill_null(False)
    ranks = (pl.when(receives).then(peer).alias("Src Rank"), pl.when(~receives).then(peer).alias("Dst Rank"))
    return trace.collectives.with_columns(ranks).drop("peer").rename(COLLECTIVE_KEYS)


def _raw(key: str, text: str) -> str:
    return f',"{key}":{as_json(text)}' if text else ""
