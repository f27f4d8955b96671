"""The process that runs both sides of swaps on the same inputs: `comparing PLAN DEVICE SEED SOURCES IMPORTS SWAP…`.

A swap is given by its place: experiment, variant and swap within it; SOURCES is a folder for the sources of Triton
kernels, or empty where they may not run; IMPORTS are modules that define ops, with commas between. Prints one JSON
object for each swap, in their order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from warplens_run.formats import proof_plan as plan_file
from warplens_run.formats.proof_plan import ProofPlan, Swap, Variant
from warplens_run.formats.proof_result import Difference
from warplens_run.formats.records import encode
from warplens_run.formats.replay_plan import Argument, Unit
from warplens_run.processes.parent import Parent
from warplens_run.proof.compared_outputs import ComparedOutputs
from warplens_run.replay import settings
from warplens_run.replay.faults import BadUnit, UnitRefused, one_line

CHUNK_ELEMENTS: Final = 1 << 26
"""Outputs are compared in parts of about this many elements."""


def main(words: Sequence[str]) -> int:
    parent = Parent()
    path, device, seed, sources, modules, *places = words
    plan = plan_file.load(Path(path))
    settings.restore_variables(plan.replay.settings)
    from warplens_run.replay.bench_making import find_device
    from warplens_run.replay.imported import import_modules

    on_device = find_device(device)
    import_modules([*filter(None, modules.split(",")), "warplens_run.proof.own_ops"])
    for place in places:
        experiment, number, swap = map(int, place.split("."))
        variant = plan.experiments[experiment].variants[number]
        answer = compared(plan, variant, variant.swaps[swap], Place(on_device, int(seed), sources))
        parent.send(json.dumps(encode(answer)))
    return 0


@dataclass(frozen=True)
class Place:
    """Where units run."""

    device: Any
    seed: int = 0
    sources: str = ""
    """Folder for the sources of Triton kernels; empty: they do not run."""


def compared(plan: ProofPlan, variant: Variant, swap: Swap, place: Place) -> ComparedOutputs:
    units = {unit.id: unit for unit in plan.replay.units}
    before, after = units[swap.reference], units[swap.after[0].unit]
    try:
        return ComparedOutputs(_difference(before, after, plan, variant, place))
    except Exception as error:  # noqa: BLE001 - an op may raise anything
        return ComparedOutputs(reason=one_line(error))


def _difference(before: Unit, after: Unit, plan: ProofPlan, variant: Variant, place: Place) -> Difference:
    import torch

    from warplens_run.replay.inputs import Inputs, check_memory

    modes: tuple[Any, ...] = (torch.inference_mode, torch.no_grad)
    for number, mode in enumerate(modes):
        with _entered(mode):
            check_memory(before, place.device)
            given, changed = (Inputs.build(unit, place.device, place.seed) for unit in (before, after))
            _copy_inputs(before, after, given, changed)
            try:
                settings.restore(plan.replay.settings)
                expected = _outputs(before, given, plan, place)
                settings.restore(plan.replay.settings | variant.settings)
                return difference(expected, _outputs(after, changed, plan, place))
            except RuntimeError as error:
                if number == len(modes) - 1 or "inference" not in str(error).lower():
                    raise
    raise BadUnit("nothing was compared")


def _entered(mode: Any) -> AbstractContextManager[Any]:
    context: AbstractContextManager[Any] = mode()
    return context


def _copy_inputs(before: Unit, after: Unit, given: Any, changed: Any) -> None:
    """Each tensor's elements where they are before the change; what was added to it is 0."""
    for old, new in zip(_tensors(before.arguments), _tensors(after.arguments), strict=True):
        source, target = given.tensor(old), changed.tensor(new)
        target.zero_()
        target[tuple(slice(0, side) for side in source.shape)].copy_(source)


def _tensors(arguments: Sequence[Argument]) -> Iterator[Any]:
    for argument in arguments:
        if argument.tensor is not None:
            yield argument.tensor
        yield from _tensors(argument.items)


def _outputs(unit: Unit, inputs: Any, plan: ProofPlan, place: Place) -> list[Any]:
    """The tensors that a call returns, else those that it changes, of the first arguments that it runs with."""
    import torch

    from warplens_run.replay.calls import bind, combinations, resolve

    if unit.triton is not None:
        return _kernel_outputs(unit, inputs, plan, place)
    op = resolve(unit.op, unit.overload)
    first: Exception | None = None
    for arguments in combinations(unit):
        try:
            call = bind(op, arguments, inputs, place.device)
            returned = call.checked() if call.makes_views else call.function(*call.args, **call.named)
            tensors = [value for value in _flat(returned) if isinstance(value, torch.Tensor)]
            return tensors or _changed(unit, inputs)
        except Exception as error:  # noqa: BLE001 - another combination may run
            first = first or error
    raise first or BadUnit("nothing to call")


def _kernel_outputs(unit: Unit, inputs: Any, plan: ProofPlan, place: Place) -> list[Any]:
    from warplens_run.replay.triton_units import candidates

    if unit.triton is None or not place.sources:
        raise UnitRefused("it contains source code, which runs only if it is allowed")
    source = plan.replay.sources[unit.triton.source]
    candidates(unit, source, place.device, Path(place.sources))[0](inputs)()
    return _changed(unit, inputs)


def _changed(unit: Unit, inputs: Any) -> list[Any]:
    return [inputs.tensor(view) for view in _tensors(unit.arguments) if unit.storages[view.storage].written]


def _flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _flat(item)
    else:
        yield value


def difference(expected: Sequence[Any], other: Sequence[Any]) -> Difference:
    """Between outputs, the second of which may be longer along any side."""
    if not expected or len(expected) != len(other):
        raise BadUnit("the two calls do not return the same number of tensors")
    is_equal, absolute, largest = True, 0.0, 0.0
    for before, after in zip(expected, other, strict=True):
        if before.dim() != after.dim():
            raise BadUnit("the two calls return tensors of different dimensions")
        part = after[tuple(slice(0, side) for side in before.shape)]
        for one, another in _chunks(before, part):
            differs = (one != another) & ~(one.isnan() & another.isnan())
            if bool(differs.any()):
                is_equal = False
                absolute = max(absolute, float((one - another)[differs].abs().max()))
            finite = one[one.isfinite()]
            largest = max(largest, float(finite.abs().max()) if finite.numel() else 0.0)
    return Difference(is_equal, absolute, absolute / largest if largest else absolute)


def _chunks(before: Any, after: Any) -> Iterator[tuple[Any, Any]]:
    """Parts of two tensors of one shape, as floating-point numbers that hold both."""
    import torch

    is_narrow = before.is_floating_point() and torch.float64 not in (before.dtype, after.dtype)
    kind = torch.float32 if is_narrow else torch.float64
    if before.dim() == 0:
        yield before.to(kind), after.to(kind)
        return
    rows = max(1, CHUNK_ELEMENTS // max(1, before[:1].numel()))
    for start in range(0, before.shape[0], rows):
        yield before[start : start + rows].to(kind), after[start : start + rows].to(kind)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
