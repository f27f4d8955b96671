"""Lists of tensors that a plain trace leaves out, rebuilt from the gradients that its backward passes accumulate.

PyTorch's profiler records no shapes of a list of more than 30 tensors. Those of optimizers and of what clips, scales or
sets back gradients are one tensor for each parameter, and each parameter's gradient is accumulated by an op of its own,
with its shape. Where gradients are scattered over ranks, the lists are the shards of one rank. The kernels' grids show
whether the lists are these.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from warplens.hardware import Gpu
from warplens.model.trace import Trace
from warplens.planning.multi_tensor import ListLaunches
from warplens.planning.recorded import Recorded, RecordedTensor, contiguous, from_spec
from warplens.planning.schemas import OpParameter, OpSchema
from warplens.planning.shards import Sharding
from warplens_run.base.units import plural
from warplens_run.formats.replay_plan import APPROXIMATE, DTYPES, Unit

ACCUMULATE: Final = "torch::autograd::AccumulateGrad"
LIST_OP: Final = re.compile(r"aten::_(amp_)?(foreach|fused)_\w+(\.\w+)?")
MOST_RECORDED: Final = 30
"""Tensors of a list whose shapes PyTorch's profiler records."""
MOST_PASSES: Final = 8
"""Backward passes whose gradients are compared with a list."""
MOST_ACCUMULATED: Final = 64
"""Passes that accumulate gradients before one step."""
NUMBERS: Final = "state_steps"
"""The list that has one number for each parameter."""
SAME_LISTS: Final = {
    # op: its lists that are the same one, by their places among its lists; gradients are squared this way
    "_foreach_addcmul_": (1, 2),
}
OMITTED: Final = "a list of more than 30 tensors, whose shapes the trace leaves out; an ExecutionTrace has them"
NO_LAUNCHES: Final = f"{OMITTED} (its kernels do not show how long it is)"
NO_GRADIENTS: Final = f"{OMITTED} (no backward pass in the trace accumulates gradients: record a whole step)"
OTHER_GRIDS: Final = f"{OMITTED} (the gradients in the trace{{}} would have other grids)"
OR_SHARDS: Final = ", whole or divided over {} ranks,"
TOO_MANY_BYTES: Final = f"{OMITTED} (the gradients in the trace are more bytes than the GPU reads in that time)"
REBUILT: Final = (
    APPROXIMATE + "its lists of {} are rebuilt from the gradients in the trace{}, with which its grids agree"
)
DIVIDED: Final = ", divided over {} ranks"
IN_ANOTHER_ORDER: Final = "their order is not that of the trace"


class NoLists(Exception):  # noqa: N818 - no error: most lists are recorded, or cannot be known
    """Why lists cannot be rebuilt."""


@dataclass(frozen=True)
class BackwardPass:
    """Gradients in the order in which they were accumulated, between two ops over lists."""

    end_ns: int
    gradients: tuple[RecordedTensor, ...]


class GuessedList(NamedTuple):
    """Tensors that a list may have; `ranks` is over how many their parameters are divided."""

    members: tuple[RecordedTensor, ...]
    ranks: int = 1


def backward_passes(trace: Trace) -> tuple[BackwardPass, ...]:
    """Where gradients are accumulated over several passes before a step, these are one."""
    codes = {code: name == ACCUMULATE for code, name in enumerate(trace.names)
             if name == ACCUMULATE or LIST_OP.fullmatch(name)}  # fmt: skip
    if not any(codes.values()):
        return ()
    names, starts, specs = trace.ints("name"), trace.ints("start_ns"), trace.ints("spec")
    rows = np.flatnonzero(np.isin(names, list(codes)))
    rows = rows[np.argsort(starts[rows], kind="stable")]
    shapes: dict[int, RecordedTensor | None] = {}
    passes: list[BackwardPass] = []
    current: list[RecordedTensor] = []
    for row in rows.tolist():
        if not codes[int(names[row])]:
            if current:
                passes.append(BackwardPass(int(starts[row]), tuple(current)))
            current = []
            continue
        spec = int(specs[row])
        if spec not in shapes:
            shapes[spec] = _first_tensor(from_spec(*trace.specs.row(spec))) if spec >= 0 else None
        if (gradient := shapes[spec]) is not None:
            current.append(gradient)
    if current:
        passes.append(BackwardPass(int(starts[rows[-1]]), tuple(current)))
    return tuple(passes)


def _first_tensor(recorded: Sequence[Recorded]) -> RecordedTensor | None:
    tensor = recorded[0].tensors[0] if recorded and recorded[0].kind == "tensor" else None
    # The parameter is contiguous, whatever the layout of what is added to its gradient.
    return replace(tensor, stride=contiguous(tensor.shape)) if tensor is not None else None


def are_omitted(schema: OpSchema, recorded: Sequence[Recorded]) -> bool:
    """Whether the first list of the call is one whose tensors are not recorded."""
    lists = _lists(schema, recorded)
    return bool(lists) and recorded[lists[0]].kind == "tensors" and not recorded[lists[0]].tensors


def _lists(schema: OpSchema, recorded: Sequence[Recorded]) -> list[int]:
    pairs = zip(schema.parameters, recorded, strict=False)
    return [position for position, (parameter, _) in enumerate(pairs) if _is_list(parameter)]


def _is_list(parameter: OpParameter) -> bool:
    return parameter.base == "Tensor" and parameter.is_list


def rebuilt_lists(
    unit: Unit,
    schema: OpSchema,
    recorded: Sequence[Recorded],
    passes: Iterable[BackwardPass],
    gpu: Gpu | None,
    shardings: Sequence[Sharding] = (),
) -> tuple[tuple[Recorded, ...], str]:
    """The call's arguments with all lists, and a note on them; `passes` the most likely first. Raises `NoLists`."""
    launches = ListLaunches.of(unit.kernels)
    if launches is None:
        raise NoLists(NO_LAUNCHES)
    (members, ranks), is_in_order = _matching(launches, passes, shardings)
    op = schema.name.partition("::")[2]
    lists = _lists(schema, recorded)
    walked = [place for place in lists if schema.parameters[place].name != NUMBERS][: launches.lists]
    same = SAME_LISTS.get(op, ()) if len(walked) > 1 else ()
    _check_bytes(unit, members, launches.lists - max(0, len(same) - 1), gpu)
    filled = list(recorded)
    for number, place in enumerate(walked):
        dtype = launches.dtypes[min(number, len(launches.dtypes) - 1)]
        storages = range(len(members)) if number in same else (None,) * len(members)
        tensors = (replace(tensor, dtype=dtype, storage=own) for tensor, own in zip(members, storages, strict=True))
        filled[place] = Recorded("tensors", tensors=tuple(tensors))
    for place in lists:
        if schema.parameters[place].name == NUMBERS:
            filled[place] = Recorded("tensors", tensors=(RecordedTensor((), "float32", ()),) * len(members))
    note = REBUILT.format(plural(len(members), "tensor"), DIVIDED.format(ranks) if ranks > 1 else "")
    return tuple(filled), note if is_in_order else f"{note}; {IN_ANOTHER_ORDER}"


def _matching(
    launches: ListLaunches, passes: Iterable[BackwardPass], shardings: Sequence[Sharding]
) -> tuple[GuessedList, bool]:
    """The tensors whose launches these are, and whether their order is right as well. A list with one number for each
    parameter has the grids of as many biases: it is what remains where no parameters fit."""
    candidates = list(_candidates(passes, launches.dtypes[0], shardings))
    if not candidates:
        raise NoLists(NO_GRADIENTS)
    numbers = [
        GuessedList(tuple(replace(tensor, shape=(), stride=()) for tensor in guess.members)) for guess in candidates
    ]
    for guesses in (candidates, numbers):
        for is_same, in_order in ((launches.agree, True), (launches.agree_in_sum, False)):
            for guess in guesses:
                if is_same([math.prod(tensor.shape) for tensor in guess.members]):
                    return guess, in_order
    ranks = " or ".join(str(sharding.ranks) for sharding in shardings)
    raise NoLists(OTHER_GRIDS.format(OR_SHARDS.format(ranks) if ranks else ""))


def _candidates(passes: Iterable[BackwardPass], dtype: str, shardings: Sequence[Sharding]) -> Iterator[GuessedList]:
    """What the lists could be, each once: all parameters of the dtype or of any, then the groups that optimizers make
    of them, with matrices apart, of which alone weights decay; then the same of a rank's shards."""
    wholes = [
        group
        for backward in islice(passes, MOST_PASSES)
        for gradients in _single_passes(backward.gradients)
        for group in ([tensor for tensor in gradients if tensor.dtype == dtype], list(gradients))
    ]
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for sharding in (None, *shardings):
        groups = wholes if sharding is None else [sharding.shards(group) for group in wholes]
        for group in (*groups, *_matrices_and_others(groups)):
            for members in _orders(group):
                shapes = tuple(tensor.shape for tensor in members)
                if len(members) > MOST_RECORDED and shapes not in seen:
                    seen.add(shapes)
                    typed = tuple(replace(tensor, dtype=dtype) for tensor in members)
                    yield GuessedList(typed, 1 if sharding is None else sharding.ranks)


def _matrices_and_others(groups: Iterable[Sequence[RecordedTensor]]) -> Iterator[list[RecordedTensor]]:
    for group in groups:
        for are_matrices in (True, False):
            yield [tensor for tensor in group if (len(tensor.shape) > 1) == are_matrices]


def _single_passes(gradients: tuple[RecordedTensor, ...]) -> Iterator[tuple[RecordedTensor, ...]]:
    """All of them, and the last of several passes that accumulated the same gradients each."""
    yield gradients
    counts = Counter(tensor.shape for tensor in gradients)
    repeats = math.gcd(*counts.values()) if counts else 1
    for number in range(2, min(repeats, MOST_ACCUMULATED) + 1):
        last = gradients[-(len(gradients) // number) :] if repeats % number == 0 else ()
        if last and Counter(tensor.shape for tensor in last * number) == counts:
            yield last


def _orders(gradients: Sequence[RecordedTensor]) -> Iterator[list[RecordedTensor]]:
    """As parameters are registered: a backward pass begins with the last. Which of a layer's weight and bias is first
    there differs."""
    members = list(reversed(gradients))
    yield members
    place = 0
    swapped = list(members)
    while place < len(swapped) - 1:
        bias, weight = swapped[place].shape, swapped[place + 1].shape
        if len(bias) == 1 and len(weight) > 1 and weight[0] == bias[0]:
            swapped[place], swapped[place + 1] = swapped[place + 1], swapped[place]
            place += 1
        place += 1
    yield swapped


def _check_bytes(unit: Unit, members: Sequence[RecordedTensor], lists: int, gpu: Gpu | None) -> None:
    """Each list is read or written at least once, which takes time where they are larger than the GPU's caches."""
    if gpu is None or not gpu.datasheet.bandwidth_tbps or not members:
        return
    moved = lists * sum(math.prod(tensor.shape) * DTYPES[tensor.dtype] for tensor in members)
    cached = (gpu.l2_mb + gpu.infinity_cache_mb) * 1e6
    if moved - cached > unit.times.median_ns * gpu.datasheet.bandwidth_tbps * 1e3:
        raise NoLists(TOO_MANY_BYTES)


def likely_first(passes: Sequence[BackwardPass], start_ns: int) -> Iterator[BackwardPass]:
    """The pass before a call, then those before that one, then those after it."""
    before = [backward for backward in passes if backward.end_ns <= start_ns]
    yield from reversed(before)
    yield from passes[len(before) :]
