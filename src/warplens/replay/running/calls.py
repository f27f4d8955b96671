"""Calls of ops by name and overload, through the dispatcher."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from warplens.replay.plan_file import MAX_CHOICES, Argument, Unit
from warplens.replay.running.faults import BadUnit, UnitRefused
from warplens.replay.running.values import TensorSource, value_of

NO_UNITS: Final = {
    # namespaces that no plan may call: they do no GPU work of their own, need other processes, or reach files
    "prim": "it is part of TorchScript's interpreter",
    "profiler": "it is part of the profiler",
    "export": "it is part of torch.export",
    "static_runtime": "it is part of TorchScript's interpreter",
    "debugprims": "it reads files",
    "c10d": "a collective needs the other processes",
    "_c10d_functional": "a collective needs the other processes",
    "_c10d_functional_autograd": "a collective needs the other processes",
    "symm_mem": "a collective needs the other processes",
    "_dtensor": "a collective needs the other processes",
}
FILES: Final = re.compile(r"file|path|(^|_)(dir|url|uri)($|_)")
"""In the names of the texts that ops which read or write files are given."""


@dataclass(frozen=True)
class OpCall:
    """What can be called again and again; its results are dropped."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]

    def __call__(self) -> None:
        self.function(*self.args, **self.named)


def resolve(op: str, overload: str) -> Any:
    """The overload, or one line that says why not."""
    namespace, _, name = op.partition("::")
    if namespace in NO_UNITS:
        raise UnitRefused(f"{op} is not replayed: {NO_UNITS[namespace]}")
    shown = f"{op}.{overload}" if overload else op
    unknown = f"this PyTorch has no {shown}" + ("" if namespace == "aten" else "; import the module that defines it")
    try:
        function = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError) as error:
        raise BadUnit(unknown) from error
    if not isinstance(function, torch._ops.OpOverload):
        raise BadUnit(unknown)
    texts = (argument for argument in function._schema.arguments if "str" in str(argument.type))
    if any(FILES.search(argument.name) for argument in texts):
        raise UnitRefused(f"{shown} is not replayed: it accesses files")
    return function


def bind(op: Any, arguments: tuple[Argument, ...], inputs: TensorSource, device: Any) -> OpCall:
    """Positional up to the schema's `*`, then by name; what a plan leaves out keeps its default."""
    schema = op._schema.arguments
    if len(arguments) > len(schema):
        raise BadUnit(f"{op.name()} takes {len(schema)} arguments, the plan has {len(arguments)}")
    args, named = [], {}
    for position, (argument, parameter) in enumerate(zip(arguments, schema, strict=False)):
        try:
            value = value_of(argument, inputs, device)
        except BadUnit as error:
            raise BadUnit(f"argument {position} ({parameter.name}): {error}") from error
        except RuntimeError as error:
            raise BadUnit(f"argument {position} ({parameter.name}): {str(error).partition(chr(10))[0]}") from error
        if parameter.kwarg_only:
            named[parameter.name] = value
        else:
            args.append(value)
    return OpCall(op, tuple(args), named)


def combinations(unit: Unit) -> list[tuple[Argument, ...]]:
    """The unit's arguments with each choice decided, in order, at most 32 of them."""
    return list(itertools.islice(itertools.product(*map(_alternatives, unit.arguments)), MAX_CHOICES))


def _alternatives(argument: Argument) -> list[Argument]:
    return list(itertools.islice(_choices_of(argument), MAX_CHOICES))


def _choices_of(argument: Argument) -> Iterator[Argument]:
    if argument.kind == "choice":
        for item in argument.items:
            yield from _choices_of(item)
    elif argument.kind == "list":
        for items in itertools.product(*map(_alternatives, argument.items)):
            yield replace(argument, items=items)
    else:
        yield argument
