"""Operands of PTX statements: registers, numbers, addresses, and which of them a statement writes."""

from __future__ import annotations

import re
from typing import Final

from warplens_lab.cuda.ptx import Statement

_REGISTER = re.compile(r"%?[A-Za-z_$][\w$.@]*")
_ADDRESS = re.compile(r"^\[\s*([^\]+\s,]+)\s*(?:\+\s*(-?\w+))?")
_WITHOUT_RESULT: Final = frozenset({
    "st", "red", "bar", "barrier", "membar", "fence", "bra", "brx", "ret", "exit", "trap", "call", "prefetch",
    "prefetchu", "cp", "discard", "brkpt", "nanosleep", "pmevent", "stmatrix", "wgmma", "griddepcontrol", "setmaxnreg",
    "tcgen05", "applypriority", "sust", "mbarrier",
})  # fmt: skip
_WITH_RESULT: Final = ("barrier.red", "bar.red", "mbarrier.test_wait", "mbarrier.try_wait", "tcgen05.ld")


def is_register(text: str) -> bool:
    return _REGISTER.fullmatch(text) is not None


def immediate(text: str) -> int | None:
    """
    >>> immediate("-4"), immediate("0x10"), immediate("0f3F800000"), immediate("%r1")
    (-4, 16, None, None)
    """
    if re.fullmatch(r"-?\d+U?", text):
        return int(text.rstrip("U"))
    return int(text, 16) if re.fullmatch(r"-?0[xX][0-9a-fA-F]+", text) else None


def address_parts(text: str) -> tuple[str, int]:
    """
    >>> address_parts("[%rd1+-16]"), address_parts("[tile]")
    (('%rd1', -16), ('tile', 0))
    """
    match = _ADDRESS.match(text.strip())
    if match is None:
        return text.strip("[] "), 0
    return match[1], immediate(match[2]) or 0 if match[2] else 0


def results(statement: Statement) -> tuple[str, ...]:
    """The registers that a statement writes."""
    if not statement.operands:
        return ()
    if statement.base in _WITHOUT_RESULT and not statement.name.startswith(_WITH_RESULT):
        return ()
    return tuple(
        name for name in re.split(r"[{},|\s]+", statement.operands[0]) if name and is_register(name) and name != "_"
    )
