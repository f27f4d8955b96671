"""Which kernels of the ranks are one collective, on calls made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rank_digests import call, digest, matches
from warplens.ranks.job import Job
from warplens.ranks.records import RankDigest

WORLD = (("0", (0, 1)),)


def pairs(*places: tuple[int, int]) -> set[frozenset[tuple[int, int]]]:
    """Matches of ranks 0 and 1 by their places."""
    return {frozenset([(0, first), (1, second)]) for first, second in places}


def job(*digests: RankDigest) -> Job:
    return Job(digests)


def steady(rank: int, count: int, first: int = 0, **values: Any) -> list[dict[str, Any]]:
    """Calls that both ranks leave together, some µs after the last one came."""
    return [
        call(100 * number + 7 * ((rank * number) % 5), 40 - 7 * ((rank * number) % 5), **values)
        for number in range(first, count)
    ]


def test_sequence_numbers_join_calls_of_a_rank_that_began_to_record_later() -> None:
    early = [call(100 * number, seq=number) for number in range(6)]
    assert matches(job(digest(0, early, WORLD), digest(1, early[2:], WORLD))) == pairs((2, 0), (3, 1), (4, 2), (5, 3))


def test_sequence_numbers_that_contradict_sizes_are_not_used() -> None:
    sizes = [64, 128, 256, 512]
    first = [call(100 * n, seq=n, bytes=size) for n, size in enumerate(sizes)]
    second = [call(100 * n, seq=n + 1, bytes=size) for n, size in enumerate(sizes)]
    assert matches(job(digest(0, first, WORLD), digest(1, second, WORLD))) == pairs((0, 0), (1, 1), (2, 2), (3, 3))


def test_coalesced_calls_with_one_sequence_number_are_matched_in_their_order() -> None:
    calls = [call(100 * n, seq=n // 3) for n in range(6)]
    assert matches(job(digest(0, calls, WORLD), digest(1, calls, WORLD))) == pairs(*((n, n) for n in range(6)))


def test_a_step_that_a_rank_recorded_from_its_middle_on_is_counted_back() -> None:
    whole = [call(100 * n, step=n // 4) for n in range(8)]
    cut = whole[2:]
    assert matches(job(digest(0, whole, WORLD), digest(1, cut, WORLD))) == pairs(*((n, n - 2) for n in range(2, 8)))


def test_a_call_that_only_some_ranks_made_is_not_matched() -> None:
    groups = (("0", (0, 1, 2, 3)),)
    usual = [call(100, bytes=64, step=0), call(200, bytes=128, step=0)]
    odd = [call(100, bytes=64, step=0), call(150, bytes=999, step=0), call(200, bytes=128, step=0)]
    found = matches(job(*(digest(rank, odd if rank < 1 else usual, groups) for rank in range(4))))
    assert found == {frozenset([(0, 0), (1, 0), (2, 0), (3, 0)]), frozenset([(0, 2), (1, 1), (2, 1), (3, 1)])}


def test_two_ranks_with_the_same_odd_call_are_not_matched_against_the_group() -> None:
    groups = (("0", (0, 1, 2, 3, 4)),)
    usual = [call(100, bytes=64, step=0), call(200, bytes=128, step=0)]
    odd = [call(100, bytes=64, step=0), call(150, bytes=999, step=0), call(200, bytes=128, step=0)]
    found = matches(job(*(digest(rank, odd if rank < 2 else usual, groups) for rank in range(5))))
    assert {len(each) for each in found} == {5}


def test_long_sequences_that_agree_need_no_alignment() -> None:
    many = [call(10 * n, 5, step=0, bytes=64 * (n % 3)) for n in range(6_000)]
    other = [call(5, 1, step=0, bytes=1), *many]
    groups = (("0", (0, 1, 2)),)
    found = matches(job(digest(0, many, groups), digest(1, many, groups), digest(2, other, groups)))
    assert len(found) == 6_000
    assert {len(each) for each in found} == {2}


def test_groups_of_one_name_and_other_ranks_are_different_groups() -> None:
    calls = [call(100, group="1"), call(200, group="1")]
    of_rank = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    found = matches(job(*(digest(rank, calls, (("1", ranks),)) for rank, ranks in of_rank.items())))
    assert found == {frozenset([(low, place), (low + 1, place)]) for low in (0, 2) for place in (0, 1)}


def test_a_name_that_a_rank_has_for_two_groups_is_told_apart_by_the_call() -> None:
    groups = (("1", (0, 1)), ("1", (0, 1, 2)))
    small, large = call(100, group="1", group_ranks="[0, 1]"), call(200, group="1", group_ranks="[0, 1, 2]")
    found = matches(
        job(digest(0, [small, large], groups), digest(1, [small, large], groups), digest(2, [large], groups))
    )
    assert found == {frozenset([(0, 0), (1, 0)]), frozenset([(0, 1), (1, 1), (2, 0)])}


def test_more_ranks_than_a_group_has_cannot_be_one_call_of_it() -> None:
    calls = [call(100, group="1", group_size=2)]
    assert matches(job(*(digest(rank, calls) for rank in range(4)))) == set()


@pytest.mark.parametrize("kind", ["all_to_all", "dispatch", "combine", "gather", "scatter"])
def test_ranks_may_have_messages_of_other_sizes(kind: str) -> None:
    ranks = [
        digest(rank, [call(100, kind=kind, bytes=100 + rank), call(200, kind=kind, bytes=7)], WORLD) for rank in (0, 1)
    ]
    assert matches(job(*ranks)) == pairs((0, 0), (1, 1))


def test_messages_without_a_peer_are_matched_in_groups_of_two_only() -> None:
    sent = [call(100, kind="send"), call(200, kind="recv")]
    received = [call(100, kind="send"), call(200, kind="recv")]
    assert matches(job(digest(0, sent, WORLD), digest(1, received, WORLD))) == pairs((0, 1), (1, 0))
    groups = (("0", (0, 1, 2)),)
    assert matches(job(digest(0, sent, groups), digest(1, received, groups))) == set()


def test_an_exchange_of_many_is_not_a_meeting_of_all() -> None:
    calls = [call(100, kind="send_recv", group_size=3)]
    assert matches(job(*(digest(rank, calls, (("0", (0, 1, 2)),)) for rank in range(3)))) == set()


def test_gpus_of_one_trace_meet_with_those_of_the_others() -> None:
    calls = [call(100 * n + device, device=device) for n in range(2) for device in (0, 1)]
    found = matches(job(digest(0, calls, WORLD), digest(1, calls, WORLD)))
    assert found == {frozenset([(0, n), (0, n + 1), (1, n), (1, n + 1)]) for n in (0, 2)}


def test_kernels_launched_before_the_recording_are_left_where_others_name_their_group() -> None:
    calls = [call(50, group="(unknown)"), call(100), call(200)]
    assert matches(job(digest(0, calls, WORLD), digest(1, calls, WORLD))) == pairs((1, 1), (2, 2))


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        ("vllm::cross_device_reduce_1stage", "all_reduce"),
        ("multimem_all_reduce_kernel", "all_reduce"),
        ("deep_ep::intranode::combine", "combine"),
        ("nvshmemi_barrier_all", "barrier"),
    ],
)
def test_collectives_of_other_libraries_are_matched_by_order_where_their_ends_agree(kernel: str, kind: str) -> None:
    custom = {"kernel": kernel, "kind": kind, "group": "(unknown)", "dtype": "(unknown)", "bytes": -1}
    own = [[*steady(rank, 12, **custom), call(5_000)] for rank in (0, 1)]
    assert matches(job(digest(0, own[0], WORLD), digest(1, own[1], WORLD))) == pairs(*((n, n) for n in range(13)))


def test_collectives_without_a_group_whose_ends_disagree_are_not_matched() -> None:
    unnamed = {"group": "(unknown)", "dtype": "(unknown)"}
    first = [call(1_000 * n, 50, **unnamed) for n in range(12)]
    second = [call(1_000 * n + 137 * (n * n % 7), 50, **unnamed) for n in range(12)]
    assert matches(job(digest(0, first), digest(1, second))) == set()


def test_collectives_without_a_group_are_matched_whatever_the_clocks_show() -> None:
    unnamed = {"group": "(unknown)", "dtype": "(unknown)"}
    first, second = steady(0, 30, **unnamed), steady(1, 30, **unnamed)
    for row in second:
        for name in ("launch_ns", "start_ns", "end_ns"):
            row[name] = round(row[name] * (1 + 50e-6)) + 40_000_000
    assert matches(job(digest(0, first), digest(1, second))) == pairs(*((n, n) for n in range(30)))


def test_collectives_of_no_duration_are_matched() -> None:
    calls = [call(100, 0), call(200, 0)]
    assert matches(job(digest(0, calls, WORLD), digest(1, calls, WORLD))) == pairs((0, 0), (1, 1))


def test_calls_that_are_all_alike_are_left_where_either_end_may_be_missing() -> None:
    whole = [call(100 * n, step=0) for n in range(4)]
    assert matches(job(digest(0, whole, WORLD), digest(1, whole[1:], WORLD))) == set()


def test_a_collective_that_a_rank_left_before_another_came_is_counted_and_not_matched() -> None:
    early = [call(100 * n, 10) for n in range(20)]
    late = [*early[:19], call(10_000, 10)]
    found = job(digest(0, early, WORLD), digest(1, late, WORLD))
    assert matches(found) == pairs(*((n, n) for n in range(19)))
    assert "2 communication calls of 40 (5.0 %) not matched: a rank ends" in found.notes()[-1].message


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([64, 128, 256]), min_size=1, max_size=8),
    missing=st.integers(0, 8),
    at_begin=st.booleans(),
    ranks=st.integers(2, 4),
)
def test_no_window_of_a_rank_leads_to_a_wrong_match(sizes: list[int], missing: int, at_begin: bool, ranks: int) -> None:
    groups = (("0", tuple(range(ranks))),)
    both = [(step, size) for step in (0, 1) for size in sizes]
    whole = [call(100 * n, bytes=size, step=step) for n, (step, size) in enumerate(both)]
    missing = min(missing, len(sizes) - 1)
    cut = whole[missing:] if at_begin else whole[: len(whole) - missing]
    found = job(*(digest(rank, cut if rank == 1 else whole, groups) for rank in range(ranks)))
    matched = found.matched
    assert matched.group_by("match").n_unique()["launch_ns"].max() in (1, None)
    assert matched.filter(matched["rank"] == 1).height == len(cut)


@settings(max_examples=30, deadline=None)
@given(data=st.data(), ranks=st.integers(2, 5), count=st.integers(1, 6))
def test_the_parts_of_a_collective_sum_to_its_duration(data: st.DataObject, ranks: int, count: int) -> None:
    """Wait and transfer, less the tail (what the last rank takes longer), are each kernel's duration."""
    starts = data.draw(
        st.lists(st.lists(st.integers(0, 90), min_size=count, max_size=count), min_size=ranks, max_size=ranks)
    )
    tails = data.draw(
        st.lists(st.lists(st.integers(0, 9), min_size=count, max_size=count), min_size=ranks, max_size=ranks)
    )
    groups = (("0", tuple(range(ranks))),)
    own = [[call(200 * n + starts[r][n], 100 + tails[r][n] - starts[r][n]) for n in range(count)] for r in range(ranks)]
    calls = job(*(digest(rank, own[rank], groups) for rank in range(ranks))).matched
    tail = calls["last_end_ns"] - calls["end_ns"]
    assert (calls["wait_ns"] + calls["transfer_ns"] - tail == calls["dur_ns"]).all()
    assert calls.group_by("match").min()["wait_ns"].max() == 0
    assert (calls["least_ns"] <= calls["dur_ns"]).all()
