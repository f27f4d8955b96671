"""A script is checked without running its kernels: whatever it launches is noted as Triton specialises it, and compiles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from warplens_lab.compiling import compiling
from warplens_lab.compiling.child import kernel_description
from warplens_lab.compiling.compiling import CompileJob, compile_many
from warplens_lab.compiling.launch_worker import Enough, _time_limit
from warplens_lab.compiling.launched import launches_of
from warplens_lab.compiling.launching import ScriptLaunch, ScriptLaunches, launches
from warplens_lab.compiling.records import ScriptLimits
from warplens_lab.compiling.request import CompileRequest
from warplens_lab.compiling.targets import TARGETS
from warplens_run.base.errors import UsageError

pytestmark = pytest.mark.usefixtures("warm_compiler")
LIBRARY = """\
import triton, triton.language as tl
from triton.runtime.autotuner import Autotuner
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


class Entry(triton.KernelInterface):
    def __init__(self, fn):
        self.fn, self.arg_names = fn, fn.arg_names

    def run(self, *args, **kwargs):
        return self.fn.run(*args, **kwargs)


class Tuner(Autotuner):
    def run(self, *args, **kwargs):
        raise RuntimeError("a library's own tuner times what cannot be timed here")


def tuned(fn):
    configs = [triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_stages=1)]
    return Tuner(fn, fn.arg_names, configs, ["n"], None, None)


@triton.jit
def double(x):
    return x * 2


@Entry
@tuned
@triton.heuristics({"EVEN": lambda given: given["n"] % given["BLOCK"] == 0})
@triton.jit
def apply(x, out, n, ACT: tl.constexpr, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, ACT(tl.load(x + at, mask=at < n)), mask=at < n)


class Steps:
    count = 2


@triton.jit
def stepped(out, BY: tl.constexpr):
    tl.store(out, BY.count)


@triton.jit
def pair(both, sizes):
    at = tl.arange(0, 64)
    tl.store(both[1] + at, tl.load(both[0] + at, mask=at < sizes[0]))


@triton.jit
def fill(out, n, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), n)


def maker(value):
    value = tl.constexpr(value)

    @triton.jit
    def made(out):
        tl.store(out + tl.arange(0, 32), value)

    return made


@gluon.jit
def moved(desc, out, layout: gl.constexpr, N: gl.constexpr):
    memory: gl.constexpr = desc.layout
    held = gl.allocate_shared_memory(desc.dtype, [N, N], memory)
    at = gl.arange(0, N, layout=gl.SliceLayout(1, layout))
    gl.store(out + at, at)
"""
SCRIPT = """\
import torch, triton, library, sys
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

x = torch.randn(256, device="cuda"); out = torch.empty_like(x)
library.apply[lambda meta: (triton.cdiv(256, meta["BLOCK"]),)](x, out, 256, library.double)
assert torch.allclose(out, x * 2) and out.sum() == 2 * x.sum(), "kernels do not run here"
torch.testing.assert_close(out, x * 2)
library.pair[(1,)]((x, out), (64, 1))
assert "torch._dynamo" not in sys.modules or sys.exit("PyTorch's compiler was loaded, which takes seconds")
compiled = library.fill.warmup(torch.float16, 5, BLOCK=32, grid=(1,))
assert "fill" in compiled.asm["ptx"] and compiled.n_regs > 0
other = library.fill.warmup(out, 3, BLOCK=64, grid=(1,))
other[(7, 1, 1)](out, 3, 64)
library.stepped[(1,)](out, library.Steps)
for value in (1, 2):
    library.maker(value)[(1,)](out)
memory = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
square = torch.zeros(128, 128, dtype=torch.float16)
library.moved[(1,)](TensorDescriptor.from_tensor(square, [64, 64], memory), out,
                    gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0]), 64, num_warps=4, launch_pdl=True)

huge = [torch.randn(5 << 30, dtype=torch.float16) for _ in range(2)] + [torch.zeros(10 << 30, dtype=torch.float16)]
sums = (huge[0] + huge[1]).reshape(-1, 1024).softmax(-1)
assert sums.shape == (5 << 20, 1024)
library.fill[(2,)](sums, 40, BLOCK=16)

runs = []
@triton.testing.perf_report(triton.testing.Benchmark(["n"], [32, 64, 128], "how", ["a", "b"], ["A", "B"], "sizes", {}))
def bench(n, how):
    runs.append((n, how))
    ms = triton.testing.do_bench(lambda: library.fill[(n,)](out, n, BLOCK=n))
    triton.testing.do_bench(lambda: library.pair[(n,)]((out, x), (n, n)))
    return ms, *triton.testing.do_bench(lambda: None, quantiles=[0.2, 0.8])
bench.run(show_plots=True, print_data=True)
assert runs == [(32, "a"), (32, "b")] or sys.exit("a benchmark has run more often")
import triton.profiler
getattr(torch, x.device.type).set_stream(torch.cuda.Stream())
session = triton.profiler.start("name", hook="triton"); triton.profiler.deactivate(session); triton.profiler.finalize()
from torch.utils.benchmark import Timer
Timer("run()", globals={"run": lambda: runs.append(0)}).blocked_autorange()
assert len(runs) < 10 or sys.exit("a timer has run more often")
for n in range(1, 200):
    library.fill[(n,)](out, 16 * n, BLOCK=32)
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "library.py").write_text(LIBRARY)
    (folder / "script.py").write_text(SCRIPT)
    return folder / "script.py"


@pytest.fixture(scope="module")
def noted(script: Path, warm_compiler: None) -> ScriptLaunches:
    return launches(str(script))


def of_kernel(noted: ScriptLaunches, name: str) -> list[ScriptLaunch]:
    return [launch for launch in noted.launches if launch.kernel.name.endswith(name)]


@pytest.mark.nightly
def test_wrappers_of_libraries_tuples_and_functions_are_noted(noted: ScriptLaunches) -> None:
    assert noted.failure is None
    (applied,) = of_kernel(noted, "apply")
    assert applied.signature.text() == "*fp32:16, *fp32:16, i32:16, double, 64, True"
    assert (applied.grid, dict(applied.options)["num_warps"]) == ((4,), 2)
    assert "apply: the first of 2 configs of its autotune" in noted.notes
    assert [config.text() for config in applied.kernel.configs or ()][1].startswith("BLOCK=128, num_warps=4")
    (paired,) = of_kernel(noted, "pair")
    assert of_kernel(noted, "stepped")[0].signature.text() == "*fp32:16, Steps"
    assert paired.signature.text() == "(*fp32:16, *fp32:16), (i32:16, i32:1)"


def test_warmups_count_as_compilations_and_what_they_give_can_be_launched(noted: ScriptLaunches) -> None:
    warm = [(launch.signature.text(), launch.grid, launch.count) for launch in of_kernel(noted, "fill")]
    assert ("*fp16:16, i32, 32", (), 0) in warm
    assert ("*fp32:16, i32, 64", (7, 1, 1), 1) in warm


def test_gluon_s_layouts_and_descriptors_are_taken_from_the_launch(noted: ScriptLaunches) -> None:
    (moved,) = of_kernel(noted, "moved")
    descriptor, _, layout, _ = moved.signature.arguments
    assert descriptor.type.startswith("tensordesc<fp16[64, 64],NVMMASharedLayout(swizzle_byte_width=128")
    assert layout.text().startswith("BlockedLayout(size_per_thread=[1, 8]")
    assert ("launch_pdl", True) in moved.options


def test_benchmarks_run_one_size_and_large_tensors_are_not_filled(noted: ScriptLaunches) -> None:
    """Forty gigabytes, in a test: they are never touched."""
    assert "sizes: one of 3 sizes of its benchmark; 2 not run" in noted.notes
    assert any("are not filled" in note for note in noted.notes)
    filled = [launch for launch in of_kernel(noted, "fill") if launch.signature.text() == "*fp16:16, i32, 16"]
    assert [(launch.grid, launch.count) for launch in filled] == [((2,), 1)]


@pytest.mark.nightly
def test_whatever_is_noted_compiles_kernels_that_functions_make_too(
    noted: ScriptLaunches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "MOST_PROCESSES", 1)
    chosen = [*of_kernel(noted, "apply"), *of_kernel(noted, "pair"), *of_kernel(noted, "moved")]
    chosen += of_kernel(noted, "made")
    jobs = [(launch.kernel, CompileJob(launch.signature, TARGETS["sm90"], dict(launch.options))) for launch in chosen]
    artefacts = compile_many(jobs, cache=False)
    assert [item.failure for item in artefacts] == [None] * 5
    assert [item.kernel.origin.captured for item in artefacts if item.kernel.origin] == ["value=1", "value=2"]
    assert artefacts[-1].texts["ttir"] != artefacts[-2].texts["ttir"]


def test_an_import_without_a_main_guard_fills_no_large_tensor_either(tmp_path: Path) -> None:
    file = tmp_path / "flat.py"
    file.write_text("import torch\nfrom library import fill\nx = [torch.randn(5 << 30) for _ in range(4)]\n")
    (tmp_path / "library.py").write_text(LIBRARY)
    assert [parameter.name for parameter in kernel_description(file, "fill").parameters or ()] == ["out", "n", "BLOCK"]


def test_a_script_ends_after_so_many_launches(script: Path) -> None:
    limited = launches(str(script), limits=ScriptLimits(launches=2))
    assert [launch.kernel.name for launch in limited.launches] == ["apply", "pair"]
    assert limited.notes[-1] == "stopped after 2 launches" and limited.failure is None
    other = CompileRequest(f"{script.parent}/library.py::fill", like=str(script), limits=ScriptLimits(launches=1))
    with pytest.raises(UsageError, match=r"script.py does not launch fill of library.py") as raised:
        launches_of(other)
    assert raised.value.hint == "it launches apply"


def test_a_script_ends_after_so_many_seconds() -> None:
    with pytest.raises(Enough, match=r"stopped after 0.2 s"), _time_limit(ScriptLimits(seconds=0.2)):
        while True:
            try:
                sum(range(1000))
            except Exception:  # noqa: BLE001 - as a script may do around each of its steps
                continue


def test_a_signature_can_be_taken_from_a_script(script: Path) -> None:
    said: list[str] = []
    limits = ScriptLimits(launches=2)
    request = CompileRequest(f"{script.parent}/library.py::pair", like=str(script), limits=limits)
    (launch,) = launches_of(request, progress=said.append).launches
    assert launch.signature.text() == "(*fp32:16, *fp32:16), (i32:16, i32:1)"
    # The script may have launched before it is first looked at.
    assert re.match(r"running script\.py: (?:no launches|1 launch), \d+ s", said[0])
