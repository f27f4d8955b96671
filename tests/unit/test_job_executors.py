"""The same job from local processes, from two worker processes of Dask, and from the cache."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import warplens
from make_ranks import Fault, Grid, JobSpec, make_job
from support import ROOT, nightly_after
from warplens.cluster import Progress
from warplens.profiles import rank_task
from warplens.profiles.job import JobProfile
from warplens.readers.inputs import Input

if not os.environ.get("WARPLENS_CI"):
    pytest.importorskip("distributed", reason="pip install 'warplens[cluster]'")

NCCL4 = ROOT / "samples" / "ranks" / "nccl4"


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sends, receives and all-reduces, two hosts with clocks that differ, and a damaged rank."""
    folder = tmp_path_factory.mktemp("pipeline")
    faults = (Fault("clock"), Fault.parse("slow_gpu:rank=2,since=2,factor=1.7"))
    make_job(folder, JobSpec(grid=Grid(pp=2, dp=2), steps=6, events=900, faults=faults, gpus_per_host=2))
    (folder / "rank4.json.gz").write_bytes(b"garbage")
    return folder


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """The address of a cluster with two worker processes, as a user has started it."""
    from warplens.cluster import Item, runner_for
    from warplens.cluster.on_dask.runner import DaskRunner

    with runner_for("local:2") as runner:
        assert isinstance(runner, DaskRunner)
        runner.map(len, [Item("any")])
        assert runner._connection is not None
        yield runner._connection.address


def assert_same_tables(first: JobProfile, second: JobProfile) -> None:
    assert first.table_names == second.table_names
    for name in first.table_names:
        assert first.table(name).frame.equals(second.table(name).frame), name
    assert first.verdict() == second.verdict()


@pytest.mark.parametrize("name", nightly_after(1, ["nccl4", "pipeline"]))
def test_two_dask_workers_give_every_table_of_local_processes(name: str, pipeline: Path, scheduler: str) -> None:
    folder = NCCL4 if name == "nccl4" else pipeline
    seen: list[Progress] = []
    local = warplens.open_ranks([folder], cache=False)
    on_dask = warplens.open_ranks([folder], cache=False, cluster=scheduler, on_progress=seen.append)
    assert_same_tables(local, on_dask)
    assert seen[-1].workers == 2
    assert seen[-1].done == seen[-1].total == len(list(folder.glob("*.json*")))
    assert local.table("stragglers").frame["rank"].to_list()
    assert len(local.table("collectives"))


def test_a_second_report_parses_nothing(pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path))
    parsed: list[Path] = []
    read_rank = rank_task.read_rank

    def counting(opened: Input) -> object:
        parsed.append(opened.shown_path)
        return read_rank(opened)

    monkeypatch.setattr(rank_task, "read_rank", counting)
    first = warplens.open_ranks([pipeline])
    ranks = {f"rank{rank}.json.gz" for rank in range(4)}
    assert ranks <= {path.name for path in parsed}
    parsed.clear()
    second = warplens.open_ranks([pipeline])
    assert not ranks & {path.name for path in parsed}
    assert_same_tables(first, second)
    warplens.open_ranks([pipeline], gap_us=50)
    assert ranks <= {path.name for path in parsed}  # with other options a digest is another one


def test_what_is_wrong_with_a_cluster_is_a_note_and_not_a_row(
    scheduler: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from warplens.cli import main
    from warplens.profiles import job

    monkeypatch.setattr(job, "unpacked_bytes", lambda _path: 1 << 50)
    assert main(["show", str(NCCL4), "ranks", "--cluster", scheduler]) == 0
    out, errors = capsys.readouterr()
    assert errors.startswith("note: ")
    assert "but the largest rank needs about" in errors
    assert "largest rank" not in out
