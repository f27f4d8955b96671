"""What only a GPU can show of a recording: plain steps, the light pass and what waits wait for.

Needs an NVIDIA GPU and PyTorch for it; elsewhere each test says so and is skipped.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import warplens
from support import HANG_SECONDS
from warplens.model.trace import Trace


def has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None or importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


pytestmark = pytest.mark.skipif(not has_gpu(), reason="needs an NVIDIA GPU and PyTorch for it")
TRAIN = """
import torch
layers = [layer for _ in range(40) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
model = torch.nn.Sequential(*layers).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, foreach=True)
words = torch.randn(8, 64, device="cuda")
for _ in range(40):
    loss = model(words).square().mean()
    loss.backward()
    loss.item()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("capture")
    (folder / "train.py").write_text(TRAIN)
    options = ["--steps", "3", "--wait", "12", "--counters", "-o", "run"]
    command = [sys.executable, "-m", "warplens", "profile", *options, "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1])}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def profile(bundle: Path) -> warplens.Profile:
    profile = warplens.open(bundle, cache=False)
    assert isinstance(profile, warplens.Profile)
    return profile


def kernels_by_step(trace: Trace) -> dict[int, list[str]]:
    """Names of GPU work in the order of launches."""
    launches = trace.ints("start_ns")[trace.ints("launch")[trace.gpu_rows]]
    kernels: dict[int, list[str]] = {}
    for row in trace.gpu_rows[launches.argsort(kind="stable")].tolist():
        kernels.setdefault(int(trace.ints("step")[row]), []).append(trace.names[trace.ints("name")[row]])
    return kernels


def mean_step_ns(trace: Trace) -> float:
    return float((trace.steps["end_ns"] - trace.steps["start_ns"]).to_numpy().mean())


def test_steps_are_timed_before_and_after(bundle: Path, profile: warplens.Profile) -> None:
    timing = json.loads((bundle / "timing.json").read_text())
    windows = [(window["position"], window["steps"]) for window in timing["windows"]]
    assert windows == [("before", 10), ("after", 2), ("after", 8)]
    assert profile.meta.plain_step_ns is not None
    assert profile.meta.plain_step_ns < mean_step_ns(profile.trace), "this step is bound by the host"


def test_the_light_pass_launches_the_same_kernels_in_less_time(profile: warplens.Profile) -> None:
    light = profile.workspace.light
    assert light is not None
    full, lightly = kernels_by_step(profile.trace), kernels_by_step(light)
    assert set(lightly) == {0, 1, 2}, "every launch is in a step"
    (kernels,) = {tuple(names) for step, names in full.items() if step >= 0}
    assert {tuple(names) for names in lightly.values()} == {kernels}
    assert not light.is_kind("op").any()
    assert mean_step_ns(light) < mean_step_ns(profile.trace)


def test_waits_are_recorded(profile: warplens.Profile) -> None:
    names = {profile.trace.names[code] for code in profile.trace.ints("name")[profile.trace.rows_of("sync")].tolist()}
    assert any("Sync" in name for name in names), "of .item()"


def test_power_and_clocks_are_sampled_while_steps_are_timed_and_recorded(profile: warplens.Profile) -> None:
    """The 40 steps end before the last window does."""
    counters = profile.trace.counters
    readings = {name: counters.filter(counter=name)["value"].to_list() for name in ("power", "SM clock")}
    assert readings["power"] and all(10 < watts < 2000 for watts in readings["power"])
    assert readings["SM clock"] and all(100 < clock < 5000 for clock in readings["SM clock"])
    assert counters.filter(counter="power")["limit"].drop_nulls().len()
    assert profile.trace.plain_windows["steps"].to_list() == [10, 2, 8]
