"""Shapes, elements and layouts as MLIR's types spell them: `tensor<128x64x!tt.ptr<f16>, #blocked>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TENSOR = re.compile(r"(?:tensor|memdesc)?<((?:\d+x)*)(?!\d+x)(!tt\.ptr<[^<>]*>|[\w.]+)((?:, .*)?)>$", re.DOTALL)
_SHAPE = re.compile(r"\d+(x\d+)*")
_BITS: Final = {"index": 64, "i1": 8}
"""A truth value takes a byte in memory."""


@dataclass(frozen=True)
class TensorType:
    shape: tuple[int, ...]
    element: str
    layout: str
    """The first attribute after the element: `#blocked`, `#ttg.slice<{…}>`."""
    allocated: tuple[int, ...] = ()
    """The shape of the whole that a part of shared memory was cut out of; its own where it was not."""

    @property
    def element_bits(self) -> int:
        return element_bits(self.element)

    @property
    def elements(self) -> int:
        count = 1
        for extent in self.shape:
            count *= extent
        return count


def element_bits(name: str) -> int:
    """
    >>> element_bits("f16"), element_bits("f8E4M3FN"), element_bits("bf16"), element_bits("i1")
    (16, 8, 16, 8)
    """
    if name in _BITS:
        return _BITS[name]
    match = re.match(r"[a-z]+(\d+)", name)
    return int(match[1]) if match else 0


def parse_type(text: str) -> TensorType | None:
    """A tensor, memory descriptor or pointer; None for anything else.

    >>> parse_type("tensor<128x64x!tt.ptr<f16>, #blocked>")
    TensorType(shape=(128, 64), element='f16', layout='#blocked', allocated=(128, 64))
    >>> parse_type("!ttg.memdesc<3x64xf16, #shared, #smem, mutable>").layout
    '#shared'
    >>> parse_type("!ttg.memdesc<128x16xf16, #shared, #smem, mutable, 128x64>").allocated
    (128, 64)
    """
    plain = text.strip().removeprefix("!ttg.")
    if plain.startswith("!tt.ptr<"):
        return TensorType((), _pointee(plain), "")
    match = _TENSOR.fullmatch(plain)
    if match is None:
        return None
    shape = tuple(int(part) for part in match[1].split("x") if part)
    attributes = split_outer(match[3].removeprefix(", "))
    whole = [int(part) for part in attributes[-1].split("x")] if _SHAPE.fullmatch(attributes[-1]) else shape
    return TensorType(shape, _pointee(match[2]), attributes[0], tuple(whole)[-len(shape) :] if shape else ())


def split_outer(text: str, separator: str = ", ") -> list[str]:
    """The parts between separators outside of brackets.

    >>> split_outer("a<b, c>, d")
    ['a<b, c>', 'd']
    """
    parts, depth, begin, at = [], 0, 0, 0
    while at < len(text):
        if text[at] in "<([{":
            depth += 1
        elif text[at] in ">)]}" and text[at - 1 : at + 1] != "->":
            depth -= 1
        elif depth == 0 and text.startswith(separator, at):
            parts.append(text[begin:at])
            at += len(separator)
            begin = at
            continue
        at += 1
    return [*parts, text[begin:]]


def _pointee(text: str) -> str:
    match = re.match(r"!tt\.ptr<([^,<>]+)", text)
    return match[1] if match else text
