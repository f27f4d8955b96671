"""The tensors of calls, as their shapes and types are recorded: how many elements and bytes."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
import polars as pl

from warplens.analyses.work.comm import ELEMENT_BYTES
from warplens.analyses.workspace import Workspace
from warplens.model.kinds import NONE
from warplens.model.trace import Ints
from warplens_run.base import bounded


def tensor_types(work: Workspace, rows: Ints) -> pl.Series:
    """The element type of each row's first tensor, in small letters; empty where there is no row or no type."""
    trace = work.trace
    types = pl.Series([*trace.specs["input_types"].to_list(), ""], dtype=pl.String)
    spec = np.where(rows >= 0, trace.ints("spec")[np.maximum(rows, 0)], NONE)
    names = [_first_type(text) for text in types.gather(spec % len(types)).to_list()]
    return pl.Series("dtype", names, dtype=pl.String)


def tensor_bytes(work: Workspace, rows: Ints) -> Ints:
    """The bytes of the largest tensor of each row; 0 where they are not known."""
    sizes = [ELEMENT_BYTES.get(name, 0) for name in tensor_types(work, rows).to_list()]
    found: Ints = tensor_elements(work, rows) * np.array(sizes, np.int64)
    return found


def tensor_elements(work: Workspace, owner: Ints) -> Ints:
    """The elements of the largest tensor of each row; 0 where they are not known."""
    dims = work.trace.specs["input_dims"].to_list()
    of_spec = np.array([*map(_elements_of, dims), 0], np.int64)
    spec = np.where(owner >= 0, work.trace.ints("spec")[np.maximum(owner, 0)], NONE)
    elements: Ints = of_spec[spec]
    return elements


def _elements_of(dims: str | None) -> int:
    """The largest of an op's inputs."""
    try:
        return min(max(map(_size, bounded.decoded(dims or "[]")), default=0), 2**40)
    except (ValueError, TypeError, RecursionError):
        return 0


def _size(shape: object) -> int:
    if not isinstance(shape, list) or not shape:
        return 0
    if all(isinstance(each, int) for each in shape):
        return prod(shape)
    return sum(map(_size, _lists(shape)))


def _lists(shapes: Iterable[object]) -> list[object]:
    return [shape for shape in shapes if isinstance(shape, list)]


def _first_type(types: str | None) -> str:
    try:
        listed = bounded.decoded(types or "[]")
    except ValueError:
        return ""
    return str(listed[0]).removeprefix("c10::").lower() if isinstance(listed, list) and listed else ""
