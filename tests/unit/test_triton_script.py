"""Units of Triton kernels as plain Python files."""

from __future__ import annotations

import ast
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

import user_kernels
import warm_python
import warplens
from launch_bundles import bundle, product, recorded, scale
from replay_plans import plan, storage, tensor, times, unit, value
from support import SHARED
from warplens.planning import make_plan
from warplens.replay.script import unit_script
from warplens_run.base.errors import UsageError
from warplens_run.formats.replay_plan import READY, Kernel, KernelSource, ReplayPlan, SourceKernel, Unit

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")
GENERATED = """
import triton
import triton.language as tl

from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties
triton_helpers.set_driver_to_gpu()


@triton.jit
def twice(x):
    return x + x


@triton_heuristics.pointwise(
    size_hints={'x': 1024}, filename=__file__, triton_meta={'signature': {'in_ptr0': '*fp32'}}, inductor_meta={},
)
@triton.jit
def triton_poi_fused_add_0(in_ptr0, out_ptr0, xnumel, XBLOCK : tl.constexpr):
    at = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    tl.store(out_ptr0 + at, twice(tl.load(in_ptr0 + at, at < xnumel)), at < xnumel)
"""


def generated(config: dict[str, int | bool | str], **facts: tuple[int, ...]) -> ReplayPlan:
    """A unit as plans have them of Inductor's kernels, with the stream behind the arguments."""
    name = "triton_poi_fused_add_0"
    launched = Kernel(name, "kernel", times(), grid=facts.get("grid", (4, 1, 1)))
    arguments = (tensor(0, 1000), tensor(1, 1000), value("int", 1000), value("int", 0))
    own = unit(name, arguments, (storage(1000), storage(1000, written=True)), id="u1", kernels=(launched,),
               triton=SourceKernel("a.py", name, config))  # fmt: skip
    return plan(own, sources={"a.py": KernelSource(GENERATED, hashlib.sha256(GENERATED.encode()).hexdigest())})


def run(text: str, folder: Path) -> str:
    """On the CPU, as a program of its own that has no module of the kernels and none of Warplens."""
    path = folder / "repro.py"
    path.write_text(text)
    env = {"TRITON_INTERPRET": "1", "PATH": os.environ["PATH"], "HOME": str(folder)}
    done = warm_python.run([str(path)], folder, env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def launched_plan(folder: Path) -> ReplayPlan:
    def program() -> None:
        scale(num_warps=8)
        product(64, user_kernels.positive)

    path = bundle(folder / "run", recorded(program))
    profile = warplens.open(path, cache=False)
    assert isinstance(profile, warplens.Profile)
    return make_plan(profile.workspace, path)


def found(made: ReplayPlan, op: str) -> Unit:
    return next(own for own in made.units if own.op == op)


def test_a_launch_of_the_program_is_repeated(tmp_path: Path) -> None:
    made = launched_plan(tmp_path)
    text = unit_script(made, found(made, "product").id)
    assert "warplens" not in text
    check = "\nassert torch.allclose(call()[0], (memory_0.view(64, 64) @ memory_1.view(64, 32)).relu(), atol=1e-3)\n"
    assert "returned [(64, 32)]" in run(text + check, tmp_path)
    shifted = unit_script(made, found(made, "scale_shift").id)
    assert "scale_shift[(8, 1, 1)](" in shifted
    assert "        num_warps=8,\n" in shifted


@pytest.mark.nightly
def test_a_kernel_of_inductor_is_launched_as_plain_triton(tmp_path: Path) -> None:
    text = unit_script(generated({"XBLOCK": 256, "num_warps": 4, "num_stages": 1}), "u1")
    assert "triton_heuristics.pointwise" not in text
    assert "set_driver_to_gpu" not in text
    assert "@triton.jit\ndef twice" in text
    check = "\nassert torch.equal(call()[0], 2 * memory_0)\n"
    assert "returned [(1000,)]" in run(text + check, tmp_path)


def test_what_a_plan_does_not_know_of_inductors_launch_is_the_reason() -> None:
    with pytest.raises(UsageError, match="the trace does not record its configuration"):
        unit_script(generated({}), "u1")
    with pytest.raises(UsageError, match="the trace does not record its grid"):
        unit_script(generated({"XBLOCK": 256}, grid=()), "u1")
    made = generated({"XBLOCK": 256})
    short = replace(made.units[0], arguments=made.units[0].arguments[:2])
    with pytest.raises(UsageError, match="2 arguments for 3 parameters"):
        unit_script(replace(made, units=(short,)), "u1")


def test_every_kernel_of_a_compiled_model_can_be_written() -> None:
    trace = SHARED / "traces" / "replay" / "gpt2_compiled.json.gz"
    if not trace.exists():
        pytest.skip("needs the shared traces")
    files = {ending: trace.with_name(f"gpt2_compiled.{ending}") for ending in ("et.json.gz", "kernel_files.tar.gz")}
    profile = warplens.open(trace, execution_trace=files["et.json.gz"])
    assert isinstance(profile, warplens.Profile)
    made = make_plan(profile.workspace, trace, kernel_files=files["kernel_files.tar.gz"])
    ready = [own for own in made.units if own.status == READY and own.triton is not None]
    assert len(ready) > 20
    for own in ready:
        ast.parse(unit_script(made, own.id))
