"""The one file that `make runner` writes, on a host that has PyTorch and nothing of ours."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import warplens
from support import HANG_SECONDS, ROOT
from warplens.cli import main

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
BARE = """
import sys
from importlib.abc import MetaPathFinder


class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("warplens", "polars", "msgspec", "isal", "xlsxwriter"):
            raise ModuleNotFoundError(f"{name} is not on this host", name=name)


sys.meta_path.insert(0, Refuse())
"""
TRAIN = """
import torch
import warplens_run
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for turn in range(60):
    with warplens_run.scope("forward"):
        loss = model(torch.randn(8, 16)).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host")
    (folder / "bare").mkdir()
    (folder / "bare" / "sitecustomize.py").write_text(BARE)
    (folder / "train.py").write_text(TRAIN)
    target = folder / "warplens-run.pyz"
    subprocess.run([sys.executable, ROOT / "tools" / "make_runner.py", target], check=True, timeout=HANG_SECONDS)
    return folder


def runner(host: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "warplens-run.pyz", *words],
        cwd=host,
        env={**os.environ, "PYTHONPATH": str(host / "bare"), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )


def test_help_and_errors_need_nothing_but_python(host: Path) -> None:
    assert "Warplens' runner" in runner(host, "--help").stdout
    assert runner(host, "--version").stdout == f"warplens_run {warplens.__version__}\n"
    missing = runner(host, "replay", "run", "plan.json")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith("error: plan.json")
    assert runner(host, "report", "trace.json").returncode == 2


def test_the_file_has_sources_alone(host: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "zipfile", "-l", host / "warplens-run.pyz"], capture_output=True,
                          text=True, check=True, timeout=HANG_SECONDS)  # fmt: skip
    names = [line.split()[0] for line in done.stdout.splitlines()[1:]]
    assert "warplens_run/replay/worker.py" in names
    assert [name for name in names if not name.startswith("warplens_run/") and name != "__main__.py"] == []


@needs_torch
def test_it_records_a_program_that_the_command_opens(host: Path) -> None:
    done = runner(host, "profile", "-o", "train.zip", "train.py")
    assert done.returncode == 0, done.stderr
    profile = warplens.open(host / "train.zip")
    assert len(profile.table("steps")) == 3
    assert "forward" in {row["name"] for row in profile.table("host_events").to_dicts()}


@needs_torch
def test_it_runs_a_plan_that_the_command_made(host: Path) -> None:
    plan, result = host / "plan.json", host / "result.json"
    assert main(["replay", "plan", str(ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz"), "-o", str(plan)]) == 0
    [unit] = [unit["id"] for unit in json.loads(plan.read_text())["units"] if unit["op"] == "aten::arange"]
    done = runner(host, "replay", "run", "plan.json", "-o", "result.json", "--units", unit, "--device", "cpu",
                  "--max-repeats", "2")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [each["id"] for each in json.loads(result.read_text())["units"] if each["status"] == "done"] == [unit]


@pytest.mark.nightly
@needs_torch
def test_it_tries_a_fix(host: Path) -> None:
    done = runner(host, "try", "--fix", "WL208", "--steps", "2", "--rounds", "2", "--json", "train.py")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["rounds"] == 2
