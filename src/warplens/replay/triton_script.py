"""The Triton kernel of a unit as part of a plain Python file: its source, and the line that launches it.

A kernel that Inductor wrote is launched as plain Triton: its decorators, which would choose a configuration of their
own, make way for the grid and the configuration in the trace.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from warplens.replay.script_values import value_text
from warplens_run.base.errors import UsageError
from warplens_run.formats.replay_plan import Argument, ReplayPlan, Unit
from warplens_run.replay.triton_passing import passing_of

INDENT: Final = "    "
TRITON_DTYPES: Final = {
    # as PyTorch names them: as Triton does, where that is another name
    "bool": "int1", "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5", "float8_e4m3fnuz": "float8e4b8",
    "float8_e5m2fnuz": "float8e5b16",
}  # fmt: skip
DESCRIPTOR: Final = "triton.tools.tensor_descriptor"


def source_lines(plan: ReplayPlan, unit: Unit) -> Iterator[str]:
    """The kernel, with all that it reads."""
    assert unit.triton is not None
    text = plan.sources[unit.triton.source].text
    if any(argument.kind == "descriptor" for argument in unit.arguments):
        yield f"import {DESCRIPTOR}"
    yield from (text if unit.triton.grid else _without_tuning(text, unit)).strip().splitlines()


def launch_lines(plan: ReplayPlan, unit: Unit) -> Iterator[str]:
    """The body of `call`: the launch, and what it wrote."""
    assert unit.triton is not None
    grid = unit.triton.grid or unit.kernels[0].grid
    if not grid:
        raise UsageError(f"unit {unit.id} cannot be written: the trace does not record its grid")
    yield f"{unit.triton.kernel}[{grid}]("
    arguments = _named_arguments(plan, unit)
    options, is_named = unit.triton.config, True
    if unit.triton.grid:
        passing = passing_of(unit, [name for name, _ in arguments])
        options, is_named = passing.options, passing.is_named
    yield from (f"{INDENT}{name}={text}," if is_named else f"{INDENT}{text}," for name, text in arguments)
    yield from (f"{INDENT}{name}={value!r}," for name, value in options.items())
    yield ")"
    written = [value_text(argument, unit) for argument in unit.arguments if _is_written(argument, unit)]
    yield f"return [{', '.join(written)}]"


def _is_written(argument: Argument, unit: Unit) -> bool:
    return argument.tensor is not None and unit.storages[argument.tensor.storage].written


def _named_arguments(plan: ReplayPlan, unit: Unit) -> list[tuple[str, str]]:
    assert unit.triton is not None
    arguments = list(unit.arguments)
    names = parameters(plan.sources[unit.triton.source].text, unit.triton.kernel)
    if not unit.triton.grid:
        if not unit.triton.config:
            raise UsageError(
                f"unit {unit.id} cannot be written: the trace does not record its configuration",
                hint="its source is in the plan: warplens replay run",
            )
        names = [name for name in names if name not in unit.triton.config]
        # A launch may record its stream behind the arguments.
        if len(arguments) == len(names) + 1 and arguments[-1].kind == "int":
            arguments.pop()
    if len(names) != len(arguments):
        raise UsageError(f"unit {unit.id} cannot be written: {len(arguments)} arguments for {len(names)} parameters")
    return [(name, _text(argument, unit)) for name, argument in zip(names, arguments, strict=True)]


def _text(argument: Argument, unit: Unit) -> str:
    if argument.kind == "function":
        return str(argument.value)
    if argument.kind == "dtype":
        return f"triton.language.{TRITON_DTYPES.get(argument.value, argument.value)}"
    if argument.kind == "list":
        return "(" + "".join(f"{_text(item, unit)}, " for item in argument.items) + ")"
    if argument.kind == "descriptor":
        base, *sides = argument.items
        lists = [str([item.value for item in side.items]) for side in sides]
        padding = f", padding={argument.value!r}" if argument.value != "zero" else ""
        return f"{DESCRIPTOR}.TensorDescriptor({', '.join([value_text(base, unit), *lists])}{padding})"
    return value_text(argument, unit)


def parameters(text: str, kernel: str) -> list[str]:
    """
    >>> parameters("@triton.jit\\ndef f(x, n, BLOCK: tl.constexpr = 8):\\n    pass", "f")
    ['x', 'n', 'BLOCK']
    """
    definition = _function(ast.parse(text), kernel)
    return [part.arg for part in (*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs)]


def _function(tree: ast.Module, name: str) -> ast.FunctionDef:
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    raise UsageError(f"the source has no kernel {name}")


def _without_tuning(text: str, unit: Unit) -> str:
    """Imports and functions of Inductor's file; the kernel with Triton's own decorator only."""
    assert unit.triton is not None
    tree, lines = ast.parse(text), text.splitlines()
    kept: list[str] = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            kept += lines[node.lineno - 1 : node.end_lineno]
        elif isinstance(node, ast.FunctionDef):
            is_kernel = node.name == unit.triton.kernel
            first = node.lineno if is_kernel or not node.decorator_list else node.decorator_list[0].lineno
            kept += ["", "", *(["@triton.jit"] if is_kernel else []), *lines[first - 1 : node.end_lineno]]
    return "\n".join(kept)
