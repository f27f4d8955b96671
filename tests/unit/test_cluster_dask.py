"""Dask gives what local processes give: a real cluster of two worker processes on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import cluster_tasks as tasks
from support import HANG_SECONDS, ROOT, SAMPLES, is_running, wait_until
from warplens.cluster import Item, Progress, runner_for, sizes
from warplens.cluster.runner import LocalRunner
from warplens_run.base.errors import UsageError, WarplensError

if not os.environ.get("WARPLENS_CI"):
    pytest.importorskip("distributed", reason="pip install 'warplens[cluster]'")

if TYPE_CHECKING:
    from warplens.cluster.on_dask.runner import DaskRunner


def items(*arguments: Any) -> list[Item[Any]]:
    return [Item(argument) for argument in arguments]


@pytest.fixture(scope="module")
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskRunner]:
    from warplens.cluster.on_dask.runner import DaskRunner

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WARPLENS_CACHE", str(tmp_path_factory.mktemp("cache")))
        patched.setenv("POLARS_MAX_THREADS", "8")
        with runner_for("local:2") as runner:
            assert isinstance(runner, DaskRunner)
            runner.map(tasks.double, items(1))
            yield runner


@pytest.fixture
def address(dask: DaskRunner) -> str:
    assert dask._connection is not None
    return dask._connection.address


def test_two_worker_processes_read_what_local_ones_read(dask: DaskRunner) -> None:
    seen: list[Progress] = []
    given = items(*map(str, SAMPLES))
    outcomes = dask.map(tasks.row_counts, given, seen.append)
    assert outcomes == LocalRunner(2).map(tasks.row_counts, given)
    assert all(outcome.value for outcome in outcomes)
    assert (seen[0].done, seen[0].workers) == (0, 0)
    assert (seen[-1].done, seen[-1].total, seen[-1].share, seen[-1].workers) == (len(given), len(given), 1.0, 2)
    assert dask.notes == []


def test_failures_are_the_same_as_locally(dask: DaskRunner, tmp_path: Path) -> None:
    assert dask.map(tasks.fail_for_odd, items(0, 1, 2)) == LocalRunner(0).map(tasks.fail_for_odd, items(0, 1, 2))
    bug = LocalRunner(0).map(tasks.raise_a_bug, items(1))
    assert dask.map(tasks.raise_a_bug, items(1)) == bug
    (outcome,) = dask.map(tasks.fail_the_first_time, items(str(tmp_path / "marker")))
    assert outcome.value == "read"
    assert dask.map(tasks.double, []) == []


def test_a_killed_worker_costs_one_attempt_of_its_own_item_only(dask: DaskRunner, tmp_path: Path) -> None:
    given = items(("", 1), (str(tmp_path / "killed"), 2), *(("", number) for number in range(3, 8)))
    assert [outcome.value for outcome in dask.map(tasks.die_the_first_time, given)] == [2, 4, 6, 8, 10, 12, 14]
    outcomes = dask.map(tasks.die_for_odd, items(0, 1, 2, 4))
    assert [outcome.value for outcome in outcomes] == [0, None, 4, 8]
    assert outcomes[1].reason == "its worker died each time, as they do where memory runs out"


def test_workers_use_one_thread_and_one_core_each(dask: DaskRunner) -> None:
    (outcome,) = dask.map(tasks.print_and_see_settings, items(1))
    assert outcome.value == {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WARPLENS_CORES": "1"}


def test_everything_listens_on_this_machine_only(dask: DaskRunner) -> None:
    import psutil

    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    listening = [
        link.laddr.ip for process in processes for link in process.net_connections("inet") if link.status == "LISTEN"
    ]
    assert len(listening) >= 3  # the scheduler and two workers
    assert set(listening) == {"127.0.0.1"}


def test_a_scheduler_of_the_user_is_found_by_address_and_by_file(address: str, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"type": "Scheduler", "id": "Scheduler-1", "address": address, "workers": {}}))
    for text in (address, str(file)):
        with runner_for(text) as runner:
            assert [outcome.value for outcome in runner.map(tasks.double, items(1, 2))] == [2, 4]
    with runner_for(address) as runner:  # closing the others left it running
        assert runner.map(tasks.double, items(3))[0].value == 6


def test_other_versions_on_a_worker_are_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from warplens.cluster.on_dask import runner as module

    own = module.own_versions()
    monkeypatch.setattr(module, "own_versions", lambda: {**own, "polars": "0.1", "Python": "2.7"})
    with runner_for(address) as runner, pytest.raises(UsageError) as refused:
        runner.map(tasks.double, items(1, 2))
    assert f"Python {own['Python']} instead of 2.7 and polars {own['polars']} instead of 0.1" in refused.value.message
    assert "the same versions" in (refused.value.hint or "")


def test_another_version_of_the_scheduler_is_named(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from warplens.cluster.on_dask import connecting

    monkeypatch.setattr(connecting, "own_versions", lambda: {"distributed": "1.0"})
    with runner_for(address) as runner, pytest.raises(UsageError, match=r"has distributed .+, this process 1\.0"):
        runner.map(tasks.double, items(1))


def test_workers_that_are_too_small_are_noted(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with runner_for(address) as runner:
        runner.map(tasks.double, [Item(1, size_bytes=1 << 50)])
        assert "but the largest rank needs about 5.0 PiB" in runner.notes[0]


@pytest.mark.parametrize(
    ("content", "message"), [(None, "No such file"), ("{}", "not a scheduler file"), ("[1", "not a scheduler file")]
)
def test_a_file_that_is_not_a_schedulers_is_a_usage_error(content: str | None, message: str, tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    with runner_for(str(file)) as runner, pytest.raises(UsageError, match=message):
        runner.map(tasks.double, items(1))


def test_no_answer_and_no_certificates_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    from warplens.cluster.on_dask import connecting

    monkeypatch.setattr(connecting, "CONNECT_SECONDS", 0.5)
    with runner_for("tcp://127.0.0.1:1") as runner, pytest.raises(WarplensError, match="no Dask scheduler answers"):
        runner.map(tasks.double, items(1))
    with runner_for("tls://127.0.0.1:1") as runner, pytest.raises(UsageError, match="needs certificates"):
        runner.map(tasks.double, items(1))


def test_a_scheduler_that_ends_midway_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    from warplens.cluster.on_dask.runner import DaskRunner

    runner = runner_for("local:1")
    assert isinstance(runner, DaskRunner)

    def end_it(progress: Progress) -> None:
        if progress.workers:
            assert runner._connection is not None
            runner._connection.cluster.close()

    with runner, pytest.raises(WarplensError, match=r"scheduler at .+ is gone"):
        runner.map(tasks.sleep_with_a_child, items(str(tmp_path)), end_it)


INTERRUPTED = """
import sys, cluster_tasks
from warplens.cluster import Item, runner_for
with runner_for("local:2") as runner:
    runner.map(cluster_tasks.sleep_with_a_child, [Item(sys.argv[1])] * 4)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_running_after_ctrl_c_or_a_kill(number: signal.Signals, tmp_path: Path) -> None:
    """As a script without a main guard."""
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    program = subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(list(tmp_path.glob("*.pids"))) == 2)
    program.send_signal(number)
    _, errors = program.communicate(timeout=HANG_SECONDS)
    assert program.returncode == -number
    assert errors.count("Traceback") == (number == signal.SIGINT)
    left = [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]
    wait_until(lambda: not any(map(is_running, left)))


SLURM = {"cores": 2, "memory": "4GiB", "interface": "lo", "walltime": "00:10:00"}
SBATCH = """#!/bin/sh
cp "$1" {folder}/job.sh
setsid sh {folder}/job.sh >{folder}/job.log 2>&1 </dev/null &
echo "Submitted batch job $!"
"""
SCANCEL = """#!/bin/sh
for job in "$@"; do echo "$job" >>{folder}/cancelled; kill -KILL -"$job"; done
"""


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Jobs start at once, as processes of this machine."""
    before = signal.getsignal(signal.SIGINT)
    jobqueue = pytest.importorskip("dask_jobqueue")
    signal.signal(signal.SIGINT, before)  # importing it sets another one
    import dask

    assert jobqueue
    for name, script in (("sbatch", SBATCH), ("scancel", SCANCEL)):
        (tmp_path / name).write_text(script.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")]))
    settings = {**dask.config.get("jobqueue.slurm"), **SLURM, "local-directory": str(tmp_path)}
    with dask.config.set({"jobqueue.slurm": settings}):
        yield tmp_path


def test_slurm_jobs_follow_the_users_configuration_and_end_with_the_run(slurm: Path) -> None:
    with runner_for("slurm:1") as runner:
        outcomes = runner.map(tasks.double, items(1, 2, 3))
        assert [outcome.value for outcome in outcomes] == [2, 4, 6]
        assert runner.notes == []
    script = (slurm / "job.sh").read_text()
    assert "export POLARS_MAX_THREADS=1\n" in script
    assert "#SBATCH -t 00:10:00\n" in script
    assert "--nworkers 2" in script
    job = (slurm / "cancelled").read_text().strip()
    wait_until(lambda: not is_running(int(job)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"interface": None}, "no network is named"),
        ({"memory": None}, "the memory of a SLURM job is not known"),
        ({"cores": None}, "the cores of a SLURM job are not known"),
    ],
)
def test_what_slurm_lacks_is_named(changed: dict[str, Any], message: str, slurm: Path) -> None:
    import dask

    settings = {**dask.config.get("jobqueue.slurm"), **changed}
    with dask.config.set({"jobqueue.slurm": settings}), runner_for("slurm") as runner:
        with pytest.raises(UsageError, match=message) as refused:
            runner.map(tasks.double, items(1))
        assert "jobqueue.yaml" in (refused.value.hint or "")


def test_no_more_workers_than_a_jobs_memory_holds(slurm: Path) -> None:
    import dask

    from warplens.cluster.on_dask.connecting import _slurm_options

    settings = dask.config.get("jobqueue.slurm")
    small, large = [Item(0, size_bytes=1 << 20)], [Item(0, size_bytes=500 << 20)]
    assert [_slurm_options(settings, given)["processes"] for given in (small, large)] == [2, 1]
    assert sizes.needed_bytes(large[0].size_bytes) > 2 << 30


def test_a_machine_without_slurm_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with runner_for("slurm") as runner, pytest.raises(UsageError, match="sbatch is not on this machine"):
        runner.map(tasks.double, items(1))
