"""Collectives that run on the host: gloo as PyTorch records it, MPI and UCC by name, and calls without either."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from rank_digests import call, digest
from support import ROOT
from warplens.profiles.job import JobProfile
from warplens.ranks.coverage import coverage
from warplens.ranks.job import Job
from warplens.ranks.kinds import kind_of
from warplens.ranks.own_pace import JobModel

GLOO4 = ROOT / "samples" / "ranks" / "gloo4"
Event = dict[str, Any]


def edited(tmp_path: Path, change: Callable[[Event], Event | None]) -> JobProfile:
    """The sample with its events changed or, for None, removed."""
    for path in sorted(GLOO4.iterdir()):
        document = json.loads(gzip.decompress(path.read_bytes()))
        changed = [change(event) for event in document["traceEvents"]]
        document["traceEvents"] = [event for event in changed if event is not None]
        (tmp_path / path.name.removesuffix(".gz")).write_text(json.dumps(document))
    return warplens.open_ranks([tmp_path], cache=False)


def named(job: JobProfile) -> list[tuple[int, str, int]]:
    return [(row["rank"], row["cause"], row["since_step"]) for row in job.table("stragglers").to_dicts()]


def test_every_call_over_gloo_meets_its_counterparts_and_the_slow_rank_is_named() -> None:
    job = warplens.open_ranks([GLOO4])
    calls = job.table("collectives").frame
    assert calls["members"].to_list() == [4] * 36
    assert set(calls["kind"]) == {"all_reduce", "all_gather"}
    assert set(calls["message_bytes"].drop_nulls()) == {4 * 64, 4 * 256, 4 * 256 * 64, 4 * 256 * 256}
    assert named(job) == [(2, "host", 4)]
    assert job.verdict().startswith("Rank 2 delays 3 ranks since step 4")
    assert "cause: host (aten::mm)" in job.verdict()
    waits = job.table("waits").frame.filter(pl.col("for_rank") == 2)
    assert sorted(waits.sort("wait_ms", descending=True)["rank"].to_list()[:3]) == [0, 1, 3]


def test_its_own_time_tells_the_slow_rank_from_those_that_wait_for_it() -> None:
    steps = warplens.open_ranks([GLOO4]).table("rank_steps").frame.filter(pl.col("step") >= 4)
    own = dict(steps.group_by("rank").agg(pl.col("own_ms").median()).iter_rows())
    assert min(own, key=lambda rank: -own[rank]) == 2
    assert own[2] > 3 * max(own[rank] for rank in (0, 1, 3))
    exposed = dict(steps.group_by("rank").agg(pl.col("exposed_ms").median()).iter_rows())
    assert all(exposed[rank] > 3 * exposed[2] > 0 for rank in (0, 1, 3))


@pytest.mark.parametrize("library", ["mpi", "ucc"])
def test_mpi_and_ucc_are_known_by_their_names(library: str, tmp_path: Path) -> None:
    def renamed(event: Event) -> Event:
        return event | {"name": str(event.get("name")).replace("gloo:", f"{library}:")}

    assert named(edited(tmp_path, renamed)) == [(2, "host", 4)]


def test_names_of_mpi_calls_tell_their_kind() -> None:
    kinds = [kind_of(f"MPI_{name}") for name in ("Allreduce", "Bcast", "Allgatherv", "Alltoall", "Reduce_scatter")]
    assert kinds == ["all_reduce", "broadcast", "all_gather", "all_to_all", "reduce_scatter"]


def test_without_the_librarys_events_the_calls_that_issue_them_are_matched(tmp_path: Path) -> None:
    job = edited(tmp_path, lambda event: None if "gloo:" in str(event.get("name")) else event)
    members = job.table("collectives").frame["members"].to_list()
    assert len(members) >= 35  # a thread that goes on late seems to end its call before another begins it
    assert set(members) == {4}
    assert named(job) == [(2, "host", 4)]


def test_calls_whose_collectives_are_kernels_that_were_not_recorded_are_not_taken_for_the_hosts(tmp_path: Path) -> None:
    def renamed(event: Event) -> Event:
        return event | {"name": str(event.get("name")).replace("gloo:", "nccl:")}

    job = edited(tmp_path, renamed)
    assert len(job.table("collectives")) == 0
    assert "cannot tell who waits" in job.verdict()


def test_steps_that_are_inferred_and_not_as_many_on_each_rank_are_not_compared(tmp_path: Path) -> None:
    count = iter(range(10**9))

    def unmarked(event: Event) -> Event | None:
        """Without marks; steps are inferred from the optimizer, which every other call on some ranks lacks."""
        name = str(event.get("name"))
        if name.startswith("ProfilerStep") or (name.startswith("Optimizer.step") and next(count) % 4 == 0):
            return None
        return event

    job = edited(tmp_path, unmarked)
    assert len({digest.steps.height for digest in job.job.digests}) > 1
    assert "no step was recorded by all ranks" in job.verdict()


def gpu_rank(rank: int, kernel_us: float, slowest_us: float) -> Event:
    """Six steps of 10 ms: a kernel, its gradients copied to the host and reduced over gloo, and copied back."""
    events: list[Event] = []

    def add(cat: str, name: str, tid: int, ts: float, dur: float, **args: Any) -> None:
        pid = 0 if cat in ("kernel", "gpu_memcpy") else 100
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    for step in range(6):
        begin, number = 10_000.0 * step, 10 * step
        done = begin + 60 + slowest_us + 100 + 300
        gpu = {"device": 0, "stream": 7}
        add("user_annotation", f"ProfilerStep#{step + 1}", 1, begin, 9_990)
        add("cpu_op", "aten::mm", 1, begin + 20, 30)
        add("cuda_runtime", "cudaLaunchKernel", 1, begin + 30, 10, correlation=number + 1)
        add("kernel", "ampere_sgemm_128x64_nn", 7, begin + 60, kernel_us, correlation=number + 1, **gpu)
        tensor = {"Input Dims": [[[1024]]], "Input type": ["TensorList"]}
        add("cpu_op", "c10d::allreduce_", 1, begin + 60, 60, **tensor)
        add("cuda_runtime", "cudaMemcpyAsync", 1, begin + 70, 10, correlation=number + 2)
        copied = begin + 60 + kernel_us
        add("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", 7, copied, 100, correlation=number + 2, **gpu)
        dims = {"Input Dims": [[1024]], "Input type": ["float"]}
        add("user_annotation", "gloo:all_reduce", 2, begin + 125, done - begin - 125, **dims)
        add("cpu_op", "aten::add_", 1, done + 30, 40)
        add("cuda_runtime", "cudaLaunchKernel", 1, done + 40, 10, correlation=number + 3)
        add("kernel", "add_kernel", 7, done + 60, 50, correlation=number + 3, **gpu)
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:gloo", "ranks": [0, 1, 2, 3]}]
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_000_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 4, "pg_config": groups},
        "traceEvents": events,
    }


def test_a_gpu_that_computes_longer_delays_those_that_reduce_over_gloo(tmp_path: Path) -> None:
    """All ranks begin the call at once; that the slow one was not ready shows the end of its copy to the host."""
    for rank in range(4):
        trace = gpu_rank(rank, 4_000.0 if rank == 3 else 1_000.0, 4_000.0)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    job = warplens.open_ranks([tmp_path], cache=False)
    (row,) = job.table("stragglers").to_dicts()
    assert (row["rank"], row["cause"], row["place"]) == (3, "GPU", "aten::mm")
    assert row["excess_ms"] == pytest.approx(3.0, abs=0.05)
    waits = job.table("waits").frame
    assert waits.select("rank", "for_rank").rows() == [(0, 3), (1, 3), (2, 3)]
    assert waits["wait_ms_per_step"].to_list() == pytest.approx([3.0] * 3, abs=0.05)
    step = job.table("rank_steps").frame.filter((pl.col("rank") == 0) & (pl.col("step") == 2)).to_dicts()[0]
    assert step["exposed_ms"] == pytest.approx(3.3, abs=0.05)


def test_calls_on_the_host_beside_kernels_do_not_decide_how_much_of_the_waiting_is_seen() -> None:
    """Kernels name their group and the host's calls do not, so that no counterpart of these is known."""
    on_host = {"device": -1, "group": "(unknown)", "kernel": "gloo:broadcast", "kind": "broadcast"}
    digests = [
        digest(rank, [call(100), *(call(200 + 50 * place, **on_host) for place in range(9))], (("0", (0, 1)),))
        for rank in range(2)
    ]
    job = Job(tuple(digests))
    assert job.calls.height == 20
    known = coverage(JobModel(job))
    assert (known.calls, known.matched) == (2, 2)


def rank_with_a_thread_for_backward(rank: int, extra_us: float) -> Event:
    """Two buckets a step, reduced while the thread of backward computes; it waits for both at its end."""
    events: list[Event] = []

    def add(cat: str, name: str, tid: int, ts: float, dur: float) -> None:
        sizes = {"Input Dims": [[1024]], "Input type": ["float"]} if "all" in name else {}
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur, "args": sizes})

    for step in range(6):
        begin = 100_000.0 * step
        last = begin + 30_000  # the slowest rank issues its first bucket then
        own = begin + 10_000 + extra_us
        add("user_annotation", f"ProfilerStep#{step + 1}", 1, begin, 99_990)
        add("cpu_op", "aten::forward", 1, begin + 50, 900)
        add("cpu_op", "aten::backward_1", 2, begin + 1_000, own - begin - 1_000)
        add("cpu_op", "c10d::allreduce_", 2, own + 10, 20)
        add("user_annotation", "gloo:all_reduce", 3, own + 40, last + 5_000 - own - 40)
        add("cpu_op", "aten::backward_2", 2, own + 50, 30_000)
        second = own + 30_060
        add("cpu_op", "c10d::allreduce_", 2, second, 20)
        done = last + 30_060 + 5_000
        add("user_annotation", "gloo:all_reduce", 4, second + 30, done - second - 30)
        add("cpu_op", "aten::copy_", 2, done + 50, 1_000)
        add("cpu_op", "aten::optimizer", 1, done + 1_200, begin + 99_900 - done - 1_200)
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cpu:gloo", "ranks": [0, 1, 2, 3]}]
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_000_000_000_000_000_000,
        "distributedInfo": {"backend": "gloo", "rank": rank, "world_size": 4, "pg_config": groups},
        "traceEvents": events,
    }


def test_a_collective_that_ends_while_backward_computes_was_not_waited_for(tmp_path: Path) -> None:
    for rank in range(4):
        trace = rank_with_a_thread_for_backward(rank, 20_000.0 if rank == 1 else 0.0)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    job = warplens.open_ranks([tmp_path], cache=False)
    (row,) = job.table("stragglers").to_dicts()
    assert (row["rank"], row["cause"]) == (1, "host")
    assert row["excess_ms"] == pytest.approx(20, abs=0.5)
    assert row["gain_ms"] == pytest.approx(20, abs=0.5)


def test_a_gpu_that_computes_four_times_as_long_is_named_though_the_step_is_hardly_longer(tmp_path: Path) -> None:
    for rank in range(4):
        trace = gpu_rank(rank, 200.0 if rank == 3 else 50.0, 200.0)
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    job = warplens.open_ranks([tmp_path], cache=False)
    (row,) = job.table("stragglers").to_dicts()
    assert (row["rank"], row["cause"], row["since_step"]) == (3, "GPU", 1)
    assert row["excess_ms"] == pytest.approx(0.15, abs=0.01)
    assert row["note"] == "computes 2.5 × as long as its peers: 1.5 % of the step more"
    assert job.verdict().startswith("Rank 3 ")
