"""Elements by their row and column: as the user sees a tensor, not as its memory lies."""

from __future__ import annotations

from collections.abc import Sequence

from warplens_lab.scenes.kernel_scene import PatternFacts, TensorInfo


def coordinates(info: TensorInfo, flat: int) -> tuple[int, ...]:
    """Indices of the element `flat` places after the tensor's first; empty where the strides do not give them.

    The slowest index may be beyond the tensor, the others are inside it.

    >>> info = TensorInfo("x_ptr", "float32", (4, 50), (50, 1), 0, 0, 800, 4)
    >>> coordinates(info, 203), coordinates(info, -1)
    ((4, 3), ())
    """
    if len(info.shape) < 2:
        stride = max(1, info.strides[0]) if info.shape else 1
        return (flat // stride,)
    if flat < 0:
        return ()
    remainder, index = flat, [0] * len(info.shape)
    for rank, axis in enumerate(_slowest_first(info)):
        if info.shape[axis] == 1 or not info.strides[axis]:
            continue
        index[axis], remainder = divmod(remainder, max(1, info.strides[axis]))
        if rank and index[axis] >= info.shape[axis]:
            return ()
    return tuple(index) if not remainder else ()


def place_of_lane(info: TensorInfo, first: int, lane: Sequence[int], pattern: PatternFacts) -> tuple[int, ...]:
    """Indices of a block's lane, `first` being the element of its first lane: they may be beyond the tensor's sizes.

    In memory the column after the last is the next row's first; the block tells which of the two is meant.

    >>> info = TensorInfo("x_ptr", "float32", (4, 50), (50, 1), 0, 0, 800, 4)
    >>> place_of_lane(info, 150, (0, 53), PatternFacts(4, (1, 64), (50, 1)))
    (3, 53)
    """
    base = coordinates(info, first)
    if not base or pattern.strides is None or len(info.shape) < 2:
        return ()
    index = list(base)
    axes = block_axes(info, pattern)
    for dimension, (at, stride) in enumerate(zip(lane, pattern.strides, strict=True)):
        if not stride or not at:
            continue
        axis = axes[dimension]
        if axis is None or pattern.itemsize != info.itemsize:
            return ()
        index[axis] += at * (stride // info.strides[axis])
    if len([size for size in pattern.shape if size > 1]) == 1 and not _is_a_row(info, base, axes, pattern):
        return ()
    return tuple(index)


def block_axes(info: TensorInfo, pattern: PatternFacts) -> list[int | None]:
    """For each dimension of a block, the tensor's dimension along which it lies."""
    axes: list[int | None] = []
    for size, stride in zip(pattern.shape, pattern.strides or (), strict=False):
        fitting = [
            axis
            for axis in _slowest_first(info)
            if size > 1
            and stride > 0
            and info.shape[axis] > 1
            and info.strides[axis]
            and not stride % info.strides[axis]
        ]
        axes.append(fitting[0] if fitting and size > 1 and stride > 0 else None)
    return axes


def _is_a_row(info: TensorInfo, base: Sequence[int], axes: Sequence[int | None], pattern: PatternFacts) -> bool:
    """Whether a block of one dimension is meant as one row, and not as a piece of all elements in a line."""
    size, axis = next((size, axis) for size, axis in zip(pattern.shape, axes, strict=True) if size > 1)
    return axis is not None and base[axis] == 0 and size < 2 * info.shape[axis]


def index_text(info: TensorInfo, flat: int, place: Sequence[int] = ()) -> str:
    """An element that is `flat` places after the tensor's first one, by its indices where they are known.

    >>> info = TensorInfo("x_ptr", "float32", (4, 50), (50, 1), 0, 0, 800, 4)
    >>> index_text(info, 203), index_text(info, -1)
    ('x_ptr[4, 3]', 'x_ptr before its first element (by 1)')
    >>> index_text(TensorInfo("x_ptr", "float32", (4, 20), (27, 1), 0, 0, 432, 4), 50)
    'x_ptr between its rows (50 after its first element)'
    """
    index = tuple(place) or coordinates(info, flat)
    if index:
        return f"{info.name}[{', '.join(map(str, index))}]"
    if flat < 0:
        return f"{info.name} before its first element (by {-flat})"
    return f"{info.name} between its rows ({flat} after its first element)"


def size_text(info: TensorInfo) -> str:
    """
    >>> size_text(TensorInfo("x_ptr", "float32", (4, 50), (50, 1), 0, 0, 800, 4))
    '4 × 50'
    """
    return " × ".join(map(str, info.shape)) or "one element"


def axis_name(axis: int, dimensions: int) -> str:
    """What an index along a dimension is called; empty for those that have no name.

    >>> axis_name(1, 2), axis_name(0, 1), axis_name(0, 3)
    ('column', 'element', '')
    """
    if dimensions == 1:
        return "element"
    names = {dimensions - 1: "column", dimensions - 2: "row"}
    return names.get(axis, "")


def _slowest_first(info: TensorInfo) -> list[int]:
    return sorted(range(len(info.strides)), key=lambda axis: -info.strides[axis])
