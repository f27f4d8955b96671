"""The Triton kernels of a trace in the kernel lab: each compiled as it was launched, for the GPU that it ran on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from warplens.hardware import Gpu
from warplens.proof.experiments.finding_units import UnitInStep
from warplens.proof.experiments.source_grids import kernel_definition
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_lab.checking.checks import KernelCheck, check_launches
from warplens_lab.compiling.launching import ScriptLaunch
from warplens_lab.compiling.loading import SEPARATOR, LoadedKernel, load_kernel
from warplens_lab.compiling.records import Parameter
from warplens_lab.compiling.request import CompileRequest
from warplens_lab.compiling.signature import CONSTEXPR, DIVISOR, KernelArgument, Signature, number_argument
from warplens_lab.compiling.specialising import DTYPES
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.compiling.triton_options import is_option_name
from warplens_lab.compiling.triton_version import require_triton
from warplens_lab.compiling.values import Dtype
from warplens_lab.suggesting.records import Suggestion
from warplens_run.base.errors import WarplensError
from warplens_run.base.temporary import temporary_folder
from warplens_run.formats.replay_plan import DTYPES as ELEMENT_BYTES
from warplens_run.formats.replay_plan import Argument, SourceKernel, TracedGpu

PLAIN: Final = ("int", "bool", "float", "str")
NOT_LOOKED_FOR: Final = "suggestions of the kernel lab were not looked for: {}"
NOT_ALLOWED: Final = "compiling runs the sources of the trace's Triton kernels, which --allow-source allows"


@dataclass(frozen=True)
class CheckedKernel:
    """Launches that are one compilation, with what the lab suggests for it."""

    members: tuple[UnitInStep, ...]
    suggestions: tuple[Suggestion, ...]


@dataclass(frozen=True)
class KernelChecks:
    kernels: tuple[CheckedKernel, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LabTarget:
    """What the lab compiles for: an architecture, and the card of it where that is known."""

    name: str
    card: str | None = None


def check_kernels(members: Sequence[UnitInStep], sources: Mapping[str, str], target: LabTarget) -> KernelChecks:
    """Of each source apart: one that cannot be imported is a note, and the others are checked."""
    kernels: list[CheckedKernel] = []
    notes: list[str] = []
    by_kernel: dict[tuple[str, str], list[UnitInStep]] = {}
    for member in members:
        assert member.unit.triton is not None
        by_kernel.setdefault((member.unit.triton.source, member.unit.triton.kernel), []).append(member)
    for (source, name), launched in by_kernel.items():
        try:
            kernels += [
                CheckedKernel(tuple(own), _suggestions(check))
                for check, own in checked_launches(launched, sources[source], target)
            ]
        except (WarplensError, NoExperiment) as error:
            notes.append(f"{name} was not checked by the kernel lab: {error}")
    return KernelChecks(tuple(kernels), tuple(notes))


def target_of(gpu: Gpu | None, traced: Sequence[TracedGpu]) -> LabTarget:
    """Raises `NoExperiment` where the lab does not know the GPU."""
    computes = [device.compute for device in traced if device.compute]
    name = gpu.architecture if gpu is not None else f"sm{computes[0].replace('.', '')}" if computes else ""
    name = name.replace("_", "").rstrip("af") if name.startswith("sm") else name
    if name not in TARGETS:
        raise NoExperiment(f"it does not compile for {name}" if name else "the trace does not name its GPU")
    return LabTarget(name, gpu.name if gpu is not None else None)


def why_not(*, allow_source: bool) -> str:
    """Why nothing can be compiled; empty where it can."""
    if not allow_source:
        return NOT_ALLOWED
    try:
        require_triton()
    except WarplensError as error:
        return str(error)
    return ""


def checked_launches(
    members: Sequence[UnitInStep], text: str, target: LabTarget
) -> list[tuple[KernelCheck, list[UnitInStep]]]:
    """Each compilation of one kernel with the launches that it is; `text` is the kernel's source, which is imported."""
    first = members[0].unit.triton
    assert first is not None
    with temporary_folder() as folder:
        file = Path(folder) / f"{first.kernel}.py"
        file.write_text(text)
        kernel = load_kernel(f"{file}{SEPARATOR}{first.kernel}")
        launches = _launches(kernel, members, _not_specialised(text, first.kernel))
        request = CompileRequest(str(file), "", targets=target.name, card=target.card, cache=False)
        result = check_launches(request, list(launches))
        for check in result.checks:
            if check.artefacts is not None:
                check.artefacts.source_lines  # noqa: B018 - kept for the page: the file goes with its folder
    return list(zip(result.checks, launches.values(), strict=True))


def _suggestions(check: KernelCheck) -> tuple[Suggestion, ...]:
    if check.facts.failure:
        raise NoExperiment(f"it does not compile for {check.facts.target}: {check.facts.failure}")
    return check.suggestions


def _launches(
    kernel: LoadedKernel, members: Sequence[UnitInStep], plain: frozenset[str]
) -> dict[ScriptLaunch, list[UnitInStep]]:
    """Each compilation once, with the grid of the first launch of it."""
    alike: dict[object, tuple[ScriptLaunch, list[UnitInStep]]] = {}
    for member in members:
        launched = member.unit.triton
        assert launched is not None
        signature = _signature(kernel, member, plain)
        options = tuple((name, value) for name, value in sorted(launched.config.items())
                        if is_option_name(name) and isinstance(value, (int, float, str)))  # fmt: skip
        launch = ScriptLaunch(kernel, signature, launched.grid, options)
        alike.setdefault((signature.text(), options), (launch, []))[1].append(member)
    return dict(alike.values())


def _signature(kernel: LoadedKernel, member: UnitInStep, plain: frozenset[str]) -> Signature:
    launched = member.unit.triton
    assert launched is not None
    given = list(member.unit.arguments)
    if launched.grid:
        if len(given) != len(kernel.parameters):
            raise NoExperiment(f"{len(given)} arguments are recorded for {len(kernel.parameters)} parameters")
        return Signature(tuple(_argument(own, one, plain) for own, one in zip(kernel.parameters, given, strict=True)))
    return Signature(tuple(_of_inductor(kernel.parameters, given, launched)))


def _of_inductor(
    declared: Sequence[Parameter], given: Sequence[Argument], launched: SourceKernel
) -> Iterator[KernelArgument]:
    """Recorded are the arguments that are no constants; those are in the configuration."""
    passed = iter(given)
    for parameter in declared:
        if not parameter.is_constexpr:
            yield _argument(parameter, next(passed, Argument("nothing")), frozenset())
        elif parameter.name in launched.config:
            yield KernelArgument(parameter.name, CONSTEXPR, launched.config[parameter.name])
        else:
            raise NoExperiment(f"the value of its {parameter.name} is not recorded")


def _argument(parameter: Parameter, given: Argument, plain: frozenset[str]) -> KernelArgument:
    """As Triton's just-in-time compiler specialises it."""
    name, is_specialised = parameter.name, parameter.name not in plain
    if given.kind == "none":
        return KernelArgument(name, CONSTEXPR, None)
    if parameter.is_constexpr and given.kind in PLAIN:
        return KernelArgument(name, CONSTEXPR, given.value)
    if parameter.is_constexpr and given.kind == "dtype" and given.value in DTYPES:
        return KernelArgument(name, CONSTEXPR, Dtype(DTYPES[given.value]))
    view = given.tensor
    if view is not None and view.dtype in DTYPES and not parameter.is_constexpr:
        is_divisible = is_specialised and view.offset * ELEMENT_BYTES[view.dtype] % DIVISOR == 0
        return KernelArgument(name, f"*{DTYPES[view.dtype]}", divisible=is_divisible)
    if given.kind == "descriptor" and len(given.items) == 4 and given.items[0].tensor is not None:
        block = ",".join(str(side.value) for side in given.items[3].items)
        return KernelArgument(name, f"tensordesc<{DTYPES.get(given.items[0].tensor.dtype, '?')}[{block}]>")
    number = number_argument(name, given.value, specialised=is_specialised) if given.kind in PLAIN else None
    if number is None:
        raise NoExperiment(f"its {name} is a {given.kind}")
    return number


def _not_specialised(text: str, function: str) -> frozenset[str]:
    """The parameters that the kernel's decorator names so."""
    for decorator in kernel_definition(text, function).decorator_list:
        for keyword in decorator.keywords if isinstance(decorator, ast.Call) else []:
            if keyword.arg == "do_not_specialize":
                return frozenset(map(str, ast.literal_eval(keyword.value)))
    return frozenset()
