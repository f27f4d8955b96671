"""Tiny workloads recorded end to end on the CPU: the bundle opens, its steps are marked, its arguments are joined."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

import warm_python
import warplens
from support import nightly_after
from warplens.readers.execution_trace.join import joined_share

MISSING = [name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def recorded(folder: Path, *words: str, ranks: int = 1) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(warplens.__file__).parents[1])}
    command = ["-m", "warplens", "profile", *words]
    started = (
        [warm_python.run(command, folder, environment, warm_python.TRANSFORMERS)]
        if ranks == 1
        else warm_python.run_ranks(command, folder, environment, warm_python.TRANSFORMERS, ranks)
    )
    for done in started:
        assert done.returncode == 0, done.stderr[-3000:]
    return started[0].stdout


def opened(path: Path) -> warplens.Profile:
    found = warplens.open(path, cache=False)
    assert isinstance(found, warplens.Profile)
    return found


@pytest.mark.parametrize("model", nightly_after(1, ["bloom-560m", "gpt2", "resnet50"]))
def test_a_tiny_model_is_recorded_with_all_that_a_replay_needs(model: str, tmp_path: Path) -> None:
    shown = recorded(
        tmp_path, "-o", "run", "--steps", "1", "workload", model, "--tiny", "--iterations", "3", "--warmup", "0"
    )
    assert model in shown
    profile = opened(tmp_path / "run")
    assert len(profile.table("steps")) == 1
    assert joined_share(profile.trace) >= 0.99
    names = set(profile.trace.names)
    assert names & {"prefill", "decode"} if model == "bloom-560m" else names >= {"forward", "backward", "optimizer"}


def test_two_tensor_parallel_ranks_are_recorded_each_with_its_collectives(tmp_path: Path) -> None:
    words = ["-o", "job", "--steps", "1", "workload", "vicuna-7b", "--tiny", "--tp", "2", "--device", "cpu"]
    recorded(tmp_path, *words, "--iterations", "3", "--warmup", "0", ranks=2)
    for rank in (0, 1):
        trace = opened(tmp_path / "job" / f"rank{rank}").trace
        assert trace.meta.distributed is not None
        assert (trace.meta.distributed.rank, trace.meta.distributed.world_size) == (rank, 2)
        assert any("all_reduce" in name or "allreduce" in name for name in trace.names)


@pytest.mark.nightly
def test_a_tiny_model_as_a_tree(tmp_path: Path) -> None:
    recorded(tmp_path, "-o", "run", "--data", "tree", "workload", "gpt2", "--tiny", "--iterations", "40")
    profile = warplens.open(tmp_path / "run", cache=False)
    assert isinstance(profile, warplens.PathsProfile)
    tree = profile.tree("annotation")
    assert {"forward", "backward", "optimizer"} <= set(tree.name)
    assert sum(file.stat().st_size for file in (tmp_path / "run").iterdir()) < 1_000_000
