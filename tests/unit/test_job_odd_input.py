"""Tables of jobs that lack something: steps, collectives, ranks, clocks that can be compared."""

from __future__ import annotations

import pytest

from rank_digests import call, digest
from warplens.profiles.job import JobProfile
from warplens.ranks.job import Job
from warplens.ranks.records import RankDigest

PAIR = (("0", (0, 1)),)
CALLS = [call(100 * n) for n in range(6)]
JOBS = {
    "no steps": (digest(0, CALLS, PAIR), digest(1, CALLS, PAIR)),
    "no collectives": (digest(0, []), digest(1, [])),
    "collectives on one rank only": (digest(0, CALLS, PAIR), digest(1, [])),
    "one rank": (digest(0, CALLS, PAIR),),
    "steps on one rank only": (digest(0, CALLS, PAIR, [(0, 0, 300), (1, 300, 600)]), digest(1, CALLS, PAIR)),
    "no duration": tuple(digest(rank, [call(100 * n, 0) for n in range(3)], PAIR) for rank in (0, 1)),
    "broadcasts only": tuple(digest(rank, [call(100, kind="broadcast")], PAIR) for rank in (0, 1)),
}


def opened(*digests: RankDigest) -> JobProfile:
    return JobProfile(Job(digests), "job")


@pytest.mark.parametrize("digests", JOBS.values(), ids=JOBS)
def test_every_table_and_the_verdict_can_be_made(digests: tuple[RankDigest, ...]) -> None:
    job = opened(*digests)
    for name in job.table_names:
        assert job.table(name).name == name
    assert job.verdict()
    assert len(job.table("ranks").frame) == len(digests)


def test_collectives_are_described_without_steps() -> None:
    frame = opened(*JOBS["no steps"]).table("collectives").frame
    assert len(frame) == 6
    assert set(frame["members"]) == {2}


def test_sets_of_ranks_that_share_no_collective_are_noted() -> None:
    groups = {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)}
    job = opened(*(digest(rank, CALLS, (("0", ranks),)) for rank, ranks in groups.items()))
    assert any("2 sets of ranks share no collective" in note.message for note in job.job.notes())


def test_the_bus_bandwidth_counts_ranks_that_are_missing() -> None:
    ranks = [digest(rank, [call(100, 10, bytes=8_000_000, group_size=8)]) for rank in (0, 1)]
    (row,) = opened(*ranks).table("collectives").to_dicts()
    assert row["busbw_gbps"] == pytest.approx(row["algbw_gbps"] * 2 * 7 / 8)


def test_an_all_to_all_without_splits_sends_equal_parts_to_the_ranks_of_its_own_group() -> None:
    calls = [call(100, kind="all_to_all", group="1", bytes=800, in_splits="[]")]
    groups = {0: (0, 2), 2: (0, 2), 1: (1, 3), 3: (1, 3)}
    job = opened(*(digest(rank, calls, (("1", ranks),)) for rank, ranks in sorted(groups.items())))
    rows = job.table("all_to_all").to_dicts()
    assert {(row["from_rank"], row["to_rank"]) for row in rows} == {
        (rank, other) for rank, ranks in groups.items() for other in ranks
    }
    assert {row["sent_bytes"] for row in rows} == {400}
