"""Lengths of requests: what the sums of a mark give, against counting pairs one by one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warplens.costs.lengths import (
    AT_LEAST,
    AT_MOST,
    CONTEXT,
    GENERATION,
    lengths_by_longest,
    lengths_by_mark,
    lengths_of,
)
from warplens.model.iteration_marks import RequestSums, parse_mark

MIXED = parse_mark(
    "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)_generation_37(sq37sk34489sqsq37sqsk34489)"
)
REQUESTS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 40)), min_size=1, max_size=6)


@given(REQUESTS)
def test_sums_give_the_pairs_that_a_causal_mask_leaves(requests: list[tuple[int, int]]) -> None:
    """Each request has some new tokens after some that are cached; every query sees the keys up to its own."""
    lengths = [(queries, queries + cached) for queries, cached in requests]
    sums = RequestSums(
        len(lengths), *map(sum, zip(*((q, k, q * q, q * k) for q, k in lengths), strict=True))
    )  # fmt: skip
    found = lengths_of(sums)
    assert found is not None
    assert found.causal_pairs == sum(k - q + place + 1 for q, k in lengths for place in range(q))
    assert (found.all_pairs, found.keys) == (sum(q * k for q, k in lengths), sum(k for _, k in lengths))


@pytest.mark.parametrize(
    ("sums", "pairs"),
    [
        (RequestSums(3, 3, 30), 30),  # one query each needs no squares
        (RequestSums(1, 4, 10), 4 * 10 - 6),
        (RequestSums(0), 0),
        (RequestSums(2, 8, 20), None),  # two prompts of unknown lengths
        (RequestSums(3, 3), None),
        (RequestSums(None, 8, 20, 40, 90), None),
        (RequestSums(), None),
    ],
)
def test_too_few_sums_give_nothing_unless_they_suffice(sums: RequestSums, pairs: int | None) -> None:
    found = lengths_of(sums)
    assert (found and found.causal_pairs) == pairs if pairs != 0 else found is not None and found.queries == 0


@pytest.mark.parametrize(
    "sums",
    [
        RequestSums(2, 8, 7, 40, 90),  # fewer keys than queries
        RequestSums(2, 8, 20, 40, 30),  # fewer products than squares
        RequestSums(9, 8, 20, 40, 90),
        RequestSums(2, 8, 20, 40, 1 << 62),
    ],
)
def test_sums_that_contradict_each_other_give_nothing(sums: RequestSums) -> None:
    assert lengths_of(sums) is None


def test_prompts_without_recorded_keys_count_at_least_their_own_tokens() -> None:
    found = lengths_by_mark(parse_mark("execute_context_1(888_788544)_generation_0(0)"), 888)
    assert found is not None and found.causal_pairs == 888 * 889 / 2 and found.approximate == AT_LEAST
    assert lengths_by_mark(parse_mark("execute_context_1(888_788544)_generation_2(2)"), 890) is None


def test_a_call_works_on_all_requests_or_on_those_of_one_kind() -> None:
    whole, context, generation = (lengths_by_mark(MIXED, tokens) for tokens in (8192, 8155, 37))
    assert whole is not None and context is not None and generation is not None
    assert (whole.requests, context.requests, generation.requests) == (46, 9, 37)
    assert whole.causal_pairs == context.causal_pairs + generation.causal_pairs
    assert generation.causal_pairs == 34489
    assert lengths_by_mark(MIXED, 8192, GENERATION) == generation and lengths_by_mark(MIXED, 8155, CONTEXT) == context
    padded = lengths_by_mark(MIXED, 8200)
    assert padded == whole, "rows that pad a graph's batch are nobody's"
    assert lengths_by_mark(MIXED, 36) is None and lengths_by_mark(MIXED, 8191) is None
    assert lengths_by_mark(None, 8192) is None


def test_the_longest_request_is_exact_for_one_and_a_bound_for_several() -> None:
    one, four = lengths_by_longest(1, 5, 9), lengths_by_longest(4, 20, 9)
    assert one is not None and four is not None
    assert (one.causal_pairs, one.keys, one.approximate) == (5 * 9 - 10, 9, "")
    assert (four.causal_pairs, four.keys, four.approximate) == (20 * 9 - 40, 36, AT_MOST)
    assert lengths_by_longest(0, 5, 9) is None and lengths_by_longest(1, 5, 1 << 62) is None
