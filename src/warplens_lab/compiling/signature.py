"""Kernel signatures, written as Triton's own ahead-of-time compiler takes them: `*fp16:16, i32, i32:1, 1024`.

One entry per parameter, in order, or `name=entry` in any order. A type, with `:16` for a pointer or number that is
divisible by 16 and `:1` for a number that is 1; `(i32, i32:16)` for a tuple; for a constexpr its value: a number, True,
False, None, a quoted word, a type's name, a layout such as `BlockedLayout([1], [32], [4], [0])`, or the name of a
function of the kernel's file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from warplens_lab.compiling.values import (
    ELEMENT_BITS,
    INTEGERS,
    NO_LITERAL,
    Dtype,
    Expression,
    Value,
    is_expression,
    literal,
    value_text,
)
from warplens_run.base.errors import UsageError

CONSTEXPR: Final = "constexpr"
TUPLE: Final = "tuple"
DIVISOR: Final = 16
_DESCRIPTOR = re.compile(r"tensordesc(_im2col)?<\w+\[[\d,\s]+\](,.*)?>")
_NAMED = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)\s*(.*)", re.DOTALL)
_FORMAT_HINT: Final = 'one entry per parameter, in order: "*fp16:16, i32:16, 1024", or by name: "x_ptr=*fp16:16, n=i32"'
_CONSTANT_HINT: Final = (
    "a number such as 1024, True, False, None, a quoted word, a type such as fp16 or tl.int32, a layout, or a function "
    "of the file"
)
_OPENING, _CLOSING, _QUOTES = "([{<", ")]}>", "'\""


@dataclass(frozen=True)
class KernelArgument:
    """One parameter as it is compiled. `value` counts where `type` is "constexpr", `items` where it is "tuple"."""

    name: str
    type: str
    value: Value = None
    divisible: bool = False
    is_one: bool = False
    items: tuple[KernelArgument, ...] = ()

    @property
    def is_constant(self) -> bool:
        return self.type == CONSTEXPR

    def text(self) -> str:
        if self.is_constant:
            return value_text(self.value)
        if self.type == TUPLE:
            return f"({', '.join(item.text() for item in self.items)})"
        return self.type + (":1" if self.is_one else f":{DIVISOR}" if self.divisible else "")


@dataclass(frozen=True)
class Signature:
    """
    >>> signature = parse("*fp32:16, i32, 1024", ["x", "n", "BLOCK"], ["BLOCK"])
    >>> signature.text()
    '*fp32:16, i32, 1024'
    >>> signature.with_divisible(["n"]).with_constants({"BLOCK": 256}).text()
    '*fp32:16, i32:16, 256'
    """

    arguments: tuple[KernelArgument, ...]

    def text(self) -> str:
        return ", ".join(argument.text() for argument in self.arguments)

    def named(self, name: str) -> KernelArgument:
        for argument in self.arguments:
            if argument.name == name:
                return argument
        raise UsageError(f"the kernel has no parameter {name!r}", hint=f"parameters: {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(argument.name for argument in self.arguments)

    def constants(self) -> dict[str, Value]:
        return {argument.name: argument.value for argument in self.arguments if argument.is_constant}

    def undivided(self) -> tuple[str, ...]:
        """The pointers and integers that are not known to be divisible by 16."""
        return tuple(a.name for a in self.arguments if _may_divide(a.type) and not a.divisible and not a.is_one)

    def with_divisible(self, names: Sequence[str]) -> Signature:
        changed = {name: replace(self.named(name), divisible=True) for name in names}
        return Signature(tuple(changed.get(argument.name, argument) for argument in self.arguments))

    def with_constants(self, values: Mapping[str, Value]) -> Signature:
        for name in values:
            if not self.named(name).is_constant:
                raise UsageError(f"{name} is not a constexpr of the kernel: a config cannot set it")
        return Signature(
            tuple(replace(a, value=values[a.name]) if a.name in values else a for a in self.arguments),
        )


def parse(
    text: str,
    parameter_names: Sequence[str],
    constexpr_names: Sequence[str],
    defaults: Mapping[str, Value] | None = None,
) -> Signature:
    """The signature that `text` says; parameters that have defaults may be omitted.

    >>> parse("BLOCK=64, x=*fp32", ["x", "BLOCK", "EVEN"], ["BLOCK", "EVEN"], {"EVEN": True}).text()
    '*fp32, 64, True'
    """
    entries = _by_name([part.strip() for part in outer_parts(text)], parameter_names)
    default_values = defaults or {}
    missing = [name for name in parameter_names if name not in entries and name not in default_values]
    if missing:
        raise UsageError(
            f"the signature has {len(entries)} entries, the kernel {len(parameter_names)} parameters: "
            f"{', '.join(parameter_names)}",
            hint=f"missing: {', '.join(missing)}; {_FORMAT_HINT}" if entries else _FORMAT_HINT,
        )
    return Signature(
        tuple(
            _argument(name, entries[name], name in constexpr_names)
            if name in entries
            else _default(name, default_values[name], name in constexpr_names)
            for name in parameter_names
        )
    )


def number_argument(name: str, value: object, *, specialised: bool = True) -> KernelArgument | None:
    """As Triton's just-in-time compiler specialises a number; None for what is not a number.

    >>> number_argument("n", 1024).text(), number_argument("n", 1).text(), number_argument("n", 1 << 31).text()
    ('i32:16', 'i32:1', 'i64:16')
    """
    if isinstance(value, bool):
        return KernelArgument(name, "u1")
    if isinstance(value, int):
        kind = "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        is_one = specialised and value == 1
        is_divisible = specialised and not is_one and value % DIVISOR == 0
        return KernelArgument(name, kind, divisible=is_divisible, is_one=is_one)
    if isinstance(value, float):
        return KernelArgument(name, "fp32")
    return None


def _default(name: str, value: Value, is_constexpr: bool) -> KernelArgument:
    number = None if is_constexpr else number_argument(name, value)
    return number or KernelArgument(name, CONSTEXPR, value)


def outer_parts(text: str) -> list[str]:
    """What the commas outside of brackets and quotes separate.

    >>> outer_parts("tensordesc<fp16[64,64], f(1, 'a,b')>, i32")
    ["tensordesc<fp16[64,64], f(1, 'a,b')>", ' i32']
    """
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote or character in _QUOTES:
            quote = "" if character == quote else quote or character
        depth += 0 if quote else (character in _OPENING) - (character in _CLOSING)
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts if text.strip() else []


def _by_name(entries: Sequence[str], parameter_names: Sequence[str]) -> dict[str, str]:
    """Entries without a name come first and are in order."""
    by_name: dict[str, str] = {}
    for at, entry in enumerate(entries):
        match = _NAMED.fullmatch(entry)
        name = match[1] if match else ""
        if match and name not in parameter_names:
            raise UsageError(f"the kernel has no parameter {name!r}", hint=f"parameters: {', '.join(parameter_names)}")
        if not match and len(by_name) == at and at >= len(parameter_names):
            raise UsageError(
                f"the signature has {len(entries)} entries, the kernel {len(parameter_names)} parameters: "
                f"{', '.join(parameter_names)}",
                hint=_FORMAT_HINT,
            )
        if not match and any(_NAMED.fullmatch(before) for before in entries[:at]):
            raise UsageError(f"{entry!r} follows entries with names: give its name too", hint=_FORMAT_HINT)
        name = name or parameter_names[at]
        if name in by_name:
            raise UsageError(f"{name} has two entries in the signature")
        by_name[name] = match[2].strip() if match else entry
    return by_name


def _argument(name: str, entry: str, is_constexpr: bool) -> KernelArgument:
    if is_constexpr:
        return KernelArgument(name, CONSTEXPR, _constant(name, entry))
    if entry == "None":
        return KernelArgument(name, CONSTEXPR, None)
    if entry.startswith("(") and entry.endswith(")"):
        parts = [part.strip() for part in outer_parts(entry[1:-1]) if part.strip()]
        return KernelArgument(
            name, TUPLE, items=tuple(_argument(f"{name}[{at}]", part, False) for at, part in enumerate(parts))
        )
    if literal(entry.partition(":")[0]) is not NO_LITERAL and entry.partition(":")[0] not in ELEMENT_BITS:
        raise UsageError(
            f"{name} is not a constexpr: its entry is a type, not the value {entry}",
            hint="for a number that is always 1 write i32:1; declare it `tl.constexpr` to compile a value in",
        )
    type_name, _, mark = entry.partition(":") if not entry.startswith("tensordesc") else (entry, "", "")
    type_name, mark = type_name.strip(), mark.strip()
    _check_type(name, type_name)
    if mark not in ("", "1", str(DIVISOR)):
        raise UsageError(f"{name}: Triton knows the hints :16 and :1, not :{mark}")
    if mark == "1" and not _is_integer(type_name):
        raise UsageError(f"{name}: only an integer can be :1, not {type_name}")
    if mark == str(DIVISOR) and not _may_divide(type_name):
        raise UsageError(f"{name}: {type_name} cannot be divisible by 16; only pointers and integers can")
    return KernelArgument(name, type_name, divisible=mark == str(DIVISOR), is_one=mark == "1")


def _constant(name: str, entry: str) -> Value:
    value = literal(entry)
    if value is NO_LITERAL and entry not in INTEGERS and is_expression(entry):
        return Expression(entry)
    if value is NO_LITERAL or entry in INTEGERS:
        raise UsageError(f"{name} is a constexpr, so its entry is a value, not {entry!r}", hint=_CONSTANT_HINT)
    assert value is None or isinstance(value, (int, float, str, Dtype))
    return value


def _check_type(name: str, text: str) -> None:
    element = text.removeprefix("*").removeprefix("k") if text.startswith("*k") else text.removeprefix("*")
    if element in ELEMENT_BITS or text == "nvTmaDesc" or _DESCRIPTOR.fullmatch(text):
        return
    raise UsageError(f"{name}: unknown type {text!r}", hint=f"types: {', '.join(ELEMENT_BITS)}; pointers begin with *")


def _is_integer(type_name: str) -> bool:
    return type_name in ELEMENT_BITS and type_name[0] in "iu"


def _may_divide(type_name: str) -> bool:
    return type_name.startswith("*") or (_is_integer(type_name) and type_name not in ("i1", "u1"))
