"""What every compilation of a kernel needs of Triton: the source that it compiles, and the programs of its wheel."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from warplens_lab.compiling.expressions import evaluated
from warplens_lab.compiling.importing import imported_kernel
from warplens_lab.compiling.signature import CONSTEXPR, TUPLE, KernelArgument
from warplens_lab.compiling.values import Dtype, Expression, Value

ArgumentPath = tuple[int, ...]


def source_of(function: Any, arguments: Sequence[KernelArgument]) -> Any:
    """What Triton compiles."""
    return _source_kind(function)(function, *_source_parts(arguments, function))


def _source_kind(function: Any) -> Any:
    from triton.compiler import ASTSource

    if hasattr(function, "is_gluon") and function.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource

        return GluonASTSource
    return ASTSource


def _source_parts(
    arguments: Sequence[KernelArgument], function: Any
) -> tuple[dict[str, Any], dict[ArgumentPath, Any], dict[ArgumentPath, Any]]:
    """Types by name, and by the argument's path the constants and what is known to be divisible."""
    constants: dict[ArgumentPath, Any] = {}
    attributes: dict[ArgumentPath, Any] = {}
    signature = {
        argument.name: _typed((at,), argument, function, constants, attributes) for at, argument in enumerate(arguments)
    }
    return signature, constants, attributes


def _typed(
    path: ArgumentPath,
    argument: KernelArgument,
    function: Any,
    constants: dict[ArgumentPath, Any],
    attributes: dict[ArgumentPath, Any],
) -> Any:
    if argument.type == TUPLE:
        items = enumerate(argument.items)
        return tuple(_typed((*path, at), item, function, constants, attributes) for at, item in items)
    if argument.is_one or argument.is_constant:
        constants[path] = 1 if argument.is_one else _constant(argument.value, function)
        return CONSTEXPR
    if argument.divisible:
        attributes[path] = [["tt.divisibility", 16]]
    return argument.type


def _constant(value: Value, function: Any) -> Any:
    if isinstance(value, Dtype):
        import triton.language as tl

        return tl.dtype(value.name)
    return evaluated(value, function.fn, imported_kernel) if isinstance(value, Expression) else value


def tool(name: str) -> str | None:
    """A program of the wheel, or one that the user set Triton to use."""
    import triton

    folder = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    return str(folder / name) if (folder / name).exists() else None
