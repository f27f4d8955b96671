"""Ops that fetch a value to the host and wait for it: `.item()`, a tensor in an `if`, the size of a mask."""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from warplens.analyses.time.host_activity import matching_names
from warplens.model.kinds import CODE
from warplens.model.trace import Ints, Trace
from warplens.passes.climb import climb

FETCHING_OP: Final = re.compile(
    r"aten::(?:item|is_nonzero|nonzero|equal|_local_scalar_dense|_unique2?|unique_\w+|index|index_put_|masked_select)$"
)
"""Indexing waits only where the index is a mask, whose size has to be known."""


def fetching_ops(trace: Trace, calls: Ints) -> Ints:
    """The op around each of these calls that fetches a value, the outermost of several, and its backward pass."""
    parent = trace.ints("parent")
    is_fetch = (trace.ints("kind") == CODE["op"]) & matching_names(trace, FETCHING_OP)[trace.ints("name")]
    ops = np.unique(climb(calls, parent, is_fetch))
    ops = ops[ops >= 0]
    while len(ops):
        above = climb(parent[ops], parent, is_fetch)
        if (above < 0).all():
            break
        ops = np.unique(np.where(above >= 0, above, ops))
    return np.sort(np.append(ops, np.flatnonzero(np.isin(trace.ints("forward"), ops))))
