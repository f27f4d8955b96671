"""A step of a job is the job's step in every table, and its first ones do not pollute means."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from warplens.profiles.job import JobProfile

HOST_US, KERNEL_US, REDUCE_US, STEPS = 2_000.0, 60_000.0, 40_000.0, 6
FIRST_US = 390_000.0
"""The kernel of one rank's first step."""


def rank_that_runs_ahead(rank: int, first_us: float) -> dict[str, Any]:
    """The host launches a step every 2 ms; the GPU computes and reduces for 100 ms in each."""
    events: list[dict[str, Any]] = []

    def add(cat: str, name: str, tid: int, ts: float, dur: float, **args: Any) -> None:
        pid = 0 if cat == "kernel" else 100
        events.append({"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args})

    free = 100.0
    nccl = {"Collective name": "allreduce", "Process Group Name": "0", "dtype": "Float", "Group size": 4}
    nccl |= {"In msg nelems": 1024, "Out msg nelems": 1024}
    for step in range(STEPS):
        begin, number = HOST_US * step, 10 * step
        add("user_annotation", f"ProfilerStep#{step + 3}", 1, begin, HOST_US - 10)
        own_us = first_us if step == 0 else KERNEL_US
        last_us = FIRST_US if step == 0 else KERNEL_US
        for name, launch, us in (("mm", 20, own_us), ("reduce", 60, REDUCE_US + last_us - own_us)):
            add("cpu_op", f"aten::{name}" if name == "mm" else "record_param_comms", 1, begin + launch, 30,
                **(nccl if name == "reduce" else {}))  # fmt: skip
            number += 1
            add("cuda_runtime", "cudaLaunchKernel", 1, begin + launch + 5, 10, correlation=number)
            kernel = "ampere_sgemm_128x64_nn" if name == "mm" else "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
            add("kernel", kernel, 7, free, us, correlation=number, device=0, stream=7)
            free += us
    groups = [{"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "ranks": [0, 1, 2, 3]}]
    return {
        "schemaVersion": 1,
        "baseTimeNanoseconds": 1_000_000_000_000_000_000,
        "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 4, "pg_config": groups},
        "traceEvents": events,
    }


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> JobProfile:
    folder = tmp_path_factory.mktemp("ahead")
    for rank in range(4):
        trace = rank_that_runs_ahead(rank, FIRST_US if rank == 2 else KERNEL_US)
        (folder / f"rank{rank}.json").write_text(json.dumps(trace))
    return warplens.open_ranks([folder], cache=False)


def test_steps_of_ranks_are_as_long_as_the_jobs_however_far_ahead_the_host_is(job: JobProfile) -> None:
    steps = job.table("rank_steps").frame
    for row in steps.filter(pl.col("step") > 3).to_dicts():
        assert row["step_ms"] == pytest.approx(job.step_ms[row["step"]], abs=0.2) == pytest.approx(100, abs=0.2)
        assert row["step_ms"] == pytest.approx(row["compute_ms"] + row["exposed_ms"] + row["idle_ms"], abs=0.2)
    assert steps.filter(pl.col("rank") == 0)["step_ms"].sum() == pytest.approx(sum(job.step_ms.values()), abs=0.2)
    begun = steps.filter(pl.col("rank") == 0).sort("step").select("start_ms", "step_ms").rows()
    for (start, length), (following, _) in pairwise(begun):
        assert start + length == pytest.approx(following, abs=0.01)


def test_a_long_first_step_is_in_no_rank_s_usual_times(job: JobProfile) -> None:
    ranks = job.table("ranks").frame
    assert ranks["step_ms"].to_list() == pytest.approx([100] * 4, abs=0.2)
    assert ranks["own_ms"].to_list() == pytest.approx([60] * 4, abs=0.2)
    assert job.verdict().startswith("4 ranks, 100.0 ms a step; no rank delays the others")


def test_means_per_step_leave_the_warm_up_out(job: JobProfile) -> None:
    assert job.model.usual_steps == [4, 5, 6, 7, 8]
    waits = job.table("waits").frame.filter(pl.col("for_rank") == 2)
    assert waits["wait_ms"].to_list() == pytest.approx([330] * 3, abs=1)
    assert waits["wait_ms_per_step"].to_list() == pytest.approx([0] * 3, abs=0.1)
    (exposed,) = job.table("exposed_by_module").to_dicts()
    assert (exposed["count"], exposed["exposed_ms"]) == (1, pytest.approx(40, abs=0.2))
    whole = job.table("job_what_if").frame.filter(pl.col("what") == "S").to_dicts()[0]
    assert whole["step_ms"] == pytest.approx(100, abs=0.2)


def test_without_launches_no_mark_of_the_host_stands_for_a_step(tmp_path: Path) -> None:
    for rank in range(2):
        trace = rank_that_runs_ahead(rank, KERNEL_US)
        for event in trace["traceEvents"]:
            if event["cat"] == "kernel":
                event["args"].pop("correlation")
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(trace))
    job = warplens.open_ranks([tmp_path], cache=False)
    assert job.table("ranks").frame["step_ms"].to_list() == [None, None]
    assert (job.answer().clock, job.answer().parts) == (None, ())
    assert len(job.table("step_time")) == len(job.table("breakdown")) == 0
    assert "need steps that all ranks recorded" in job.table("ranks").notes[0]
    assert "not every rank records what launches its work" in job.verdict()
