"""Launches of Triton kernels with a change that the kernel lab suggests: options, tiles, and aligned arguments."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from warplens.planning.triton_units import parameters
from warplens.proof.experiments.source_grids import Tile, grid_with, kernel_definition
from warplens.proof.experiments.unit_edits import NoExperiment
from warplens_lab.compiling.signature import DIVISOR
from warplens_lab.suggesting.counterfactual import Change
from warplens_run.formats.replay_plan import DTYPES, Argument, SourceKernel, TensorView, Unit

GENERATED: Final = "Inductor writes its source and chooses its arguments"
SHARED: Final = "{} shares its memory with another argument, which cannot be moved"


@dataclass
class KernelSources:
    """Texts by the name that units have for them; sources that were edited are added."""

    texts: dict[str, str]
    edited: dict[str, str] = field(default_factory=dict)

    def text_of(self, kernel: SourceKernel) -> str:
        return self.edited.get(kernel.source, "") or self.texts.get(kernel.source, "")

    def add(self, kernel: SourceKernel, text: str) -> str:
        """The name of the edited source."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        name = f"{kernel.kernel}-{digest}.py"
        self.edited[name] = text
        return name


def changed_launch(unit: Unit, change: Change, sources: KernelSources) -> Unit:
    """The same launch after the change; raises `NoExperiment` where it cannot be made from what is recorded."""
    kernel = unit.triton
    assert kernel is not None
    if not kernel.grid:
        unit = _of_inductor(unit, change)
    else:
        names = parameters(sources.text_of(kernel), kernel.kernel)
        unit = _with_options(unit, change, names)
        unit = _with_tiles(unit, change, names, sources)
        unit = _with_alignment(unit, change, names, sources)
    return replace(unit, id=f"{unit.id}.lab")


def change_text(unit: Unit, change: Change, sources: KernelSources) -> str:
    """`num_warps 4 → 8`; what a launch did not record has no value before."""
    assert unit.triton is not None
    names = parameters(sources.text_of(unit.triton), unit.triton.kernel)
    before = dict(unit.triton.config)
    if unit.triton.grid:
        before |= {name: argument.value for name, argument in zip(names, unit.arguments, strict=False)
                   if argument.kind == "int"}  # fmt: skip
    parts = [
        f"{name} {before[name]} → {value}" if name in before else f"{name}={value}"
        for name, value in (*change.constants, *change.options)
    ]
    for name in change.divisible:
        number = before.get(name)
        is_number = isinstance(number, int) and power_of_two(number) > 1
        parts.append(
            _line(name, int(number)) if is_number and number is not None else f"{name} at a multiple of 16 bytes"
        )
    return ", ".join(parts)


def power_of_two(number: int) -> int:
    """The largest that divides it, at most 16.

    >>> power_of_two(1000), power_of_two(1001), power_of_two(64)
    (8, 1, 16)
    """
    return min(number & -number, DIVISOR) if number > 0 else 1


def _line(name: str, number: int) -> str:
    """Of source: it changes no value that was recorded, and shows the compiler what divides it."""
    divisor = power_of_two(number)
    return f"{name} = {name} // {divisor} * {divisor}"


def _of_inductor(unit: Unit, change: Change) -> Unit:
    """Its launcher computes the grid from the configuration."""
    assert unit.triton is not None
    if change.divisible:
        raise NoExperiment(GENERATED)
    config = {**unit.triton.config, **dict(change.constants), **dict(change.options)}
    return replace(unit, triton=replace(unit.triton, config=config))


def _with_options(unit: Unit, change: Change, names: Sequence[str]) -> Unit:
    assert unit.triton is not None
    arguments = list(unit.arguments)
    for name, value in change.options:
        if name not in names:
            continue
        # Passed by name it is both, the option and the parameter.
        place = names.index(name)
        if arguments[place].value != unit.triton.config.get(name):
            raise NoExperiment(f"{name} is a parameter of the kernel with a value of its own")
        arguments[place] = replace(arguments[place], value=value)
    config = {**unit.triton.config, **dict(change.options)}
    return replace(unit, arguments=tuple(arguments), triton=replace(unit.triton, config=config))


def _with_tiles(unit: Unit, change: Change, names: Sequence[str], sources: KernelSources) -> Unit:
    assert unit.triton is not None
    for name, value in change.constants:
        kernel, place = unit.triton, names.index(name)
        values = {own: given.value for own, given in zip(names, unit.arguments, strict=True) if given.kind == "int"}
        tile = Tile(name, values.get(name, 0), value)
        grid = grid_with(sources.text_of(kernel), kernel.kernel, kernel.grid, values, tile)
        arguments = list(unit.arguments)
        arguments[place] = replace(arguments[place], value=value)
        unit = replace(unit, arguments=tuple(arguments), triton=replace(kernel, grid=grid))
        assert unit.triton is not None
    return unit


def _with_alignment(unit: Unit, change: Change, names: Sequence[str], sources: KernelSources) -> Unit:
    """Numbers by a line of source, tensors by where they begin."""
    lines: list[str] = []
    arguments = list(unit.arguments)
    for name in change.divisible:
        place = names.index(name)
        given = arguments[place]
        if given.kind == "int":
            lines.append(_checked_line(name, int(given.value)))
        else:
            arguments[place] = _aligned(given, name, unit)
    unit = replace(unit, arguments=tuple(arguments))
    if not lines:
        return unit
    assert unit.triton is not None
    text = with_first_lines(sources.text_of(unit.triton), unit.triton.kernel, lines)
    return replace(unit, triton=replace(unit.triton, source=sources.add(unit.triton, text)))


def _checked_line(name: str, number: int) -> str:
    if power_of_two(number) == 1:
        raise NoExperiment(f"{name} is {number} in the recorded launch: only padded tensors would make it even")
    return _line(name, number)


def _aligned(given: Argument, name: str, unit: Unit) -> Argument:
    view = given.tensor
    if view is None:
        raise NoExperiment(f"{name} is not a tensor that can be moved")
    if sum(other.storage == view.storage for other in _views(unit.arguments)) > 1:
        raise NoExperiment(SHARED.format(name))
    elements = max(1, DIVISOR // DTYPES[view.dtype])
    offset = view.offset // elements * elements
    if offset == view.offset:
        raise NoExperiment(f"{name} is aligned, and the kernel is not specialised for it")
    return replace(given, tensor=replace(view, offset=offset))


def _views(arguments: Sequence[Argument]) -> list[TensorView]:
    own = [argument.tensor for argument in arguments if argument.tensor is not None]
    return [*own, *(view for argument in arguments for view in _views(argument.items))]


def with_first_lines(source: str, function: str, lines: Sequence[str]) -> str:
    """The source with statements before the first one of a function.

    >>> print(with_first_lines("def f(n):\\n    return n", "f", ["n = n // 8 * 8"]))
    def f(n):
        n = n // 8 * 8
        return n
    """
    body = kernel_definition(source, function).body
    is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    first = body[1] if is_text and len(body) > 1 else body[0]
    rows = source.split("\n")
    if rows[first.lineno - 1][: first.col_offset].strip():
        raise NoExperiment(f"the body of {function} has no line of its own")
    indent = " " * first.col_offset
    return "\n".join([*rows[: first.lineno - 1], *(indent + line for line in lines), *rows[first.lineno - 1 :]])
