"""What to change, in a sentence with the names of the kernel: "mask the columns: add `& (cols < N)` to the mask"."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

import numpy as np

from warplens_lab.scenes.kernel_scene import PatternFacts, TensorInfo
from warplens_lab.tracing.watching.places import axis_name, block_axes, coordinates, place_of_lane
from warplens_lab.tracing.watching.sites import is_inner_file

BEFORE: Final = "switch off lanes with an index below 0: add `& ({} >= 0)` to the mask"
GENERAL: Final = "switch off lanes outside the tensor: mask= with a condition on every index"
FILL: Final = (
    "give the load at line {} other= (0 for a sum or a product, -inf for a maximum), or clear its lanes with tl.where "
    "before line {}"
)
INITIALISE: Final = (
    "write all of {} before the launch (torch.zeros in place of torch.empty), or mask the load at line {}"
)
ONE_OWNER: Final = "let each element belong to one program, or use an atomic"
ONE_LANE: Final = "check the strides of the pointers: two lanes of the block have one address"
ADVANCE: Final = "move the pointers in the loop, or store once after it: only the last value is kept"
FEWER: Final = "launch fewer programs, or end the loop one step earlier: this block does nothing"
WIDEN: Final = "accumulate in float32 and convert once, at the store"
REORDER: Final = "change the order (sum in blocks, subtract the mean before squaring), or use a wider type there"


@dataclass(frozen=True)
class Lane:
    """A lane of a block: `first` is the element of the block's first lane, counted from the tensor's first."""

    first: int
    lane: tuple[int, ...]
    pattern: PatternFacts


def kernel_locals() -> Mapping[str, Any]:
    """The names of the kernel's function that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_inner_file(frame.f_code.co_filename):
            return dict(frame.f_locals)
        frame = frame.f_back
    return {}


def bounds_remedy(info: TensorInfo, index: int, at: Lane, names: Mapping[str, Any], statement: str) -> str:
    """For a lane outside its tensor."""
    place = place_of_lane(info, at.first, at.lane, at.pattern)
    if index < 0:
        variable = _variable(names, at.pattern, 0, at.first)
        return BEFORE.format(variable or "index")
    if not place:
        return _flat_remedy(info, at, names, statement)
    beyond = [axis for axis, (number, size) in enumerate(zip(place, info.shape, strict=True)) if number >= size]
    axes = block_axes(info, at.pattern)
    if not beyond or beyond[-1] not in axes:
        return GENERAL
    axis = beyond[-1]
    dimension = axes.index(axis)
    start = coordinates(info, at.first)[axis]
    variable = _variable(names, at.pattern, dimension, start)
    limit = _limit(names, info.shape[axis])
    words = f"the {limit} dimension" if limit else f"the {axis_name(axis, len(info.shape))}s"
    return _add(
        words, variable or f"{axis_name(axis, len(info.shape))} index", limit or str(info.shape[axis]), statement
    )


def _flat_remedy(info: TensorInfo, at: Lane, names: Mapping[str, Any], statement: str) -> str:
    spread = [dimension for dimension, size in enumerate(at.pattern.shape) if size > 1]
    if len(spread) > 1 or at.pattern.strides is None:
        return GENERAL
    count = int(np.prod(info.shape, dtype=np.int64))
    limit = _limit(names, count)
    variable = _variable(names, at.pattern, spread[0] if spread else 0, at.first)
    return _add("the offsets", variable or "offset", limit or str(count), statement)


def _add(words: str, variable: str, limit: str, statement: str) -> str:
    if "mask" in statement:
        return f"mask {words}: add `& ({variable} < {limit})` to the mask"
    return f"mask {words}: add `mask={variable} < {limit}`"


def _variable(names: Mapping[str, Any], pattern: PatternFacts, dimension: int, start: int) -> str:
    """The kernel's own name of the indices along one dimension of the block, as it fits the block's shape."""
    size = pattern.shape[dimension] if pattern.shape else 1
    wanted = start + np.arange(size, dtype=np.int64)
    for name, value in names.items():
        data = getattr(getattr(value, "handle", None), "data", None)
        if not isinstance(data, np.ndarray) or data.size != size or size < 2 or data.dtype.kind not in "iu":
            continue
        if (data.reshape(-1).astype(np.int64) == wanted).all():
            return name if data.ndim == len(pattern.shape) else name + _selector(dimension, len(pattern.shape))
    return ""


def _selector(dimension: int, dimensions: int) -> str:
    parts = [":" if at == dimension else "None" for at in range(dimensions)]
    return f"[{', '.join(parts)}]"


def _limit(names: Mapping[str, Any], size: int) -> str:
    """A number of the kernel that is this size; sizes are better names than strides."""
    fitting = [name for name, value in names.items() if _number(value) == size]
    return min(fitting, key=lambda name: ("stride" in name.lower(), "block" in name.lower()), default="")


def _number(value: Any) -> int | None:
    value = getattr(value, "value", value)  # of a constexpr
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    data = getattr(getattr(value, "handle", None), "data", None)
    if isinstance(data, np.ndarray) and data.size == 1 and data.dtype.kind in "iu":
        return int(data.reshape(-1)[0])
    return None


def dimension_words(info: TensorInfo, axis: int, indices: Sequence[int]) -> str:
    """
    >>> info = TensorInfo("a_ptr", "float32", (4, 50), (50, 1), 0, 0, 800, 4)
    >>> dimension_words(info, 1, range(48, 50)), dimension_words(info, 0, [2])
    ('columns 48 to 49', 'row 2')
    >>> dimension_words(TensorInfo("v_ptr", "float32", (2, 4, 50), (200, 50, 1), 0, 0, 1600, 4), 0, [1])
    'index 1 of dimension 0'
    """
    name = axis_name(axis, len(info.shape))
    words = name if len(indices) == 1 else f"{name}s"
    if not name:
        words = "index" if len(indices) == 1 else "indices"
    is_whole = indices[-1] - indices[0] + 1 == len(indices)
    span = str(indices[0]) if len(indices) == 1 else f"{indices[0]} {'to' if is_whole else '…'} {indices[-1]}"
    return f"{words} {span}" if name else f"{words} {span} of dimension {axis}"
