"""`diff` of two jobs: the step, stragglers gone and new, ranks and collectives."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from statistics import median

import pytest

import warplens
from make_ranks import Fault, Grid, JobSpec, make_job
from support import ROOT
from warplens.cli import main

pytestmark = pytest.mark.usefixtures("one_cache")
NCCL4 = ROOT / "samples" / "ranks" / "nccl4"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same job with a slow GPU, and healthy with another number of steps."""
    folder = tmp_path_factory.mktemp("jobs")
    slow = (Fault.parse("slow_gpu:rank=2,since=1,factor=1.8"),)
    make_job(folder / "slow", JobSpec(grid=Grid(dp=4), steps=8, events=600, faults=slow))
    make_job(folder / "healthy", JobSpec(grid=Grid(dp=4), steps=6, events=450))
    return folder / "slow", folder / "healthy"


def test_a_straggler_that_is_gone_is_named_with_the_steps(
    jobs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diff", str(jobs[0]), str(jobs[1])]) == 0
    out = capsys.readouterr().out
    opened = [warplens.open_ranks([job]) for job in jobs]
    a, b = (median(job.step_ms[step] for step in job.model.usual_steps) for job in opened)
    assert out.startswith(
        f"verdict   B is {a / b:.2f}× faster: {a:.1f} → {b:.1f} ms per recorded step of the job; straggler gone: "
    )
    assert " (GPU)." in out.partition("\n")[0]


def test_ranks_are_paired_by_their_numbers(jobs: tuple[Path, Path], tmp_path: Path) -> None:
    fewer = Path(shutil.copytree(jobs[1], tmp_path / "fewer"))
    (fewer / "rank1.json.gz").unlink()
    comparison = warplens.diff(jobs[0], fewer)
    ranks = {row["rank"]: row for row in comparison.table("ranks").to_dicts()}
    assert (ranks[1]["status"], ranks[3]["status"]) == ("only in A", "both")
    assert ranks[2]["delta_compute_ms"] < -2  # its GPU is as fast as the others now
    assert abs(ranks[3]["delta_compute_ms"]) < 1
    assert comparison.facts()["only in A"] == "rank 1"


def test_collectives_are_counted_per_step(jobs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    comparison = warplens.diff(*jobs)
    assert comparison.table_names == ("report_tables", "job", "stragglers", "ranks", "collective_kinds")
    kinds = comparison.table("collective_kinds").to_dicts()
    assert kinds
    assert all(row["status"] == "both" and row["a_count"] == pytest.approx(row["b_count"]) for row in kinds)
    assert main(["diff", *map(str, jobs), "--table", "stragglers", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["straggler"], row["status"], row["b_gain_ms"]) == ("rank 2 (GPU)", "only in A", None)


def test_a_missing_rank_does_not_change_the_groups(tmp_path: Path) -> None:
    for rank in range(3):
        shutil.copy(NCCL4 / f"nccl4_rank{rank}.json.gz", tmp_path)
    comparison = warplens.diff(NCCL4, tmp_path)
    kinds = comparison.table("collective_kinds").to_dicts()
    whole = [row for row in kinds if row["group_size"] == 4]
    assert len(whole) == 5
    assert all(row["status"] == "both" and row["a_count"] == row["b_count"] for row in whole)
    groups = warplens.open_ranks([tmp_path]).table("groups").to_dicts()
    assert [(row["description"], row["size"], row["ranks"]) for row in groups] == [
        ("default_pg", 4, "0–3"), ("undefined", 2, "0–1"),
    ]  # fmt: skip


def test_a_job_and_itself_do_not_differ_and_every_output_is_written(tmp_path: Path) -> None:
    outputs = [f"{tmp_path}/d.html", f"{tmp_path}/d.xlsx", f"{tmp_path}/d.json", f"{tmp_path}/d/"]
    assert main(["diff", str(NCCL4), str(NCCL4), *(word for path in outputs for word in ("-o", path))]) == 0
    comparison = warplens.diff(NCCL4, NCCL4)
    assert comparison.table("report_tables").frame["differing"].to_list() == [0, 0, 0, 0]
    assert (
        "No difference: 187.6 → 187.6 ms per recorded step of the job; straggler in both: rank 1 (host)."
        in comparison.verdict()
    )
    with pytest.raises(warplens.UsageError, match="no call paths"):
        comparison.tree()


def test_a_job_is_not_compared_with_a_trace_but_one_rank_of_each_is(
    jobs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    trace = next(NCCL4.iterdir())
    assert main(["diff", str(NCCL4), str(trace)]) == 2
    error = f"error: {NCCL4} contains the ranks of a job, {trace} does not"
    assert capsys.readouterr().err.startswith(error)
    assert main(["diff", *map(str, jobs), "--whole"]) == 2
    assert "are for two traces" in capsys.readouterr().err
    assert main(["diff", *map(str, jobs), "--rank", "1", "--json"]) == 0
    assert main(["diff", *map(str, jobs), "--rank", "4"]) == 2
    assert f"error: no rank 4 in {jobs[0]}" in capsys.readouterr().err
