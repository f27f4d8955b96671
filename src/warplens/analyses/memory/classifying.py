"""What each allocation is for: parameters, gradients, optimizer state, activations, caches, or nothing that lasts.

Decided by what is on record, in this order: the name that the capture gave to the memory; the part of the program that
allocated it (its stack, or the op of the trace); and how long it was held against the passes of the program. Every
allocation keeps a sentence on how it was decided.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from warplens.analyses.memory.categories import (
    ACTIVATIONS,
    BEFORE,
    GRADIENTS,
    KV_CACHE,
    PARAMETERS,
    STATE,
    TEMPORARY,
    UNKNOWN,
    WORKSPACES,
)
from warplens.analyses.memory.equal_sizes import by_size
from warplens.analyses.memory.history import NEVER, DeviceHistory
from warplens.analyses.memory.labels import (
    BACKWARD,
    BUILD,
    CACHE,
    FORWARD,
    NO_STACK,
    OPTIMIZER,
    RECOMPUTE,
    WORKSPACE,
    ZERO_GRAD,
)
from warplens.model.memory_facts import Named

PHASES: Final = {FORWARD: 1, RECOMPUTE: 2, BACKWARD: 2, OPTIMIZER: 3, ZERO_GRAD: 3}
"""Passes of a program that follow each other; the other labels belong to none."""
KINDS: Final = {
    # kind of a recorded name: its category
    "parameter": PARAMETERS, "buffer": PARAMETERS, "gradient": GRADIENTS, "optimizer": STATE, "optimizer state": STATE,
    "kv cache": KV_CACHE,
}  # fmt: skip


LIBRARY_BYTES: Final = {32 << 20: "cuBLAS", 8_519_680: "cuBLAS", 1 << 20: "cuBLASLt"}
"""What PyTorch asks for as the workspace of a library's handle: on Hopper and later, on older GPUs, for cuBLASLt."""
MOST_WORKSPACES: Final = 4
"""Of one size: a matrix of 4,096 × 4,096 halves has 32 MiB as well, and a model has many."""


class Facts(NamedTuple):
    """Of an allocation and its end, in words of `labels`."""

    label: str
    end_label: str
    in_module: bool = False
    """Allocated inside of a module's call."""
    stack: int = -1


class Passes:
    """Which pass of the program each event is in: that of the last one before it whose pass is known."""

    def __init__(self, events: int, labelled: Iterable[tuple[int, str]]) -> None:
        phase = np.zeros(events, np.int64)
        for event, label in labelled:
            if 0 <= event < events:
                phase[event] = PHASES.get(label, 0)
        known = np.maximum.accumulate(np.where(phase > 0, np.arange(events), -1)) if events else phase
        self._phase = np.where(known >= 0, phase[np.maximum(known, 0)], 0) if events else phase
        changes = np.flatnonzero(np.diff(self._phase)) + 1 if events else phase
        starts = np.concatenate([[0], changes]).astype(np.int64)
        self.has_history = events > 1
        """PyTorch's recording keeps one event, or none, where only the state is asked for."""
        self.has_backward = bool((self._phase == PHASES[BACKWARD]).any())
        backward = starts[self._phase[starts] == PHASES[BACKWARD]] if events else starts[:0]
        # Lists, because every allocation asks: one number takes numpy as long as a hundred.
        self._starts: list[int] = starts.tolist()
        self._backward: list[int] = backward.tolist()

    def at(self, event: int) -> int:
        """0 where it is not known."""
        return int(self._phase[event]) if 0 <= event < len(self._phase) else 0

    def is_left(self, begin: int, end: int) -> bool:
        """Whether the pass of `begin` ends before `end`, or with it."""
        following = bisect_right(self._starts, max(begin, 0))
        return following < len(self._starts) and self._starts[following] <= end

    def backward_within(self, begin: int, end: int) -> bool:
        """Whether a backward pass begins while this is held."""
        following = bisect_right(self._backward, max(begin, 0))
        return following < len(self._backward) and self._backward[following] < end


def classified(device: DeviceHistory, facts: Sequence[Facts], names: Mapping[int, Sequence[Named]]) -> pl.DataFrame:
    """What is held with its `category`, `name`, `module` where it has a name, and `how` it was decided.

    `names`: by address.
    """
    held = device.held
    begins, ends = held["begin"].to_numpy(), held["end"].to_numpy()
    trains = any(fact.label in (BACKWARD, OPTIMIZER, ZERO_GRAD) for fact in facts)
    has_stacks = any(fact.label for fact, begin in zip(facts, begins.tolist(), strict=True) if begin >= 0)
    # The threads of the autograd engine have no Python frames: in a program that trains, that is where such come from.
    labels = [
        BACKWARD if not fact.label and trains and has_stacks and begin >= 0 else fact.label
        for fact, begin in zip(facts, begins.tolist(), strict=True)
    ]
    end_labels = zip(ends.tolist(), (fact.end_label for fact in facts), strict=True)
    passes = Passes(len(device.times_ns), [*end_labels, *zip(begins.tolist(), labels, strict=True)])
    rows = []
    addresses, requested = held["address"].to_list(), held["requested_bytes"].to_list()
    workspaces = _workspaces(labels, facts, ends.tolist(), requested)
    for number, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True)):
        named = _named(names.get(addresses[number], ()), begin, end, device)
        if named is not None:
            rows.append((KINDS[named.kind], f"named {named.kind} by the capture", named.name, named.module))
            continue
        if number in workspaces:
            library = LIBRARY_BYTES[requested[number]]
            rows.append((WORKSPACES, f"kept to the end, and of the size of {library}'s workspace", "", ""))
            continue
        category, how = _category(labels[number], facts[number], begin, end, passes)
        rows.append((category, how, "", ""))
    schema = {"category": pl.String, "how": pl.String, "name": pl.String, "named_module": pl.String}
    decided = held.hstack(pl.DataFrame(rows, schema=schema, orient="row"))
    return by_size(decided, [fact.end_label for fact in facts])


def _workspaces(
    labels: Sequence[str], facts: Sequence[Facts], ends: Sequence[int], requested: Sequence[int]
) -> set[int]:
    """Allocations that a library's handle keeps, by their size. A few at most: there is one for each handle and stream.
    A product's line allocates its result too, so that a stack with nothing else on record is not one of a product."""
    of_size: dict[int, list[int]] = {}
    for number, size in enumerate(requested):
        if size in LIBRARY_BYTES and ends[number] == NEVER and labels[number] in (FORWARD, BACKWARD, NO_STACK):
            of_size.setdefault(size, []).append(number)
    few = {number for numbers in of_size.values() if len(numbers) <= MOST_WORKSPACES for number in numbers}
    asked = {facts[number].stack for number in few} - {-1}
    sizes: dict[int, set[int]] = {}
    for fact, size in zip(facts, requested, strict=True):
        if fact.stack in asked:
            sizes.setdefault(fact.stack, set()).add(size)
    return {number for number in few if facts[number].stack < 0 or len(sizes[facts[number].stack]) > 1}


def _named(names: Sequence[Named], begin: int, end: int, device: DeviceHistory) -> Named | None:
    """The name of what was at an address while this was held."""
    if not names:
        return None
    first_ns = device.time_of(begin) if begin >= 0 else -NEVER
    last_ns = device.time_of(end) if end < len(device.times_ns) else NEVER
    return next((each for each in names if each.kind in KINDS and first_ns <= each.time_ns <= last_ns), None)


def _category(label: str, fact: Facts, begin: int, end: int, passes: Passes) -> tuple[str, str]:
    stays = end == NEVER
    if label == WORKSPACE:
        return WORKSPACES, "allocated by a library's handle"
    if label == CACHE:
        return KV_CACHE, "allocated by code of a cache of keys and values"
    if label == BUILD:
        return (
            (PARAMETERS, "allocated while the model was built")
            if stays
            else (TEMPORARY, "freed after the model was built")
        )
    if label in (OPTIMIZER, ZERO_GRAD):
        kept = stays or (begin >= 0 and passes.is_left(begin, end))
        return (
            (STATE, "allocated in the optimizer's step and kept")
            if kept
            else (TEMPORARY, "freed in the same optimizer step")
        )
    if label == BACKWARD:
        why = "no frames, as on autograd's threads" if fact.label == NO_STACK else "allocated in backward"
        if begin < 0 or passes.is_left(begin, end):
            return GRADIENTS, f"{why}, kept after it"
        return TEMPORARY, f"{why}, freed in the same pass" if not stays else f"{why}, which has not ended"
    if label == RECOMPUTE:
        return ACTIVATIONS, "recomputed in backward"
    if begin < 0:
        return _held_before(label, fact, end, passes)
    return _of_forward(label, fact, begin, end, passes)


def _held_before(label: str, fact: Facts, end: int, passes: Passes) -> tuple[str, str]:
    if end == NEVER and fact.in_module and not passes.has_history:
        return ACTIVATIONS, "allocated in a module's forward, held when the snapshot was taken"
    if end == NEVER:
        return BEFORE, "held from before the recording to its end"
    if fact.end_label in (BACKWARD, RECOMPUTE) or passes.at(end) == PHASES[BACKWARD]:
        return ACTIVATIONS, "allocated before the recording, freed in backward"
    if fact.end_label == ZERO_GRAD:
        return GRADIENTS, "allocated before the recording, freed by zero_grad"
    return (
        UNKNOWN,
        "allocated before the recording" if not label else "allocated before the recording, freed outside backward",
    )


def _of_forward(label: str, fact: Facts, begin: int, end: int, passes: Passes) -> tuple[str, str]:
    if label == NO_STACK:
        return UNKNOWN, "no stack and no op on record"
    if fact.end_label == BACKWARD and end != NEVER:
        return ACTIVATIONS, "allocated in forward, freed in backward"
    if end != NEVER and passes.at(end) == PHASES[BACKWARD]:
        return ACTIVATIONS, "allocated in forward, freed in backward"
    if end != NEVER and not passes.is_left(begin, end):
        return TEMPORARY, "allocated and freed in forward"
    if end == NEVER and fact.in_module:
        after = ", also after backward" if passes.backward_within(begin, end) else ""
        return ACTIVATIONS, f"allocated in a module's forward, held to the end{after}"
    if passes.backward_within(begin, end):
        if end == NEVER:
            return UNKNOWN, "allocated outside backward and optimizer, held to the end"
        return ACTIVATIONS, "allocated in forward, held through backward"
    if end == NEVER and passes.has_backward:
        return ACTIVATIONS, "allocated in forward, its backward not on record"
    return UNKNOWN, "allocated in forward, held to the end" if end == NEVER else "held over several passes"
