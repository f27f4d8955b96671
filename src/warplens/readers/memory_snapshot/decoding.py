"""The dicts and lists of a snapshot as columns; of every value the type is checked, and what is wrong is counted.

Fields of PyTorch 2.0 to 2.13, on CUDA and HIP: older ones have no times, no addresses of blocks and a block's stack in
its `history`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from warplens.model.budget import spend
from warplens.model.memory_snapshot import ACTION, BLOCKS, EVENTS, FRAMES, INACTIVE, SEGMENTS, STACKS
from warplens.model.quality import Note, Quality
from warplens_run.base import bounded

MOST_BYTES: Final = 1 << 42
"""Of one size: sums of two million of them are still numbers that a column can hold."""
MOST_ADDRESS: Final = 1 << 62
MOST_DEVICES: Final = 1024
MOST_SETTINGS: Final = 100
LONGEST_SETTING: Final = 200
NOTHING: Final[Mapping[str, Any]] = {}
EMPTY: Final[list[Any]] = []
NO_STACK: Final = -1
FIELDS: Final = 7
"""What a segment, a block or an event becomes."""


class Stacks:
    """Stacks and frames, each once. PyTorch shares the lists and dicts of equal ones, so that their ids decide."""

    def __init__(self) -> None:
        self.frames: dict[tuple[str, int, str], int] = {}
        self.stacks: dict[tuple[int, ...], int] = {}
        self._frame_of_object: dict[int, int] = {}
        self._stack_of_object: dict[int, int] = {}

    def number(self, frames: object) -> int:
        """The stack's row; -1 for an empty one."""
        known = self._stack_of_object.get(id(frames))
        if known is not None:
            return known
        number = NO_STACK
        if isinstance(frames, (list, tuple)) and frames:
            spend(len(frames), "frames of stacks")
            of_object = self._frame_of_object
            rows = tuple(
                row if (row := of_object.get(id(frame))) is not None else self._frame(frame) for frame in frames
            )
            number = self.stacks.setdefault(rows, len(self.stacks))
        self._stack_of_object[id(frames)] = number  # what is decoded stays in memory until all of it is
        return number

    def _frame(self, frame: object) -> int:
        fields = frame if isinstance(frame, dict) else NOTHING
        key = bounded.text(fields.get("filename")), bounded.whole(fields.get("line")), bounded.text(fields.get("name"))
        number = self.frames.setdefault(key, len(self.frames))
        self._frame_of_object[id(frame)] = number
        return number

    def frame_table(self) -> pl.DataFrame:
        return pl.DataFrame(list(self.frames), schema=FRAMES, orient="row")

    def stack_table(self) -> pl.DataFrame:
        return pl.DataFrame({"frames": list(map(list, self.stacks))}, schema=STACKS)


class SnapshotColumns:
    """What a decoded snapshot holds, as frames."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.damage: Counter[str] = Counter()
        self.stacks = Stacks()
        listed = self._dicts(document.get("segments"), "segment")
        self.segments = _frame(SEGMENTS, (self._segment(segment) for segment in listed))
        self.blocks = _frame(
            BLOCKS, (row for number, segment in enumerate(listed) for row in self._blocks(number, segment))
        )
        self.events = self._events(document.get("device_traces"))
        self.settings = _settings(document.get("allocator_settings"))

    def notes(self) -> Quality:
        detail = ", ".join(f"{name}: {count}" for name, count in self.damage.items() if count)
        count = sum(self.damage.values())
        return Quality((Note("snapshot_values", count, detail),) if count else ())

    def _dicts(self, values: object, what: str) -> list[dict[str, Any]]:
        if not isinstance(values, (list, tuple)):
            self.damage[f"{what}s"] += values is not None
            return []
        spend(FIELDS * len(values), f"{what}s")  # one list may be in a thousand places
        kept = [value for value in values if isinstance(value, dict)]
        self.damage[what] += len(values) - len(kept)
        return kept

    def _segment(self, segment: dict[str, Any]) -> tuple[Any, ...]:
        pool = segment.get("segment_pool_id")
        numbers = [bounded.whole(number) for number in pool[:2]] if isinstance(pool, (list, tuple)) else []
        return (
            _device(segment.get("device")),
            self._address(segment.get("address")),
            self._size(segment.get("total_size")),
            bounded.whole(segment.get("stream")),
            bounded.text(segment.get("segment_type")),
            f"{numbers[0]}.{numbers[1]}" if len(numbers) == 2 and any(numbers) else "",
            segment.get("is_expandable") is True,
        )

    def _size(self, value: object, absent: int = 0) -> int:
        return self._bounded(value, absent, MOST_BYTES, "size")

    def _address(self, value: object, absent: int = 0) -> int:
        return self._bounded(value, absent, MOST_ADDRESS, "address")

    def _bounded(self, value: object, absent: int, most: int, what: str) -> int:
        if bounded.is_whole(value, 0, most):
            return bounded.whole(value)
        self.damage[what] += value is not None
        return absent

    def _bounded_column(self, values: pl.Series, most: int, what: str) -> pl.Series:
        is_wrong = (values < 0) | (values > most)
        if not is_wrong.any():
            return values
        self.damage[what] += int(is_wrong.sum())
        return values.set(is_wrong, 0)

    def _blocks(self, number: int, segment: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
        device, address = _device(segment.get("device")), self._address(segment.get("address"))
        for block in self._dicts(segment.get("blocks"), "block"):
            history = block.get("history")
            first = history[0] if isinstance(history, list) and history and isinstance(history[0], dict) else NOTHING
            size = self._size(block.get("size"))
            address = self._address(block.get("address"), address)
            requested = self._size(block.get("requested_size"), self._size(first.get("real_size"), size))
            stack = self.stacks.number(block.get("frames") or first.get("frames") or EMPTY)
            yield number, device, address, size, requested, bounded.text(block.get("state")) or INACTIVE, stack
            address = min(address + size, MOST_ADDRESS)

    def _events(self, traces: object) -> pl.DataFrame:
        if not isinstance(traces, (list, tuple)):
            self.damage["device_traces"] += traces is not None
            return pl.DataFrame(schema=EVENTS)
        frames = [self._device_events(device, trace) for device, trace in enumerate(traces[:MOST_DEVICES])]
        return pl.concat([pl.DataFrame(schema=EVENTS), *frames])

    def _device_events(self, device: int, trace: object) -> pl.DataFrame:
        entries = self._dicts(trace, "event")
        number, other = self.stacks.number, ACTION["other"]
        actions = [
            ACTION.get(action, other) if isinstance(action := entry.get("action"), str) else other for entry in entries
        ]
        address = self._bounded_column(_whole_column(entries, "addr", 0), MOST_ADDRESS, "address")
        if (failed := ACTION["oom"]) in actions:  # such an event has the device's free memory instead
            free = [self._size(entry.get("device_free"), -1) for entry in entries]
            address = pl.select(
                pl.when(pl.Series(actions) == failed).then(pl.Series(free, dtype=pl.Int64)).otherwise(address)
            ).to_series()
        return pl.DataFrame(
            {
                "device": pl.Series([device], dtype=pl.Int32).new_from_index(0, len(entries)),
                "action": pl.Series(actions, dtype=pl.UInt8),
                "address": address,
                "bytes": self._bounded_column(_whole_column(entries, "size", 0), MOST_BYTES, "size"),
                "stream": _whole_column(entries, "stream", 0),
                "time_us": _whole_column(entries, "time_us", -1),
                "stack": pl.Series([number(entry.get("frames", EMPTY)) for entry in entries], dtype=pl.Int32),
            },
            schema=EVENTS,
        )


def _frame(schema: dict[str, Any], rows: Iterable[tuple[Any, ...]]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema, orient="row")


def _whole_column(entries: Sequence[dict[str, Any]], name: str, absent: int) -> pl.Series:
    values = [entry.get(name, absent) for entry in entries]
    if {*map(type, values)} <= {int} and (
        not values or (max(values) < bounded.INT64 and min(values) >= -bounded.INT64)
    ):
        return pl.Series(values, dtype=pl.Int64)
    return pl.Series([bounded.whole(value, absent) for value in values], dtype=pl.Int64)


def _device(value: object) -> int:
    return bounded.whole(value, 0, 0, MOST_DEVICES - 1)


def _settings(settings: object) -> dict[str, str]:
    """Values that are single numbers or texts, and whole tables of them."""
    if not isinstance(settings, dict):
        return {}
    kept: dict[str, str] = {}
    for name, value in list(settings.items())[:MOST_SETTINGS]:
        inner = value.items() if isinstance(value, dict) else ()
        for key, number in ((f"{name}.{key}", number) for key, number in list(inner)[:MOST_SETTINGS]):
            kept[bounded.text(key)] = _setting(number)
        if isinstance(value, (int, float, str, bool)):
            kept[bounded.text(name)] = _setting(value)
    return kept


def _setting(value: object) -> str:
    return str(value) if isinstance(value, bool) else bounded.text(value, LONGEST_SETTING)
