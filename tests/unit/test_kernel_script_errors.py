"""Scripts that ask more of the interpreter than it has, and what is said of those that fail, in both verbs."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from warplens_lab.cli.trace_text import trace_lines  # noqa: E402
from warplens_lab.compiling.compiling import CompileJob, compile_all  # noqa: E402
from warplens_lab.compiling.gpu_stand_in import NOTE  # noqa: E402
from warplens_lab.compiling.launching import FAILED, launches  # noqa: E402
from warplens_lab.compiling.loading import load_kernel  # noqa: E402
from warplens_lab.compiling.targets import TARGETS  # noqa: E402
from warplens_lab.tracing.interpreter import libdevice  # noqa: E402
from warplens_lab.tracing.interpreter.routing import load_interpreter  # noqa: E402
from warplens_lab.tracing.watching.script import traced_script  # noqa: E402
from warplens_run.base.errors import WarplensError  # noqa: E402

pytestmark = pytest.mark.usefixtures("warm_compiler")
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU nothing stands in for it")
KERNELS = """\
import torch, triton, triton.language as tl
from triton.experimental import gluon
from triton.language.extra import libdevice
from triton.language.extra.cuda.libdevice import isnan
from triton.language.extra.libdevice import tanh
LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)

@triton.jit
def half_of(x):
    return tl.exp2(-x) / 2

@triton.jit
def gamma(x):
    return libdevice.tgamma(x)

@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def mixed(x, o, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    v = tanh(v) + tl.extra.libdevice.erf(v) + libdevice.pow(v, 3) + tl.where(isnan(v), 1.0, 0.0)
    tl.store(o + at, v + half_of(LOG2E * v), mask=at < n)

@triton.jit
def wanting(x, o, GAMMA: tl.constexpr):
    at = tl.arange(0, 64)
    v = tl.load(x + at)
    tl.store(o + at, gamma(v) if GAMMA else libdevice.tanh(v))

@gluon.jit
def layouts(x):
    pass
"""
SCRIPT = """\
import torch, lacking
x = torch.linspace(-2, 2, 64, device="cuda"); o = torch.empty_like(x)
lacking.mixed[(1,)](x, o, 64)
v = torch.tanh(x) + torch.erf(x) + x ** 3
assert torch.allclose(o, v + torch.exp(-v) / 2), "wrong result"

@torch.library.custom_op("warplens_tests::same", mutates_args=())
def same(x: torch.Tensor) -> torch.Tensor:
    assert x.is_cuda
    return x.clone()
same(x)

for launch, expected in (
    (lambda: lacking.layouts[(1,)](x), "Gluon kernels do not run in Triton's interpreter; `kernel check` compiles lacking.py::layouts"),
    (lambda: lacking.wanting[(1,)](x.half(), o.half(), False), "libdevice.tanh does not take fp16"),
):
    try:
        launch()
    except Exception as error:
        while error.__cause__ is not None:
            error = error.__cause__
        assert expected in str(error), error
    else:
        raise SystemExit("nothing was raised")
lacking.wanting[(1,)](x, o, True)
"""
WANTING = "NotImplementedError: libdevice.tgamma is not run by Triton's interpreter\n  lacking.py:14: return libdevice.tgamma(x)"


@needs_no_gpu
def test_what_the_interpreter_lacks_is_computed_or_said_with_the_kernels_own_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "lacking.py").write_text(KERNELS)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    from triton.language.extra import libdevice

    before = (libdevice.tanh.__code__, libdevice.tanh.__kwdefaults__, vars(torch.Tensor).get("is_cuda"))
    line = SCRIPT.count("\n")
    messages: list[str] = []
    result = launches(str(script), notify=messages.append)
    # Where kernels are only compiled, the interpreter has nothing to refuse: the script expects it to.
    assert result.failure == "script.py: the script ended with 'nothing was raised'"
    assert result.failure in result.notes
    assert messages == [NOTE, f"{FAILED}: {result.failure}"]
    assert capsys.readouterr().err == ""
    assert [launch.kernel.name for launch in result.launches] == ["mixed", "layouts"]

    traced = traced_script(script, partial=True)
    assert traced.failure == f"script.py:{line}: program (0, 0, 0): {WANTING}"
    assert [launch.kernel for launch in traced.trace.launches] == ["mixed", "wanting", "wanting"]
    assert traced.configs == {0: "BLOCK=64, num_warps=4, one of 2 configs of its autotune"}
    assert f"  config    {traced.configs[0]}" in list(trace_lines(traced.trace, 120, traced.configs))
    assert before == (libdevice.tanh.__code__, libdevice.tanh.__kwdefaults__, vars(torch.Tensor).get("is_cuda"))


@needs_no_gpu
def test_a_bare_assertion_is_reported_with_its_statement_and_place(tmp_path: Path) -> None:
    (tmp_path / "placing.py").write_text("def check(x):\n    assert (x.device.type\n            == 'cuda')\n")
    script = tmp_path / "script.py"
    script.write_text("import torch, placing\nx = torch.ones(4, device='cuda')\nplacing.check(x)\n")
    with pytest.raises(WarplensError) as raised:
        traced_script(script)
    assert raised.value.message == (
        "placing.py:2 (called at script.py:3): AssertionError: assert (x.device.type == 'cuda'); "
        "tensors are on the CPU here"
    )
    script.write_text("raise ValueError(f'no {list(range(40))}, no {[1, 2]}')\n")
    with pytest.raises(WarplensError) as raised:
        traced_script(script)
    assert raised.value.message == "script.py:1: ValueError: no […], no [1, 2]"


FORKED = """\
import torch, triton, triton.language as tl
@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=4, num_consumer_groups=2, num_buffers_warp_spec=3)], key=[])
@triton.jit
def fill(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)
fill[(1,)](torch.ones(64))
"""


def test_a_config_of_another_triton_is_refused_with_what_to_write_instead(tmp_path: Path) -> None:
    script = tmp_path / "forked.py"
    script.write_text(FORKED)
    kernel = load_kernel(f"{script}::fill")
    job = CompileJob(kernel.signature("*fp32:16, 64"), TARGETS["sm90"])
    for run in (lambda: launches(str(script)), lambda: traced_script(script), lambda: compile_all(kernel, [job])):
        with pytest.raises(WarplensError) as raised:
            run()
        assert "TypeError: Config.__init__() got an unexpected keyword argument 'num_consumer_groups'" in str(
            raised.value
        )
        assert raised.value.hint is not None
        assert "tl.range(0, n, warp_specialize=True)" in raised.value.hint


@pytest.mark.parametrize(
    ("config", "error"),
    [
        (
            '{"BLOCK": 64}, 4, 3, 1, 0, 2, 240, 40',
            "TypeError: Config.__init__() takes from 2 to 8 positional arguments",
        ),
        ('{"BLOCK": 64, "num_consumer_groups": 2}', "KeyError: 'Keyword argument num_consumer_groups was specified"),
    ],
)
def test_so_are_its_arguments_without_a_name_and_among_the_values(tmp_path: Path, config: str, error: str) -> None:
    script = tmp_path / "forked.py"
    own = '{"BLOCK": 64}, num_warps=4, num_consumer_groups=2, num_buffers_warp_spec=3'
    script.write_text(FORKED.replace(own, config))
    with pytest.raises(WarplensError) as raised:
        launches(str(script))
    assert error in str(raised.value)
    assert "tl.range(0, n, warp_specialize=True)" in str(raised.value.hint)


def test_a_line_that_is_called_from_two_places_says_from_which(tmp_path: Path) -> None:
    script = tmp_path / "twice.py"
    script.write_text(
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\ndef read(x):\n    return tl.load(x + tl.arange(0, 16))\n"
        "@triton.jit\ndef read_again(x):\n    return read(x)\n"
        "@triton.jit\ndef twice(x):\n"
        "    a = read_again(x)\n"
        "    b = read_again(x)\n"
        "    tl.store(x + tl.arange(0, 16), a + b)\n"
        "twice[(1,)](torch.ones(16))\n"
    )
    shown = [line for line in trace_lines(traced_script(script).trace, 120) if line.startswith("  line")]
    assert ["(called at twice.py:10) return tl.load" in shown[0], "(called at twice.py:11) return" in shown[1]] == [
        True
    ] * 2
    assert "called at" not in shown[2]


def test_functions_of_libdevice_give_what_the_mathematics_says() -> None:
    interpreter = load_interpreter()
    call = libdevice.library_call(interpreter)
    types = {"": interpreter.tl.float64, "f": interpreter.tl.float32}

    def value(name: str, *numbers: float) -> float:
        results = []
        for suffix, dtype in types.items():
            handles = [SimpleNamespace(data=np.array([number], interpreter._get_np_dtype(dtype))) for number in numbers]
            result = call("", "", f"__nv_{name}{suffix}", handles, dtype, True)
            assert result.dtype == dtype and result.data.dtype == interpreter._get_np_dtype(dtype)
            results.append(float(result.data[0]))
        assert results[0] == pytest.approx(results[1], rel=1e-6)
        return results[0]

    same = ("floor", "ceil", "trunc", "exp2", "sqrt", "sin", "cos", "tan", "log2", "exp", "cosh", "sinh", "tanh", "log",
            "log10", "log1p", "expm1", "cbrt", "fabs", "erf", "erfc", "lgamma", "atan", "asinh")  # fmt: skip
    if not hasattr(math, "exp2"):  # Python 3.11 brings both
        same = tuple(name for name in same if name not in ("exp2", "cbrt"))
    for name in same:
        assert value(name, 2.25) == pytest.approx(getattr(math, name)(2.25), rel=1e-12), name
    for name in ("asin", "acos", "atanh"):
        assert value(name, 0.3) == pytest.approx(getattr(math, name)(0.3), rel=1e-12), name
    for name in ("pow", "atan2", "hypot", "fmod", "copysign"):
        assert value(name, 2.25, -1.5) == pytest.approx(getattr(math, name)(2.25, -1.5), rel=1e-12), name
    assert (value("round", 2.5), value("rint", 2.5), value("round", -0.5)) == (3, 2, -1)
    assert (value("rsqrt", 4), value("exp10", 3), value("sinpi", 1.5)) == pytest.approx((0.5, 1000, -1))
    assert (value("norm3d", 2, 3, 6), value("rnorm3d", 2, 3, 6), value("fdim", 5, 3)) == pytest.approx((7, 1 / 7, 2))
    assert (value("normcdf", 0), value("erfinv", math.erf(0.5)), value("rcbrt", 8)) == pytest.approx((0.5, 0.5, 0.5))
    with pytest.raises(NotImplementedError, match="__nv_tgamma is not run"):
        value("tgamma", 3)


def test_checking_and_tracing_run_a_script_alike_and_leave_everything_as_it_was(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, beside\nassert sys.argv[1:] == ['-n', '3'] and __name__ == '__main__'\nsys.exit(beside.STATUS)\n"
    )
    (tmp_path / "beside.py").write_text("STATUS = 3\n")
    before = sys.argv, sys.path[:], sys.modules["__main__"]
    for run in (launches, lambda path, words: traced_script(Path(path), words)):
        with pytest.raises(WarplensError, match=r"^script\.py: the script ended with 3$"):
            run(str(script), ["-n", "3"])
    del sys.modules["beside"]
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
