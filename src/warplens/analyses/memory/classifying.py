"""What each allocation is for: parameters, gradients, optimizer state, activations, caches, or nothing that lasts.

Decided by what is on record, in this order: the name that the capture gave to the memory; the part of the program that
allocated it (its stack, or the op of the trace); and how long it was held against the passes of the program. Every
allocation keeps a sentence on how it was decided.
"""

from __future__ import annotations

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
from warplens.analyses.memory.equal_sizes import by_size, with_texts
from warplens.analyses.memory.history import NEVER, DeviceHistory, Ints
from warplens.analyses.memory.labels import (
    BACKWARD,
    BUILD,
    CACHE,
    FORWARD,
    NO_STACK,
    OPTIMIZER,
    RECOMPUTE,
    TRAINING,
    WORKSPACE,
    ZERO_GRAD,
)
from warplens.model.memory_facts import Named
from warplens.model.trace import Bools

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
DECIDED: Final = ("category", "how", "name", "named_module")
"""What is decided of an allocation."""
Decided = tuple[str, str, str, str]


class Case(NamedTuple):
    """What decides of an allocation without a name; a program has some tens of different ones."""

    label: str
    recorded_label: str
    """As it is on record, where `label` follows from the rest of the program."""
    end_label: str
    in_module: bool
    is_before: bool
    """Allocated before the recording."""
    stays: bool
    """Held when the recording ends."""
    is_left: bool
    """Its pass ends before it is freed, or with it."""
    backward_within: bool
    """A backward pass begins while it is held."""
    freed_in_backward: bool


class Passes:
    """Which pass of the program each event is in: that of the last one before it whose pass is known."""

    def __init__(self, events: int, labelled: Iterable[tuple[Ints, pl.Series]]) -> None:
        """`labelled`: events and their labels; where an event has several, the last one counts."""
        phase = np.zeros(events, np.int64)
        for numbers, labels in labelled:
            recorded = (numbers >= 0) & (numbers < events)
            phases = labels.replace_strict(PHASES, default=0, return_dtype=pl.Int64).to_numpy()
            phase[numbers[recorded]] = phases[recorded]
        known = np.maximum.accumulate(np.where(phase > 0, np.arange(events), -1)) if events else phase
        self._phase = np.where(known >= 0, phase[np.maximum(known, 0)], 0) if events else phase
        changes = np.flatnonzero(np.diff(self._phase)) + 1 if events else phase
        self._starts = np.concatenate([[0], changes]).astype(np.int64)
        self.has_history = events > 1
        """PyTorch's recording keeps one event, or none, where only the state is asked for."""
        self.has_backward = bool((self._phase == PHASES[BACKWARD]).any())
        self._backward = self._starts[self._phase[self._starts] == PHASES[BACKWARD]] if events else self._starts[:0]

    def in_backward(self, events: Ints) -> Bools:
        recorded = (events >= 0) & (events < len(self._phase))
        phase = self._phase[np.where(recorded, events, 0)] if len(self._phase) else np.zeros(len(events), np.int64)
        is_backward: Bools = recorded & (phase == PHASES[BACKWARD])
        return is_backward

    def is_left(self, begin: Ints, end: Ints) -> Bools:
        """Whether the pass of `begin` ends before `end`, or with it."""
        # Where no pass follows, both may be `NEVER`, and the pass of `begin` has not ended.
        is_left: Bools = _next_after(self._starts, begin) <= np.minimum(end, NEVER - 1)
        return is_left

    def backward_within(self, begin: Ints, end: Ints) -> Bools:
        """Whether a backward pass begins while this is held."""
        is_within: Bools = _next_after(self._backward, begin) < end
        return is_within


def _next_after(starts: Ints, events: Ints) -> Ints:
    """Of each event the first of these after it, `NEVER` where none follows."""
    return np.append(starts, NEVER)[np.searchsorted(starts, np.maximum(events, 0), side="right")]


def classified(device: DeviceHistory, facts: pl.DataFrame, names: Mapping[int, Sequence[Named]]) -> pl.DataFrame:
    """What is held with its `category`, `name`, `module` where it has a name, and `how` it was decided.

    `facts`: of each allocation its `label` and that of its end (`end_label`), in words of `labels`, and whether it was
    allocated inside of a module's call (`in_module`). `names`: by address.
    """
    held = device.held
    begin, end = held["begin"].to_numpy(), held["end"].to_numpy()
    during, has_label = begin >= 0, (facts["label"] != NO_STACK).to_numpy()
    trains = facts["label"].is_in(TRAINING).any()
    # The threads of the autograd engine have no Python frames: in a program that trains, that is where such come from.
    is_engine = ~has_label & during & bool(trains and (has_label & during).any())
    engine_or_label = pl.when(pl.Series(is_engine)).then(pl.lit(BACKWARD)).otherwise("label")
    labels = facts.select(engine_or_label.alias("label")).to_series()
    passes = Passes(len(device.times_ns), [(end, facts["end_label"]), (begin, labels)])
    cases = facts.select(
        labels,
        pl.col("label").alias("recorded_label"),
        "end_label",
        "in_module",
        is_before=pl.Series(~during),
        stays=pl.Series(end == NEVER),
        is_left=pl.Series(passes.is_left(begin, end)),
        backward_within=pl.Series(passes.backward_within(begin, end)),
        freed_in_backward=pl.Series(passes.in_backward(end)),
    )
    decided = with_texts(_decided(cases, passes), DECIDED, _workspaces(labels, held) | _with_names(device, names))
    return by_size(held.hstack(decided), facts["end_label"])


def _decided(cases: pl.DataFrame, passes: Passes) -> pl.DataFrame:
    """Category and reason of each allocation, found once for each different case."""
    different = cases.select(Case._fields).unique()
    reasons = [_category(Case(*case), passes) for case in different.iter_rows()]
    texts = pl.DataFrame(reasons, schema=dict.fromkeys(DECIDED[:2], pl.String), orient="row")
    joined = cases.join(different.hstack(texts), on=Case._fields, how="left", maintain_order="left")
    return joined.select("category", "how", name=pl.lit(""), named_module=pl.lit(""))


def _workspaces(labels: pl.Series, held: pl.DataFrame) -> dict[int, Decided]:
    """Allocations that a library's handle keeps, by their size. A few at most: there is one for each handle and stream.
    A product's line allocates its result too, so that a stack with nothing else on record is not one of a product."""
    kept = (held["end"] == NEVER) & labels.is_in([FORWARD, BACKWARD, NO_STACK])
    rows = held.with_row_index("row").filter(kept & pl.col("requested_bytes").is_in(list(LIBRARY_BYTES)))
    few = rows.filter(pl.len().over("requested_bytes") <= MOST_WORKSPACES)
    if not len(few):
        return {}
    asked = held.filter(pl.col("stack").is_in(few["stack"].implode()))
    sizes = dict(asked.group_by("stack").agg(pl.col("requested_bytes").n_unique()).iter_rows())
    return {
        row: (WORKSPACES, f"kept to the end, and of the size of {LIBRARY_BYTES[size]}'s workspace", "", "")
        for row, size, stack in few.select("row", "requested_bytes", "stack").iter_rows()
        if stack < 0 or sizes[stack] > 1
    }


def _with_names(device: DeviceHistory, names: Mapping[int, Sequence[Named]]) -> dict[int, Decided]:
    if not names:
        return {}
    rows = device.held.select("address", "begin", "end").with_row_index("row")
    named_rows = (
        (row, _named(names[address], begin, end, device))
        for row, address, begin, end in rows.filter(pl.col("address").is_in(list(names))).iter_rows()
    )
    return {
        row: (KINDS[named.kind], f"named {named.kind} by the capture", named.name, named.module)
        for row, named in named_rows
        if named is not None
    }


def _named(names: Sequence[Named], begin: int, end: int, device: DeviceHistory) -> Named | None:
    """The name of what was at an address while this was held."""
    first_ns = device.time_of(begin) if begin >= 0 else -NEVER
    last_ns = device.time_of(end) if end < len(device.times_ns) else NEVER
    return next((each for each in names if each.kind in KINDS and first_ns <= each.time_ns <= last_ns), None)


def _category(case: Case, passes: Passes) -> tuple[str, str]:
    label, stays = case.label, case.stays
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
        kept = stays or (not case.is_before and case.is_left)
        return (
            (STATE, "allocated in the optimizer's step and kept")
            if kept
            else (TEMPORARY, "freed in the same optimizer step")
        )
    if label == BACKWARD:
        why = "no frames, as on autograd's threads" if case.recorded_label == NO_STACK else "allocated in backward"
        if case.is_before or case.is_left:
            return GRADIENTS, f"{why}, kept after it"
        return TEMPORARY, f"{why}, freed in the same pass" if not stays else f"{why}, which has not ended"
    if label == RECOMPUTE:
        return ACTIVATIONS, "recomputed in backward"
    return _held_before(case, passes) if case.is_before else _of_forward(case, passes)


def _held_before(case: Case, passes: Passes) -> tuple[str, str]:
    if case.stays and case.in_module and not passes.has_history:
        return ACTIVATIONS, "allocated in a module's forward, held when the snapshot was taken"
    if case.stays:
        return BEFORE, "held from before the recording to its end"
    if case.end_label in (BACKWARD, RECOMPUTE) or case.freed_in_backward:
        return ACTIVATIONS, "allocated before the recording, freed in backward"
    if case.end_label == ZERO_GRAD:
        return GRADIENTS, "allocated before the recording, freed by zero_grad"
    is_known = case.label != NO_STACK
    return UNKNOWN, "allocated before the recording" + (", freed outside backward" if is_known else "")


def _of_forward(case: Case, passes: Passes) -> tuple[str, str]:
    stays = case.stays
    if case.label == NO_STACK:
        return UNKNOWN, "no stack and no op on record"
    if not stays and (case.end_label == BACKWARD or case.freed_in_backward):
        return ACTIVATIONS, "allocated in forward, freed in backward"
    if not stays and not case.is_left:
        return TEMPORARY, "allocated and freed in forward"
    if stays and case.in_module:
        after = ", also after backward" if case.backward_within else ""
        return ACTIVATIONS, f"allocated in a module's forward, held to the end{after}"
    if case.backward_within:
        if stays:
            return UNKNOWN, "allocated outside backward and optimizer, held to the end"
        return ACTIVATIONS, "allocated in forward, held through backward"
    if stays and passes.has_backward:
        return ACTIVATIONS, "allocated in forward, its backward not on record"
    return UNKNOWN, "allocated in forward, held to the end" if stays else "held over several passes"
