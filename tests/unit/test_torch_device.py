"""Why PyTorch can use no GPU, and what helps: asked of builds and machines that are described here, not there."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warplens_run.base.torch_device import gpu_trouble, runs_on

WHEEL_OF_CUDA_13 = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120", "compute_120"]
LONG_WARNING = "CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update …"


def fake_torch(
    *,
    cuda: str | None = None,
    hip: str | None = None,
    gpu: tuple[int, int] | None = None,
    built_for: list[str] = WHEEL_OF_CUDA_13,
) -> Any:
    """`gpu`: the compute capability of the only GPU that it sees."""

    def is_available() -> bool:
        if gpu is None and cuda:
            warnings.warn(LONG_WARNING, UserWarning, stacklevel=2)
        return gpu is not None

    def get_device_capability(device: int) -> tuple[int, int]:
        warnings.warn("Found GPU0 which is of cuda capability 6.1. …", UserWarning, stacklevel=2)
        assert gpu is not None
        return gpu

    functions = SimpleNamespace(
        is_available=is_available,
        device_count=lambda: int(gpu is not None),
        get_device_capability=get_device_capability,
        get_arch_list=lambda: built_for,
        get_device_name=lambda device: "NVIDIA GeForce GTX 1080 Ti",
    )
    return SimpleNamespace(__version__="2.13.0+cu130", version=SimpleNamespace(cuda=cuda, hip=hip), cuda=functions)


@pytest.mark.parametrize(
    ("torch_build", "nvidia", "amd", "environment", "message", "hint"),
    [
        ({}, False, False, {}, "no GPU visible", "login nodes of clusters have none: put srun --gres=gpu:1 before"),
        ({"cuda": "13.0"}, False, False, {"SLURM_JOB_ID": "7"}, "no GPU visible", "this job was given no GPU: start"),
        ({}, False, False, {"CUDA_VISIBLE_DEVICES": ""}, "no GPU visible", "CUDA_VISIBLE_DEVICES is ''; login nodes"),
        ({}, True, False, {}, "torch 2.13.0+cu130 is built without GPU support, but {node} is there", "install"),
        (
            {"hip": "6.3"},
            True,
            False,
            {},
            "torch 2.13.0+cu130 is built for the other make of GPU, but {node}",
            "install",
        ),
        ({"cuda": "13.0"}, False, True, {}, "torch 2.13.0+cu130 is built for the other make of GPU, but {node}", ""),
        ({"cuda": "13.0"}, True, False, {"CUDA_VISIBLE_DEVICES": ""}, "no GPU visible", "CUDA_VISIBLE_DEVICES is ''"),
        ({"cuda": "13.0"}, True, False, {}, "no GPU visible to torch 2.13.0+cu130", LONG_WARNING.split(". ")[0]),
    ],
)
def test_what_keeps_torch_from_the_gpu_is_named(
    tmp_path: Path,
    torch_build: dict[str, Any],
    nvidia: bool,
    amd: bool,
    environment: Mapping[str, str],
    message: str,
    hint: str,
) -> None:
    node = tmp_path / "node"
    node.touch()
    trouble = gpu_trouble(
        fake_torch(**torch_build),
        nvidia_nodes=[str(node)] if nvidia else [],
        amd_nodes=[str(node)] if amd else [],
        environment=environment,
    )
    assert trouble is not None
    assert trouble.message.startswith(message.format(node=node))
    assert (trouble.hint or "").startswith(hint)


def test_a_build_without_kernels_for_the_gpu_is_one_sentence_with_its_remedies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    trouble = gpu_trouble(fake_torch(cuda="13.0", gpu=(6, 1)))
    assert trouble is not None
    assert trouble.message == (
        "torch 2.13.0+cu130 has no kernels for NVIDIA GeForce GTX 1080 Ti (sm_61), "
        "only for sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120"
    )
    assert trouble.hint == (
        "install a wheel of torch<2.15 for cu126: pytorch.org/get-started/previous-versions has the command; "
        "or build PyTorch from source with TORCH_CUDA_ARCH_LIST=6.1"
    )
    kepler = gpu_trouble(fake_torch(cuda="13.0", gpu=(3, 5)))
    assert kepler is not None
    assert kepler.hint == "build PyTorch from source with TORCH_CUDA_ARCH_LIST=3.5"
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    board = gpu_trouble(fake_torch(cuda="13.0", gpu=(6, 2)))
    assert board is not None
    assert board.hint == "build PyTorch from source with TORCH_CUDA_ARCH_LIST=6.2"


def test_a_gpu_that_the_build_has_kernels_for_is_no_trouble() -> None:
    assert gpu_trouble(fake_torch(cuda="12.6", gpu=(6, 1), built_for=["sm_50", "sm_60", "sm_90"])) is None
    assert gpu_trouble(fake_torch(cuda="13.0", gpu=(8, 9))) is None
    assert gpu_trouble(fake_torch(cuda="13.0", gpu=(6, 1)), 1) is None, "which torch does not see: not its build"


def test_a_gpu_that_does_not_start_is_one_sentence() -> None:
    torch = fake_torch(cuda="13.0", gpu=(9, 0))

    def fail(device: int) -> tuple[int, int]:
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable\nmore")

    torch.cuda.get_device_capability = fail
    trouble = gpu_trouble(torch)
    assert trouble is not None
    reason = "CUDA error: CUDA-capable device(s) is/are busy or unavailable"
    assert trouble.message == f"torch 2.13.0+cu130 cannot start the GPU: {reason}"


def test_a_build_runs_on_its_own_generation_and_its_ptx_on_later_ones() -> None:
    assert runs_on((9, 0), ["sm_80", "sm_90a"])
    assert runs_on((8, 9), ["sm_80"])
    assert runs_on((12, 0), ["sm_80", "compute_90"])
    assert not runs_on((12, 0), ["sm_80", "sm_90"])
    assert not runs_on((7, 5), ["sm_80", "compute_80"])
    assert not runs_on((10, 3), ["sm_100a", "compute_100a"]), "for that architecture alone"
    assert runs_on((10, 3), ["sm_100f"]), "for its family"
    assert runs_on((7, 0), []), "a build that does not say"
