"""Kinds of collectives, from the many names that libraries and profilers have for them."""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from warplens_run.base import bounded

SEND, RECEIVE, EXCHANGE = "send", "recv", "send_recv"
POINT_TO_POINT: Final = (SEND, RECEIVE, EXCHANGE)
KINDS: Final = (
    (r"barrier", "barrier"),
    (r"all_?reduce|cross_device_reduce|one_?shot_?(all)?_?reduce|two_?shot|quick_?reduce|multimem_all_reduce|lamport",
     "all_reduce"),
    (r"reduce_?scatter", "reduce_scatter"),
    (r"all_?gather", "all_gather"),
    (r"dispatch", "dispatch"),
    (r"combine", "combine"),
    (r"all_?to_?all|all2all|a2a", "all_to_all"),
    (r"broadcast|bcast", "broadcast"),
    (r"send_?recv|sendrecv|batch_isend_irecv|ppermute", EXCHANGE),
    (r"recv|receive", RECEIVE),
    (r"send", SEND),
    (r"reduce", "reduce"),
    (r"gather", "gather"),
    (r"scatter", "scatter"),
)  # fmt: skip
"""What a name contains → the kind; the first that fits."""
SYNCHRONISING: Final = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier", "combine"))
"""None of their ranks is done before all have begun."""
SIZES_DIFFER: Final = ("all_to_all", "dispatch", "combine", "gather", "scatter")
"""Their ranks may have messages of other sizes in one call."""
_PATTERNS: Final = tuple((re.compile(pattern), kind) for pattern, kind in KINDS)


@cache
def kind_of(name: str) -> str:
    """The kind of a collective, op or kernel of this name; "other" where the name does not tell.

    >>> kind_of("_allgather_base"), kind_of("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"), kind_of("nccl:all_to_all")
    ('all_gather', 'reduce_scatter', 'all_to_all')
    >>> kind_of("ncclDevKernel_SendRecv"), kind_of("vllm::cross_device_reduce_1stage"), kind_of("nccl:recv 2<-1")
    ('send_recv', 'all_reduce', 'recv')
    """
    text = name.lower().replace(" ", "_")
    return next((kind for pattern, kind in _PATTERNS if pattern.search(text)), "other")


def split_sizes(text: str) -> list[int]:
    """The elements of an all-to-all for each rank, as a call records them; empty where it does not.

    >>> split_sizes("[3, 5]"), split_sizes("[]"), split_sizes("")
    ([3, 5], [], [])
    """
    try:
        parsed = bounded.decoded(text)
    except ValueError:
        return []
    return [bounded.whole(part) for part in parsed if bounded.is_whole(part)] if isinstance(parsed, list) else []
