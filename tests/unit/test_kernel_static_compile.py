"""Kernels compile for GPUs that are not here; failures are records, remarks are data, the second time is instant."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from warplens_lab.compiling import artefact_cache, compiling, launching
from warplens_lab.compiling.child import compiler_environment
from warplens_lab.compiling.compiler_repairs import without_lines_in_assembly
from warplens_lab.compiling.compiling import CompileJob, compile_all
from warplens_lab.compiling.launching import launches
from warplens_lab.compiling.loading import load_kernel
from warplens_lab.compiling.records import CompileAnswer, CompileOutcome, ScriptAnswer, ScriptFailure
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.layouts.banks import conflicts
from warplens_lab.layouts.memory import shared_offsets
from warplens_lab.layouts.registers import register_bases
from warplens_run.base.errors import UsageError, WarplensError

pytest.importorskip("triton")
KERNELS = Path(__file__).resolve().parents[1] / "kernels"
COPY = """\
import triton
import triton.language as tl
from beside import FACTOR

print("the file prints")

@triton.autotune(configs=[triton.Config({"BLOCK": 128}, num_warps=2), triton.Config({"BLOCK": 256})], key=[])
@triton.jit
def copy(x_ptr, out_ptr, n, BLOCK: tl.constexpr, FLAG: tl.constexpr = True):
    offsets = tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(
        out_ptr + offsets,
        tl.load(x_ptr + offsets, mask=mask) * FACTOR,
        mask=mask,
    )

def plain():
    pass
"""


@pytest.fixture
def copy_file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("import triton.language as tl\nFACTOR = tl.constexpr(2)\n")
    file = tmp_path / "copying.py"
    file.write_text(COPY)
    return file


def test_a_kernel_compiles_its_remarks_are_data_and_the_second_time_is_from_the_cache(
    copy_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    kernel = load_kernel(f"{copy_file}::copy").with_configs()
    assert kernel.configs is not None
    assert [config.text() for config in kernel.configs] == [
        "BLOCK=128, num_warps=2, num_stages=3, num_ctas=1",
        "BLOCK=256, num_warps=4, num_stages=3, num_ctas=1",
    ]
    job = CompileJob(kernel.signature("*fp16, *fp16:16, i32, 512"), TARGETS["sm90"])
    (first,) = compile_all(kernel, [job])
    assert first.is_compiled and not first.is_cached
    assert set(first.texts) == {"ttir", "ttgir", "llir", "ptx", "sass"}
    assert first.binary[:4] == b"\x7fELF"
    assert {(remark.line, remark.column, remark.source.strip()[:8]) for remark in first.remarks} == {
        (12, 5, "tl.store"),
        (14, 9, "tl.load("),
    }
    assert all("vectorization fails" in remark.text for remark in first.remarks)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiling, "run_worker", lambda *_: pytest.fail("what is cached needs no process"))
        (second,) = compile_all(kernel, [job])
    assert second.is_cached and second.texts == first.texts and second.remarks == first.remarks
    (copy_file.parent / "beside.py").write_text("import triton.language as tl\nFACTOR = tl.constexpr(3)\n")
    (third,) = compile_all(kernel, [job])
    assert not third.is_cached and third.texts["ttir"] != first.texts["ttir"]
    assert capfd.readouterr().out == ""


SPLIT = """\
import triton, triton.language as tl
@triton.jit
def product(a, b, c, n, B: tl.constexpr):
    row, column = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    total = tl.zeros((B, B), tl.float32)
    for at in tl.range(0, n, B, warp_specialize=True):
        total = tl.dot(tl.load(a + row * n + at + column), tl.load(b + (at + row) * n + column), total)
    tl.store(c + row * n + column, total)
"""


def test_a_loop_that_the_compiler_cannot_split_is_named_where_it_gives_up(tmp_path: Path) -> None:
    file = tmp_path / "split.py"
    file.write_text(SPLIT)
    kernel = load_kernel(f"{file}::product")
    signature = kernel.signature("*fp16:16, *fp16:16, *fp32:16, i32:16, 128")
    (refused,) = compile_all(kernel, [CompileJob(signature, TARGETS["sm90"])])
    assert refused.failure is not None
    assert "warp_specialize=True is what the compiler cannot do here" in refused.failure.message


def test_a_damaged_cache_entry_counts_as_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path))
    answer = CompileAnswer(CompileOutcome("3.9.0", {"shared": 4096}), {})
    artefact_cache.save("k", answer, {"ttir": b"module"})
    assert artefact_cache.load("k") == (answer, {"ttir": b"module"})
    path = tmp_path / "kernels" / "k.zip"
    path.write_bytes(path.read_bytes()[:-30])
    assert artefact_cache.load("k") is None
    path.write_text("[]")
    assert artefact_cache.load("k") is None
    path.write_bytes(b"")
    assert artefact_cache.load("k") is None


def test_the_cache_keeps_to_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path))
    place = tmp_path / "kernels"
    artefact_cache.save("a", {"depends": {}}, {"x": b"1"})
    monkeypatch.setattr(artefact_cache, "LIMIT_BYTES", 2 * (place / "a.zip").stat().st_size)
    os.utime(place / "a.zip", (1, 1))
    artefact_cache.save("b", {"depends": {}}, {"x": b"2"})
    assert sorted(path.stem for path in place.iterdir()) == ["a", "b"]
    os.utime(place / "b.zip", (2, 2))
    artefact_cache.save("c", {"depends": {}}, {"x": b"3"})
    assert sorted(path.stem for path in place.iterdir()) == ["b", "c"]


@pytest.mark.usefixtures("warm_compiler")
def test_a_kernel_that_does_not_compile_is_a_record_with_tritons_words_and_line() -> None:
    kernel = load_kernel(f"{KERNELS}/faulty_products.py::uneven_kernel")
    artefacts = compile_all(kernel, [CompileJob(kernel.signature("*i32, 48"), TARGETS["sm90"])], cache=False)[0]
    source = artefacts.source_lines
    assert artefacts.failure is not None and artefacts.failure.line is not None
    assert artefacts.failure.message == "arange's range must be a power of 2"
    assert source[artefacts.failure.line - 1].endswith("# fault")
    assert source[artefacts.failure.line - 1][artefacts.failure.column - 1 :].startswith("tl.arange")  # type: ignore[operator]
    assert artefacts.failure.file.endswith("faulty_products.py") and artefacts.texts == {}


@pytest.mark.usefixtures("warm_compiler")
def test_a_compiler_that_crashes_takes_only_its_own_job_along(copy_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that makes the compiler abort on one constant stands for an assertion in C++."""
    copy_file.write_text(
        COPY + "\nimport os\noriginal = triton.compile\n"
        "def compile(source, **rest):\n    return os.abort() if 512 in source.constants.values() else original(source, **rest)\n"
        "triton.compile = compile\n"
    )
    kernel = load_kernel(f"{copy_file}::copy")
    jobs = [CompileJob(kernel.signature(f"*fp16, *fp16, i32, {block}"), TARGETS["sm90"]) for block in (256, 512, 128)]
    monkeypatch.setattr(compiling, "MOST_PROCESSES", 1)
    first, second, third = compile_all(kernel, jobs, cache=False)
    assert first.is_compiled and third.is_compiled
    assert second.failure is not None and "SIGABRT" in second.failure.message


@pytest.mark.usefixtures("warm_compiler")
def test_files_that_cannot_be_used_are_refused_in_one_line(tmp_path: Path, copy_file: Path) -> None:
    kernel = load_kernel(f"{copy_file}::copy")
    signature = kernel.signature("*fp16, *fp16, i32, 64")
    with pytest.raises(UsageError, match="unknown compile option 'warps'"):
        compile_all(kernel, [CompileJob(signature, TARGETS["sm90"], {"warps": 4})])[0]
    with pytest.raises(UsageError, match="power of two"):
        compile_all(kernel, [CompileJob(signature, TARGETS["sm90"], {"num_warps": 3})])[0]
    with pytest.raises(UsageError, match=r"plain of copying.py is not a Triton kernel"):
        load_kernel(f"{copy_file}::plain")
    with pytest.raises(UsageError, match=r"copying.py has no nothing"):
        load_kernel(f"{copy_file}::nothing")
    copy_file.write_text("import no_such_module\n" + COPY)
    with pytest.raises(WarplensError, match=r"copying.py needs no_such_module: pip install no-such-module"):
        compile_all(load_kernel(f"{copy_file}::copy"), [CompileJob(signature, TARGETS["sm90"])])[0]


def test_lines_inside_inline_assembly_do_not_drift() -> None:
    ptx = "\t.loc\t1 14 9\n\t// begin inline asm\n\t.loc\t1 15 9\n\tld;\n\t// end inline asm\n\t.loc\t1 16 9\n"
    assert without_lines_in_assembly(ptx) == ptx.replace("\t.loc\t1 15 9\n", "")


@pytest.mark.usefixtures("warm_compiler")
def test_the_launches_of_a_script_give_signatures_grids_and_options(copy_file: Path) -> None:
    pytest.importorskip("torch")
    script = copy_file.with_name("script.py")
    script.write_text(
        "import sys, torch, copying\n"
        "x = torch.ones(512, device='cuda', dtype=torch.float16)\n"
        "out = torch.zeros_like(x)\n"
        "for _ in range(2):\n"
        "    copying.copy[lambda meta: (meta['BLOCK'] // 64,)](x, out, 96)\n"
        "assert out[:96].eq(2).all() and out[96:].eq(0).all()\n"
        "copying.copy[(1,)](x[1:], out, 1)\n"
        "raise ValueError(sys.argv[1])\n"
    )
    result = launches(str(script), ["the end"])
    assert [(launch.signature.text(), launch.grid, launch.count) for launch in result.launches] == [
        ("*fp16:16, *fp16:16, i32:16, 128, True", (2,), 2),
        ("*fp16, *fp16:16, i32:1, 128, True", (1,), 1),
    ]
    assert dict(result.launches[0].options)["num_warps"] == 2
    assert result.launches[0].kernel.name == "copy"
    assert result.notes == ("copy: the first of 2 configs of its autotune", "script.py:8: ValueError: the end")


def test_a_script_that_fails_before_its_first_launch_is_an_error(
    copy_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    message = "No module named 'x'"
    text = f"copying.py:1: ModuleNotFoundError: {message}"
    answer = ScriptAnswer((), failure=ScriptFailure(text, message, 1, may_want_gpu=True))
    monkeypatch.setattr(launching, "_answer", lambda *_: answer)
    with pytest.raises(WarplensError, match=r"copying.py:1: ModuleNotFoundError"):
        launches(str(copy_file))


PROBE = """\
import json, sys
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl
from triton.experimental.gluon._runtime import GluonASTSource
from triton.backends.compiler import GPUTarget

asked = json.loads(open(sys.argv[1]).read())
answers = []

@ttgl._core.builtin
def probe(_semantic=None):
    builder = _semantic.builder
    for register, shared, shape, bits in asked:
        layout = ttgl.BlockedLayout(*register)
        memory = ttgl.SwizzledSharedLayout(*shared)
        answers.append(builder.get_shared_bank_conflicts(layout._to_ir(builder), memory._to_ir(builder), shape, bits))

@gluon.jit
def stub():
    probe()

triton.compile(GluonASTSource(stub, {}, {}, {}), target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
print(json.dumps(answers))
"""


@pytest.mark.nightly
def test_the_model_of_banks_agrees_with_tritons_own(tmp_path: Path) -> None:
    """Over layouts whose swizzle moves whole words; for smaller pieces of a word Triton's count is not the banks'."""
    cases = [
        (([1, vector], threads, [4, 1], order), (group, per_phase, phases, rows), [64, 64], bits)
        for vector in (1, 4)
        for threads in ([1, 32], [8, 4], [32, 1])
        for order in ([1, 0], [0, 1])
        for rows in ([1, 0], [0, 1])
        for bits in (16, 32)
        for group, per_phase, phases in ((1, 1, 1), (2, 1, 8), (8, 2, 4))
    ]
    (tmp_path / "asked.json").write_text(json.dumps(cases))
    (tmp_path / "probe.py").write_text(PROBE)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "probe.py"), str(tmp_path / "asked.json")],
        env=compiler_environment(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip("this Triton does not count bank conflicts: " + done.stderr.strip().splitlines()[-1])
    answers = json.loads(done.stdout.splitlines()[-1])
    assert len(set(answers)) > 3
    for ((size, threads, warps, order), shared, shape, bits), expected in zip(cases, answers, strict=True):
        layout = f"#ttg.blocked<{{sizePerThread = {size}, threadsPerWarp = {threads}, warpsPerCTA = {warps}, order = {order}}}>"
        names = dict(zip(("vec", "perPhase", "maxPhase", "order"), shared, strict=True))
        memory = "#ttg.swizzled_shared<{" + ", ".join(f"{k} = {v}" for k, v in names.items()) + "}>"
        bases, offsets = register_bases(layout, shape), shared_offsets(memory, shape, bits)
        assert bases is not None and offsets is not None
        assert conflicts(offsets, bases, bits) == expected, (layout, memory, bits)
