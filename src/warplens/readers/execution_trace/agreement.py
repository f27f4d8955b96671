"""Whether a call of a Kineto trace and a node of an ExecutionTrace are one: PyTorch's number for it, and its shapes."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from warplens.model.lists import decoded_list
from warplens.readers.shared.nearest_word import NearestWord

RECORD_ID: Final = re.compile(rb'"Record function id"\s*:\s*(\d{1,18})')
EXTERNAL_KEY: Final = b'"External id"'
EXTERNAL_ID: Final = re.compile(rb'"External id"\s*:\s*(\d{1,18})')
WINDOW_BYTES: Final = 1 << 16
"""How far apart the two may stand. Profilers write them side by side."""
NO_TENSORS: Final = ("", "Scalar", "ScalarList", "TensorList")
"""How Kineto calls arguments that are not one tensor."""


def record_ids(kineto_text: bytes) -> pl.DataFrame:
    """External id and record function id of every event that has both; works on damaged files as on whole ones.

    Both stand in one object without inner ones, so the text between the braces around the one key is searched for
    the other, and nothing needs to be decoded.
    """
    external, record = [], []
    opening, closing, key = (NearestWord(kineto_text, word) for word in (b"{", b"}", EXTERNAL_KEY))
    for match in RECORD_ID.finditer(kineto_text):
        start, end = match.span()
        at = key.before(start)
        if at < max(start - WINDOW_BYTES, opening.before(start)):
            at = key.after(end)
            if at + len(EXTERNAL_KEY) > min(end + WINDOW_BYTES, closing.after(end)):
                continue
        external_id = EXTERNAL_ID.match(kineto_text, at)
        if external_id is not None:
            external.append(int(external_id[1]))
            record.append(int(match[1]))
    numbers = {"external_id": np.array(external, np.int64), "record_id": np.array(record, np.int64)}
    return pl.DataFrame(numbers).filter(pl.col("record_id") > 0)


def agree(dims: str | None, types: str | None, shapes: str, kinds: str) -> bool:
    """Tensor by tensor; what either of the two does not record is not a difference.

    >>> agree("[[512,64],[]]", '["float","Scalar"]', "[[8, 64], []]", '["Tensor(float)", "Int"]')
    False
    """
    lists = [decoded_list(text) for text in (dims, types, shapes, kinds)]
    return all(
        dim == shape
        or not dim
        or kind in NO_TENSORS
        or not (isinstance(shape, list) and str(node).startswith("Tensor("))
        for dim, kind, shape, node in zip(*lists, strict=False)
    )
