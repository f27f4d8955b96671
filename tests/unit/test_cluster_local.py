"""Local processes: one task per rank, whatever happens to one of them."""

from __future__ import annotations

import doctest
import errno
import gzip
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import cluster_tasks as tasks
from support import HANG_SECONDS, ROOT, SAMPLES, is_running, wait_until
from warplens.cli import rank_progress
from warplens.cluster import Item, Progress, attempt, processes, runner_for, sizes, unpacked_bytes
from warplens.cluster.on_dask import task
from warplens.cluster.runner import LocalRunner
from warplens_run.base import machine
from warplens_run.base.errors import MissingExtra, UsageError, WarplensError

MIB = 1 << 20


@pytest.mark.parametrize("module", [attempt, task, rank_progress])
def test_the_examples_hold(module: ModuleType) -> None:
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def items(*arguments: Any) -> list[Item[Any]]:
    return [Item(argument) for argument in arguments]


@pytest.mark.parametrize("processes", [0, 2])
def test_outcomes_are_in_the_order_of_the_items_and_progress_ends_at_all(processes: int) -> None:
    seen: list[Progress] = []
    given = [Item(number, size_bytes=number) for number in range(5)]
    outcomes = LocalRunner(processes).map(tasks.double, given, seen.append)
    assert [outcome.value for outcome in outcomes] == [0, 2, 4, 6, 8]
    assert not any(outcome.failed for outcome in outcomes)
    assert [progress.done for progress in seen if progress.done] == [1, 2, 3, 4, 5]
    assert (seen[-1].total, seen[-1].share, seen[-1].left_s, seen[-1].failed) == (5, 1.0, 0.0, 0)


def test_the_time_left_follows_the_work_done_and_is_unknown_at_first() -> None:
    assert Progress(1, 4, 0.25, 10.0).left_s == 30.0
    assert Progress(0, 4, 0.0, 10.0).left_s is None


@pytest.mark.parametrize("processes", [0, 1])
def test_the_largest_item_is_first(processes: int, tmp_path: Path) -> None:
    log = tmp_path / "order"
    given = [Item((str(log), number), size_bytes=size) for number, size in enumerate([5, 90, 20])]
    LocalRunner(processes).map(tasks.write_its_number, given)
    assert log.read_text().split() == ["1", "2", "0"]


def test_processes_read_what_the_caller_reads() -> None:
    given = items(*map(str, SAMPLES))
    alone = LocalRunner(0).map(tasks.row_counts, given)
    assert LocalRunner(2).map(tasks.row_counts, given) == alone
    assert all(outcome.value and outcome.value["events"] > 0 for outcome in alone)


@pytest.mark.parametrize("processes", [0, 2])
def test_expected_failures_are_outcomes_with_reason_and_hint(processes: int) -> None:
    seen: list[Progress] = []
    outcomes = LocalRunner(processes).map(tasks.fail_for_odd, items(0, 1, 2), seen.append)
    assert [outcome.value for outcome in outcomes] == [0, None, 2]
    assert (outcomes[1].reason, outcomes[1].hint) == ("rank1.json: not a trace", "record it again")
    assert (seen[-1].done, seen[-1].failed) == (3, 1)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (tasks.raise_a_bug, "an internal error: KeyError: 'missing' at cluster_tasks.py:"),
        (tasks.raise_no_memory, "not enough memory"),
        (tasks.unpicklable, "an internal error: "),
    ],
)
def test_other_failures_are_one_line_too(task: Callable[[int], Any], reason: str) -> None:
    (outcome,) = LocalRunner(1).map(task, items(1))
    assert outcome.reason.startswith(reason)
    assert "\n" not in outcome.reason


@pytest.mark.parametrize("processes", [0, 2])
def test_a_file_that_cannot_be_read_is_tried_again(processes: int, tmp_path: Path) -> None:
    outcomes = LocalRunner(processes).map(tasks.fail_the_first_time, items(str(tmp_path / "a"), str(tmp_path / "b")))
    assert [outcome.value for outcome in outcomes] == ["read", "read"]
    missing = str(tmp_path / "missing")
    (outcome,) = LocalRunner(processes).map(tasks.missing_file, items(missing))
    assert outcome.reason == f"{missing}: No such file or directory"


def test_an_item_whose_process_is_killed_is_tried_again_in_a_fresh_one(tmp_path: Path) -> None:
    given = items(("", 1), (str(tmp_path / "killed"), 2), ("", 3))
    outcomes = LocalRunner(2).map(tasks.die_the_first_time, given)
    assert [outcome.value for outcome in outcomes] == [2, 4, 6]


def test_an_item_that_kills_every_process_is_noted_and_costs_no_other() -> None:
    outcomes = LocalRunner(2).map(tasks.die_for_odd, items(*range(6)))
    assert [outcome.value for outcome in outcomes] == [0, None, 4, None, 8, None]
    assert {outcome.reason for outcome in outcomes if outcome.failed} == {"its process was ended by SIGSEGV"}


def test_a_process_that_cannot_start_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_process: object) -> None:
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(processes._Worker, "start", refuse)
    outcomes = LocalRunner(2).map(tasks.double, items(1, 2))
    assert {outcome.reason for outcome in outcomes} == {
        "its process could not be started: Resource temporarily unavailable"
    }


def test_processes_use_one_thread_each_and_share_the_cores(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("warplens.cluster.processes.usable_cores", lambda: 8)
    monkeypatch.setenv("POLARS_MAX_THREADS", "8")
    first, _ = LocalRunner(2).map(tasks.print_and_see_settings, items(1, 2))
    assert first.value == {"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WARPLENS_CORES": "4"}
    output, errors = capfd.readouterr()
    assert (output, errors.count("a task prints")) == ("", 2)


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Python 3.10 searches the current folder first while it starts, whatever it is told.
    for module in ("json", "multiprocessing", "pickle") if sys.version_info >= (3, 11) else ("json",):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('run from the folder of traces')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", ".", str(tmp_path))])
    (outcome,) = LocalRunner(1).map(tasks.where_json_is_from, items(1))
    assert outcome.value is not None
    assert not outcome.value.startswith(str(tmp_path))


def test_a_function_without_an_importable_name_is_refused() -> None:
    with pytest.raises(TypeError, match="not a function of an importable module"):
        LocalRunner(2).map(lambda number: number, items(1, 2))


SCRIPT = """
import cluster_tasks
from warplens.cluster import Item
from warplens.cluster.runner import LocalRunner
print([outcome.value for outcome in LocalRunner(2).map(cluster_tasks.double, [Item(1), Item(2)])])
"""


@pytest.mark.parametrize("is_file", [True, False])
def test_a_script_without_a_main_guard_is_run_once(is_file: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    command, stdin = ([str(script)], None) if is_file else (["-"], SCRIPT)
    ran = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": path},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert (ran.stdout, ran.stderr, ran.returncode) == ("[2, 4]\n", "", 0)


def test_any_executor_runs_tasks_and_stays_open() -> None:
    with ThreadPoolExecutor(2) as threads:
        outcomes = runner_for(threads).map(tasks.fail_for_odd, items(0, 1, 2))
        assert outcomes == LocalRunner(0).map(tasks.fail_for_odd, items(0, 1, 2))
        assert threads.submit(tasks.double, 2).result() == 4
    with pytest.raises(WarplensError, match="the executor takes no tasks: cannot schedule new futures after shutdown"):
        runner_for(threads).map(tasks.double, items(1))


def test_what_a_broken_executor_had_is_tried_in_a_process_of_its_own(tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        given = items(("", 1), (str(tmp_path / "killed"), 2), ("", 3))
        outcomes = runner_for(pool).map(tasks.die_the_first_time, given)
    assert [outcome.value for outcome in outcomes] == [2, 4, 6]


def test_without_semaphores_ranks_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(processes, "ProcessPoolExecutor", refuse)
    runner = LocalRunner(2)
    assert [outcome.value for outcome in runner.map(tasks.double, items(1, 2))] == [2, 4]
    assert runner.notes == [
        "ranks are read one after the other, because no processes can be started: [Errno 38] Function not implemented"
    ]


INTERRUPTED = """
import sys, cluster_tasks
from warplens.cluster import Item
from warplens.cluster.runner import LocalRunner
LocalRunner(2).map(cluster_tasks.sleep_with_a_child, [Item(sys.argv[1])] * 4)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_running_after_ctrl_c_or_a_kill(number: signal.Signals, tmp_path: Path) -> None:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT / "tests")])
    program = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": path},
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: len(list(tmp_path.glob("*.pids"))) == 2)
    program.send_signal(number)
    _, errors = program.communicate(timeout=HANG_SECONDS)
    assert program.returncode == -number  # Python ends itself by SIGINT after an uncaught KeyboardInterrupt
    assert errors.count("Traceback") == (number == signal.SIGINT)
    left = [int(pid) for file in tmp_path.glob("*.pids") for pid in file.read_text().split()]
    assert len(left) == 4
    wait_until(lambda: not any(map(is_running, left)))


@pytest.mark.parametrize(
    ("sizes_mib", "cores", "free_mib", "count"),
    [
        ([100] * 8, 4, 100_000, 4),  # a core each
        ([100] * 3, 8, 100_000, 3),  # no more than items
        ([100] * 8, 8, 2_000, 2),  # 650 MiB each of 1,600
        ([100] * 8, 8, 100, 0),  # one at a time, in the caller's own
        ([100] * 8, 8, None, 8),  # unknown memory
        ([1] * 4, 8, 100_000, 0),  # done before a process has started
        ([100], 8, 100_000, 0),
        ([100] * 8, 1, 100_000, 0),
    ],
)
def test_processes_are_limited_by_cores_memory_and_work(
    sizes_mib: list[int], cores: int, free_mib: int | None, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "usable_cores", lambda: cores)
    monkeypatch.setattr(sizes, "free_ram", lambda: None if free_mib is None else free_mib * MIB)
    assert sizes.process_count([Item(0, size_bytes=size * MIB) for size in sizes_mib]) == count


def test_the_unpacked_size_is_estimated_without_unpacking(tmp_path: Path) -> None:
    text = os.urandom(50_000).hex().encode() * 10  # over the least plausible ratio
    (tmp_path / "plain.json").write_bytes(text)
    packed = gzip.compress(text)
    (tmp_path / "packed.json.gz").write_bytes(packed)
    members = gzip.compress(text) + gzip.compress(b"end")
    (tmp_path / "members.json.gz").write_bytes(members)
    plain, one, several = (
        unpacked_bytes(tmp_path / name) for name in ("plain.json", "packed.json.gz", "members.json.gz")
    )
    assert plain == len(text)
    assert one == (len(text) if len(text) >= 4 * len(packed) else 16 * len(packed))
    assert several == 16 * len(members)
    assert unpacked_bytes(tmp_path) == plain + one + several
    assert unpacked_bytes(tmp_path / "missing") == 0


def test_local_processes_are_the_default() -> None:
    assert isinstance(runner_for(), LocalRunner)


@pytest.mark.parametrize("text", ["moon", "local:0", "local:x", "slurm:-1", "http://host:1", "local:2:3"])
def test_an_unknown_cluster_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="is not a cluster") as refused:
        runner_for(text)
    assert "tcp://host:8786" in (refused.value.hint or "")


def test_without_dask_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("warplens.cluster.choosing.find_spec", lambda _name: None)
    with pytest.raises(MissingExtra) as missing:
        runner_for("local")
    assert missing.value.hint == "pip install 'warplens[cluster]'"


def test_progress_is_drawn_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with rank_progress.rank_progress() as show:
        show(Progress(1, 2, 0.5, 3.0))
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with rank_progress.rank_progress() as show:
        show(Progress(1, 2, 0.5, 3.0))
    errors = capsys.readouterr().err
    assert "50 %, 1 of 2 ranks, about 3 s left" in errors
    assert errors.endswith(" \r")


def test_cores_and_memory_follow_the_limits_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group = tmp_path / "slurm" / "job_7"
    group.mkdir(parents=True)
    (tmp_path / "groups").write_text("0::/slurm/job_7/step_0\n")
    (group / "memory.max").write_text(str(4000 * MIB))
    (group / "memory.current").write_text(str(3000 * MIB))
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {500 * MIB}\n")
    (group / "cpu.max").write_text("100000 100000\n")
    monkeypatch.setattr(machine, "GROUPS", tmp_path / "groups")
    monkeypatch.setattr(machine, "GROUP_ROOT", tmp_path)
    monkeypatch.setattr(machine, "_meminfo", lambda: 9000 * MIB)
    monkeypatch.delenv(machine.CORES, raising=False)
    assert machine.free_ram() == 1500 * MIB
    assert machine.usable_cores() == 1
    (group / "cpu.max").write_text("max 100000\n")
    assert machine.usable_cores() == machine._bound_cores()
    monkeypatch.setenv(machine.CORES, "1")
    assert machine.usable_cores() == 1
