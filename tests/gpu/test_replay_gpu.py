"""What only a GPU can show of a replay. Needs an NVIDIA GPU and PyTorch for it; elsewhere each test says so and is skipped.

A first run tells which kernels this GPU launches; a plan that expects those is what the tests run.
"""

from __future__ import annotations

import importlib.util
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from replay_plans import add, choice, listed, saved, storage, tensor, times, unit, value
from warplens_run.formats.replay_plan import Fill, Kernel, Unit
from warplens_run.formats.replay_result import ReplayResult, UnitResult
from warplens_run.replay.options import RunOptions
from warplens_run.replay.supervisor import run_plan


def has_gpu() -> bool:
    if shutil.which("nvidia-smi") is None or importlib.util.find_spec("torch") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


pytestmark = pytest.mark.skipif(not has_gpu(), reason="needs an NVIDIA GPU and PyTorch for it")
QUICK = RunOptions(energy=False)
HALF = "bfloat16"


def linear(reuse_bytes: int | None = None) -> Unit:
    arguments = (tensor(0, 3072, dtype=HALF), tensor(1, 1, 1024, dtype=HALF), tensor(2, 1024, 3072, dtype=HALF))
    storages = (storage(3072, HALF), storage(1024, HALF), storage(1024 * 3072, HALF, reuse_bytes=reuse_bytes))
    return unit("aten::addmm", arguments, storages, id="linear", ns=9000)


def embedding(index: int) -> Unit:
    rows = storage(8, "int64", Fill("constant", index))
    return unit(
        "aten::embedding", (tensor(0, 10, 64), tensor(1, 8, dtype="int64")), (storage(640), rows), id="embedding"
    )


def in_place() -> Unit:
    lists = (listed(tensor(0, 1000), tensor(1, 1000)), listed(tensor(2, 1000), tensor(2, 1000)))
    storages = (storage(1000, written=True), storage(1000, written=True), storage(1000))
    return unit("aten::_foreach_add_.List", lists, storages, id="in_place")


def gelu(*ways: str) -> Unit:
    words = tuple(value("str", way) for way in ways)
    how = choice(*words) if len(words) > 1 else words[0]
    return unit("aten::gelu", (tensor(0, 4096, dtype=HALF), how), (storage(4096, HALF),), id="gelu")


def run(folder: Path, *units: Unit, options: RunOptions = QUICK) -> ReplayResult:
    return run_plan(saved(folder, *units), folder / "result.json", options, lambda _: None, fresh=True)


def found(result: ReplayResult, identity: str) -> UnitResult:
    return next(each for each in result.units if each.id == identity)


def expecting(made: Unit, seen: UnitResult) -> Unit:
    kernels = tuple(Kernel(each.name, each.kind, times(), grid=each.grid) for each in seen.kernels)
    return replace(made, kernels=kernels)


def median(result: ReplayResult, identity: str) -> float:
    time = found(result, identity).time
    assert time is not None
    return time.median_ns


def test_the_same_kernels_are_the_same_and_others_are_not(tmp_path: Path) -> None:
    first = run(tmp_path, linear(), in_place())
    assert found(first, "linear").same is False
    assert "instead of some_kernel" in found(first, "linear").difference
    second = run(tmp_path, *(expecting(each, found(first, each.id)) for each in (linear(), in_place())))
    assert [each.same for each in second.units] == [True, True]


def test_of_several_choices_the_one_that_launches_the_right_kernel_is_taken(tmp_path: Path) -> None:
    tanh = found(run(tmp_path, gelu("tanh")), "gelu")
    result = run(tmp_path, expecting(gelu("none", "tanh"), tanh))
    assert found(result, "gelu").same is True


def test_cold_weights_take_longer_than_hot_ones_and_in_situ_is_as_the_plan_says(tmp_path: Path) -> None:
    hot = median(run(tmp_path, linear(), options=replace(QUICK, cache="hot")), "linear")
    cold = median(run(tmp_path, linear(), options=replace(QUICK, cache="cold")), "linear")
    far = median(run(tmp_path, linear(None)), "linear")
    near = median(run(tmp_path, linear(0)), "linear")
    assert hot < 0.85 * cold
    assert near < 0.9 * far


def test_a_graph_of_calls_takes_about_as_long_as_the_kernels(tmp_path: Path) -> None:
    alone = median(run(tmp_path, linear(), options=replace(QUICK, cache="hot")), "linear")
    result = run(tmp_path, linear(), options=replace(QUICK, cache="hot", timer="graph"))
    time = found(result, "linear").time
    assert time is not None
    assert time.timer == "graph"
    assert 0.7 * alone < time.median_ns < alone + 2000


def test_a_unit_that_breaks_the_gpus_context_fails_alone(tmp_path: Path) -> None:
    result = run(tmp_path, replace(embedding(1 << 30), times=times(10**9)), add(), linear())
    assert found(result, "embedding").status == "failed"
    assert found(result, "embedding").reason.startswith("CUDA error")
    assert [found(result, name).status for name in ("add", "linear")] == ["done", "done"]


def test_a_unit_larger_than_the_gpu_is_refused(tmp_path: Path) -> None:
    result = run(tmp_path, unit("aten::neg", (tensor(0, 1 << 38),), (storage(1 << 38),), id="huge"), add())
    assert found(result, "huge").status == "refused"
    assert "1024.0 GiB" in found(result, "huge").reason
