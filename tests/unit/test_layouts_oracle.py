"""The model of layouts against Triton's own linear layouts: one compilation answers for all of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("triton")

from warplens_lab.layouts.reading import read_tile

PROBE = """\
import json, sys
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.amd import AMDMFMALayout
from triton.experimental.gluon._runtime import GluonASTSource
from triton.backends.compiler import GPUTarget
from triton._C.libtriton.linear_layout import LinearLayout

asked = json.loads(open(sys.argv[1]).read())
answers = []

@gl._core.builtin
def probe(_semantic=None):
    builder = _semantic.builder
    names = {name: getattr(gl, name) for name in dir(gl) if name.endswith("Layout")} | {"AMDMFMALayout": AMDMFMALayout}
    for text, shape in asked:
        layout = eval(text, names)
        linear = builder.to_linear_layout(layout._to_ir(builder), shape)
        parts = {"register": "reg_bases", "lane": "lane_bases", "warp": "warp_bases", "block": "block_bases", "offset": "offset_bases"}
        bases = [(part, getattr(linear, name)) for part, name in parts.items() if hasattr(linear, name)]
        printed = str(LinearLayout.from_bases(bases, [f"dim{at}" for at in range(len(shape))], shape, False))
        answers.append([repr(layout), dict(bases), printed])

@gluon.jit
def stub():
    probe()
    blocked: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    linear: gl.constexpr = gl.DistributedLinearLayout(
        [[0, 1], [0, 2]], [[0, 4], [0, 8], [1, 0], [2, 0], [4, 0]], [[8, 0], [0, 0]], [], [16, 16]
    )
    mma: gl.constexpr = gl.NVMMADistributedLayout(version=[2, 0], warps_per_cta=[2, 2], instr_shape=[16, 8])
    gl.full([64, 128], 1.0, gl.float16, blocked)
    gl.full([16, 16], 1.0, gl.float16, linear)
    gl.full([64, 64], 1.0, gl.float16, gl.DotOperandLayout(0, mma, 2))
    gl.full([64], 1.0, gl.float16, gl.SliceLayout(1, mma))
    gl.allocate_shared_memory(gl.float16, [3, 64, 64], gl.NVMMASharedLayout(128, 16))

compiled = triton.compile(GluonASTSource(stub, {}, {}, {}), target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
print(json.dumps([answers, compiled.asm["source"]]))
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
    # Tensors smaller than a tile, products without tensor cores, clusters.
    (BLOCKED, [2, 4]),
    (MMA2, [8, 8]),
    (MMA3, [16, 16]),
    (MFMA.format(True), [16, 16]),
    (f"DotOperandLayout(0, {MMA2}, 2)", [16, 8]),
    (f"SliceLayout(1, {MMA2})", [8]),
    (f"DotOperandLayout(0, {BLOCKED}, 0)", [64, 32]),
    (f"DotOperandLayout(1, {BLOCKED}, 0)", [4, 4]),
    ("BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0], [[1, 0]])", [64, 128]),
    (
        "DistributedLinearLayout([[0, 1], [0, 0]], [[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]], [[8, 0]], [[0, 8]], [16, 16])",
        [16, 16],
    ),
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
    ("NVMMASharedLayout(128, 16, rank=3)", [4, 16, 128], 16),
    ("SwizzledSharedLayout(8, 1, 8, [1, 0])", [8, 8], 16),
    ("SwizzledSharedLayout(8, 1, 8, [2, 1, 0])", [2, 64, 64], 16),
    ("SharedLinearLayout(offset_bases=[[1, 0], [0, 1], [2, 0], [0, 2]])", [4, 4], 32),
]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[list[Any]], str]:
    """By layout: what Triton calls it, its bases, `str` of its linear layout; and the text of a compiled kernel."""
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
    found, source = json.loads(next(line for line in run.stdout.splitlines() if line.startswith("[[")))
    assert len(found) == len(REGISTERS) + len(MEMORY)
    return found, source


Answers = tuple[list[list[Any]], str]


def vectors(bases: list[list[int]]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(vector) for vector in bases)


def test_threads_hold_what_tritons_linear_layouts_say(answers: Answers) -> None:
    for (_, shape), (name, bases, printed) in zip(REGISTERS, answers[0], strict=False):
        expected = tuple((part, vectors(values)) for part, values in bases.items())
        assert read_tile(name, tuple(shape)).linear_form().bases == expected, name
        assert read_tile(printed).linear_form().bases == expected, printed


def test_memory_holds_what_tritons_linear_layouts_say(answers: Answers) -> None:
    for (_, shape, bits), (name, bases, printed) in zip(MEMORY, answers[0][len(REGISTERS) :], strict=True):
        expected = (("offset", vectors(bases["offset"])),)
        assert read_tile(name, tuple(shape), f"i{bits}").linear_form().bases == expected, name
        assert read_tile(printed).linear_form().bases == expected, printed


def test_what_a_compiled_kernel_says_of_its_layouts_is_read(answers: Answers) -> None:
    lines = answers[1].splitlines()
    definitions = "\n".join(line for line in lines if re.match(r"#\w+ = #ttg\.(?!shared_memory)", line))
    types = dict.fromkeys(re.findall(r"tensor<[\dx]+f16, #.*?>(?= loc)|!ttg.memdesc<[^>]*>", answers[1]))
    tiles = {text: read_tile(f"{definitions}\n{text}") for text in types}
    shapes = sorted(tile.shape for tile in tiles.values())
    assert shapes == [(16, 16), (64,), (64, 64), (64, 64), (64, 128)]
    linear = next(tile for tile in tiles.values() if tile.shape == (16, 16))
    assert dict(linear.linear_form().bases)["warp"] == ((8, 0), (0, 0))
