"""A large job of which a few ranks are damaged: a note each, and the rest is analysed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import warplens
from support import annotation, kernel, launch
from warplens.cluster import Item, Outcome
from warplens.cluster.attempt import attempt
from warplens.profiles import job as jobs
from warplens.profiles.rank_task import RankTask
from warplens.ranks.records import RankDigest

WORLD = 500
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
DAMAGED = {
    # rank: what its file has, and what is noted
    17: (b"garbage", "not a known profile format (text, but not JSON)"),
    230: (b"", "the file is empty"),
    499: (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "na', "damaged before the first complete event"),
}


def trace_of(rank: int) -> bytes:
    """Two steps of a kernel and an all-reduce of all ranks."""
    events = []
    for step, begin in ((3, 0), (4, 1000)):
        events += [annotation(f"ProfilerStep#{step}", begin, 900), launch(begin + 10, 5, 2 * step),
                   launch(begin + 20, 5, 2 * step + 1), kernel("gemm", begin + 50, 200, 2 * step),
                   kernel(ALL_REDUCE, begin + 300, 100, 2 * step + 1)]  # fmt: skip
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": WORLD, "ranks": list(range(WORLD))}
    info = {"backend": "nccl", "rank": rank, "world_size": WORLD, "pg_count": 1, "pg_config": [group]}
    return json.dumps({"distributedInfo": info, "traceEvents": events}).encode()


@dataclass
class ReadsOneOfAKind:
    """An executor of this process that reads the damaged ranks and one sound one, and numbers copies of that.

    Sound ranks differ in their numbers alone: to read all of them would take 20 s of a processor.
    """

    notes: list[str] = field(default_factory=list)
    read: list[int] = field(default_factory=list)

    def map(
        self, task: Callable[[RankTask], RankDigest], items: Sequence[Item[RankTask]], _on_progress: object
    ) -> list[Outcome[RankDigest]]:
        sound: RankDigest | None = None
        outcomes: list[Outcome[RankDigest]] = []
        for item in items:
            rank = item.argument.rank
            if sound is None or rank in DAMAGED:
                self.read.append(rank)
                outcomes.append(attempt(task, item.argument))
                sound = sound or outcomes[-1].value
                continue
            own = {
                "rank": rank,
                "host": f"node{rank // 8}",
                "source": item.argument.path,
                "content_hash": f"of rank {rank}",
            }
            outcomes.append(Outcome(replace(sound, facts=msgspec.structs.replace(sound.facts, **own))))
        return outcomes


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> ReadsOneOfAKind:
    own = ReadsOneOfAKind()

    @contextmanager
    def runner_for(_where: str) -> Iterator[Any]:
        yield own

    monkeypatch.setattr(jobs, "runner_for", runner_for)
    return own


def test_of_500_ranks_three_damaged_ones_are_a_note_each(executor: ReadsOneOfAKind, tmp_path: Path) -> None:
    for rank in range(WORLD):
        (tmp_path / f"rank{rank}.json").write_bytes(DAMAGED[rank][0] if rank in DAMAGED else trace_of(rank))
    job = warplens.open_ranks([tmp_path], cache=False)
    sound = [rank for rank in range(WORLD) if rank not in DAMAGED]
    assert sorted(executor.read) == [0, *DAMAGED]
    assert job.table("ranks").frame["rank"].to_list() == sound
    assert job.table("rank_steps").frame["rank"].unique().to_list() == sound
    assert job.table("collectives").frame["members"].to_list() == [len(sound)] * 2
    notes = job.table("quality").frame["message"].to_list()
    assert notes == [f"rank {rank} could not be read: {reason}" for rank, (_, reason) in DAMAGED.items()]
    assert len(job.step_ms) == 2


def test_a_pipe_among_the_ranks_is_noted_and_not_waited_for(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_bytes(trace_of(rank))
    os.mkfifo(tmp_path / "rank2.json")
    notes = [row["message"] for row in warplens.open(tmp_path, cache=False).table("quality").to_dicts()]
    assert "rank 2 could not be read: a pipe or a device, not a file" in notes
