"""A plan runs to its end whatever its units do, keeps what is done, and goes on from there."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import warm_python
import warplens
from replay_plans import add, choice, plan, saved, storage, tensor, unit, value
from support import HANG_SECONDS
from warplens_run.base.errors import FormatError, UsageError, WarplensError
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_plan import Fill, KernelSource, Rest, SourceKernel, TracedGpu, Unit
from warplens_run.formats.replay_result import ReplayResult, UnitResult
from warplens_run.processes import child
from warplens_run.replay import supervisor
from warplens_run.replay.journal import partial_path
from warplens_run.replay.options import Progress, RunOptions
from warplens_run.replay.supervisor import run_plan

pytest.importorskip("torch")

CPU = RunOptions(device="cpu", min_repeats=6, max_repeats=20, unit_timeout=HANG_SECONDS)
OPS = """
import os, pathlib, sys, time
import torch

log = pathlib.Path(os.environ["REPLAY_TEST_LOG"])
library = torch.library.Library("replaytest", "DEF")

def op(function):
    library.define(f"{function.__name__}(Tensor x) -> Tensor")
    library.impl(function.__name__, function, "CPU")

@op
def leave(x):
    os._exit(7)

@op
def crash(x):
    print("it is over", file=sys.stderr, flush=True)
    os.abort()

@op
def look_up(x):
    if int(x.max()) > 0:
        print("Assertion `index out of bounds` failed", file=sys.stderr, flush=True)
        os.abort()
    return x.clone()

@op
def fail(x):
    raise ValueError("no such luck\\nand more")

@op
def sleep(x):
    log.with_name("worker").write_text(str(os.getpid()))
    time.sleep(3600)
    return x

@op
def chatter(x):
    print("printed")
    os.write(1, b'{"fault": {"message": "a lie"}}\\n')
    return x.clone()

@op
def counted(x):
    with log.open("a") as file:
        file.write("x")
    return x.clone()

@op
def once(x):
    if log.with_name("mended").exists():
        return x.clone()
    raise RuntimeError("not yet")

@op
def narrow(x):
    if x.dtype is not torch.float32:
        raise NotImplementedError('"narrow" not implemented for that')
    return x.clone()

@op
def grow_(x):
    if float(x.sum()) != 0:
        raise RuntimeError("not set back")
    return x.add_(1).clone()
"""


@pytest.fixture(autouse=True)
def _ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A module with ops that die, fail, sleep and count, for workers that start with PyTorch."""
    (tmp_path / "replaytest_ops.py").write_text(OPS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("REPLAY_TEST_LOG", str(tmp_path / "log"))
    warm = warm_python.WarmSubprocess(warm_python.TORCH, ("warplens_run.replay.",))
    monkeypatch.setattr(child, "subprocess", warm)


def own(name: str, ns: int = 1000, written: bool = False, dtype: str = "float32", identity: str = "") -> Unit:
    argument = (tensor(0, 4, dtype=dtype),)
    one = storage(4, dtype, Fill("constant", 0), written=written)
    return unit(f"replaytest::{name}", argument, (one,), id=identity or name, ns=ns)


def run(folder: Path, *units: Unit, options: RunOptions = CPU, fresh: bool = False) -> ReplayResult:
    path = saved(folder, *units)
    options = replace(options, imports=("replaytest_ops",))
    return run_plan(path, folder / "result.json", options, lambda _: None, fresh)


def by_id(result: ReplayResult) -> dict[str, UnitResult]:
    return {each.id: each for each in result.units}


def log(folder: Path) -> int:
    path = folder / "log"
    return len(path.read_text()) if path.exists() else 0


def test_a_unit_that_asserts_is_run_again_with_safe_values_and_marked(tmp_path: Path) -> None:
    """As a device-side assert does, it ends its process."""
    indices = storage(64, "int64", Fill("integers", 0, 50))
    lookup = unit("replaytest::look_up", (tensor(0, 64, dtype="int64"),), (indices,), id="lookup", ns=9000)
    offsets = replace(indices, fill=Fill("ramp", 0, 50, 1))
    wrong = replace(lookup, id="wrong", storages=(offsets,))  # its values obey an invariant: there are no safer ones
    found = by_id(run(tmp_path, lookup, wrong, own("counted")))
    assert [each.status for each in found.values()] == ["done", "failed", "done"]
    assert found["lookup"].time is not None
    assert found["lookup"].notes == (
        "run with safe values (indices 0, numbers between 0 and 1), because with others its process was "
        "ended by SIGABRT: Assertion `index out of bounds` failed",
    )
    assert (found["wrong"].notes, found["counted"].notes) == ((), ())


def test_a_unit_that_asserts_with_safe_values_too_has_failed(tmp_path: Path) -> None:
    floats = unit(
        "replaytest::look_up", (tensor(0, 64),), (storage(64, fill=Fill("uniform", 1, 5)), storage(4)), id="u1"
    )
    found = by_id(run(tmp_path, floats))["u1"]
    assert (found.status, found.notes) == ("failed", ())
    assert found.reason.startswith("its process was ended by SIGABRT: ")


def test_one_bad_unit_of_each_kind_ends_nothing(tmp_path: Path) -> None:
    units = [
        add(ns=9000),
        own("fail", 8000),
        own("leave", 7000),
        own("crash", 6000),
        own("chatter", 5000),
        own("grow_", 4500, written=True),
        own("narrow", 4000, dtype="bfloat16"),
        unit("aten::foo.bar", ns=3000),
        unit("aten::neg", (value("str", "x"),), id="misfit", ns=2500),
        unit("aten::neg", (tensor(0, 1 << 37),), (storage(1 << 37),), id="huge", ns=2000),
        unit("aten::gelu", (tensor(0, 4), choice(value("int", 3), value("str", "tanh"))), (storage(4),), id="choice"),
        unit("aten::mm", id="refused", status="refused", reason="its inputs are not known"),
        unit("aten::mm", id="left", status="left out", reason="beyond --cover"),
    ]
    told: list[Progress] = []
    path = saved(tmp_path, *units, rest=(Rest("k", "kernel", 2, 500, "no op"),), gpus=(TracedGpu("Some GPU"),))
    options = replace(CPU, imports=("replaytest_ops",))
    result = run_plan(path, tmp_path / "result.json", options, told.append)

    found = by_id(result)
    statuses = {name: each.status for name, each in found.items()}
    assert [name for name, status in statuses.items() if status == "done"] == [
        "add",
        "chatter",
        "grow_",
        "narrow",
        "choice",
    ]
    assert found["fail"].reason == "ValueError: no such luck"
    assert found["leave"].reason == "its process ended with status 7"
    assert found["crash"].reason.startswith("its process was ended by SIGABRT")
    assert found["aten::foo.bar"].reason == "this PyTorch has no aten::foo.bar"
    assert "Expected a value of type 'Tensor' for argument 'self'" in found["misfit"].reason
    assert statuses["huge"] == "refused"
    assert found["huge"].reason.startswith("needs 512.0 GiB, ")
    assert (statuses["refused"], found["refused"].reason) == ("refused", "its inputs are not known")
    assert (statuses["left"], found["left"].reason) == ("not run", "beyond --cover")
    assert found["narrow"].notes == ('bfloat16 widened to float32: "narrow" not implemented for that',)
    assert all("\n" not in each.reason for each in result.units)

    time_found = found["add"].time
    assert time_found is not None
    assert time_found.timer == "host"
    assert 6 <= time_found.repeats <= 20
    assert found["add"].same is None
    assert found["add"].energy is None
    assert (result.device, result.runner, result.cache) == ("cpu", "python", "in-situ")
    assert sum(result.rest.values()) == 500
    assert result.notes == ("it ran on the CPU: its times say nothing about a GPU",)
    assert result.versions["torch"]
    assert result_file.load(tmp_path / "result.json") == result
    assert not partial_path(tmp_path / "result.json").exists()

    # The largest first, and every step told.
    ready = [each.id for each in units if each.status == "ready"]
    assert [each.unit for each in told] == [*ready, ""]
    assert [each.done for each in told] == list(range(12))
    assert told[0].share == 0
    assert told[-1].share == 1
    assert {each.total for each in told} == {11}


def test_a_unit_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PatientButFor(supervisor.WorkerProcess):
        """However slow the machine is, only the unit that sleeps comes to its limit."""

        unit = ""

        def send(self, message: Any) -> None:
            self.unit = getattr(message, "unit", "")
            super().send(message)

        def receive(self, seconds: float) -> Any:
            return super().receive(seconds if self.unit == "sleep" else HANG_SECONDS)

    monkeypatch.setattr(supervisor, "WorkerProcess", PatientButFor)
    result = run(tmp_path, own("sleep", 9000), add(), options=replace(CPU, unit_timeout=1.5))
    assert by_id(result)["sleep"].reason == "it took longer than 1.5 s"
    assert by_id(result)["add"].status == "done"


def test_done_units_are_kept_and_others_run_again(tmp_path: Path) -> None:
    units = [own("counted", 3000), own("once", 2000), add()]
    first = run(tmp_path, *units)
    assert {each.id: each.status for each in first.units} == {"counted": "done", "once": "failed", "add": "done"}
    calls = log(tmp_path)
    assert calls > 5
    (tmp_path / "mended").touch()
    second = run(tmp_path, *units, options=replace(CPU, unit_timeout=2 * HANG_SECONDS))
    assert {each.status for each in second.units} == {"done"}
    assert log(tmp_path) == calls, "a done unit is not run again"
    assert by_id(second)["counted"] == by_id(first)["counted"]

    again = run(tmp_path, *units, options=replace(CPU, unit_timeout=2 * HANG_SECONDS))
    assert replace(again, options={}) == replace(second, options={}), "nothing is left to do, nothing is lost"

    with pytest.raises(UsageError, match="contains a run with another seed"):
        run(tmp_path, *units, options=replace(CPU, seed=5))
    with pytest.raises(UsageError, match="contains a run of another plan"):
        run(tmp_path, *units[:1])
    assert log(tmp_path) == calls, "what was measured is neither lost nor measured again"
    run(tmp_path, *units[:1], options=replace(CPU, seed=5), fresh=True)
    assert log(tmp_path) > calls


def test_only_the_units_that_are_asked_for_are_run(tmp_path: Path) -> None:
    units = [own("counted", 3000), add()]
    result = run(tmp_path, *units, options=replace(CPU, units=("add",)))
    assert (by_id(result)["counted"].status, by_id(result)["counted"].reason) == ("not run", "not requested")
    assert log(tmp_path) == 0
    whole = run(tmp_path, *units)
    assert {each.status for each in whole.units} == {"done"}


DRIVER = """
import signal, sys
from dataclasses import replace
from pathlib import Path
from warplens_run.replay.options import RunOptions
from warplens_run.replay.supervisor import run_plan
signal.signal(signal.SIGINT, signal.default_int_handler)
folder = Path(sys.argv[1])
options = RunOptions(device="cpu", min_repeats=6, max_repeats=20, unit_timeout=900, imports=("replaytest_ops",))
try:
    run_plan(folder / "plan.json", folder / "result.json", options, lambda each: print(each.unit, flush=True))
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(130)
"""


def stopped(folder: Path, number: int) -> int:
    """Starts a run in a process of its own and sends it a signal when a unit hangs."""
    saved(folder, own("counted", 9000), own("sleep", 5000), add())
    (folder / "driver.py").write_text(DRIVER)
    home = str(Path(warplens.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), home]), "TMPDIR": str(folder)}
    driver = subprocess.Popen([sys.executable, str(folder / "driver.py"), str(folder)], env=environment)
    try:
        wait_for((folder / "worker").exists)
        driver.send_signal(number)
        return driver.wait(HANG_SECONDS)
    finally:
        driver.kill()
        driver.wait()


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + HANG_SECONDS
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def mended(folder: Path) -> ReplayResult:
    """The rest of a run that was stopped, without the unit that hung."""
    return run_plan(
        folder / "plan.json",
        folder / "result.json",
        replace(CPU, imports=("replaytest_ops",), units=("counted", "add")),
        lambda _: None,
    )


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_ctrl_c_keeps_what_is_done_and_a_second_run_goes_on(tmp_path: Path) -> None:
    assert stopped(tmp_path, signal.SIGINT) == 130
    worker = int((tmp_path / "worker").read_text())
    wait_for(lambda: is_gone(worker))
    kept = by_id(result_file.load(tmp_path / "result.json"))
    assert kept["counted"].status == "done"
    assert (kept["add"].status, kept["add"].reason) == ("not run", "the run was interrupted")
    calls = log(tmp_path)
    whole = by_id(mended(tmp_path))
    assert log(tmp_path) == calls
    assert whole["counted"] == kept["counted"]
    assert whole["add"].status == "done"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
def test_a_killed_run_leaves_its_journal_and_no_worker(tmp_path: Path) -> None:
    assert stopped(tmp_path, signal.SIGKILL) == -signal.SIGKILL
    worker = int((tmp_path / "worker").read_text())
    wait_for(lambda: is_gone(worker))
    assert not list(tmp_path.glob("warplens-replay-*"))
    assert not (tmp_path / "result.json").exists()
    journal = partial_path(tmp_path / "result.json")
    assert journal.exists()
    with journal.open("a") as file:
        file.write('{"unit": {"id": "torn')
    calls = log(tmp_path)
    assert by_id(mended(tmp_path))["counted"].status == "done"
    assert log(tmp_path) == calls
    assert not journal.exists()


def test_what_is_no_result_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text('{"mine": 1}')
    for fresh in (False, True):
        with pytest.raises(UsageError, match="not a result of a replay; it would be overwritten"):
            run(tmp_path, add(), fresh=fresh)
    assert json.loads((tmp_path / "result.json").read_text()) == {"mine": 1}


def test_a_result_names_its_plan_by_the_id_in_its_file(tmp_path: Path) -> None:
    path, output = saved(tmp_path, add(), id="my.plan"), tmp_path / "result.json"
    assert run_plan(path, output, CPU, lambda _: None).plan == "my.plan"
    assert result_file.load(output).plan == "my.plan"


def test_a_run_with_a_limit_of_seconds_ends_with_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longest first; what has begun when the seconds are over is cut short, and the next run goes on with it."""
    passed_s = 0.0
    monkeypatch.setattr(supervisor, "time", SimpleNamespace(monotonic=lambda: time.monotonic() + passed_s))

    def at(state: Progress) -> None:
        nonlocal passed_s
        passed_s = 1e6 if state.unit == "sleep" else 0.0

    units = (own("chatter", ns=10), own("sleep", ns=500), own("counted", ns=9000))
    path, output = saved(tmp_path, *units), tmp_path / "result.json"
    options = replace(CPU, imports=("replaytest_ops",), seconds=1000)
    result = run_plan(path, output, options, at)
    assert {each.id: each.status for each in result.units} == {
        "counted": "done", "sleep": "not run", "chatter": "not run",
    }  # fmt: skip
    assert by_id(result)["sleep"].reason == by_id(result)["chatter"].reason == "not reached within 1000 s"
    assert result.notes[-1] == "not reached within 1000 s: 2 of 3 units"
    assert result == result_file.load(output)
    further = run_plan(path, output, replace(options, units=("chatter",)), lambda _: None)
    assert (by_id(further)["chatter"].status, by_id(further)["counted"]) == ("done", by_id(result)["counted"])
    assert not any("not reached" in note for note in further.notes)


def test_a_plan_from_before_plans_had_ids_goes_on_with_its_result(tmp_path: Path) -> None:
    """Its results name it by the hash of its content, and have no fingerprint."""
    path, output = tmp_path / "plan.json", tmp_path / "result.json"
    value = plan_file.to_json(plan(add()))
    assert "id" not in value
    path.write_text(json.dumps(value))
    old_hash = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
    first = run_plan(path, output, CPU, lambda _: None)
    assert first.plan == old_hash
    done = replace(first.units[0], notes=("done before",))
    result_file.save(output, replace(first, units=(done,), plan_fingerprint=""))
    assert run_plan(path, output, CPU, lambda _: None).units == (done,)


def test_a_plan_that_was_edited_does_not_go_on_with_what_it_was_before(tmp_path: Path) -> None:
    path, output = saved(tmp_path, add()), tmp_path / "result.json"
    run_plan(path, output, CPU, lambda _: None)
    value = json.loads(path.read_text())
    value["units"][0]["storages"][0]["bytes"] *= 2
    path.write_text(json.dumps(value))
    with pytest.raises(UsageError, match="contains a run of this plan before it was edited"):
        run_plan(path, output, CPU, lambda _: None)
    run_plan(path, output, CPU, lambda _: None, fresh=True)


def test_an_id_that_is_not_a_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="id: not a name"):
        plan_file.load(saved(tmp_path, add(), id="a/b"))


def test_a_result_of_another_device_is_not_overwritten(tmp_path: Path) -> None:
    path, output = saved(tmp_path, add()), tmp_path / "result.json"
    found = ReplayResult(
        plan_file.load(path).id, "", 0, 0, "NVIDIA H200", "python", CPU.cache, (), options=CPU.as_words()
    )
    result_file.save(output, found)
    with pytest.raises(UsageError, match="contains a run on NVIDIA H200"):
        run_plan(path, output, CPU, lambda _: None)
    assert result_file.load(output) == found
    assert not partial_path(output).exists()


def test_a_plan_without_a_gpu_says_how_to_do_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(WarplensError, match="no GPU visible") as caught:
        run(tmp_path, add(), options=RunOptions())
    assert caught.value.hint is not None
    assert "srun" in caught.value.hint
    assert "the device cpu" in caught.value.hint
    assert not (tmp_path / "result.json").exists()


def test_without_pytorch_the_hint_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "subprocess", subprocess)
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')")
    with pytest.raises(WarplensError, match="replay needs PyTorch") as caught:
        run(tmp_path, add())
    assert caught.value.hint == "pip install torch"


def test_a_module_that_cannot_be_imported_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(WarplensError, match="nosuch_ops cannot be imported"):
        run_plan(saved(tmp_path, add()), tmp_path / "r.json", replace(CPU, imports=("nosuch_ops",)), lambda _: None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (RunOptions(cache="warm"), "cache is one of in-situ, hot, cold, not 'warm'"),
        (RunOptions(timer="clock"), "timer is one of profiler, graph"),
        (RunOptions(device="gpu"), "device is cuda, cuda:N or cpu"),
        (RunOptions(precision=0), "precision is a share"),
        (RunOptions(max_repeats=0), "max_repeats is 1 or more"),
        (RunOptions(imports=("os; import sys",)), "imports is names of modules"),
        (RunOptions(units=("nobody",)), "the plan has no unit 'nobody'"),
    ],
)
def test_options_that_make_no_sense_are_one_line(tmp_path: Path, options: RunOptions, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        run_plan(saved(tmp_path, add()), tmp_path / "r.json", options, lambda _: None)


def test_a_folder_that_is_not_there_is_told_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        run_plan(saved(tmp_path, add()), tmp_path / "no" / "r.json", CPU, lambda _: None)


def test_a_damaged_plan_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    document = plan_file.to_json(plan(add()))
    document["units"][0]["status"] = "maybe"
    path.write_text(json.dumps(document))
    with pytest.raises(FormatError, match=r"units\[0\]\.status"):
        run_plan(path, tmp_path / "r.json", CPU, lambda _: None)


def test_source_in_a_plan_does_not_run_unless_allowed(tmp_path: Path) -> None:
    text = f"open({str(tmp_path / 'ran')!r}, 'w')"
    sources = {"s": KernelSource(text, hashlib.sha256(text.encode()).hexdigest())}
    generated = unit("triton_poi", id="generated", triton=SourceKernel("s", "triton_poi"))
    path = saved(tmp_path, generated, sources=sources)
    for options, reason in (
        (CPU, "it contains source code, which runs only if it is allowed (option allow_source)"),
        (replace(CPU, allow_source=True), "a Triton kernel needs a GPU"),
    ):
        result = run_plan(path, tmp_path / "r.json", options, lambda _: None)
        assert (result.units[0].status, result.units[0].reason) == ("refused", reason)
    assert not (tmp_path / "ran").exists()


def test_the_process_that_supervises_never_loads_pytorch() -> None:
    code = "import sys; from warplens_run.replay import supervisor, text; print('torch' in sys.modules)"
    home = str(Path(warplens.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": home}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"
