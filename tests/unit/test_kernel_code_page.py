"""Python beside the compiler's texts: each line leads to what became of it, in every text and through every call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kernel_codes import code_check, two_checks
from page_reader import PageData
from warplens.model.measured import LineSamples
from warplens_lab.checking.checks import CheckResult, KernelCheck, check_kernels
from warplens_lab.code.view import kernel_code
from warplens_lab.compiling import compiling
from warplens_lab.compiling.compiling import Artefacts, CompileJob, compile_many
from warplens_lab.compiling.loading import load_kernel
from warplens_lab.compiling.request import CompileRequest
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts import extract
from warplens_lab.facts.bookkeeping import bookkeeping
from warplens_lab.facts.browsing import line_frames, mlir_frames, users_frames, with_places_of_products
from warplens_lab.facts.llvm import llvm_frames
from warplens_lab.facts.machine import Instruction
from warplens_lab.facts.records import SourcePlace
from warplens_lab.measured.joining import KernelMeasurements
from warplens_lab.pages.code_page import code_page_bytes
from warplens_lab.scenes.kernel_code import CodeCheck, KernelCode

KERNELS = Path(__file__).resolve().parents[1] / "kernels"
HALVES = "*fp16:16, *fp16:16, *fp16:16"
SIGNATURES = {
    "matmul": f"{HALVES}, i32:16, i32:16, i32:16, i32:16, i32:16, i32:16, 64, 64, 32",
    "softmax": "*fp32:16, *fp32:16, i32:16, i32:16, 1024",
    "flash_attention": f"{HALVES}, *fp16:16, fp32, i32:16, 64, 64, 64, True",
}
HELPERS = """import triton
import triton.language as tl


@triton.jit
def scaled(x, by):
    raised = tl.exp(x)
    return tl.minimum(raised, by)
"""
CALLER = """import triton
import triton.language as tl
from own_helpers import scaled


@triton.jit
def above(x):
    return tl.maximum(x, 0.5)


@triton.autotune(configs=[triton.Config({"BLOCK": 128})], key=["n"])
@triton.jit
def caller_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    total = tl.sum(x)
    y = above(x) + scaled(x, total)
    tl.store(out_ptr + at, y, mask=at < n)
"""


UNEVEN = """import triton
import triton.language as tl


@triton.jit
def uneven_kernel(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, offsets)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, warm_compiler: None) -> Mapping[tuple[str, str], Artefacts]:
    """Everything in one process, because each has to import torch."""
    pytest.importorskip("torch")
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("calls")
    (folder / "own_helpers.py").write_text(HELPERS)
    (folder / "caller.py").write_text(CALLER)
    names = [(f"{KERNELS / name}.py::{name}_kernel", name, signature) for name, signature in SIGNATURES.items()]
    names.append((f"{folder / 'caller.py'}::caller_kernel", "caller", "*fp32:16, *fp32:16, i32:16, 1024"))
    requests = {}
    for path, name, signature in names:
        kernel = load_kernel(path)
        for target in ("sm90", "gfx942"):
            requests[name, target] = (kernel, CompileJob(kernel.signature(signature), TARGETS[target]))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WARPLENS_CACHE", str(tmp_path_factory.mktemp("kernels")))
        patched.setattr(compiling, "MOST_PROCESSES", 1)
        return dict(zip(requests, compile_many(list(requests.values())), strict=True))


def check_of(artefacts: Artefacts) -> CodeCheck:
    return kernel_code(CheckResult((KernelCheck(extract(artefacts), (), 0, artefacts),))).checks[0]


LOADS = {
    "ttir": r"tt\.load",
    "ttgir": r"tt\.load|async_copy_global|amdg\.buffer_load",
    "llir": r"cp\.async\.cg|ld\.global|buffer\.load|load <\d+ x half>, ptr addrspace\(1\)",
    "ptx": r"cp\.async\.cg|ld\.global",
    "sass": r"LDGSTS|LDG\.",
    "amdgcn": r"(buffer|global)_load",
}
STORES = {
    "ttir": r"tt\.store",
    "ttgir": r"tt\.store|amdg\.buffer_store",
    "ptx": r"st\.global",
    "sass": r"STG\.",
    "amdgcn": r"(buffer|global)_store",
}
PRODUCTS = {
    "ttir": r"tt\.dot",
    "ttgir": r"tt\.dot |warp_group_dot ",
    "llir": r"wgmma\.mma_async|call .*llvm\.amdgcn\.mfma",
    "ptx": r"wgmma\.mma_async",
    "sass": r"HGMMA",
    "amdgcn": r"v_mfma",
}
WORK = {r"= tl\.load\(": LOADS, r"tl\.store\(": STORES, r"tl\.dot\(": PRODUCTS}


def line_links(artefacts: Artefacts) -> dict[str, tuple[int, ...]]:
    """By kind of text: the line of the kernel's own file that each line comes from, 0 for none."""
    file = str(artefacts.kernel.file)
    return {
        kind: tuple(next((place.line for place in frames if place.file == file), 0) for frames in listed)
        for kind, listed in line_frames(artefacts).items()
    }


@pytest.mark.parametrize("target", ["sm90", "gfx942"])
@pytest.mark.parametrize("name", SIGNATURES)
def test_a_line_leads_to_what_does_its_work(
    compiled: Mapping[tuple[str, str], Artefacts], name: str, target: str
) -> None:
    artefacts = compiled[name, target]
    links = line_links(artefacts)
    kinds = ("ttir", "ttgir", "llir", *(("ptx", "sass") if target == "sm90" else ("amdgcn",)))
    assert tuple(links) == kinds
    for python, words in WORK.items():
        lines = {at for at, line in enumerate(artefacts.source_lines, 1) if re.search(python, line)}
        lines = {line for line in lines if artefacts.kernel.first_line < line < artefacts.kernel.first_line + 45}
        lines &= set(links["ttir"])
        for kind in kinds:
            if kind not in words:
                continue
            texts = artefacts.texts[kind].splitlines()
            shown = [not hidden for hidden in bookkeeping(kind, artefacts.texts[kind])]
            linked = {links[kind][at] for at, text in enumerate(texts) if shown[at] and re.search(words[kind], text)}
            assert linked == lines, (kind, python)


@pytest.mark.parametrize("target", ["sm90", "gfx942"])
def test_what_is_called_belongs_to_its_own_line_and_to_the_caller(
    compiled: Mapping[tuple[str, str], Artefacts], target: str
) -> None:
    check = check_of(compiled["caller", target])
    sources = [(Path(check.files[item.file]).name, item.line, item.name) for item in check.sources]
    # From its last decorator on, without the configs; Triton's own library is not shown.
    assert sources == [("caller.py", 12, "caller_kernel"), ("caller.py", 6, "above"), ("own_helpers.py", 5, "scaled")]
    lines = {(Path(check.files[item.place.file]).name, item.place.line): item for item in check.lines}
    call = lines["caller.py", 17]
    inside = [lines["caller.py", 8], lines["own_helpers.py", 7], lines["own_helpers.py", 8]]
    assert call.called_instructions == sum(item.instructions for item in inside) > 0
    # A sum of the library is the user's line; nothing is lost.
    assert dict(lines["caller.py", 16].classes)["shuffle"] > 0
    assert sum(item.instructions for item in check.lines) == extract(compiled["caller", target]).instructions
    machine = check.texts[-1]
    chains = [check.chains[at] for at in sorted(set(machine.chains[machine.chains >= 0].tolist()))]
    names = {tuple((Path(check.files[p.file]).name, p.line) for p in chain) for chain in chains}
    assert (("own_helpers.py", 7), ("caller.py", 17)) in names
    assert any(chain[-1] == ("caller.py", 16) and chain[0][0] == "standard.py" for chain in names)
    links = line_links(compiled["caller", target])
    exps = [at for at, line in enumerate(compiled["caller", target].texts["ttgir"].splitlines()) if "math.exp" in line]
    assert [links["ttgir"][at] for at in exps] == [17]


def test_the_margin_says_what_the_facts_say(compiled: Mapping[tuple[str, str], Artefacts]) -> None:
    artefacts = compiled["matmul", "sm90"]
    check = check_of(artefacts)
    marks = {
        artefacts.source_lines[line.place.line - 1].split("=")[0].strip(): [mark.text for mark in line.marks]
        for line in check.lines
        if line.marks
    }
    assert marks["a"] == marks["b"] == ["async 128", "stage 0"]
    assert marks["total"] == ["wgmma", "stage 2"]
    assert marks["for start in range(0, k_size, BLOCK_K):"] == ["ahead ×3"]
    facts = {fact.name: fact.value for fact in check.facts}
    assert facts["schedule"] == "pipelined"
    assert facts["matrix unit"] == "wgmma m64n64k16"
    assert facts["load ahead"] == "1 of 1 loop, 3 buffers"
    first = check.sources[0]
    assert first.text[0] == "@triton.jit" and artefacts.source_lines[first.line - 1] == "@triton.jit"


def test_samples_are_shown_at_their_lines(compiled: Mapping[tuple[str, str], Artefacts]) -> None:
    artefacts = compiled["softmax", "sm90"]
    facts = extract(artefacts)
    line = facts.accesses[0].place.line
    above = line - 9  # nothing was compiled from that line
    sampled = (
        LineSamples(30, 20, (("long_scoreboard", 15), ("wait", 5)), "C:\\there\\softmax.py", line),
        LineSamples(6, 5, (("wait", 5),), "/elsewhere/softmax.py", line + 1),
        LineSamples(4, 4, (("drain", 4),), "/elsewhere/softmax.py", above),
    )
    measured = KernelMeasurements(("softmax_kernel",), "run.hatchet", 4, 80_000, 50.0, samples=sampled)
    (check,) = kernel_code(CheckResult((KernelCheck(facts, (), 0, artefacts, measured=measured),))).checks
    by_line = {line_code.place.line: line_code for line_code in check.lines}
    assert (by_line[line].sample_percent, by_line[line].waits) == (75.0, (("long_scoreboard", 75.0), ("wait", 25.0)))
    assert by_line[line + 1].sample_percent == 15.0 and by_line[line + 2].sample_percent == 0.0
    assert (by_line[above].sample_percent, by_line[above].instructions) == (10.0, 0)
    assert ("measured", "20.00 µs") in {(fact.name, fact.value) for fact in check.facts}
    assert check_of(artefacts).lines[0].sample_percent is None


def test_texts_that_are_cut_off_still_make_a_page(compiled: Mapping[tuple[str, str], Artefacts]) -> None:
    artefacts = compiled["softmax", "sm90"]
    for parts in range(1, 8):
        texts = {kind: text[: len(text) * parts // 8] for kind, text in artefacts.texts.items()}
        check = check_of(replace(artefacts, texts=texts))
        for text in check.texts:
            assert len(text.chains) == len(text.bookkeeping) == len(text.text.split("\n"))
        assert code_page_bytes(KernelCode("cut", (check,)))


@pytest.mark.nightly
def test_checks_carry_their_texts_from_the_cache_too_and_failures_their_line(tmp_path: Path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "uneven.py").write_text(UNEVEN)
    kernel = f"{tmp_path}/uneven.py::uneven_kernel"
    fresh = kernel_code(check_kernels(CompileRequest(kernel, "*i32, 64")))
    cached = check_kernels(CompileRequest(kernel, "*i32, 64"))
    assert cached.checks[0].artefacts is not None and cached.checks[0].artefacts.is_cached
    assert code_page_bytes(kernel_code(cached)) == code_page_bytes(fresh)
    (failed,) = kernel_code(check_kernels(CompileRequest(kernel, "*i32, 48"))).checks
    assert failed.texts == () and failed.failure_place is not None
    source = failed.sources[0]
    assert "tl.arange(0, BLOCK)" in source.text[failed.failure_place.line - source.line]
    with pytest.raises(ValueError, match="no texts"):
        kernel_code(CheckResult((replace(cached.checks[0], artefacts=None),)))


def test_a_region_has_the_place_after_it() -> None:
    text = """#loc = loc("k.py":1:1)
#loc2 = loc("x"(#loc3))
module {
  tt.func @k(%a: f32 loc("a"(#loc))) {
    %c = arith.constant 1 : i32 loc(#loc9)
    %s = "tt.reduce"(%a) ({
    ^bb0(%p: f32 loc(unknown), %q: f32 loc(unknown)):
      tt.reduce.return %p : f32 loc(callsite(#loc4 at #loc2))
    }) : f32 loc(callsite(#loc4 at #loc2))
    scf.if %b {
      scf.yield loc(#loc5)
    } else {
      scf.yield loc(#loc5)
    } loc(#loc2)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc3 = loc("k.py":7:2)
#loc4 = loc("/x/triton/language/standard.py":200:3)
#loc5 = loc("k.py":8:2)
#loc9 = loc(unknown)
"""
    frames = [users_frames(chain) for chain in mlir_frames(text)]
    lines = [chain[0].line if chain else 0 for chain in frames]
    assert lines == [0, 0, 1, 1, 0, 7, 7, 7, 7, 7, 8, 7, 8, 7, 1, 1, 1, 0, 0, 0, 0]
    assert mlir_frames(text)[7][0].line == 200


def test_llvm_follows_calls_to_their_callers() -> None:
    text = """define void @k() !dbg !4 {
  %1 = add i32 1, 2, !dbg !6
  %2 = add i32 1, 2, !dbg !7
  %3 = add i32 1, 2
  %4 = add i32 1, 2, !dbg !99
}
!1 = !DIFile(filename: "k.py", directory: "/a, b")
!2 = !DIFile(filename: "h.py", directory: "/h")
!4 = distinct !DISubprogram(name: "k", scope: !1, file: !1, line: 3, unit: !0)
!5 = distinct !DILexicalBlockFile(scope: !4, file: !2, discriminator: 0)
!6 = !DILocation(line: 5, column: 9, scope: !4)
!7 = !DILocation(line: 40, column: 2, scope: !5, inlinedAt: !6)
"""
    frames = llvm_frames(text)
    assert frames[0] == (SourcePlace("/a, b/k.py", 3),)
    assert frames[1] == (SourcePlace("/a, b/k.py", 5, 9),)
    assert frames[2] == (SourcePlace("/h/h.py", 40, 2), SourcePlace("/a, b/k.py", 5, 9))
    assert frames[3:5] == [(), ()]


def test_products_of_warp_groups_take_the_lines_of_ptx_where_the_two_agree() -> None:
    def at(name: str, line: int) -> Instruction:
        return Instruction(name, "", (SourcePlace("k.py", line),))

    machine = [at("HGMMA.64x64x16.F32", 3), at("FADD", 3), at("HGMMA.64x64x16.F32", 3)]
    assembly = [at("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16", line) for line in (5, 9)]
    assert [instruction.frames[0].line for instruction in with_places_of_products(machine, assembly)] == [5, 3, 9]
    assert [instruction.frames[0].line for instruction in with_places_of_products(machine, assembly[:1])] == [3, 3, 3]
    other = [assembly[0], at("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16", 9)]
    assert with_places_of_products(machine, other) == machine


def test_the_page_holds_the_data_and_no_text_outside_it() -> None:
    code = two_checks()
    nasty = replace(code, title="</title><script>alert(1)</script>")
    html = code_page_bytes(nasty).decode()
    assert "<script>alert" not in html and "scale_kernel" not in html
    assert "default-src 'none'" in html
    page = PageData(html)
    first, second = page.header["checks"]
    assert [text["kind"] for text in second["texts"]] == ["ttir", "ttgir", "amdgcn"]
    # The same text is kept once.
    assert len(page.header["texts"]) == 2
    assert page.header["texts"][first["texts"][2]["text"]] == code.checks[0].texts[2].text
    chains = page.ints(first["texts"][2]["chains"])
    assert np.array_equal(chains, code.checks[0].texts[2].chains)
    assert first["chains"][chains[4]][0] == {"file": 1, "line": 3, "column": 12}
    assert first["sources"][0]["text"] == list(code_check().sources[0].text)
