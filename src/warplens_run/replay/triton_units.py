"""Triton kernels from their saved source: here those of Inductor, compiled with the configuration that ran.

That runs code from the plan, so it happens only where the run allows it.
"""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any, Final

import torch

from warplens_run.formats.replay_plan import KernelSource, Unit
from warplens_run.replay import launched_units, source_files
from warplens_run.replay.calls import OpCall
from warplens_run.replay.faults import BadUnit, UnitRefused
from warplens_run.replay.graphs import Candidate
from warplens_run.replay.inputs import Inputs
from warplens_run.replay.values import value_of

OWN_FIELDS: Final = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Parts of a configuration that are not arguments of the kernel."""
SEARCHES: Final = ("dynamic_scale_rblock", "coordinate_descent_tuning", "combo_tuning_groups")
"""What would look for other configurations than the one that ran."""


def candidates(unit: Unit, source: KernelSource, device: Any, folder: Path) -> list[Candidate]:
    """One with the recorded configuration; where none is recorded, one for each that the source allows."""
    is_own_launch = unit.triton is not None and unit.triton.grid
    if unit.triton is None or (device.type != "cuda" and not (is_own_launch and launched_units.can_interpret())):
        raise UnitRefused("a Triton kernel needs a GPU")
    path = source_files.written(source, folder)
    if is_own_launch:
        return [launched_units.candidate(unit, path, device)]
    first = _tuner(path, unit.triton.kernel)
    configs = [_recorded(first, unit.triton.config)] if unit.triton.config else list(first.configs)
    return [_candidate(unit, _tuner(path, unit.triton.kernel), config, device) for config in configs]


def _tuner(path: Path, kernel: str) -> Any:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    module = source_files.imported(path)
    tuner = getattr(module, kernel, None)
    if not isinstance(tuner, CachingAutotuner):
        raise BadUnit(f"its source has no Inductor kernel {kernel}")
    return tuner


def _recorded(tuner: Any, recorded: dict[str, int | bool | str]) -> Any:
    config = copy.deepcopy(tuner.configs[0])
    sizes = {name: value for name, value in recorded.items() if name not in OWN_FIELDS}
    unknown = next((name for name in sizes if name not in tuner.fn.arg_names), None)
    if unknown is not None:
        raise BadUnit(f"its source has no block size {unknown}")
    config.kwargs = {**config.kwargs, **sizes}
    for name in OWN_FIELDS:
        if name in recorded:
            setattr(config, name, recorded[name])
    return config


def _candidate(unit: Unit, tuner: Any, config: Any, device: Any) -> Candidate:
    tuner.configs = [config]
    _move_to(tuner, device)
    tuner.precompile()
    count = _argument_count(tuner)

    def launch(*args: Any) -> None:
        tuner.run(*args, stream=torch._C._cuda_getCurrentRawStream(device.index))

    def bound(inputs: Inputs) -> OpCall:
        values = [value_of(argument, inputs, device) for argument in unit.arguments]
        # A launch may record its stream behind the arguments.
        if len(values) == count + 1 and isinstance(values[-1], int):
            values.pop()
        if len(values) != count:
            raise BadUnit(f"{unit.op} takes {count} arguments, the plan has {len(values)}")
        return OpCall(launch, tuple(values), {})

    return bound


def _move_to(tuner: Any, device: Any) -> None:
    """For this GPU, and for nothing but the configuration it has."""
    from torch._inductor.runtime.hints import DeviceProperties

    tuner.device_props = DeviceProperties.create(device)
    tuner.triton_meta["device"] = device.index
    for name in SEARCHES:
        tuner.inductor_meta[name] = False


def _argument_count(tuner: Any) -> int:
    """Which constants are passed all the same differs between versions; the launcher itself knows."""
    return sum(name != "stream" for name in inspect.signature(tuner.launchers[0]).parameters)
