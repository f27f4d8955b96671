"""Calls of ops by name and overload, through the dispatcher."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from warplens_run.formats.replay_plan import MAX_CHOICES, Argument, Unit
from warplens_run.replay import bounds
from warplens_run.replay.faults import BadUnit, UnitRefused
from warplens_run.replay.imported import imported
from warplens_run.replay.op_rules import refusal
from warplens_run.replay.values import TensorSource, value_of

FILES: Final = re.compile(r"file|path|(^|_)(dir|url|uri)($|_)")
"""In the names of the texts that ops which read or write files are given."""


@dataclass(frozen=True)
class OpCall:
    """What can be called again and again; its results are dropped."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]
    makes_views: bool = False

    def __call__(self) -> None:
        if self.makes_views:
            self.checked()
        else:
            self.function(*self.args, **self.named)

    def checked(self) -> Any:
        """What it returns, which is within its memory."""
        if bounds.is_strided(self.function):
            bounds.check_strided(self.function, self.args, self.named)
        results = self.function(*self.args, **self.named)
        bounds.check_results(self.function, results)
        return results


def resolve(op: str, overload: str) -> Any:
    """The overload, or one line that says why not."""
    namespace, _, name = op.partition("::")
    shown = f"{op}.{overload}" if overload else op
    reason = refusal(op, imported())
    if reason:
        raise UnitRefused(f"{shown} is not replayed: {reason}")
    unknown = f"this PyTorch has no {shown}"
    try:
        function = getattr(getattr(getattr(torch.ops, namespace), name), overload or "default")
    except (AttributeError, RuntimeError) as error:
        raise BadUnit(unknown) from error
    if not isinstance(function, torch._ops.OpOverload) or not _is_dispatched(function):
        raise BadUnit(unknown)
    reason = _schema_refusal(function._schema)
    if reason:
        raise UnitRefused(f"{shown} is not replayed: {reason}")
    return function


def _is_dispatched(op: Any) -> bool:
    """TorchScript's interpreter has more ops (`aten::save`, `aten::warn`), which are reached by the same names."""
    return bool(torch._C._dispatch_has_kernel(op.name()))


def _schema_refusal(schema: Any) -> str:
    texts = (argument for argument in schema.arguments if "str" in str(argument.type))
    if any(FILES.search(argument.name) for argument in texts):
        return "it accesses files"
    if not any("Tensor" in str(part.type) for part in (*schema.arguments, *schema.returns)):
        return "it neither takes nor returns a tensor"
    return ""


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
    return OpCall(op, tuple(args), named, bounds.makes_views(op))


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
