"""The same remark on many ranks as one: a job of 1,000 ranks has a handful of notes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

NUMBERS: Final = re.compile(r"\d[\d,.]*")


def merged(remarks: Iterable[tuple[int, str]]) -> list[tuple[Sequence[int], str]]:
    """Remarks on ranks that differ in their numbers only: the ranks, and the remark on the first of them.

    >>> merged([(0, "337 events lost"), (1, "no steps"), (2, "12 events lost")])
    [([0, 2], '337 events lost'), ([1], 'no steps')]
    """
    ranks: dict[str, list[int]] = {}
    texts: dict[str, str] = {}
    for rank, text in remarks:
        key = NUMBERS.sub("#", text)
        texts.setdefault(key, text)
        ranks.setdefault(key, []).append(rank)
    return [(ranks[key], text) for key, text in texts.items()]


def rank_text(ranks: Sequence[int]) -> str:
    """
    >>> rank_text([3]), rank_text([0, 2]), rank_text(range(20))
    ('rank 3', '2 ranks (0, 2)', '20 ranks (0, 1, 2, 3, 4, 5, 6, 7 and 12 more)')
    """
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"{len(ranks):,} ranks ({some(ranks)})"


def remark_text(ranks: Sequence[int], text: str, verb: str = "") -> str:
    """A merged remark in one line.

    >>> remark_text([3], "no steps"), remark_text([0, 2], "337 events lost")
    ('rank 3: no steps', '2 ranks (0, 2), such as rank 0: 337 events lost')
    """
    example = f", such as rank {ranks[0]}" if len(ranks) > 1 and NUMBERS.search(text) else ""
    return f"{rank_text(ranks)}{verb}{example}: {text}"


def some(numbers: Sequence[int], most: int = 8) -> str:
    shown = ", ".join(map(str, numbers[:most]))
    return shown if len(numbers) <= most else f"{shown} and {len(numbers) - most:,} more"
