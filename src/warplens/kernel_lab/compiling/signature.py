"""Kernel signatures, written as Triton's own ahead-of-time compiler takes them: `*fp16:16, i32, i32:1, 1024`.

One entry per parameter, in order. A type, with `:16` for a pointer or number that is divisible by 16 and `:1` for a
number that is 1; for a constexpr its value: a number, True, False, None, a quoted word, or a type's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from warplens.errors import UsageError

Literal = int | float | bool | str | None

ELEMENT_BITS: Final[Mapping[str, int]] = {
    **{f"{sign}{bits}": bits for sign in "iu" for bits in (8, 16, 32, 64)},
    **dict.fromkeys(("fp8e4nv", "fp8e4b8", "fp8e4b15", "fp8e5", "fp8e5b16"), 8),
    "i1": 1,
    "u1": 1,
    "fp16": 16,
    "bf16": 16,
    "fp32": 32,
    "fp64": 64,
}
"""Every type that Triton names, with its size."""
_INTEGERS: Final = tuple(name for name in ELEMENT_BITS if name[0] in "iu")
CONSTEXPR: Final = "constexpr"
DIVISOR: Final = 16
_DESCRIPTOR = re.compile(r"tensordesc<\w+\[[\d,\s]+\](,.*)?>")
_OUTER_COMMA = re.compile(r",(?![^<]*>)")
_FORMAT_HINT: Final = 'one entry per parameter, in order: "*fp16:16, i32:16, 1024"'


@dataclass(frozen=True)
class Dtype:
    """A constexpr that is a type, such as `tl.float16`."""

    name: str

    def __str__(self) -> str:
        return self.name

    def text(self) -> str:
        """
        >>> Dtype("i32").text(), Dtype("fp16").text()
        ('tl.int32', 'fp16')
        """
        # Bare names of integers are taken for the type of an argument: see `_constant`.
        return f"tl.{'u' * (self.name[0] == 'u')}int{self.name[1:]}" if self.name in _INTEGERS else self.name


Value = Literal | Dtype


@dataclass(frozen=True)
class KernelArgument:
    """One parameter as it is compiled. `value` counts where `type` is "constexpr"."""

    name: str
    type: str
    value: Value = None
    divisible: bool = False
    is_one: bool = False

    @property
    def is_constant(self) -> bool:
        return self.type == CONSTEXPR

    def text(self) -> str:
        if self.is_constant:
            return self.value.text() if isinstance(self.value, Dtype) else repr(self.value)
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
    """The signature that `text` says; constexprs at the end that have defaults may be omitted."""
    entries = [part.strip() for part in _OUTER_COMMA.split(text)] if text.strip() else []
    missing = parameter_names[len(entries) :]
    default_values = defaults or {}
    if len(entries) > len(parameter_names) or any(name not in default_values for name in missing):
        raise UsageError(
            f"the signature has {len(entries)} entries, the kernel {len(parameter_names)} parameters: "
            f"{', '.join(parameter_names)}",
            hint=_FORMAT_HINT,
        )
    arguments = [
        _argument(name, entry, name in constexpr_names) for name, entry in zip(parameter_names, entries, strict=False)
    ]
    return Signature((*arguments, *(KernelArgument(name, CONSTEXPR, default_values[name]) for name in missing)))


def parse_value(text: str) -> Value:
    """The value of a constexpr; anything that is not a number, truth value, None or type is a word.

    >>> parse_value("1024"), parse_value("None"), parse_value("fp16"), parse_value("'gelu'")
    (1024, None, Dtype(name='fp16'), 'gelu')
    """
    plain = text.strip()
    value = _literal(plain)
    return plain if value is _NO_LITERAL else value  # type: ignore[return-value]


_NO_LITERAL: Final = object()


def _literal(text: str) -> object:
    if text.removeprefix("tl.") in _DTYPES:
        return Dtype(_DTYPES[text.removeprefix("tl.")])
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return _NO_LITERAL
    return value if value is None or isinstance(value, (int, float, str)) else _NO_LITERAL


_DTYPES: Final[Mapping[str, str]] = {
    **{name: name for name in ELEMENT_BITS},
    **{f"float{bits}": f"fp{bits}" for bits in (16, 32, 64)},
    "bfloat16": "bf16",
    **{f"int{bits}": f"i{bits}" for bits in (1, 8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (1, 8, 16, 32, 64)},
    "float8e4nv": "fp8e4nv",
    "float8e5": "fp8e5",
}


def _argument(name: str, entry: str, is_constexpr: bool) -> KernelArgument:
    if is_constexpr:
        return KernelArgument(name, CONSTEXPR, _constant(name, entry))
    if entry == "None":
        return KernelArgument(name, CONSTEXPR, None)
    if _literal(entry.partition(":")[0]) is not _NO_LITERAL and entry.partition(":")[0] not in ELEMENT_BITS:
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
    value = _literal(entry)
    if value is _NO_LITERAL or entry in _INTEGERS:
        raise UsageError(
            f"{name} is a constexpr, so its entry is a value, not {entry!r}",
            hint="a number such as 1024, True, False, None, a quoted word, or a type such as fp16 or tl.int32",
        )
    return value  # type: ignore[return-value]


def _check_type(name: str, text: str) -> None:
    element = text.removeprefix("*").removeprefix("k") if text.startswith("*k") else text.removeprefix("*")
    if element in ELEMENT_BITS or text == "nvTmaDesc" or _DESCRIPTOR.fullmatch(text):
        return
    raise UsageError(f"{name}: unknown type {text!r}", hint=f"types: {', '.join(ELEMENT_BITS)}; pointers begin with *")


def _is_integer(type_name: str) -> bool:
    return type_name in ELEMENT_BITS and type_name[0] in "iu"


def _may_divide(type_name: str) -> bool:
    return type_name.startswith("*") or (_is_integer(type_name) and type_name not in ("i1", "u1"))
