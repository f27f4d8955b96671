"""The list of other projects' kernels, and some of them where WARPLENS_WORLD names a folder with the checkouts."""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from run_kernels_of_the_world import TARGETS, WORKS, Row, checked, markdown, traced
from world_list import WorldKernel, world_kernels

KERNELS = world_kernels()
SOME = ("triton/fused_softmax", "Liger-Kernel/rms_norm", "FlagGems/softmax")


def test_the_list_has_sixty_kernels_of_six_projects_each_with_a_case_of_a_driver() -> None:
    assert len({(kernel.project, kernel.file, kernel.kernel) for kernel in KERNELS}) >= 60
    assert len({kernel.project for kernel in KERNELS}) >= 6
    cases = {
        driver: {node.name for node in ast.parse(driver.read_text()).body if isinstance(node, ast.FunctionDef)}
        for driver in {kernel.driver for kernel in KERNELS}
    }
    for kernel in KERNELS:
        assert kernel.case in cases[kernel.driver], kernel
        assert re.fullmatch(r"[0-9a-f]{40}", kernel.commit) and kernel.repository.startswith("https://"), kernel
        assert kernel.file.endswith(".py") and kernel.target in ("sm90", "sm100"), kernel


def test_the_table_counts_by_project_and_names_what_does_not_work() -> None:
    fine = Row("one", "add", "add", WORKS, "equal", [], 0, dict.fromkeys(TARGETS, WORKS), 1.0)
    refused = Row("two", "mul", "mul", "refused: why", "not reached", [], 0, {"sm90": "failed: no"}, 1.0)
    text = markdown([fine, refused])
    assert "| one | 1 | 1 | 1 | 1 | 0 |" in text and "| two | 1 | 0 | 0 | 0 | 0 |" in text
    assert "| all | 2 | 1 | 1 | 1 | 0 |" in text
    assert "- two, `mul` (mul): trace refused: why; faults: none\n  - sm90: failed: no" in text


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
