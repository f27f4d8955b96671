"""`MemoryWork`: the history of a run's memory with the holder of every allocation, which the tables share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.memory.classifying import classified
from warplens.analyses.memory.history import NEVER, DeviceHistory, Ints, MemoryHistory
from warplens.analyses.memory.labels import LOSS, TRAINING, Labels
from warplens.analyses.memory.layer_caches import with_layer_caches
from warplens.model.memory_facts import MemoryFacts
from warplens.model.quality import Note
from warplens_run.base.units import format_bytes

NO_FACTS: Final = MemoryFacts()


TRACED: Final = ("op", "label", "end_label", "module", "line", "layer")
"""Of each allocation what the trace says of the op that made it; empty texts where it says nothing.

`layer` is the module by its number in the model, of which `module` is the pattern.
"""
Places = Callable[[DeviceHistory], pl.DataFrame | None]
"""Texts of `TRACED`, a row per allocation; None where no trace is joined."""


@dataclass(frozen=True)
class Holders:
    """One device: its history, and what is held with its category, how that was decided, name, module, line and op."""

    history: DeviceHistory
    held: pl.DataFrame

    @cached_property
    def unrecorded(self) -> Ints:
        """After each event, bytes of the allocator's total that no allocation on record accounts for."""
        events = len(self.history.times_ns)
        return self.history.allocated - running_total(self.held, events)


class MemoryWork:
    """What the tables on memory are made from."""

    def __init__(
        self,
        history: MemoryHistory,
        facts: MemoryFacts = NO_FACTS,
        origin_ns: int = 0,
        places: Places | None = None,
        notes: tuple[Note, ...] = (),
    ) -> None:
        self.history, self.facts, self._origin_ns, self._places = history, facts, origin_ns, places
        self._notes = notes
        self.labels = Labels(history.stacks, history.frames)

    @cached_property
    def devices(self) -> list[Holders]:
        return [self._holders(device) for device in self.history.devices]

    def _holders(self, device: DeviceHistory) -> Holders:
        made, ended = (self.labels.of_all(device.held[name]) for name in ("stack", "end_stack"))
        traced = self._places(device) if self._places is not None else None
        rows = pl.concat((made, ended.select(pl.all().name.prefix("end_"))), how="horizontal")
        if traced is None:
            rows = rows.with_columns(pl.lit("").alias(f"traced_{name}") for name in TRACED)
        else:
            rows = rows.hstack(traced.select(pl.all().name.prefix("traced_")))
        facts = rows.select(
            # A mark of the trace decides where the stack has none.
            pl.when(pl.col("is_marked") | (pl.col("traced_label") == ""))
            .then("label")
            .otherwise("traced_label")
            .alias("label"),
            pl.when("end_is_marked").then("end_label").otherwise("traced_end_label").alias("end_label"),
            pl.col("in_module") | (pl.col("traced_module") != ""),
        )
        held = classified(device, facts, self.facts.names(device.device, self._origin_ns))
        lines = _respelled(rows["traced_line"], rows["line"])
        held = held.hstack(rows.select("line", "op", "traced_op", "traced_module", "is_loss")).with_columns(
            pl.when(pl.col("line") != "").then("line").otherwise(lines).alias("line"),
            pl.when(pl.col("traced_op") != "").then("traced_op").otherwise("op").alias("op"),
            pl.when(pl.col("named_module") != "").then("named_module").otherwise("traced_module").alias("module"),
        )
        held = held.with_columns(pl.col("is_loss") | pl.col("op").str.contains(LOSS.pattern))
        held = held.drop("named_module", "traced_module", "traced_op")
        trains = facts["label"].is_in(TRAINING).any() or facts["end_label"].is_in(TRAINING).any()
        if traced is not None and not trains:
            held = with_layer_caches(held, traced["layer"])
        return Holders(device, held)

    def quality_notes(self) -> list[Note]:
        notes = [*self.history.notes, *self._notes, *(note for device in self.history.devices for note in device.notes)]
        for device in self.devices:
            most = self.facts.of_device(device.history.device).max_memory_allocated
            if most is not None and most > device.history.peak_bytes:
                seen = format_bytes(device.history.peak_bytes)
                detail = f"{format_bytes(most)} on {device.history.device}, in it {seen}"
                notes.append(Note("memory_peak_outside", detail=detail))
            start = int(device.unrecorded[0]) if len(device.unrecorded) else 0
            if start > 0:
                notes.append(Note("memory_not_recorded", 0, f"{format_bytes(start)} of {device.history.device}"))
        return notes


def _respelled(lines: pl.Series, of_snapshot: pl.Series) -> pl.Series:
    """Lines of a trace as the snapshot spells them."""
    spelled = same_spelling(of_snapshot.unique())
    respelled: pl.Series = lines.replace({line: spelled(line) for line in lines.unique() if line})
    return respelled


def same_spelling(lines: Iterable[str]) -> Callable[[str], str]:
    """What spells a trace's line as the snapshot spells its file: both record the same file, the trace without folders.

    >>> same_spelling(["/home/me/model.py:4 forward", "/home/me/model.py:9 loss"])("model.py:12 backward")
    '/home/me/model.py:12 backward'
    """
    files: dict[str, set[str]] = {}
    for file in {line.rpartition(":")[0] for line in lines}:
        parts = file.split("/")
        for count in range(1, len(parts)):
            files.setdefault("/".join(parts[count:]), set()).add(file)

    def spelled(line: str) -> str:
        file, _, rest = line.rpartition(":")
        known = files.get(file, set())
        return f"{next(iter(known))}:{rest}" if len(known) == 1 else line

    return spelled


def running_total(held: pl.DataFrame, events: int) -> Ints:
    """What some allocations hold together after each event."""
    begin, end, size = (held[name].to_numpy() for name in ("begin", "end", "bytes"))
    change = np.zeros(events + 1, np.int64)
    np.add.at(change, np.clip(begin, 0, events), size)
    np.subtract.at(change, np.minimum(end[end < NEVER], events), size[end < NEVER])
    return np.cumsum(change[:events])
