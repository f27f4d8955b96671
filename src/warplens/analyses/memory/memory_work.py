"""`MemoryWork`: the history of a run's memory with the holder of every allocation, which the tables share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.memory.classifying import Facts, classified
from warplens.analyses.memory.history import NEVER, DeviceHistory, Ints, MemoryHistory
from warplens.analyses.memory.labels import BACKWARD, LOSS, OPTIMIZER, ZERO_GRAD, Labels
from warplens.analyses.memory.layer_caches import with_layer_caches
from warplens.model.memory_facts import MemoryFacts
from warplens.model.quality import Note
from warplens.units import format_bytes

NO_FACTS: Final = MemoryFacts()


class TracedPlaces(NamedTuple):
    """Of each allocation what the trace says of the op that made it; empty texts where it says nothing."""

    op: list[str]
    label: list[str]
    end_label: list[str]
    module: list[str]
    line: list[str]
    layer: list[str]
    """The module by its number in the model, of which `module` is the pattern."""


Places = Callable[[DeviceHistory], TracedPlaces | None]


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
        stacks, ends = device.held["stack"].to_list(), device.held["end_stack"].to_list()
        labels = [self.labels.of(stack) for stack in stacks]
        traced = self._places(device) if self._places is not None else None
        found = zip(labels, map(self.labels.of, ends), stacks, strict=True)
        if traced is None:
            facts = [
                Facts(label.label, end.label if end.is_marked else "", label.in_module, stack)
                for label, end, stack in found
            ]
        else:  # a mark of the trace decides where the stack has none
            facts = [
                Facts(
                    label.label if label.is_marked else mark or label.label,
                    (end.is_marked and end.label) or end_mark,
                    label.in_module or bool(module),
                    stack,
                )
                for (label, end, stack), mark, end_mark, module in zip(
                    found, traced.label, traced.end_label, traced.module, strict=True
                )
            ]
        held = classified(device, facts, self.facts.names(device.device, self._origin_ns))
        nothing = [""] * len(held)
        lines, ops = [label.line for label in labels], [label.op for label in labels]
        if traced is not None:
            spelled = same_spelling(lines)
            lines = [line or spelled(traced.line[row]) for row, line in enumerate(lines)]
            ops = [traced.op[row] or op for row, op in enumerate(ops)]
        texts = {
            "line": lines,
            "op": ops,
            "traced_module": traced.module if traced is not None else nothing,
        }
        module = pl.when(pl.col("named_module") != "").then("named_module").otherwise("traced_module").alias("module")
        held = held.with_columns(
            *(pl.Series(name, values, dtype=pl.String) for name, values in texts.items()),
            pl.Series("is_loss", [label.is_loss for label in labels], dtype=pl.Boolean),
        ).with_columns(module, pl.col("is_loss") | pl.col("op").str.contains(LOSS.pattern))
        held = held.drop("named_module", "traced_module")
        trains = any({fact.label, fact.end_label} & {BACKWARD, OPTIMIZER, ZERO_GRAD} for fact in facts)
        if traced is not None and not trains:
            held = with_layer_caches(held, traced.layer)
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
