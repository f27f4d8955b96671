"""Lengths of the requests that one call of attention works on: their sums are all that its cost needs.

A query of a request with q new tokens and k keys in all sees the keys up to its own place, counted from the end. The
pairs that are computed are q·k − q·(q−1)/2 for one request, so the sums of q, k, q·q and q·k over the requests give
the FLOPs and bytes exactly.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from warplens.model.iteration_marks import IterationMark, RequestSums

CONTEXT: Final = "context"
GENERATION: Final = "generation"
BOTH: Final = "both"
FROM_MARK: Final = "mark"
FROM_ARGUMENTS: Final = "arguments"
AT_LEAST: Final = "at least: keys of earlier chunks and cached prefixes are not recorded"
AT_MOST: Final = "at most: every request is taken to be as long as the longest"
LARGEST: Final = 1 << 60
"""Sums of a real iteration are far below; a larger one is damage."""


class Lengths(Struct, frozen=True):
    """`causal_pairs` are the (query, key) pairs under a causal mask, `all_pairs` those without one."""

    requests: int
    queries: int
    keys: int
    causal_pairs: float
    all_pairs: float
    source: str = FROM_MARK
    approximate: str = ""

    def __add__(self, other: Lengths) -> Lengths:
        return Lengths(
            self.requests + other.requests,
            self.queries + other.queries,
            self.keys + other.keys,
            self.causal_pairs + other.causal_pairs,
            self.all_pairs + other.all_pairs,
            self.source,
            self.approximate or other.approximate,
        )


def lengths_of(sums: RequestSums) -> Lengths | None:
    """The lengths that a mark's sums give; None where they are too few or contradict each other.

    >>> lengths_of(RequestSums(2, 2, 30, 2, 30)).causal_pairs
    30.0
    >>> lengths_of(RequestSums(1, 4, 4, 16, 16)).causal_pairs
    10.0
    """
    requests, queries, keys = sums.requests, sums.query_tokens, sums.key_tokens
    if requests == 0 or queries == 0:
        return Lengths(0, 0, 0, 0.0, 0.0)
    if requests is None or queries is None:
        return None
    squares, products, approximate = sums.query_squares, sums.query_keys, ""
    if squares is None:
        squares = queries if queries == requests else queries * queries if requests == 1 else None
    if keys is None and sums.query_squares is not None and queries > requests:
        keys, products, approximate = queries, sums.query_squares, AT_LEAST
    if products is None and keys is not None:
        products = keys if queries == requests else queries * keys if requests == 1 else None
    if squares is None or keys is None or products is None:
        return None
    if not (requests <= queries <= keys and queries <= squares <= products <= LARGEST):
        return None
    return Lengths(requests, queries, keys, products - (squares - queries) / 2, float(products), FROM_MARK, approximate)


def lengths_by_mark(mark: IterationMark | None, queries: int, part: str = BOTH) -> Lengths | None:
    """The lengths of the requests of an iteration that a call with so many rows of queries works on.

    A call may work on all requests, or on those of one kind; a graph pads its rows.
    """
    if mark is None:
        return None
    context, generation = lengths_of(mark.context), lengths_of(mark.generation)
    if part == CONTEXT:
        candidates = [context]
    elif part == GENERATION:
        candidates = [generation]
    else:
        candidates = [context + generation if context and generation else None, context, generation]
    known = [lengths for lengths in candidates if lengths is not None and lengths.queries]
    exact = [lengths for lengths in known if lengths.queries == queries]
    if exact:
        return exact[0]
    # Only the whole batch of a graph is padded: fewer rows than the mark's tokens are another call's.
    padded = candidates[0]
    return padded if padded is not None and 0 < padded.queries < queries else None


def lengths_by_longest(requests: int, queries: int, longest: int) -> Lengths | None:
    """What the longest request's keys give: exact for one request, an upper bound for several."""
    if requests < 1 or queries < 1 or not 1 <= longest <= LARGEST // queries:
        return None
    pairs = float(queries * longest)
    causal = pairs - (queries * queries / requests - queries) / 2
    note = "" if requests == 1 else AT_MOST
    return Lengths(requests, queries, requests * longest, max(causal, 0.0), pairs, FROM_ARGUMENTS, note)
