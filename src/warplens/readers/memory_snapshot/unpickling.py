"""Pickles of plain data, protocols 0 to 5: dicts, lists, tuples, strings, bytes, numbers, booleans and None.

A pickle is a program. This reader knows only the opcodes that build plain data; it has no function to call, no class to
look up and no attribute to set, and refuses a file with any other opcode. Sizes are compared with what is left of the
file before anything is made, numbers and keys are bounded, and containers may not be more than real files have.
Lists of nothing but references, which is what stacks are, become tuples, and equal ones one object.
See docs/decisions/0014-memory.md.
"""

from __future__ import annotations

import codecs
import struct
from typing import Any, Final, NoReturn

from warplens_run.base.errors import FormatError

MOST_PROTOCOL: Final = 5
CUT: Final = "if it was cut while it was copied or written, copy or write it again"
MOST_DIGITS: Final = 40
"""Of a number in text; addresses have 20."""
MOST_NUMBER_BYTES: Final = 16
LEAST_CONTAINER_BYTES: Final = 8
"""Of a real file for each of its dicts, lists and tuples: an empty one takes 64 bytes of memory."""
FREE_CONTAINERS: Final = 10_000
LARGEST_KEY: Final = 1 << 60
"""Larger numbers can be chosen so that all have the same hash."""
REFUSED: Final = {
    ord("c"): "GLOBAL", 0x93: "STACK_GLOBAL", ord("R"): "REDUCE", ord("b"): "BUILD", ord("i"): "INST", ord("o"): "OBJ",
    0x81: "NEWOBJ", 0x92: "NEWOBJ_EX", ord("P"): "PERSID", ord("Q"): "BINPERSID", 0x82: "EXT1", 0x83: "EXT2",
    0x84: "EXT4", 0x8F: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
}  # fmt: skip
"""Opcodes that call, look up, or make what no snapshot has."""
TWO_BYTES: Final = struct.Struct("<H").unpack_from
INTEGER: Final = struct.Struct("<i").unpack_from
FOUR_BYTES: Final = struct.Struct("<I").unpack_from
EIGHT_BYTES: Final = struct.Struct("<Q").unpack_from
FLOAT: Final = struct.Struct(">d").unpack_from
LONG_REFERENCE: Final = ord("j")
SHORT_REFERENCE: Final = ord("h")
APPENDS: Final = ord("e")
RUN: Final = 64
"""References one after the other that are looked for at once."""
LIST_OF_REFERENCES: Final = (b"]\x94(h", b"]\x94(j")
MORE_ITEMS: Final = (ord("("), ord("a"))
"""What follows a list that is not complete: 1,000 items are appended at a time."""
LENGTHS: Final = {
    # opcode of a text or bytes: bytes of its length, and whether it is a text
    0x8C: (1, True), ord("X"): (4, True), 0x8D: (8, True), ord("U"): (1, True), ord("T"): (4, True),
    ord("C"): (1, False), ord("B"): (4, False), 0x8E: (8, False),
}  # fmt: skip


def loads(data: bytes, where: str = "") -> Any:
    """What a pickle holds; a `FormatError` names the opcode that is refused, or where the file is damaged."""
    reader = _Reader(data, where)
    try:
        return reader.run()
    except (IndexError, struct.error):
        # Nobody keeps the position of the opcode that found nothing: of a file that is cut, its size says where.
        raise FormatError(f"the pickle ends early, after {len(data):,} bytes", where=where, hint=CUT) from None
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"the pickle is damaged ({type(error).__name__})", where=where) from None


class _Reader:
    def __init__(self, data: bytes, where: str) -> None:
        self._data, self._where = data, where
        self._at = 0
        self._containers = FREE_CONTAINERS + len(data) // LEAST_CONTAINER_BYTES

    def fail(self, what: str) -> NoReturn:
        raise FormatError(f"the pickle {what} at byte {self._at:,}", where=self._where)

    def run(self) -> Any:
        data, at = self._data, 0
        stack: list[Any] = []
        below: list[list[Any]] = []
        memo: dict[int, Any] = {}
        shared: dict[bytes, tuple[Any, ...]] = {}
        """Stacks: lists of frames that were met before. As tuples, since equal ones are one object here."""
        made, most = 0, self._containers
        while True:
            code = data[at]
            at += 1
            # The most frequent opcodes of a snapshot first.
            if code == 0x68:  # BINGET
                stack.append(memo[data[at]])
                at += 1
            elif code == LONG_REFERENCE:  # LONG_BINGET
                stack.append(memo[FOUR_BYTES(data, at)[0]])
                at += 4
            elif code == 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
            elif code == 0x4B:  # BININT1
                stack.append(data[at])
                at += 1
            elif code == 0x4A:  # BININT
                stack.append(INTEGER(data, at)[0])
                at += 4
            elif code == 0x8A:  # LONG1
                size = data[at]
                if size > MOST_NUMBER_BYTES or at + size >= len(data):
                    self._at = at
                    self.fail("has a number that is too long")
                stack.append(int.from_bytes(data[at + 1 : at + 1 + size], "little", signed=True))
                at += 1 + size
            elif code == 0x28:  # MARK
                below.append(stack)
                stack = []
            elif code == 0x75:  # SETITEMS
                items, stack = stack, below.pop()
                _set_items(stack[-1], items)
            elif code == 0x7D or code == 0x5D:  # EMPTY_DICT, EMPTY_LIST
                made += 1
                if made > most:
                    self._at = at
                    self.fail("has more containers than a snapshot of its size")
                if code == 0x5D and data[at - 1 : at + 3] in LIST_OF_REFERENCES:
                    end = _references_end(data, at + 2)
                    if data[end] == APPENDS and data[end + 1] not in MORE_ITEMS:
                        key = data[at + 2 : end]
                        known = shared.get(key)
                        if known is None:
                            known = shared[key] = _referred(key, memo)
                        stack.append(known)
                        memo[len(memo)] = known
                        at = end + 1
                        continue
                stack.append({} if code == 0x7D else [])
            elif code == 0x65:  # APPENDS
                items, stack = stack, below.pop()
                _list(stack[-1]).extend(items)
            elif code == 0x4D:  # BININT2
                stack.append(TWO_BYTES(data, at)[0])
                at += 2
            elif code in LENGTHS:
                self._at = at
                value, at = self._text(code, at)
                stack.append(value)
            elif code == 0x71:  # BINPUT
                memo[data[at]] = stack[-1]
                at += 1
            elif code == 0x72:  # LONG_BINPUT
                memo[FOUR_BYTES(data, at)[0]] = stack[-1]
                at += 4
            elif code == 0x61:  # APPEND
                item = stack.pop()
                _list(stack[-1]).append(item)
            elif code == 0x73:  # SETITEM
                pair = stack[-2:]
                del stack[-2:]
                _set_items(stack[-1], pair)
            elif code == 0x4E:  # NONE
                stack.append(None)
            elif code == 0x88 or code == 0x89:  # NEWTRUE, NEWFALSE
                stack.append(code == 0x88)
            elif code == 0x29:  # EMPTY_TUPLE
                stack.append(())
            elif 0x85 <= code <= 0x87:  # TUPLE1 to TUPLE3
                size = code - 0x84
                if len(stack) < size:
                    raise IndexError
                made += 1
                stack[-size:] = [tuple(stack[-size:])]
            elif code == 0x74 or code == 0x6C or code == 0x64:  # TUPLE, LIST, DICT
                items, stack = stack, below.pop()
                made += 1
                stack.append(tuple(items) if code == 0x74 else items if code == 0x6C else _set_items({}, items))
            elif code == 0x47:  # BINFLOAT
                stack.append(FLOAT(data, at)[0])
                at += 8
            elif code == 0x95:  # FRAME
                self._at = at
                if EIGHT_BYTES(data, at)[0] > len(data) - at - 8:
                    raise IndexError
                at += 8
            elif code == 0x80:  # PROTO
                self._at = at
                if data[at] > MOST_PROTOCOL:
                    self.fail(f"has protocol {data[at]}, which is not known,")
                at += 1
            elif code == 0x2E:  # STOP
                return stack.pop()
            elif code == 0x30:  # POP
                if stack:
                    stack.pop()
                else:
                    stack = below.pop()
            elif code == 0x31:  # POP_MARK
                stack = below.pop()
            elif code == 0x32:  # DUP
                stack.append(stack[-1])
            elif code == 0x8B:  # LONG4
                size = FOUR_BYTES(data, at)[0]
                if size > MOST_NUMBER_BYTES or at + 4 + size > len(data):
                    self._at = at
                    self.fail("has a number that is too long")
                stack.append(int.from_bytes(data[at + 4 : at + 4 + size], "little", signed=True))
                at += 4 + size
            else:
                self._at = at - 1
                at = self._line(code, at, stack, memo)

    def _text(self, code: int, at: int) -> tuple[str | bytes, int]:
        """A text or bytes with its length before it, and where the next opcode is."""
        length_bytes, is_text = LENGTHS[code]
        begin = at + length_bytes
        end = begin + int.from_bytes(self._data[at:begin], "little")
        if end > len(self._data):
            raise IndexError
        content = self._data[begin:end]
        return (content.decode("utf-8", "surrogatepass") if is_text else content), end

    def _line(self, code: int, at: int, stack: list[Any], memo: dict[int, Any]) -> int:
        """Opcodes of protocol 0, whose values end with the line."""
        if code in REFUSED:
            self.fail(f"has the opcode {REFUSED[code]}, which does more than hold data,")
        end = self._data.find(b"\n", at)
        if end < 0:
            raise IndexError
        line = self._data[at:end]
        if code == 0x56:  # UNICODE
            stack.append(line.decode("raw-unicode-escape"))
        elif code == 0x53:  # STRING
            stack.append(codecs.escape_decode(line.strip()[1:-1])[0].decode("utf-8", "replace"))
        elif len(line) > MOST_DIGITS:
            self.fail("has a number that is too long")
        elif code == 0x49:  # INT
            stack.append(line == b"01" if line in (b"00", b"01") else int(line))  # bounded: `MOST_DIGITS`
        elif code == 0x4C:  # LONG
            stack.append(int(line.rstrip(b"L")))  # bounded: `MOST_DIGITS`
        elif code == 0x46:  # FLOAT
            stack.append(float(line))  # bounded: `MOST_DIGITS`
        elif code == 0x70:  # PUT
            memo[int(line)] = stack[-1]  # bounded: `MOST_DIGITS`
        elif code == 0x67:  # GET
            stack.append(memo[int(line)])  # bounded: `MOST_DIGITS`
        else:
            self.fail(f"has the unknown opcode {code:#04x}")
        return end + 1


def _references_end(data: bytes, at: int) -> int:
    """Where references one after the other end."""
    while True:
        code = data[at]
        if code == LONG_REFERENCE:
            codes = data[at : at + 5 * RUN : 5]
            at += 5 * (len(codes) - len(codes.lstrip(b"j")))
        elif code == SHORT_REFERENCE:
            codes = data[at : at + 2 * RUN : 2]
            at += 2 * (len(codes) - len(codes.lstrip(b"h")))
        else:
            return at


def _referred(references: bytes, memo: dict[int, Any]) -> tuple[Any, ...]:
    objects: list[Any] = []
    at = 0
    while at < len(references):
        if references[at] == SHORT_REFERENCE:
            objects.append(memo[references[at + 1]])
            at += 2
        else:
            objects.append(memo[FOUR_BYTES(references, at + 1)[0]])
            at += 5
    return tuple(objects)


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError
    return value


def _set_items(target: Any, items: list[Any]) -> dict[Any, Any]:
    """Keys are texts or small numbers: those of others can be chosen so that a dict takes forever."""
    if type(target) is not dict or len(items) % 2:
        raise TypeError
    keys = items[::2]
    kinds = {*map(type, keys)}
    if kinds != {str} and keys and not (kinds <= {str, int, bool} and all(_is_small(key) for key in keys)):
        raise TypeError
    target.update(zip(keys, items[1::2], strict=True))
    return target


def _is_small(key: object) -> bool:
    return not isinstance(key, int) or abs(key) < LARGEST_KEY
