"""`warplens profile` as a user runs it: real programs, in processes of their own, on the CPU."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warm_python
import warplens
from support import HANG_SECONDS

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")

TRAIN = """
import sys, time
import torch
import warplens
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for turn in range(6):
    with warplens.scope("forward", {"flops": 1000, "tokens": 8}):
        loss = model(torch.randn(8, 16)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print("arguments", sys.argv[1:])
if "crash" in sys.argv:
    raise ValueError("boom")
if "leave" in sys.argv:
    sys.exit(7)
if "hang" in sys.argv:
    print("waiting", flush=True)
    time.sleep(3600)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("capture")
    (path / "train.py").write_text(TRAIN)
    return path


def environment() -> dict[str, str]:
    source = str(Path(warplens.__file__).parents[1])
    return {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}


def profile(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own that has PyTorch loaded: for what is not about how a recorded process starts."""
    return warm_python.run(["-m", "warplens", "profile", *words], folder, environment(), warm_python.OPTIMIZER)


def profile_from_the_start(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "warplens", "profile", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment(), timeout=HANG_SECONDS)


def manifest(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    return found


def opened(path: Path) -> warplens.Profile:
    found = warplens.open(path, cache=False)
    assert isinstance(found, warplens.Profile)
    return found


def test_steps_of_a_script_with_everything_beside_them(folder: Path) -> None:
    done = profile_from_the_start(
        folder,
        "-o",
        "steps",
        "--steps",
        "2",
        "--wait",
        "1",
        "--warmup",
        "1",
        "--memory",
        "--stacks",
        "--counters",
        "train.py",
        "--lr",
        "3",
    )
    assert done.returncode == 0, done.stderr
    assert "arguments ['--lr', '3']" in done.stdout
    assert "no GPU visible to PyTorch" in done.stderr
    assert "note: no GPU counters: no " in done.stderr
    assert "next: warplens report steps" in done.stderr
    found = opened(folder / "steps")
    assert len(found.table("steps")) == 2
    trace = found.trace
    assert trace.is_kind("python").any(), "--stacks records Python frames"
    assert len(trace.memory), "--memory records allocations"
    assert (trace.specs["input_dims"].str.len_bytes() > 0).any(), "shapes are recorded by default"
    assert any("." in name for name in trace.names if name.startswith("aten::")), "overload names are recorded"
    flops = trace.metrics.filter(metric="flops")["value"].to_list()
    assert flops == [1000.0, 1000.0], "one forward scope in each recorded step"
    tree = found.tree("annotation")
    assert tree.total("tokens")[0] == 16
    share = next(row["message"] for row in found.table("quality").to_dicts() if row["code"] == "execution_step")
    assert "100.0 % of ops" in share, share
    assert len(found.table("arguments"))
    facts = json.loads((folder / "steps" / "environment.json").read_text())
    assert facts["packages"]["torch"].startswith("2.")
    assert "backends.cuda.matmul.allow_tf32" in facts["torch"]["settings"]


def test_a_crash_keeps_what_was_recorded_and_the_status(folder: Path) -> None:
    done = profile(folder, "-o", "crash", "train.py", "crash")
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "ValueError: boom" in done.stderr
    assert "capture/launch.py" not in done.stderr, "only the program's own frames are shown"
    assert manifest(folder / "crash")["status"] == "crashed"
    assert "boom" in next(
        row["message"] for row in opened(folder / "crash").table("quality").to_dicts() if row["code"] == "capture_ended"
    )


OLD_GPU = """
import torch
torch.version.cuda = "13.0"
torch.cuda.is_available = lambda: True
torch.cuda.device_count = lambda: 1
torch.cuda.get_device_capability = lambda *_: (6, 1)
torch.cuda.get_arch_list = lambda: ["sm_75"]
torch.cuda.get_device_name = lambda *_: "NVIDIA GeForce GTX 1080 Ti"
raise RuntimeError("CUDA error: no kernel image is available for execution on the device")
"""
"""A program on a GPU that PyTorch's build has no kernels for."""


def test_a_program_that_fails_for_want_of_kernels_gets_the_remedy_below_its_traceback(folder: Path) -> None:
    (folder / "old_gpu.py").write_text(OLD_GPU)
    done = profile(folder, "-o", "old_gpu", "old_gpu.py")
    assert done.returncode == 1
    below = done.stderr.partition("no kernel image is available for execution on the device")[2]
    assert "has no kernels for NVIDIA GeForce GTX 1080 Ti (sm_61), only for sm_75" in below
    assert "hint: " in below


def test_an_exit_status_is_passed_on_and_a_tree_stays_small(folder: Path) -> None:
    done = profile(folder, "--data", "tree", "-o", "tree.zip", "train.py", "leave")
    assert done.returncode == 7
    found = warplens.open(folder / "tree.zip", cache=False)
    assert not isinstance(found, warplens.Profile)
    assert (folder / "tree.zip").stat().st_size < 1_000_000
    assert found.tree("annotation").total("tokens")[0] == 48
    assert "forward" in found.paths.tree.name


def test_a_terminated_run_is_kept_and_a_killed_one_does_not_open(folder: Path) -> None:
    # What a killed process leaves is nothing that it does itself: it needs no start of its own.
    warm = warm_python.WarmSubprocess(warm_python.OPTIMIZER, ("warplens",))
    for number, name, start in (
        (signal.SIGTERM, "terminated", subprocess.Popen),
        (signal.SIGKILL, "killed", warm.Popen),
    ):
        command = [sys.executable, "-m", "warplens", "profile", "-o", name, "train.py", "hang"]
        process: Any = start(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment())
        assert process.stdout is not None
        while b"waiting" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.wait(HANG_SECONDS)
        process.stdout.close()
        assert process.returncode == (143 if number == signal.SIGTERM else -9)
    assert manifest(folder / "terminated")["status"] == "terminated"
    assert not (folder / "killed").exists()
    (left,) = folder.glob("killed.partial-*")
    with pytest.raises(warplens.FormatError, match="incomplete capture"):
        warplens.open(left)


def test_two_ranks_leave_a_bundle_each(folder: Path) -> None:
    (folder / "ranks.py").write_text(
        "import torch\nimport torch.distributed as dist\ndist.init_process_group('gloo')\nx = torch.ones(4)\ndist.all_reduce(x)\nassert x[0] == 2\ndist.destroy_process_group()\n"
    )
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        "-m",
        "warplens",
        "profile",
        "-o",
        "job",
        "ranks.py",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment(), timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    for rank in (0, 1):
        found = opened(folder / "job" / f"rank{rank}")
        assert found.trace.meta.distributed is not None
        assert found.trace.meta.distributed.rank == rank
        assert any("all_reduce" in name or "allreduce" in name for name in found.trace.names)
    assert manifest(folder / "job" / "rank1")["world_size"] == 2
    job = warplens.open_ranks([folder / "job"], cache=False)
    assert job.table("ranks").frame["rank"].to_list() == [0, 1]
    assert job.job.calls["kind"].to_list() == ["all_reduce"] * 2
    assert "cannot tell who waits: no step was recorded by all ranks" in job.verdict()


def test_a_session_in_the_program_itself(folder: Path) -> None:
    (folder / "own.py").write_text(
        "import torch, warplens\n"
        "session = warplens.start('own', data='trace')\n"
        "with warplens.scope('seen'): torch.ones(3) + 1\n"
        "warplens.deactivate(session)\n"
        "with warplens.scope('unseen'): torch.ones(3) * 2\n"
        "warplens.activate(session)\n"
        "warplens.enter_scope('again', {'flops': 3}); torch.ones(3) - 1; warplens.exit_scope()\n"
        "try: warplens.start('second', backend='torch')\n"
        "except warplens.UsageError as error: print('refused:', error)\n"
        "print(warplens.finalize(session))\n"
        "@warplens.profile(name='decorated')\n"
        "def work(): return torch.ones(2).sum().item()\n"
        "print(work())\n"
    )  # fmt: skip
    done = warm_python.run(["own.py"], folder, environment(), warm_python.OPTIMIZER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "refused: a session is recording already, and PyTorch and JAX allow one at a time",
        str(folder / "own.warplens"),
        "2.0",
    ]
    names = set(opened(folder / "own.warplens").trace.names)
    assert {"seen", "again"} <= names
    assert "unseen" not in names
    assert not any("mul" in name for name in names), "nothing is recorded while deactivated"
    assert not isinstance(warplens.open(folder / "decorated.warplens", cache=False), warplens.Profile), (
        "a tree by default, as Proton's"
    )


def test_a_program_that_ends_without_finalize_still_leaves_its_profile(folder: Path) -> None:
    (folder / "ends.py").write_text("import torch, warplens\nwarplens.start('ends', data='trace')\ntorch.ones(3) + 1\n")
    done = subprocess.run(
        [sys.executable, "ends.py"], cwd=folder, capture_output=True, text=True, env=environment(), timeout=HANG_SECONDS
    )
    assert done.returncode == 0, done.stderr
    assert "aten::add.Tensor" in opened(folder / "ends.warplens").trace.names


@pytest.mark.parametrize(("words", "told"), [
    (["nowhere.py"], "nowhere.py: No such file"),
    ([], "no program to profile"),
    (["-m", "no.such.module"], "no module 'no.such.module'"),
    (["--steps", "all", "--wait", "2", "train.py"], "wait and warmup need a number of steps"),
    (["--steps", "few", "train.py"], "--steps 'few'"),
    (["--steps", "-1", "train.py"], "--steps '-1'"),
    (["--ranks", "some", "train.py"], "--ranks 'some'"),
    (["-o", "train.py", "train.py"], "train.py is an input of this command"),
    (["--backend", "jax", "--data", "tree", "train.py"], "records traces only"),
    (["--mode", "cycles", "train.py"], "modes of Proton: pcsampling, instrumentation, mma"),
    (["--backend", "torch", "--mode", "pcsampling", "train.py"], "the backend torch has no modes"),
    (["--mode", "pcsampling", "--data", "trace", "train.py"], "no instruction samples"),
])  # fmt: skip
def test_what_cannot_be_done_is_one_line(folder: Path, words: list[str], told: str) -> None:
    done = profile(folder, *words)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_runs_with_its_own_options(folder: Path) -> None:
    (folder / "pkg").mkdir()
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "pkg" / "__main__.py").write_text("import sys, torch\ntorch.ones(2) + 1\nprint(sys.argv[1:])\n")
    done = profile(folder, "-o", "module", "-m", "pkg", "--steps", "9")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "['--steps', '9']"
    assert len(opened(folder / "module").trace)
