"""Times first, then energy: the supervisor with a worker that is made up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from replay_plans import add, saved
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_result import Energy, MeterFacts, Time, UnitResult
from warplens_run.processes.child import ChildEnded, Ending
from warplens_run.replay import supervisor, wire
from warplens_run.replay.options import RunOptions
from warplens_run.replay.unit_results import unit_result

METER = MeterFacts("a meter", 0.1, 100.0)


def energy(joules: float) -> Energy:
    return Energy(joules, 2 * joules, 300, 100, 2.0, 1000, 1000, 0.9, 5, 0.02)


class MadeUpWorker:
    """Answers as a worker on a GPU does; it dies of the energy of `u2`."""

    told: ClassVar[list[tuple[str, bool]]] = []
    starts: ClassVar[int] = 0

    def __init__(self, job: wire.ReplayJob) -> None:
        type(self).starts += 1
        self._units = {unit.id: unit for unit in plan_file.load(Path(job.plan)).units}
        self._answers: list[Any] = [wire.Hello("NVIDIA Made-up", has_meter=True)]

    def send(self, task: wire.UnitTask) -> None:
        self.told.append((task.unit, task.energy))
        done = unit_result(self._units[task.unit], result_file.DONE)
        if task.energy and task.unit == "u2":
            self._answers.append(ChildEnded(Ending(-11)))
        elif task.energy:
            self._answers.append(wire.Answer(replace(done, energy=energy(0.5), notes=("looped",)), meter=METER))
        else:
            self._answers.append(wire.Answer(replace(done, time=Time(1, 1, 1, 1, 1, 20, 0.01), same=True)))

    def receive(self, seconds: float) -> Any:
        answer = self._answers.pop(0)
        if isinstance(answer, ChildEnded):
            raise answer
        return answer

    def end(self) -> None:
        pass


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    monkeypatch.setattr(supervisor, "WorkerProcess", MadeUpWorker)
    MadeUpWorker.told.clear()
    MadeUpWorker.starts = 0
    return MadeUpWorker.told


def run(folder: Path, **options: Any) -> dict[str, UnitResult]:
    plan = folder / "plan.json"
    if not plan.exists():
        saved(folder, add("u1", ns=100), add("u2", ns=80), add("u3", ns=60), add("u4", ns=10))
    result = supervisor.run_plan(plan, folder / "r.json", RunOptions(**options), lambda progress: None)
    assert result_file.load(folder / "r.json") == result
    return {unit.id: unit for unit in result.units}


def test_all_times_come_before_the_first_energy(told: list[tuple[str, bool]], tmp_path: Path) -> None:
    found = run(tmp_path)
    assert told == [
        ("u1", False),
        ("u2", False),
        ("u3", False),
        ("u4", False),
        ("u1", True),
        ("u2", True),
        ("u3", True),
    ]
    assert found["u1"].energy == energy(0.5)
    assert found["u1"].time is not None
    assert found["u1"].notes == ("looped",)
    assert found["u4"].energy is None, "it is beyond the share whose energy is measured"
    assert result_file.load(tmp_path / "r.json").meter == METER


def test_a_unit_that_dies_of_its_energy_keeps_its_time(told: list[tuple[str, bool]], tmp_path: Path) -> None:
    found = run(tmp_path)
    assert (found["u2"].status, found["u2"].energy) == (result_file.DONE, None)
    assert found["u2"].time is not None
    assert found["u2"].notes == ("no energy: its process was ended by SIGSEGV",)
    assert found["u3"].energy is not None
    assert MadeUpWorker.starts == 2


def test_energy_is_measured_of_the_longest_units(told: list[tuple[str, bool]], tmp_path: Path) -> None:
    found = run(tmp_path, energy_cover=0.1)
    assert [unit for unit, is_energy in told if is_energy] == ["u1"]
    assert found["u3"].energy is None


def test_a_second_run_measures_only_what_is_missing(told: list[tuple[str, bool]], tmp_path: Path) -> None:
    run(tmp_path)
    result = result_file.load(tmp_path / "r.json")
    units = [replace(unit, energy=None, notes=()) if unit.id == "u3" else unit for unit in result.units]
    result_file.save(tmp_path / "r.json", replace(result, units=tuple(units)))
    told.clear()
    assert run(tmp_path)["u3"].energy is not None
    assert told == [("u3", True)]
    told.clear()
    run(tmp_path)
    assert told == []


class AssertingWorker(MadeUpWorker):
    """The GPU of `u1` asserts unless its values are safe: the context is then of no use."""

    def send(self, task: wire.UnitTask) -> None:
        super().send(task)
        self.told.append((f"{task.unit} safe", task.safe))
        if task.unit == "u1" and not task.safe:
            failed = unit_result(self._units["u1"], result_file.FAILED, "CUDA error: device-side assert triggered")
            self._answers[-1] = wire.Answer(failed, broken=True)


def test_what_asserts_on_the_gpu_is_timed_and_metered_with_safe_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "WorkerProcess", AssertingWorker)
    AssertingWorker.told.clear()
    AssertingWorker.starts = 0
    plan = saved(tmp_path, add("u1", 9000), add("u3", 1000))
    result = supervisor.run_plan(plan, tmp_path / "r.json", RunOptions(energy_cover=1.0), lambda _: None)
    first = result.units[0]
    assert (first.status, first.energy is not None, AssertingWorker.starts) == ("done", True, 2)
    assert "because with others CUDA error: device-side assert triggered" in first.notes[0]
    assert [safe for name, safe in AssertingWorker.told if name == "u1 safe"] == [False, True, True]
    assert not any(safe for name, safe in AssertingWorker.told if name == "u3 safe")
