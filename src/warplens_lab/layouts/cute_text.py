"""CuTe's layouts as texts: as CuTe prints them, and as C++ writes them.

printed   (8,64):(64,1), Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_2),_64):((_64,_512),_1)
types     Layout<Shape<_8,_64>,Stride<_64,_1>>, ComposedLayout<Swizzle<3,3,3>,_0,Layout<…>>
calls     composition(Swizzle<5,0,5>{}, make_layout(make_shape(Int<32>{}, _32{}), GenRowMajor{})),
          tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, Shape<_128,_64>{})
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Final, NoReturn

from warplens_lab.layouts.cute import (
    CuteExpression,
    CuteLayout,
    CuteSwizzle,
    IntTuple,
    compact,
    compact_ordered,
    compact_right,
    leaves,
    tiled,
    tuple_text,
)
from warplens_lab.layouts.elements import bits_of, is_element
from warplens_run.base import bounded
from warplens_run.base.errors import UsageError

LARGEST: Final = 1 << 20
"""Elements of a tile; shared memory holds 228 KiB at most."""
STARTS: Final = re.compile(
    r"(?:(?:static|constexpr|const)\s+)*(?:auto|using)\b|(?:cute|cutlass|GMMA|UMMA)::|decltype\s*\(|S(?:w(?:izzle)?)?\s*<"
    r"|(?:Composed)?Layout(?:_\w+_Atom)?\s*<|(?:make_\w+|composition|tile_to_shape)\s*\("
    r"|smem_ptr|\(|_?\d"
)
"""How a text of CuTe begins."""
_TOKEN = re.compile(r"\s*(?:(?P<number>_?-?\d+)|(?P<word>[A-Za-z_∘](?:\w|::)*)|(?P<mark>[<>(),:\[\]{}]))")
_STATEMENT = re.compile(r"(?:(?:static|constexpr|const|auto|using)\s+)*(?:\w+\s*=(?!=)\s*)?")
_TUPLES: Final = ("Shape", "Stride", "Step", "Tile", "Coord", "tuple")
_TUPLE_CALLS: Final = ("make_shape", "make_stride", "make_step", "make_tile", "make_coord", "make_tuple")
_NUMBERS: Final = ("Int", "C", "constant", "integral_constant")
_STRIDES: Final[dict[str, Callable[[IntTuple], IntTuple]]] = {
    "GenColMajor": compact,
    "LayoutLeft": compact,
    "GenRowMajor": compact_right,
    "LayoutRight": compact_right,
}
_LAYOUTS: Final = ("Layout", "make_layout", "make_ordered_layout")
_COMPOSED: Final = ("ComposedLayout", "composition", "make_composed_layout")
_ATOM = re.compile(r"Layout_(?P<major>MN|K)_(?P<width>INTER|SW32|SW64|SW128)_Atom")
_ATOM_ROW_BITS: Final = {"INTER": 128, "SW32": 256, "SW64": 512, "SW128": 1024}
_POINTER = re.compile(r"_?(?:\w*ptr)\[(?P<bits>\d{1,4})b\](?:\(\w*\))?|smem_ptr_flag_bits<\s*(?P<flag>\d{1,4})\s*>")


@dataclass(frozen=True)
class _Pointer:
    """Elements of some bits: what stands left of it moves bytes."""

    bits: int
    element: str = ""


_Part = CuteSwizzle | CuteLayout | _Pointer | int


def parse_cute(text: str) -> CuteExpression:
    """
    >>> str(parse_cute("Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)").layout)
    '(8,64):(64,1)'
    >>> parse_cute("composition(Swizzle<5, 0, 5>{}, make_layout(Shape<_32,_32>{}, GenRowMajor{}))").outer
    (CuteSwizzle(bits=5, base=0, shift=5),)
    """
    try:
        return _Parser(text).whole()
    except RecursionError:
        raise UsageError("a CuTe layout nested too deep to read") from None


class _Parser:
    """One function per rule of the grammar; errors name the part that is wrong and where it stands."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(self._tokens())
        self.at = 0

    def whole(self) -> CuteExpression:
        """A layout, with the functions that are applied to its offsets before it."""
        is_type = self._take("decltype")
        if is_type:
            self._expect("(")
        parts = self._composition()
        if is_type:
            self._expect(")")
        if self.at < len(self.tokens):
            self._fail(f"{self._peek()!r} is not expected here; layouts are composed by 'o'")
        *outer, last = parts
        if isinstance(last, int) and len(self.tokens) == 1:
            last = CuteLayout(last, 1)
        if isinstance(last, CuteSwizzle):
            self._fail(f"{last} is not applied to a layout; write {last} o Shape:Stride", len(self.text))
        if not isinstance(last, CuteLayout):
            self._fail("the last part of a composition is not a layout", len(self.text))
        if last.size > LARGEST:
            self._fail(f"{tuple_text(last.shape)} has {last.size:,} elements, more than {LARGEST:,}", 0)
        pointer = next((part for part in outer if isinstance(part, _Pointer)), _Pointer(0))
        functions = tuple(part for part in outer if not isinstance(part, _Pointer))
        return CuteExpression(last, functions, pointer.bits, pointer.element)

    def _composition(self) -> list[_Part]:
        parts = self._term()
        while self._take("o") or self._take("∘"):
            parts += self._term()
        return parts

    def _term(self) -> list[_Part]:
        start = self._place()
        if _POINTER.match(self.text, start):
            return [self._pointer()]
        word = self._peek()
        if word in ("Swizzle", "Sw", "S"):
            swizzle = self._swizzle()
            # A tensor prints its pointer without an 'o': Sw<3,4,3>_smem_ptr[16b](0x7f…)
            return [swizzle, self._pointer()] if self._peek().startswith("_smem_ptr") else [swizzle]
        if word in _COMPOSED:
            return self._composed()
        if word in _LAYOUTS:
            return [self._made_layout()]
        if word == "tile_to_shape":
            return self._tile_to_shape()
        if _ATOM.fullmatch(word):
            return self._atom()
        if word[:1].isalpha() and word not in (*_TUPLES, *_TUPLE_CALLS, *_NUMBERS):
            self._fail(f"{word!r} is not understood")
        shape = self._tuple()
        if self._take(":"):
            return [self._layout(shape, self._tuple(), start)]
        return [shape] if isinstance(shape, int) else [self._layout(shape, compact(shape), start)]

    def _composed(self) -> list[_Part]:
        """`composition(A, B)`, `composition(A, offset, B)` and `ComposedLayout<A, Offset, B>`: A after B."""
        start, word = self._place(), self._next()
        closing = self._open(word)
        parts = self._composition()
        while self._take(","):
            if self._peek() in (*_TUPLES, *_TUPLE_CALLS):
                self._fail(f"{word} mode by mode, with a tuple, is not understood")
            parts += self._composition()
        self._close(closing)
        if not isinstance(parts[-1], CuteLayout):
            self._fail(f"the last part of {word} is not a layout", start)
        return parts

    def _made_layout(self) -> CuteLayout:
        """`make_layout(Shape, Stride)`, `make_layout(A, B)` of layouts as modes, `Layout<Shape<…>, Stride<…>>`."""
        start, word = self._place(), self._next()
        closing = self._open(word)
        if self._peek() in _LAYOUTS:
            modes = [self._made_layout()]
            while self._take(","):
                modes.append(self._made_layout())
            self._close(closing)
            return CuteLayout(tuple(mode.shape for mode in modes), tuple(mode.stride for mode in modes))
        shape = self._tuple()
        stride = compact(shape)
        if self._take(","):
            if word == "make_ordered_layout":
                stride = self._ordered(shape)
            elif self._peek() in _STRIDES:
                stride = _STRIDES[self._next()](shape)
                self._braces()
            else:
                stride = self._tuple()
        self._close(closing)
        return self._layout(shape, stride, start)

    def _ordered(self, shape: IntTuple) -> IntTuple:
        start, order = self._place(), self._tuple()
        modes = (shape,) if isinstance(shape, int) else shape
        numbers = (order,) if isinstance(order, int) else order
        if len(numbers) != len(modes) or not all(isinstance(number, int) for number in numbers):
            self._fail(
                f"the order {tuple_text(order)} does not have a number for each mode of {tuple_text(shape)}", start
            )
        strides = compact_ordered(modes, leaves(order))
        return strides[0] if isinstance(shape, int) else strides

    def _tile_to_shape(self) -> list[_Part]:
        start, word = self._place(), self._next()
        closing = self._open(word)
        *outer, atom = self._composition()
        if not isinstance(atom, CuteLayout):
            self._fail("tile_to_shape repeats a layout", start)
        self._expect(",")
        at, shape = self._place(), self._tuple()
        extents = [prod(leaves(mode)) for mode in ((shape,) if isinstance(shape, int) else shape)]
        if len(extents) < len(atom.modes) or min(extents) < 1:
            self._fail(f"{atom} cannot be repeated over {tuple_text(shape)}", at)
        order = list(range(len(extents)))
        if self._take(","):
            order = self._mode_order(len(extents))
        self._close(closing)
        furthest = sum(
            (extent - 1) * step for extent, step in zip(leaves(atom.shape), leaves(atom.stride), strict=True)
        )
        if furthest + 1 != atom.size:
            self._fail(f"tile_to_shape of {atom}, which has gaps, is not understood", start)
        return [*outer, tiled(atom, extents, order)]

    def _mode_order(self, modes: int) -> list[int]:
        start = self._place()
        if self._peek() in _STRIDES:
            is_left = _STRIDES[self._next()] is compact
            self._braces()
            return list(range(modes)) if is_left else list(reversed(range(modes)))
        order = self._tuple()
        if len(leaves(order)) != modes:
            self._fail(f"the order {tuple_text(order)} does not have {modes} numbers", start)
        return leaves(order)

    def _atom(self) -> list[_Part]:
        """The operands of wgmma and tcgen05: eight rows (columns of MN-major ones) of 16, 32, 64 or 128 bytes."""
        match = _ATOM.fullmatch(self._next())
        assert match is not None
        self._expect("<")
        start, element = self._place(), self._next()
        if not is_element(element):
            self._fail(f"{element!r} is not a known type of element", start)
        self._close(">")
        across = _ATOM_ROW_BITS[match["width"]] // bits_of(element)
        shape, stride = ((8, across), (across, 1)) if match["major"] == "K" else ((across, 8), (1, across))
        swizzle = CuteSwizzle((_ATOM_ROW_BITS[match["width"]] // 128).bit_length() - 1, 4, 3)
        return [swizzle, _Pointer(bits_of(element), element), CuteLayout(shape, stride)]

    def _layout(self, shape: IntTuple, stride: IntTuple, start: int) -> CuteLayout:
        if any(extent < 1 for extent in leaves(shape)):
            self._fail(f"the shape {tuple_text(shape)} has an extent below 1", start)
        if not _congruent(shape, stride):
            self._fail(f"the stride {tuple_text(stride)} is not nested as the shape {tuple_text(shape)} is", start)
        return CuteLayout(shape, stride)

    def _swizzle(self) -> CuteSwizzle:
        start = self._place()
        self.at += 1
        numbers = self._list("<", ">") if self._peek() == "<" else []
        if len(numbers) != 3 or not all(isinstance(number, int) for number in numbers):
            self._fail("a swizzle has three numbers, Swizzle<B,M,S>", start)
        bits, base, shift = leaves(tuple(numbers))
        if bits < 0 or base < 0 or max(bits, base, abs(shift)) > 30:
            self._fail(f"Swizzle<{bits},{base},{shift}>: B and M are at least 0, none is above 30", start)
        if abs(shift) < bits:
            self._fail(f"Swizzle<{bits},{base},{shift}>: S must be at least B, or the bits would overlap", start)
        self._braces()
        return CuteSwizzle(bits, base, shift)

    def _pointer(self) -> _Pointer:
        """`smem_ptr[16b](unset)`, or the type `smem_ptr_flag_bits<16>`."""
        match = _POINTER.match(self.text, self._place())
        bits = int(match["bits"] or match["flag"]) if match else 0
        if match is None or bits not in (8, 16, 32, 64, 128):
            self._fail("a pointer is written smem_ptr[16b](unset), with 8, 16, 32, 64 or 128 bits")
        while self.at < len(self.tokens) and self._place() < match.end():
            self.at += 1
        self._braces()
        return _Pointer(bits)

    def _tuple(self) -> IntTuple:
        token = self._peek()
        if token in _TUPLES:
            self.at += 1
            values = self._list("<", ">")
            self._braces()
            return tuple(values)
        if token in _TUPLE_CALLS:
            self.at += 1
        if self._peek() == "(":
            return tuple(self._list("(", ")"))
        if token in _NUMBERS:
            return self._constant()
        if not bounded.is_whole(token.lstrip("_").removeprefix("-"), 0):
            self._fail(f"expected a number or '(', got {token[:40] or 'nothing'!r}")
        self.at += 1
        self._braces()
        return int(token.lstrip("_"))

    def _constant(self) -> int:
        """`Int<32>{}` or `integral_constant<int, 32>{}`"""
        self.at += 1
        self._expect("<")
        if self._take("int"):
            self._expect(",")
        value = self._tuple()
        if not isinstance(value, int):
            self._fail(f"expected a number, got {tuple_text(value)}")
        self._close(">")
        return value

    def _list(self, opening: str, closing: str) -> list[IntTuple]:
        self._expect(opening)
        values = [self._tuple()]
        while self._take(","):
            values.append(self._tuple())
        self._expect(closing)
        return values

    def _open(self, word: str) -> str:
        """The bracket after a name; gives the one that closes it."""
        closing = {"<": ">", "(": ")"}.get(self._peek(), "")
        if not closing:
            self._fail(f"expected '(' or '<' after {word}, got {self._peek() or 'nothing'!r}")
        self.at += 1
        return closing

    def _close(self, closing: str) -> None:
        self._expect(closing)
        if closing == ">":
            self._braces()

    def _braces(self) -> None:
        """`{}` or `()` behind a type makes a value of it."""
        for pair in ("{}", "()"):
            if [token for token, _ in self.tokens[self.at : self.at + 2]] == list(pair):
                self.at += 2

    def _expect(self, mark: str) -> None:
        if not self._take(mark):
            self._fail(f"expected {mark!r}, got {self._peek() or 'nothing'!r}")

    def _take(self, token: str) -> bool:
        if self._peek() != token:
            return False
        self.at += 1
        return True

    def _next(self) -> str:
        token = self._peek()
        self.at += 1
        return token

    def _peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    def _place(self) -> int:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else len(self.text)

    def _tokens(self) -> Iterator[tuple[str, int]]:
        """Words without their namespaces, numbers and marks, each with where it begins."""
        statement = _STATEMENT.match(self.text)
        at = statement.end() if statement else 0
        end = len(self.text.rstrip().removesuffix(";"))
        while self.text[at:end].strip():
            match = _TOKEN.match(self.text, at, end)
            if match is None:
                start = at + len(self.text[at:]) - len(self.text[at:].lstrip())
                self._fail(f"{self.text[start]!r} is not part of a CuTe layout", start)
            token = match[0].strip().rpartition("::")[2]
            yield token, match.end() - len(token)
            at = match.end()

    def _fail(self, problem: str, place: int | None = None) -> NoReturn:
        place = self._place() if place is None else place
        where = f"at character {place + 1} of" if place < len(self.text) else "at the end of"
        raise UsageError(f"{problem}, {where} {self.text!r}", hint="such as Swizzle<3,4,3> o (8,64):(64,1)")


def _congruent(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(_congruent(*pair) for pair in zip(shape, stride, strict=True))
