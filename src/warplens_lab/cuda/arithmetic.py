"""PTX's whole-number arithmetic on values of lanes. A function answers None where it cannot say."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from warplens_lab.cuda.lanes import (
    EDGE,
    THREAD,
    Ints,
    Value,
    added,
    added_strided,
    scaled,
    strided,
    varying,
    with_lanes,
    worst,
)

Operation = Callable[[str, Sequence[Value]], Value | None]
_TYPE = re.compile(r"\.([subf])(8|16|32|64)\b")
_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "eq": np.equal, "ne": np.not_equal,
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip


def size(name: str) -> tuple[str, int]:
    """Letter and bits of an operation's type: the last that it names.

    >>> size("mul.wide.s32"), size("and.pred"), size("cvt.u64.u32")
    (('s', 32), ('', 0), ('u', 32))
    """
    listed = _TYPE.findall(name)
    return (listed[-1][0], int(listed[-1][1])) if listed else ("", 0)


def wrapped(lanes: Ints, letter: str, bits: int) -> Ints:
    """As a register of this type holds it."""
    if bits not in (8, 16, 32):
        return lanes
    low = lanes & ((1 << bits) - 1)
    return low if letter == "u" else low - ((low >> (bits - 1)) << bits)


def _operand(name: str, value: Value) -> Value:
    """Registers have no sign: a known number is read as the operation's type says."""
    letter, bits = size(name)
    return with_lanes(value, wrapped(value.known, letter, bits)) if value.is_concrete and letter in "su" else value


def _stored(name: str, value: Value) -> Value:
    _, bits = size(name)
    return with_lanes(value, wrapped(value.known, "s", bits)) if value.is_concrete and ".wide" not in name else value


def _add(name: str, operands: Sequence[Value]) -> Value | None:
    return _sum(name, operands[0], operands[1], 1)


def _subtract(name: str, operands: Sequence[Value]) -> Value | None:
    return _sum(name, operands[0], operands[1], -1)


def _sum(name: str, a: Value, b: Value, factor: int) -> Value | None:
    if _is_float(name):
        return None
    if a.is_known and b.is_known:
        return _stored(name, added(a, b, factor))
    return added_strided(a, b, factor)


def _negate(name: str, operands: Sequence[Value]) -> Value | None:
    return _stored(name, scaled(operands[0], -1)) if operands[0].is_known and not _is_float(name) else None


def _multiply(name: str, operands: Sequence[Value]) -> Value | None:
    if _is_float(name):
        return None
    if not _all_known(operands):
        return _times_strided(*operands[:2])
    a, b = (_operand(name, value) for value in operands[:2])
    if ".hi" in name:
        bits = size(name)[1]
        return with_lanes(a, (a.known * b.known) >> bits) if a.is_concrete and b.is_concrete and bits == 32 else None
    if a.constant is not None:
        a, b = b, a
    if b.constant is not None:
        return _stored(name, scaled(a, b.constant))
    if a.is_concrete and b.is_concrete:
        return _stored(name, with_lanes(a, a.known * b.known))
    a, b = (b, a) if a.is_uniform else (a, b)
    return strided(a.known, a.sources | b.sources) if b.is_uniform and not a.is_uniform else None


def _times_strided(a: Value, b: Value) -> Value | None:
    """By a number or by another unknown that lanes share: as far apart as before, or farther."""
    a, b = (b, a) if a.is_known else (a, b)
    if a.apart is None or a.offsets is None or not b.is_known or not b.is_uniform:
        return None
    sources = a.sources | b.sources
    if b.constant is not None:
        return replace(a, sources=sources, offsets=a.offsets * b.constant) if b.constant else b
    return replace(a, sources=sources) if not a.offsets.any() else None


def _shift_left(name: str, operands: Sequence[Value]) -> Value | None:
    a, count = operands[:2]
    if not a.is_known and count.constant is not None and 0 <= count.constant < 63:
        return _times_strided(a, with_lanes(count, np.int64(1) << count.known))
    if not _all_known(operands[:2]):
        return None
    if count.constant is not None and 0 <= count.constant < 63:
        return _stored(name, scaled(a, 1 << count.constant))
    if a.is_concrete and count.is_concrete:
        return _stored(name, with_lanes(a, a.known << np.clip(count.known, 0, 62)))
    return None


def _shift_right(name: str, operands: Sequence[Value]) -> Value | None:
    a, count = operands[:2]
    if not _all_known(operands[:2]) or count.constant is None or not 0 <= count.constant < 63:
        return None
    step = 1 << count.constant
    if not a.divided_by(step):
        # How often a loop turns that each lane begins at its own number: two numbers of a warp's lanes at most.
        return varying(EDGE, a.sources) if _rises_by_less(a, step) else None
    return with_lanes(_operand(name, a), _operand(name, a).known >> count.constant, _divided(a, step))


def _rises_by_less(a: Value, step: int) -> bool:
    rises = np.diff(a.known, axis=1)
    is_ordered = bool((rises >= 0).all() or (rises <= 0).all())
    return is_ordered and int(np.ptp(a.known, axis=1).max()) < step


def _divided(a: Value, step: int) -> tuple[tuple[str, int], ...]:
    return tuple((name, factor // step) for name, factor in a.terms)


def _and(name: str, operands: Sequence[Value]) -> Value | None:
    a, b = operands[:2]
    if not _all_known(operands[:2]):
        return None
    if a.is_concrete and b.is_concrete:
        return with_lanes(a, a.known & b.known)
    if a.is_concrete:
        a, b = b, a
    mask = b.constant
    if mask is None:
        return None
    if mask >= 0 and (mask & (mask + 1)) == 0 and a.divided_by(mask + 1):
        return with_lanes(a, a.known & mask, ())
    clear = ~mask
    if clear >= 0 and (clear & (clear + 1)) == 0 and a.divided_by(clear + 1):
        return with_lanes(a, a.known & mask)
    return None


def _or(name: str, operands: Sequence[Value]) -> Value | None:
    """The compiler writes a sum so where no bit of the two meets."""
    a, b = operands[:2]
    if not _all_known(operands[:2]):
        return None
    if a.is_concrete and b.is_concrete:
        return with_lanes(a, a.known | b.known)
    if a.is_concrete:
        a, b = b, a
    if not b.is_concrete or int(b.known.min()) < 0:
        return None
    above = 1 << int(b.known.max()).bit_length()
    return added(a, b) if a.divided_by(above) and bool((a.known % above == 0).all()) else None


def _xor(name: str, operands: Sequence[Value]) -> Value | None:
    a, b = operands[:2]
    if a.is_concrete and b.is_concrete:
        return with_lanes(a, a.known ^ b.known)
    return _or(name, operands)


def _concrete(function: Callable[..., Any]) -> Operation:
    """An operation that is worked out only where nothing is unknown."""

    def apply(name: str, operands: Sequence[Value]) -> Value | None:
        if _is_float(name) or not all(value.is_concrete for value in operands):
            return None
        listed = [_operand(name, value).known for value in operands]
        sources = frozenset[str]().union(*(value.sources for value in operands))
        return Value(lanes=np.asarray(function(*listed), np.int64), sources=sources)

    return apply


def _divide(a: Ints, b: Ints) -> Ints:
    return np.trunc(a / np.where(b == 0, 1, b)).astype(np.int64)


def _remainder(a: Ints, b: Ints) -> Ints:
    rest: Ints = np.fmod(a, np.where(b == 0, 1, b))
    return rest


def _extract(a: Ints, position: Ints, length: Ints) -> Ints:
    bits: Ints = (a >> position) & ((np.int64(1) << length) - 1)
    return bits


def _same(name: str, operands: Sequence[Value]) -> Value | None:
    """A copy, or a change of type that keeps whole numbers as they are."""
    if _is_float(name) or not (operands[0].is_known or operands[0].apart is not None):
        return None
    return _operand(name, operands[0]) if name.startswith("cvt") else operands[0]


def compare(name: str, operands: Sequence[Value]) -> Value | None:
    """A predicate: 1 and 0 where known; where only a bound is not, the lanes of one warp at most differ."""
    if _is_float(name):
        return None
    relation = name.split(".")[1]
    if not _all_known(operands[:2]):
        return _compare_strided(relation, *operands[:2])
    a, b = (_operand(name, value) for value in operands[:2])
    if relation not in _COMPARE:
        return None
    if a.terms == b.terms:
        return Value(lanes=_COMPARE[relation](a.known, b.known).astype(np.int64), sources=a.sources | b.sources)
    steps = added(a, b, -1).steps()
    if not steps.any():
        return None
    sources = a.sources | b.sources
    rises = np.diff(steps, axis=1)
    is_ordered = bool((rises >= 0).all() or (rises <= 0).all())
    is_strict = bool((rises > 0).all() or (rises < 0).all())
    return varying(EDGE if (is_strict if relation in ("eq", "ne") else is_ordered) else THREAD, sources)


def _compare_strided(relation: str, a: Value, b: Value) -> Value | None:
    """A rising number times an unknown, compared with a bound."""
    a, b = (b, a) if a.is_known else (a, b)
    if a.apart is None or a.offsets is None or not b.is_known or not b.is_uniform or relation in ("eq", "ne"):
        return None
    is_still = bool((a.offsets == a.offsets[:, :1]).all())
    rises = np.diff(a.apart, axis=1)
    is_ordered = bool((rises >= 0).all() or (rises <= 0).all())
    return varying(EDGE, a.sources | b.sources) if is_still and is_ordered else None


def combine(name: str, operands: Sequence[Value]) -> Value | None:
    """Logic on predicates. With one that is the same in all lanes, lanes differ as they do without it, if at all."""
    if name.startswith("not") and operands[0].is_known and (operands[0].is_concrete or not operands[0].is_uniform):
        return with_lanes(operands[0], 1 - operands[0].known)
    if len(operands) == 2 and all(value.is_concrete for value in operands):
        a, b = operands
        function = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[name.partition(".")[0]]
        return with_lanes(a, function(a.known, b.known))
    for a, b in (operands, operands[::-1]) if len(operands) == 2 else ():
        # What does not change the other: false in an exclusive or, as the compiler writes a copy.
        if a.constant is not None and (name.startswith("and"), a.constant) in ((True, 1), (False, 0)):
            return b
        if name.startswith("and") and a.constant == 0:
            return a
        if a.is_known and a.is_uniform and b.is_known and not b.is_uniform:
            return Value(added(a, b).terms or (("", 1),), b.known, sources=a.sources | b.sources)
    return None


def select(name: str, operands: Sequence[Value]) -> Value | None:
    a, b, chooser = operands
    if not (a.is_known and b.is_known) or _is_float(name):
        return None
    if chooser.is_concrete and a.terms == b.terms:
        return with_lanes(a, np.where(chooser.known != 0, a.known, b.known))
    return a if a.key() == b.key() else None


def _all_known(operands: Sequence[Value]) -> bool:
    return all(value.is_known for value in operands)


def _is_float(name: str) -> bool:
    return re.search(r"\.(b?f16|b?f16x2|f32|f64|bf16|tf32|e4m3|e5m2)\b", name) is not None


def any_of(operands: Sequence[Value]) -> tuple[str, frozenset[str]]:
    """Why a result of these may differ between lanes, and what it comes from."""
    sources = frozenset[str]().union(*(value.sources for value in operands))
    return worst(value.difference for value in operands), sources


OPERATIONS: Final[Mapping[str, Operation]] = {
    "mov": _same, "cvta": _same, "cvt": _same,
    "add": _add, "sub": _subtract, "mul": _multiply,
    "shl": _shift_left, "shr": _shift_right, "and": _and, "or": _or, "xor": _xor,
    "neg": _negate, "not": _concrete(np.invert), "abs": _concrete(np.abs),
    "min": _concrete(np.minimum), "max": _concrete(np.maximum),
    "div": _concrete(_divide), "rem": _concrete(_remainder), "bfe": _concrete(_extract),
    "setp": compare, "selp": select,
}  # fmt: skip
