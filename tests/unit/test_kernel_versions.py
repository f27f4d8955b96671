"""Other versions of Triton: too old, absent, without PyTorch; what older interpreters lack is made up for or said."""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest

from support import ROOT
from warplens_lab.compiling import compiling, triton_version
from warplens_lab.compiling.loading import load_kernel
from warplens_lab.compiling.records import CompileAnswer, CompileFailure, CompileOutcome
from warplens_lab.compiling.targets import TARGETS
from warplens_run.base.errors import MissingExtra, UsageError, WarplensError

KERNELS = ROOT / "tests" / "kernels"
OLD = """\
import torch
import triton
import triton.language as tl

@triton.jit
def doubled(x_ptr, out_ptr, n, wanted, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    if wanted:
        for start in range(0, n, BLOCK):
            tl.store(out_ptr + start + at, tl.load(x_ptr + start + at) * 2.5)

@triton.jit
def scaled(x_ptr, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :])
    tl.dot_scaled(x, None, "bf16", x, None, "bf16")
"""


def pretend(monkeypatch: pytest.MonkeyPatch, version: str | None) -> None:
    def installed_version(package: str) -> str:
        if version is None:
            raise PackageNotFoundError(package)
        return version

    monkeypatch.setattr(triton_version, "version", installed_version)


def test_a_triton_that_is_absent_or_too_old_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, "3.6.0+git1a2b")
    assert triton_version.require_triton() == "3.6.0+git1a2b"
    pretend(monkeypatch, "3.5.1")
    with pytest.raises(UsageError, match=r"needs Triton 3\.6 or newer; 3\.5\.1 is installed") as old:
        triton_version.require_triton()
    assert old.value.hint == "pip install --upgrade 'triton>=3.6'"
    pretend(monkeypatch, None)
    with pytest.raises(MissingExtra, match="compiling a kernel needs Triton") as absent:
        triton_version.require_triton()
    assert absent.value.hint == "pip install 'warplens[triton]'"


def test_what_one_version_compiled_is_not_found_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = load_kernel(f"{KERNELS / 'vector_add.py'}::vector_add_kernel")
    job = compiling.CompileJob(kernel.signature("*fp32:16, *fp32:16, *fp32:16, i32, 1024"), TARGETS["sm90"])
    keys: list[str] = []
    monkeypatch.setattr(compiling.artefact_cache, "load", keys.append)
    monkeypatch.setattr(compiling, "_compiled", lambda requests: {0: (NOT_COMPILED, {})})
    for version in ("3.6.0", "3.9.0", "3.6.0"):
        pretend(monkeypatch, version)
        compiling.compile_all(kernel, [job])
    assert keys[0] == keys[2] != keys[1]


NOT_COMPILED = CompileAnswer(CompileOutcome(failure=CompileFailure("none", "not compiled here")), {})


def test_tracing_without_pytorch_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    from warplens_lab.tracing import trace

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match="tracing a kernel needs PyTorch"), trace():
        pass


@pytest.fixture
def old_interpreter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The newest interpreter with what older ones lack taken away, as they lack it."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    convert, patch_lang = interpreter._implicit_cvt, interpreter._patch_lang
    handle = interpreter.TensorDescHandle
    pointers = handle.materialize_pointers

    def refuses_truth_values(argument: Any) -> Any:
        assert not isinstance(argument, bool)
        return convert(argument)

    def refuses_whole_numbers(function: Any) -> Any:
        scope = patch_lang(function)
        scope.set_attr(interpreter.tl.tensor, "__index__", lambda tensor: [][0])
        return scope

    def with_plain_mask(self: Any, offsets: Any) -> Any:
        addresses, mask = pointers(self, offsets)
        return addresses, mask if hasattr(mask, "strides") else mask.data

    for name in ("get_bf16", "create_dot_scaled"):
        monkeypatch.delattr(builder, name, raising=False)
    monkeypatch.setattr(interpreter, "_implicit_cvt", refuses_truth_values)
    monkeypatch.setattr(interpreter, "_patch_lang", refuses_whole_numbers)
    monkeypatch.setattr(handle, "materialize_pointers", with_plain_mask)
    return interpreter


def kernels_of(folder: Path) -> Any:
    import importlib.util

    (folder / "old.py").write_text(OLD)
    spec = importlib.util.spec_from_file_location("old", folder / "old.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_older_interpreters_lack_is_made_up_for_or_said(old_interpreter: Any, tmp_path: Path) -> None:
    import torch

    from kernels import trace_cases
    from warplens_lab.tracing import trace

    own = kernels_of(tmp_path)
    x = torch.linspace(-3, 3, 24).to(torch.bfloat16)
    out = torch.zeros_like(x)
    with trace() as tracing:
        own.doubled[(1,)](x, out, 24, True, BLOCK=8)
        assert torch.equal(out, x * 2.5)
        own.doubled[(1,)](x, torch.zeros_like(x), 24, False, BLOCK=8)
        tile = torch.randn(8, 8)
        assert torch.equal(trace_cases.descriptor_copy(tile), tile)
    assert [launch.true_bytes for launch in tracing.launches] == [2 * 48, 0, 2 * 256]
    with (
        pytest.raises(
            old_interpreter.InterpreterError, match=r"does not run tl\.dot_scaled; 3\.8 and newer do"
        ) as error,
        trace(),
    ):
        own.scaled[(1,)](x.repeat(16)[:256], BLOCK=16)
    assert "old.py:15: " in str(error.value)
    assert not vars(old_interpreter.interpreter_builder).keys() & {"get_bf16", "create_masked_load"}


def test_a_script_that_fails_is_one_line_and_keeps_what_it_launched(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    from warplens_lab.tracing.watching.script import traced_script

    script = tmp_path / "adding.py"
    launch = f"import sys\nsys.path.insert(0, {str(KERNELS)!r})\nimport vector_add\nvector_add.launch(*vector_add.inputs())\n"
    script.write_text(launch + "raise ValueError('no luck')\n")
    with pytest.raises(WarplensError, match=r"^adding\.py:5: ValueError: no luck$"):
        traced_script(script)
    traced = traced_script(script, partial=True)
    assert (len(traced.trace.launches), traced.failure) == (1, "adding.py:5: ValueError: no luck")
    script.write_text("import no_such_module\n")
    with pytest.raises(WarplensError, match=r"^adding\.py:1: ModuleNotFoundError"):
        traced_script(script, partial=True)
