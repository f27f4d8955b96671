"""Index expressions of a thread, `tile[threadIdx.x][threadIdx.y]`, evaluated for every thread of a block."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from warplens_lab.layouts.banks import NOBODY, WarpAccess
from warplens_lab.layouts.bases import Ints, Vector
from warplens_run.base.errors import UsageError

WARP_LANES: Final = 32
MOST_THREADS: Final = 1024
_OPERATORS: Final[Mapping[type[ast.operator], Callable[[Ints, Ints], Ints]]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a // b,  # of integers, as in C
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.BitXor: lambda a, b: a ^ b,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
    ast.LShift: lambda a, b: a << b,
    ast.RShift: lambda a, b: a >> b,
}
_NAMED: Final = (
    "threadIdx.x",
    "threadIdx.y",
    "threadIdx.z",
    "blockDim.x",
    "blockDim.y",
    "blockDim.z",
    "tid",
    "lane",
    "warp",
)


def is_index(text: str) -> bool:
    """
    >>> is_index("tile[lane][0]"), is_index("column"), is_index("blocked([1], [32], [4], [0])")
    (True, False, False)
    """
    return bool(re.fullmatch(r"&?\w*\s*(?:\[[^\[\]]*(?:(?:\[[^\[\]]*\])+[^\[\]]*)?\]\s*)+;?", text.strip()))


def index_access(
    text: str, shape: Vector, block: Vector = (WARP_LANES,), values: Mapping[str, int] | None = None, vector: int = 1
) -> WarpAccess:
    """What the warps of a block reach with an index; each thread takes `vector` elements along the last dimension."""
    threads = _threads(block)
    parts = _indices(text)
    if len(parts) != len(shape):
        many = "1 index" if len(parts) == 1 else f"{len(parts)} indices"
        size = "×".join(map(str, shape))
        raise UsageError(f"{text} has {many}, the tile of {size} has {len(shape)} dimensions")
    names = threads | {name: np.full_like(threads["tid"], value) for name, value in (values or {}).items()}
    columns = [np.broadcast_to(_value(part, names, text), threads["tid"].shape) for part in parts]
    elements = np.stack(columns, axis=-1)[:, None, :].repeat(vector, axis=1)
    elements[..., -1] += np.arange(vector)
    _check_inside(elements, shape, threads, parts)
    return WarpAccess(text, *_by_warps(elements))


def _threads(block: Vector) -> dict[str, Ints]:
    x, y, z = (*block, 1, 1, 1)[:3]
    if x * y * z > MOST_THREADS:
        raise UsageError(f"a block of {'×'.join(map(str, block))} has {x * y * z} threads, more than {MOST_THREADS}")
    tid = np.arange(x * y * z, dtype=np.int64)
    return {
        "tid": tid,
        "lane": tid % WARP_LANES,
        "warp": tid // WARP_LANES,
        "threadIdx.x": tid % x,
        "threadIdx.y": tid // x % y,
        "threadIdx.z": tid // (x * y),
        "blockDim.x": np.full_like(tid, x),
        "blockDim.y": np.full_like(tid, y),
        "blockDim.z": np.full_like(tid, z),
    }


def _indices(text: str) -> list[ast.expr]:
    plain = text.strip().rstrip(";").lstrip("&").strip()
    plain = f"tile{plain}" if plain.startswith("[") else plain
    try:
        node = ast.parse(plain, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else "not an expression"
        raise UsageError(f"the access {text!r} cannot be read: {reason}", hint="such as tile[lane][0]") from None
    indices: list[ast.expr] = []
    while isinstance(node, ast.Subscript):
        inner = node.slice
        indices[:0] = inner.elts if isinstance(inner, ast.Tuple) else [inner]
        node = node.value
    if not indices:
        raise UsageError(f"the access {text!r} is not an element of an array", hint="such as tile[lane][0]")
    return indices


def _value(node: ast.expr, names: Mapping[str, Ints], text: str) -> Ints:
    if isinstance(node, ast.Constant) and type(node.value) is int and abs(node.value) < 1 << 31:
        return np.full(1, node.value, np.int64)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names, text)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, names, text), _value(node.right, names, text)
        if isinstance(node.op, (ast.Div, ast.FloorDiv, ast.Mod)) and (right == 0).any():
            raise UsageError(f"{ast.unparse(node)} of {text} divides by zero")
        if isinstance(node.op, (ast.LShift, ast.RShift)) and ((right < 0) | (right > 31)).any():
            raise UsageError(f"{ast.unparse(node)} of {text} shifts by less than 0 or more than 31 bits")
        return _OPERATORS[type(node.op)](left, right)
    written = ast.unparse(node)
    if written in names:
        return names[written]
    if isinstance(node, (ast.Name, ast.Attribute)):
        raise UsageError(f"{written!r} of {text} is not known", hint=f"known: {', '.join(_NAMED)}", options=("set",))
    raise UsageError(f"{written!r} of {text} cannot be evaluated", hint="names, numbers and + - * / % ^ & | << >>")


def _check_inside(elements: Ints, shape: Vector, threads: Mapping[str, Ints], parts: list[ast.expr]) -> None:
    for dim, extent in enumerate(shape):
        outside = (elements[..., dim] < 0) | (elements[..., dim] >= extent)
        if outside.any():
            thread, at = (int(part) for part in np.argwhere(outside)[0])
            reached = int(elements[thread, at, dim])
            place = ", ".join(str(int(threads[f"threadIdx.{axis}"][thread])) for axis in "xyz")
            raise UsageError(
                f"[{ast.unparse(parts[dim])}] is {reached} for thread ({place}): dimension {dim} has {extent} elements"
            )


def _by_warps(elements: Ints) -> tuple[Ints, Ints]:
    """Threads × elements × dimensions as one instruction per warp; the last warp may be in part idle."""
    warps = -(-len(elements) // WARP_LANES)
    lanes = WARP_LANES if warps > 1 else len(elements)
    whole = np.full((warps * lanes, *elements.shape[1:]), NOBODY, np.int64)
    whole[: len(elements)] = elements
    return whole.reshape(warps, lanes, *elements.shape[1:]), np.arange(warps, dtype=np.int64)
