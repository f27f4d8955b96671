"""Some kernels of other projects, where WARPLENS_WORLD names a folder with the checkouts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from run_kernels_of_the_world import WORKS, checked, traced
from world_list import WorldKernel, world_kernels

KERNELS = world_kernels()
SOME = ("triton/fused_softmax", "Liger-Kernel/rms_norm", "FlagGems/softmax")


@pytest.mark.parametrize("name", SOME)
def test_kernels_of_the_world_work(name: str, tmp_path: Path) -> None:
    world = os.environ.get("WARPLENS_WORLD")
    kernel: WorldKernel = next(kernel for kernel in KERNELS if "/".join(kernel.run) == name)
    if not world or not (Path(world) / kernel.project).is_dir():
        pytest.skip(f"WARPLENS_WORLD names no folder with a checkout of {kernel.project}")
    trace, launched, faults = traced(kernel, Path(world), tmp_path / "tables", 120)
    assert (trace, [row for row in faults if row["may_be_intended"] == "false"]) == (WORKS, [])
    assert kernel.kernel in launched
    compiled = checked(kernel, Path(world), 240)
    assert not isinstance(compiled, str)
    assert set(compiled[kernel.kernel].values()) == {WORKS}
