"""Plain values of arguments: from the text that a profiler or a schema's default has, by the parameter's type."""

from __future__ import annotations

import re
from typing import Final

from warplens.planning.recorded import SCALAR_TYPES
from warplens.planning.schemas import OpParameter
from warplens_run.base import bounded
from warplens_run.formats.replay_plan import DTYPES, Argument

NONE: Final = Argument("none")
WHOLE: Final = re.compile(r"-?\d{1,19}")
NUMBER: Final = re.compile(r"-?(\d+(?:\.\d*)?|\.\d+)(e[-+]?\d+)?|-?inf|nan", re.IGNORECASE)
BOOLS: Final = {"true": True, "false": False}
LAYOUTS: Final = {"0": "strided"}
MEMORY_FORMATS: Final = {
    "0": "contiguous_format",
    "1": "preserve_format",
    "2": "channels_last",
    "3": "channels_last_3d",
}
CHOICES: Final = {
    # texts that a plain trace leaves out: what they can be, most likely first
    "approximate": ("none", "tanh"),
    "rounding_mode": ("floor", "trunc"),
    "reduce": ("sum", "mean", "prod", "amax", "amin", "add", "multiply"),
    "padding": ("valid", "same"),
}


def scalar(text: str, base: str) -> Argument | None:
    """
    >>> scalar("1.", "Scalar")
    Argument(kind='float', value=1.0, tensor=None, items=())
    >>> scalar("1.", "int") is None
    True
    """
    lowered = text.strip().lower()
    if base in ("bool", "Scalar") and lowered in BOOLS:
        return Argument("bool", BOOLS[lowered])
    if base == "bool" and lowered in ("0", "1"):
        return Argument("bool", lowered == "1")
    if base in ("int", "Scalar") and bounded.is_whole(lowered):
        return Argument("int", bounded.whole(lowered))
    if base in ("float", "Scalar", "complex") and NUMBER.fullmatch(lowered):
        return Argument("float", float(lowered))  # bounded: infinity and NaN are arguments
    return None


def scalars(text: str, base: str) -> Argument | None:
    """A list such as `[1, 1]`; a bare number is a list of one."""
    inside = text.strip().removeprefix("[").removesuffix("]").strip()
    parts = [part.strip() for part in inside.split(",")] if inside else []
    values = [scalar(part, base) for part in parts]
    readable = [value for value in values if value is not None]
    return Argument("list", items=tuple(readable)) if len(readable) == len(values) else None


def coded(text: str, base: str) -> Argument | None:
    """Enumerations, which profilers write as numbers: dtypes, layouts, memory formats."""
    if base == "ScalarType":
        number = bounded.whole(text, -1)
        name = SCALAR_TYPES[number] if 0 <= number < len(SCALAR_TYPES) else ""
        return Argument("dtype", name) if name in DTYPES else None
    if base == "Layout":
        return Argument("layout", LAYOUTS[text]) if text in LAYOUTS else None
    if base == "MemoryFormat":
        return Argument("memory_format", MEMORY_FORMATS[text]) if text in MEMORY_FORMATS else None
    return None


def default_of(parameter: OpParameter) -> Argument | None:
    """The default that a schema has for an argument; None if it has none."""
    text = parameter.default
    if text is None:
        return NONE if parameter.optional or parameter.base == "Generator" else None
    if text == "None":
        return NONE
    if text.startswith('"') and text.endswith('"'):
        return Argument("str", text[1:-1])
    if parameter.is_list:
        return scalars(text, parameter.base)
    if parameter.base in ("ScalarType", "Layout", "MemoryFormat"):
        return coded(text, parameter.base) or named_enum(text, parameter.base)
    return scalar(text, parameter.base)


def named_enum(text: str, base: str) -> Argument | None:
    kinds = {"MemoryFormat": ("memory_format", MEMORY_FORMATS.values()), "Layout": ("layout", LAYOUTS.values())}
    kind, names = kinds.get(base, ("", ()))
    return Argument(kind, text) if text in names else None
