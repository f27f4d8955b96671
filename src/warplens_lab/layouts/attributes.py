"""Layouts as texts: what TTGIR prints (`#ttg.blocked<{order = [1, 0], …}>`), what Gluon prints, and a short form.

`BlockedLayout(size_per_thread=[1, 8], …)` and `blocked([1, 8], …)` become the attribute that TTGIR would print.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from warplens_lab.layouts.bases import Vector, is_power_of_two
from warplens_lab.layouts.types import split_outer
from warplens_run.base.errors import UsageError

_HEAD = re.compile(r"#?(?:ttg|ttng|amdg|gluon)?\.?(?P<kind>\w+)\s*<(?P<body>.*)>", re.DOTALL)
_CALL = re.compile(r"(?:\w+\.)*(?P<name>\w+)\(.*\)", re.DOTALL)
_MMA: Final = ("warpsPerCTA", "instrShape")
CALLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    # Gluon's class or the short name: the kind in TTGIR, and its parameters in order, as TTGIR names them
    "BlockedLayout": ("blocked", ("sizePerThread", "threadsPerWarp", "warpsPerCTA", "order")),
    "SliceLayout": ("slice", ("dim", "parent")),
    "DistributedLinearLayout": ("linear", ("register", "lane", "warp", "block", "shape")),
    "DotOperandLayout": ("dot_op", ("opIdx", "parent", "kWidth")),
    "NVMMADistributedLayout": ("nvidia_mma", ("version", *_MMA)),
    "AMDMFMALayout": ("amd_mfma", ("version", "instrShape", "isTransposed", "warpsPerCTA")),
    "SwizzledSharedLayout": ("swizzled_shared", ("vec", "perPhase", "maxPhase", "order")),
    "PaddedSharedLayout": ("padded_shared", ("intervals", "offset", "block", "shape")),
    "NVMMASharedLayout": ("nvmma_shared", ("swizzlingByteWidth", "elementBitWidth", "rank", "transposed")),
    "SharedLinearLayout": ("shared_linear", ("offset", "block", "alignment")),
}
_RENAMED: Final = {
    "size_per_thread": "sizePerThread",
    "threads_per_warp": "threadsPerWarp",
    "warps_per_cta": "warpsPerCTA",
    "reg_bases": "register",
    "lane_bases": "lane",
    "warp_bases": "warp",
    "block_bases": "block",
    "operand_index": "opIdx",
    "k_width": "kWidth",
    "instr_shape": "instrShape",
    "per_phase": "perPhase",
    "max_phase": "maxPhase",
    "interval_padding_pairs": "intervals",
    "offset_bases": "offset",
    "swizzle_byte_width": "swizzlingByteWidth",
    "element_bitwidth": "elementBitWidth",
    "tiles_per_warp": "tilesPerWarp",
    "cga_layout": "CGALayout",
}
_UNUSED: Final = ("CGALayout", "fp4_padded", "tilesPerWarp", "elementBitWidth")
"""What Gluon prints besides, and the model does not need or checks itself."""
KINDS: Final = dict(CALLS.values())
_TURNED: Final = {"amd_mfma": ("transposed", "isTransposed")}
"""A name that means another parameter in one kind."""


@dataclass(frozen=True)
class Attribute:
    """A layout's kind and its values as texts; what is missing or not a number is an error that names it."""

    kind: str
    values: Mapping[str, str]

    def text(self, name: str) -> str:
        if name not in self.values:
            known = ", ".join(self.values) or "nothing"
            raise UsageError(f"{self.kind}: {name} is missing", hint=f"given: {known}")
        return self.values[name]

    def number(self, name: str, usual: int | None = None) -> int:
        if usual is not None and name not in self.values:
            return usual
        value = self._literal(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise UsageError(f"{self.kind}: {name} = {self.values[name]} is not a whole number")
        return value

    def numbers(self, name: str) -> Vector:
        value = self._literal(name)
        if not isinstance(value, (list, tuple)) or not _are_numbers(value):
            raise UsageError(f"{self.kind}: {name} = {self.values[name]} is not a list of whole numbers")
        return tuple(value)

    def powers(self, name: str) -> Vector:
        """Numbers that are powers of two, as all extents of a linear layout are."""
        numbers = self.numbers(name)
        for number in numbers:
            if not is_power_of_two(number):
                raise UsageError(f"{self.kind}: {name} has {number}, which is not a power of two")
        return numbers

    def vectors(self, name: str) -> tuple[Vector, ...]:
        value = self._literal(name)
        if not isinstance(value, list) or not all(isinstance(v, (list, tuple)) and _are_numbers(v) for v in value):
            raise UsageError(f"{self.kind}: {name} = {self.values[name]} is not a list of lists of whole numbers")
        return tuple(tuple(vector) for vector in value)

    def cluster(self) -> tuple[Vector, ...]:
        """How the blocks of a cluster share the tile: a vector for each bit of a block's number, in tiles."""
        if "CTAsPerCGA" in self.values and set(self.numbers("CTAsPerCGA")) - {1}:
            hint = "newer versions of Triton print CGALayout, such as CGALayout = [[1, 0]]"
            raise UsageError(f"{self.kind}: CTAsPerCGA = {self.values['CTAsPerCGA']} is not modelled", hint=hint)
        return self.vectors("CGALayout") if "CGALayout" in self.values else ()

    def is_true(self, name: str) -> bool:
        return self.values.get(name, "false").lower() == "true"

    def _literal(self, name: str) -> object:
        text = self.text(name)
        try:
            return ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise UsageError(f"{self.kind}: {name} = {text} cannot be read") from None


def _are_numbers(values: Sequence[object]) -> bool:
    return all(type(number) is int for number in values)


def parse_attribute(text: str) -> Attribute:
    """
    >>> parse_attribute("#ttg.slice<{dim = 1, parent = #ttg.blocked<{order = [0]}>}>").values
    {'dim': '1', 'parent': '#ttg.blocked<{order = [0]}>'}
    >>> parse_attribute("SwizzledSharedLayout(vec=8, per_phase=1, max_phase=8, order=[1, 0])").values
    {'vec': '8', 'perPhase': '1', 'maxPhase': '8', 'order': '[1, 0]'}
    """
    plain = text.strip()
    if plain.startswith("#") and end_of_attribute(plain, 0) < len(plain):
        return Attribute("", {})
    if match := _HEAD.fullmatch(plain):
        return Attribute(match["kind"], dict(_pairs(match["body"])))
    if match := _CALL.fullmatch(plain):
        return _called(plain, match["name"])
    return Attribute("", {})


def end_of_attribute(text: str, at: int) -> int:
    """Where the attribute ends that begins at a place of a text: behind the bracket that closes its first.

    >>> end_of_attribute("#ttg.slice<{dim = 1, parent = #mma}> tensor<…>", 0)
    36
    """
    opened: list[int] = []
    for place in range(at, len(text)):
        if text[place] in "<[{(":
            opened.append(place)
        elif text[place] in ">]})":
            if not opened or "<[{(".index(text[opened[-1]]) != ">]})".index(text[place]):
                raise UsageError(f"{text[place]!r} closes nothing, at character {place + 1} of {text!r}")
            opened.pop()
            if not opened:
                return place + 1
    if opened:
        raise UsageError(f"{text[opened[-1]]!r} is not closed, at character {opened[-1] + 1} of {text!r}")
    return len(text)


def _pairs(body: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for part in split_outer(body.strip(), ","):
        part = part.strip()
        if part.startswith("["):  # the intervals of a padded layout have no name
            intervals, _, part = part.partition("]")
            pairs.append(("intervals", f"{intervals}]"))
            part = part.strip()
        if part.startswith("{") and part.endswith("}"):
            pairs += _pairs(part[1:-1])
        elif part:
            name, equals, value = part.partition("=")
            if equals:  # what is missing is reported by name where it is needed
                pairs.append((name.strip(), value.strip()))
    return pairs


def _called(text: str, name: str) -> Attribute:
    """`blocked([1, 8], [4, 8], [4, 1], [1, 0])`, or as Gluon prints it."""
    kind, names = CALLS.get(name) or (name, KINDS.get(name, ()))
    try:
        call = ast.parse(re.sub(r"^(?:\w+\.)*", "", text), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "too deep"
        raise UsageError(f"{name}(…) cannot be read: {reason}") from None
    if not isinstance(call, ast.Call) or not names:
        return Attribute("", {})
    if len(call.args) > len(names):
        raise UsageError(f"{kind}: {len(call.args)} values, it has {len(names)}: {', '.join(names)}")
    values = {names[at]: _written(value) for at, value in enumerate(call.args)}
    for keyword in call.keywords:
        given = keyword.arg or ""
        short, long = _TURNED.get(kind, ("", ""))
        own = long if given == short else _RENAMED.get(given, given)
        if own not in names and own not in _UNUSED:
            raise UsageError(f"{kind}: it has no {given}", hint=f"it has {', '.join(names)}")
        values[own] = _written(keyword.value)
    if "version" in values:
        major, _, minor = values.pop("version").strip("[]() ").partition(",")
        values |= {"versionMajor": major.strip(), "versionMinor": minor.strip() or "0"}
    return Attribute(kind, values)


def _written(value: ast.expr) -> str:
    return ast.unparse(value)
