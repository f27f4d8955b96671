"""The model of layouts against Triton's own linear layouts: one compilation answers for all of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("triton")

from warplens.kernel_lab.layouts.attributes import parse_attribute
from warplens.kernel_lab.layouts.bases import spread
from warplens.kernel_lab.layouts.memory import offsets_of
from warplens.kernel_lab.layouts.registers import bases_of

PROBE = """\
import json, sys
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd import AMDMFMALayout
from triton.experimental.gluon._runtime import GluonASTSource
from triton.backends.compiler import GPUTarget

asked = json.loads(open(sys.argv[1]).read())
answers = []

@gl._core.builtin
def probe(_semantic=None):
    builder = _semantic.builder
    names = {name: getattr(gl, name) for name in dir(gl) if name.endswith("Layout")} | {"AMDMFMALayout": AMDMFMALayout}
    for text, shape in asked:
        layout = eval(text, names)
        linear = builder.to_linear_layout(layout._to_ir(builder), shape)
        known = [getattr(linear, part, None) for part in ("reg_bases", "lane_bases", "warp_bases", "offset_bases")]
        answers.append([repr(layout), *known])

@gluon.jit
def stub():
    probe()

triton.compile(GluonASTSource(stub, {}, {}, {}), target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
print(json.dumps(answers))
"""
MMA2 = "NVMMADistributedLayout(version=[2, 0], warps_per_cta=[2, 2], instr_shape=[16, 8])"
MMA3 = "NVMMADistributedLayout(version=[3, 0], warps_per_cta=[4, 1], instr_shape=[16, 64, 16])"
MFMA = "AMDMFMALayout(version=3, instr_shape=[32, 32, 8], transposed={0}, warps_per_cta=[2, 2])"
SMALL = "AMDMFMALayout(version=3, instr_shape=[16, 16, 16], transposed=True, warps_per_cta=[4, 1])"
BLOCKED = "BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])"
REGISTERS = [
    (BLOCKED, [64, 128]),
    (BLOCKED, [8, 16]),
    ("BlockedLayout([4, 2], [16, 2], [1, 4], [0, 1])", [128, 64]),
    ("BlockedLayout([4], [32], [4], [0])", [1024]),
    (f"SliceLayout(1, {BLOCKED})", [64]),
    (f"SliceLayout(0, {BLOCKED})", [128]),
    (MMA2, [64, 64]),
    (MMA3, [128, 128]),
    (f"DotOperandLayout(0, {MMA2}, 2)", [64, 64]),
    (f"DotOperandLayout(1, {MMA2}, 2)", [64, 64]),
    (f"DotOperandLayout(1, {MMA2}, 4)", [64, 64]),
    (f"DotOperandLayout(0, {MMA3}, 2)", [64, 64]),
    (MFMA.format(False), [128, 128]),
    (MFMA.format(True), [128, 128]),
    (SMALL, [64, 32]),
]
MEMORY = [
    ("SwizzledSharedLayout(8, 1, 8, [1, 0])", [64, 64], 16),
    ("SwizzledSharedLayout(4, 2, 4, [0, 1])", [32, 64], 32),
    ("SwizzledSharedLayout(1, 1, 1, [1, 0])", [32, 32], 32),
    ("NVMMASharedLayout(128, 16)", [64, 128], 16),
    ("NVMMASharedLayout(128, 16, transposed=True)", [64, 128], 16),
    ("NVMMASharedLayout(64, 16)", [64, 64], 16),
    ("NVMMASharedLayout(32, 8)", [64, 64], 8),
    ("NVMMASharedLayout(128, 32)", [128, 64], 32),
    ("NVMMASharedLayout(0, 16)", [64, 64], 16),
    ("SharedLinearLayout(offset_bases=[[1, 0], [0, 1], [2, 0], [0, 2]])", [4, 4], 32),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    folder: Path = tmp_path_factory.mktemp("oracle")
    asked = folder / "asked.json"
    asked.write_text(json.dumps([*REGISTERS, *(each[:2] for each in MEMORY)]))
    script = folder / "probe.py"
    script.write_text(PROBE)
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder)}  # a stub that is in the cache answers nothing
    run = subprocess.run(
        [sys.executable, str(script), str(asked)], capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stderr
    found: list[list[Any]] = json.loads(run.stdout.splitlines()[-1])
    assert len(found) == len(REGISTERS) + len(MEMORY)
    return found


def test_threads_hold_what_tritons_linear_layouts_say(answers: list[list[Any]]) -> None:
    for (_, shape), answer in zip(REGISTERS, answers, strict=False):
        bases = bases_of(parse_attribute(answer[0]), tuple(shape))
        expected = [[tuple(vector) for vector in part] for part in answer[1:4]]
        own = [list(part) for part in (bases.register, bases.lane, bases.warp)]
        assert [vector for vector in own[0] if any(vector)] == [v for v in expected[0] if any(v)], answer[0]
        assert own[1:] == expected[1:], answer[0]


def test_memory_holds_what_tritons_linear_layouts_say(answers: list[list[Any]]) -> None:
    for (_, shape, bits), answer in zip(MEMORY, answers[len(REGISTERS) :], strict=True):
        elements = spread([tuple(vector) for vector in answer[4]], len(shape))
        places = offsets_of(parse_attribute(answer[0]), tuple(shape), bits)(elements)
        assert np.array_equal(places, np.arange(len(elements))), answer[0]
