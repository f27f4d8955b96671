"""Scripts as people write them: without a main guard, in packages, for a GPU that is not here, with bfloat16."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import warm_python

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from warplens_lab.compiling.child import compiler_environment, kernel_description  # noqa: E402
from warplens_lab.compiling.gpu_stand_in import NOTE, gpu_stand_in  # noqa: E402
from warplens_lab.compiling.importing import package_root  # noqa: E402
from warplens_lab.compiling.launching import FAILED, launches  # noqa: E402
from warplens_lab.compiling.stand_in_cards import CARDS, DEFAULT  # noqa: E402
from warplens_lab.compiling.stand_in_driver import StandInEvent, once  # noqa: E402
from warplens_lab.tracing.watching.script import traced_script  # noqa: E402
from warplens_run.base.errors import WarplensError  # noqa: E402

pytestmark = pytest.mark.usefixtures("warm_compiler")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU nothing stands in for it")
HEAD = """\
import torch, triton, triton.language as tl
{before}
@triton.jit
def double(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)
"""
BFLOAT = """\
x = torch.randn(256).bfloat16(); o = torch.empty_like(x)
double[(1,)](x, o, 256, BLOCK=256)
assert torch.equal(o, x * 2), "wrong result"
double[(1,)](x, o, 256)
"""
FOR_GPU = """\
assert torch.cuda.is_available() and torch.cuda.get_device_properties(0).multi_processor_count > 0
host = torch.ones(100)
x = host.cuda(); o = torch.zeros(100, device="cuda")
assert x.is_cuda and x.device == DEVICE and o.to(DEVICE).device == torch.device("cuda:0")
double[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, o, 100, BLOCK=64)
torch.cuda.synchronize()
kept = o.cpu(); o.zero_(); x.zero_()
assert kept.sum() == 200 and host.sum() == 100, "a copy to or from the GPU is no copy"
"""
DEVICE = "DEVICE = triton.runtime.driver.active.get_active_torch_device()"


def written(folder: Path, body: str, before: str = "", name: str = "script.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEAD.format(before=before) + body)
    return path


def state() -> list[Any]:
    from triton.runtime.driver import driver

    cuda = [torch.cuda.is_available, torch.cuda.synchronize, torch.cuda.Event, torch.cuda.nvtx.range_push]
    return [*cuda, torch.device, torch.Generator, triton.testing.do_bench, dict(vars(driver)), sys.path[:]]


@needs_no_gpu
def test_a_script_for_a_gpu_runs_on_the_cpu_in_both_verbs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its last launch lacks a constant: that is the script's own error, and no launch."""
    script, before = written(tmp_path, FOR_GPU + BFLOAT, DEVICE), state()
    failure = "script.py:18: TypeError: double() missing 1 required positional argument: 'BLOCK'"
    messages: list[str] = []
    result = launches(str(script), notify=messages.append)
    assert [(launch.grid, launch.signature.arguments[0].type) for launch in result.launches] == [
        ((2,), "*fp32"),
        ((1,), "*bf16"),
    ]
    assert (result.notes, result.failure) == ((failure,), failure)
    assert messages == [NOTE, f"{FAILED}: {failure}"]
    traced = traced_script(script, partial=True)
    assert (len(traced.trace.launches), traced.failure, traced.messages) == (2, failure, (NOTE,))
    assert capsys.readouterr().err == ""
    assert state() == before


@needs_no_gpu
def test_a_failure_for_want_of_a_gpu_says_at_which_line_it_is_asked_for(tmp_path: Path) -> None:
    script = written(tmp_path, "x = torch.ones(4, device='cuda')\nassert x.device.type == 'cuda'\n")
    with pytest.raises(WarplensError, match=r"script.py:8: AssertionError") as raised:
        traced_script(script)
    assert raised.value.hint == "the script asks for a GPU at line 7; its tensors are on the CPU here"
    assert not torch._C._len_torch_function_stack()


@needs_no_gpu
def test_an_import_launches_nothing_and_needs_no_main_guard(tmp_path: Path) -> None:
    script = written(tmp_path, FOR_GPU, DEVICE)  # its last line fails, as nothing was computed
    description = kernel_description(script, "double")
    assert [parameter.name for parameter in description.parameters or ()] == ["x", "o", "n", "BLOCK"]


def test_an_import_that_fails_before_the_kernel_is_reported(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import triton\nraise ValueError('boom')\n")
    with pytest.raises(WarplensError, match=r"importing script.py failed: ValueError: boom"):
        kernel_description(script, "double")


def test_a_file_in_a_package_has_its_relative_imports(tmp_path: Path) -> None:
    """Even where the package itself lacks something."""
    files = []
    for name, package in (("whole", ""), ("broken", "import not_installed_anywhere")):
        folder = tmp_path / name / "ops"
        folder.mkdir(parents=True)
        (folder.parent / "sizes.py").write_text(f"SIZE = {name!r}\n")
        (folder.parent / "__init__.py").write_text(package)
        (folder / "__init__.py").write_text("")
        (folder / "kernel.py").write_text("from ..sizes import SIZE\nNAME = __name__\nraise SystemExit(1)\n")
        files.append(str(folder / "kernel.py"))
    assert package_root(Path(files[0])) == (tmp_path, "whole.ops.kernel")
    code = (
        "import sys; from pathlib import Path; from warplens_lab.compiling.importing import imported_kernel\n"
        "print(*(imported_kernel(Path(file), name) for file in sys.argv[1:] for name in ('SIZE', 'NAME')))"
    )
    program = tmp_path / "programs" / "names.py"  # in a folder of its own, which is the first where imports look
    program.parent.mkdir()
    program.write_text(code)
    done = warm_python.run([str(program), *files], program.parent, compiler_environment(tmp_path), warm_python.TRITON)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["whole", "whole.ops.kernel", "broken", "broken.ops.kernel"]


@needs_no_gpu
def test_what_stands_in_answers_as_the_card_it_names() -> None:
    with gpu_stand_in() as gpu_request:
        driver = triton.runtime.driver.active
        assert driver.get_current_target().arch == 90
        expected = CARDS[DEFAULT].properties["multi_processor_count"]
        assert driver.utils.get_device_properties(0)["multiprocessor_count"] == expected
        assert not gpu_request.happened
        assert torch.Generator(device="cuda").device.type == "cpu"
        assert isinstance(torch.empty(0).device, torch.device)
        assert torch.nn.Linear(2, 2).cuda().to(0).weight.is_cuda
        assert gpu_request.happened


def test_a_benchmark_runs_once() -> None:
    runs: list[int] = []
    assert isinstance(once(lambda: runs.append(1), warmup=5), float)
    assert len(once(lambda: runs.append(1), quantiles=[0.5, 0.2, 0.8])) == 3  # type: ignore[arg-type]
    assert len(runs) == 2
    first, second = StandInEvent(enable_timing=True), StandInEvent(enable_timing=True)
    first.record()
    second.record()
    assert first.elapsed_time(second) >= 0
