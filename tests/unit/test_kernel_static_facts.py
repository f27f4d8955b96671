"""Facts and suggestions: clean kernels are silent, every planted fault is found on its line, changes show their effect."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from warplens_lab.checking.config_ranking import rank_configs, ranking_table
from warplens_lab.comparing.compilations import compare, regressions
from warplens_lab.compiling import compiling
from warplens_lab.compiling.compiling import Artefacts, CompileJob, compile_all, compile_many
from warplens_lab.compiling.loading import LoadedKernel, load_kernel, parse_config
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts import KernelFacts, extract, facts_tables, load_facts, save_facts
from warplens_lab.facts.browsing import line_frames
from warplens_lab.facts.line_notes import marks
from warplens_lab.suggesting.counterfactual import recompiler
from warplens_lab.suggesting.records import Suggestion
from warplens_lab.suggesting.rules import RULES
from warplens_lab.suggesting.suggestions import suggest
from warplens_run.base.errors import FormatError, UsageError

pytest.importorskip("triton")
KERNELS = Path(__file__).resolve().parents[1] / "kernels"
HALVES = "*fp16:16, *fp16:16, *fp16:16"
CLEAN = {
    "vector_add": ("*fp32:16, *fp32:16, *fp32:16, i32:16, 1024", 4),
    "softmax": ("*fp32:16, *fp32:16, i32:16, i32:16, 2048", 4),
    "layer_norm": (f"{HALVES}, *fp16:16, *fp32:16, *fp32:16, i32:16, fp32, 2048", 4),
    "matmul": (f"{HALVES}, i32:16, i32:16, i32:16, i32:16, i32:16, i32:16, 128, 128, 64", 8),
    "matmul_unmasked": (f"{HALVES}, i32:16, i32:16, 64, 64, 64", 4),
    "grouped_matmul": ("*fp16:16, *fp16:16, *fp32:16, i32:16, i32:16, i32:16, 64, 64, 64, 8", 4),
    "flash_attention": (f"{HALVES}, *fp16:16, fp32, i32:16, 64, 64, 64, True", 4),
    "bias_gelu": ("*bf16:16, *bf16:16, *bf16:16, i32:16, i32:16, 1024", 4),
    "reduction": ("*fp32:16, *fp32:16, i32:16, 1024", 4),
    "histogram": ("*i32:16, *i32:16, i32:16, 1024", 4),
    "quantised_matmul": ("*bf16:16, *i8:16, *fp32:16, *bf16:16, i32:16, i32:16, i32:16, 64, 64, 64", 4),
}
PRODUCT = "products::product_kernel"


TWO_SIZES = """\
import triton, triton.language as tl
@triton.jit
def copy(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.arange(0, BM); c = tl.arange(0, BN)
    m = (r < M)[:, None] & (c < N)[None, :]
    tl.store(y + r[:, None] * N + c[None, :], tl.load(x + r[:, None] * N + c[None, :], mask=m, other=0.0), mask=m)
"""
HELPED = """\
import triton, triton.language as tl
@triton.jit
def read(ptr, at):
    return tl.load(ptr + at)
@triton.jit
def add(x, y, z, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    a = read(x, at)
    b = read(y, at)
    tl.store(z + at, a + b)
@triton.jit
def boxes(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(y, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    box = source.load([0, 0])
    target.store([0, 0], box)
"""


FOUR_SIZES = """\
import triton, triton.language as tl
@triton.jit
def copy(x, y, rows, columns, x_stride, y_stride, BM: tl.constexpr, BN: tl.constexpr):
    r = tl.arange(0, BM); c = tl.arange(0, BN)
    m = (r < rows * y_stride)[:, None] & (c < columns)[None, :]
    box = tl.load(x + r[:, None] * x_stride + c[None, :], mask=m, other=0.0)
    tl.store(y + r[:, None] * y_stride + c[None, :], box, mask=m)
"""


TWICE = """\
import triton, triton.language as tl
@triton.jit
def tile(ptr, at, stride, B: tl.constexpr):
    return tl.load(ptr + tl.arange(0, B)[:, None] * stride + at + tl.arange(0, B)[None, :])
@triton.jit
def product(a, b, c, k, stride, B: tl.constexpr):
    total = tl.zeros((B, B), tl.float32)
    for at in range(0, k, B):
        total = tl.dot(tile(a, at, stride, B), tile(b, at, stride, B), total)
    tl.store(c + tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :], total)
"""


ROWS, MANY = "accesses::scale_rows_kernel", "accesses::many_values_kernel"
FAULTY = (
    # What the tests below compile, so that one process does it: which kernel, signature, target, options.
    *((MANY, "*fp32:16, *fp32:16, i32:16, 16384", "sm90", {"num_warps": warps}) for warps in (4, 8)),
    (ROWS, "*fp16:16, *fp16:16, i32:16, i32, 1024", "sm90", {}),
    (ROWS, "*fp16:16, *fp16:16, i32, i32:16, 1024", "sm90", {}),
    (ROWS, "*fp16, *fp16:16, i32:16, i32:16, 1024", "sm90", {}),
    (ROWS, "*fp16:16, *fp16:16, i32:16, i32:16, 1024", "sm90", {}),
    (ROWS, "*fp16:16, *fp16:16, i32:16, i32, 2048", "gfx942", {}),
    ("accesses::shifted_kernel", "*fp32:16, *fp32:16, 1024", "sm90", {}),
    *(("accesses::copy_kernel", "*fp32:16, *fp32:16, 32", "sm90", {"num_warps": warps}) for warps in (4, 1)),
    ("products::full_precision_kernel", "*fp32:16, *fp32:16, *fp32:16, i32:16, 32", "sm90", {}),
    *((PRODUCT, f"{HALVES}, i32:16, i32:16, {rows}, 64, 64", "sm90", {}) for rows in (16, 64)),
    (PRODUCT, f"{HALVES}, i32:16, i32:16, 64, 64, 64", "sm90", {"num_stages": 1}),
    (PRODUCT, f"{HALVES}, i32:16, i32:16, 64, 64, 128", "sm90", {"num_stages": 8}),
    ("products::stores_in_loop_kernel", f"{HALVES}, i32:16, i32:16, 64, 64, 64", "sm90", {}),
    *(("bank_conflict::transpose_kernel", f"*fp32:16, *fp32:16, 1, {phases}", "sm90", {}) for phases in (1, 32)),
)


def faulty_kernel(which: str) -> LoadedKernel:
    file, _, name = which.partition("::")
    return load_kernel(f"{KERNELS}/faulty_{file}.py::{name}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tests of this file share what they compile."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def compiled(place: Path, warm_compiler: None) -> dict[str, Artefacts]:
    """Everything in one process, because each has to import torch; the clean kernels by name."""
    pytest.importorskip("torch")
    requests = []
    for name, (signature, warps) in CLEAN.items():
        kernel = load_kernel(f"{KERNELS / name}.py::{'sum' if name == 'reduction' else name}_kernel")
        requests.append((kernel, CompileJob(kernel.signature(signature), TARGETS["sm90"], {"num_warps": warps})))
    for which, signature, target, options in FAULTY:
        kernel = faulty_kernel(which)
        requests.append((kernel, CompileJob(kernel.signature(signature), TARGETS[target], options)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WARPLENS_CACHE", str(place))
        patched.setattr(compiling, "MOST_PROCESSES", 1)
        return dict(zip(CLEAN, compile_many(requests), strict=False))


@pytest.fixture(autouse=True)
def _use_the_cache(place: Path, compiled: dict[str, Artefacts], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(place))


@pytest.fixture(scope="module")
def clean(compiled: dict[str, Artefacts]) -> dict[str, tuple[Artefacts, KernelFacts]]:
    return {name: (artefacts, extract(artefacts)) for name, artefacts in compiled.items()}


def fault_line(file: str, words: str, kernel: str = "") -> int:
    """The line that ends with the words, below the kernel's head."""
    lines = (KERNELS / f"faulty_{file}.py").read_text().splitlines()
    begin = next((at for at, line in enumerate(lines) if line.startswith(f"def {kernel}")), 0)
    return next(at for at, line in enumerate(lines, 1) if at > begin and line.endswith(words))


def suggestions(
    which: str,
    signature: str,
    prove: bool = False,
    grid: tuple[int, ...] | None = None,
    target: str = "sm90",
    **options: int,
) -> dict[str, Suggestion]:
    """By code; the first of each."""
    kernel = faulty_kernel(which)
    parsed = kernel.signature(signature)
    facts = extract(compile_all(kernel, [CompileJob(parsed, TARGETS[target], options)])[0])
    again = recompiler(kernel, parsed, TARGETS[target], options) if prove else None
    by_code: dict[str, Suggestion] = {}
    for suggestion in suggest(facts, recompile=again, grid=grid):
        by_code.setdefault(suggestion.code, suggestion)
    return by_code


def test_the_clean_kernels_are_silent(clean: dict[str, tuple[Artefacts, KernelFacts]]) -> None:
    evidence = {name: [f"{s.code} {s.evidence}" for s in suggest(facts)] for name, (_, facts) in clean.items()}
    assert evidence == {name: [] for name in CLEAN}


def test_a_matrix_product_on_sm90_has_the_facts_that_its_code_shows(
    clean: dict[str, tuple[Artefacts, KernelFacts]],
) -> None:
    artefacts, facts = clean["matmul"]
    assert facts.matrix_instructions == ("wgmma m64n128k16",)
    assert (facts.shared_bytes, facts.buffers, facts.spill_bytes) == (98304, 3, 0)  # 3 × (128×64 + 64×128) halves
    assert [(a.kind, a.argument, a.width_bits, a.is_masked, a.in_loop) for a in facts.accesses] == [
        ("async copy", "a_ptr", 128, True, True),
        ("async copy", "b_ptr", 128, True, True),
        ("store", "c_ptr", 128, True, False),
    ]
    (dot,) = facts.dots
    assert (dot.shape, dot.element, dot.instruction, dot.in_loop) == ((128, 128, 64), "f16", "wgmma", True)
    (loop,) = facts.loops
    assert loop.is_pipelined and loop.has_dot and loop.loads == 2
    assert [(c.through, c.in_loop) for c in facts.conversions] == [("warps", False)]
    assert {access.conflicts for access in facts.shared} == {0}
    assert facts.occupancy is not None and facts.occupancy.limiter == "registers"
    assert f"Used {facts.registers} registers" in artefacts.assembler_log
    by_line = {line.place.line: dict(line.classes) for line in facts.lines}
    assert by_line[dot.place.line]["matrix"] == 4  # four steps of 16 through 64
    assert by_line[facts.accesses[2].place.line]["global_store"] == 8  # 128×128 halves / 256 threads / 8 at once
    assert sum(line.instructions for line in facts.lines) == facts.instructions
    assert json.loads(json.dumps(facts.to_json()))["dots"][0]["instruction"] == "wgmma"


def test_wide_loads_stay_on_their_line_and_atomics_are_indirect(
    clean: dict[str, tuple[Artefacts, KernelFacts]],
) -> None:
    _, facts = clean["vector_add"]
    by_line = {line.place.line: dict(line.classes) for line in facts.lines}
    assert [(a.place.line, a.width_bits, by_line[a.place.line].get("global_load", 0)) for a in facts.accesses[:2]] == [
        (14, 128, 2),
        (15, 128, 2),
    ]
    _, facts = clean["histogram"]
    atomic = next(access for access in facts.accesses if access.kind == "atomic")
    assert (atomic.argument, atomic.is_indirect) == ("counts_ptr", True)
    _, facts = clean["flash_attention"]
    assert [(c.through, c.in_loop) for c in facts.conversions] == [("registers", True), ("warps", False)]


def test_tables_and_links_are_made_of_the_facts(clean: dict[str, tuple[Artefacts, KernelFacts]]) -> None:
    tables = {table.name: table for table in facts_tables([facts for _, facts in clean.values()])}
    assert list(tables)[:6] == [
        "kernel_facts",
        "kernel_lines",
        "kernel_accesses",
        "kernel_remarks",
        "kernel_layouts",
        "kernel_schedule",
    ]
    assert len(tables["kernel_facts"]) == len(CLEAN)
    assert tables["kernel_facts"].frame["failure"].null_count() == len(CLEAN)
    assert len(facts_tables([])) == len(tables)
    artefacts, facts = clean["softmax"]
    frames = line_frames(artefacts)
    for kind, word in (("ttir", "tt.load"), ("ttgir", "tt.load"), ("ptx", "ld.global"), ("sass", "LDG")):
        texts = artefacts.texts[kind].splitlines()
        lines = {frames[kind][at][-1].line for at, line in enumerate(texts) if word in line}
        assert lines == {facts.accesses[0].place.line}, kind


def test_texts_that_are_cut_off_give_what_is_intact(clean: dict[str, tuple[Artefacts, KernelFacts]]) -> None:
    artefacts, facts = clean["matmul"]
    for parts in range(1, 12):
        texts = {kind: text[: len(text) * parts // 12] for kind, text in artefacts.texts.items()}
        intact = extract(replace(artefacts, texts=texts))
        assert intact.registers == facts.registers
        assert {access.argument for access in intact.accesses} <= {"", "a_ptr", "b_ptr", "c_ptr"}
        assert intact.instructions <= facts.instructions


def test_facts_are_kept_in_a_file_and_damage_is_an_error(
    clean: dict[str, tuple[Artefacts, KernelFacts]], tmp_path: Path
) -> None:
    facts = [facts for _, facts in clean.values()]
    path = tmp_path / "facts.json"
    save_facts(path, facts)
    assert load_facts(path) == facts
    path.write_text(path.read_text().replace(f'"{facts[0].target}"', '"ProfilerStep#1"'))
    with pytest.raises(FormatError, match="unknown target 'ProfilerStep#1'"):
        load_facts(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(FormatError, match="not a file of kernel facts"):
        load_facts(path)
    path.write_text('{"format": "warplens kernel facts", "version": 99, "facts": []}')
    with pytest.raises(FormatError, match="99"):
        load_facts(path)


def test_spills_are_found_on_their_line_and_more_warps_are_shown_to_end_them() -> None:
    by_code = suggestions(MANY, "*fp32:16, *fp32:16, i32:16, 16384", prove=True, num_warps=4)
    spill = by_code["WK101"]
    assert spill.source is not None and spill.source.file.endswith("faulty_accesses.py")
    assert spill.counterfactual is not None and spill.counterfactual.change == "num_warps=8"
    moved = {d.measure: (d.before, d.after) for d in spill.counterfactual.differences}
    before, after = moved["spill_bytes"]
    assert isinstance(before, int) and before > 1000 and after == 0


@pytest.mark.parametrize(
    ("signature", "code", "argument"),
    [
        ("*fp16:16, *fp16:16, i32:16, i32, 1024", "WK107", "columns"),
        ("*fp16:16, *fp16:16, i32, i32:16, 1024", "WK102", "row_stride"),
        ("*fp16, *fp16:16, i32:16, i32:16, 1024", "WK102", "x_ptr"),
    ],
)
def test_a_narrow_access_names_the_argument_at_fault(signature: str, code: str, argument: str) -> None:
    by_code = suggestions(ROWS, signature, prove=True)
    assert set(by_code) == {code}
    suggestion = by_code[code]
    assert suggestion.source is not None
    assert suggestion.source.line == fault_line("accesses", "# fault with an odd length or stride")
    assert f"{argument} not known to be divisible" in suggestion.evidence
    assert suggestion.counterfactual is not None
    assert suggestion.counterfactual.change == f"{argument} divisible by 16"
    assert ("width of load of x_ptr, bits", 16, 128) in [
        (d.measure, d.before, d.after) for d in suggestion.counterfactual.differences
    ]


def test_on_amd_the_same_fault_is_found_without_remarks() -> None:
    by_code = suggestions(ROWS, "*fp16:16, *fp16:16, i32:16, i32, 2048", target="gfx942")
    assert set(by_code) == {"WK107"}
    kernel = faulty_kernel(ROWS)
    signature = kernel.signature("*fp16:16, *fp16:16, i32:16, i32, 2048")
    facts = extract(compile_all(kernel, [CompileJob(signature, TARGETS["gfx942"])])[0])
    assert facts.registers > 0 and facts.instructions > 10
    assert any("not modelled for AMD" in note for note in facts_tables([facts])[0].notes)


def test_a_misaligned_beginning_is_found_though_every_argument_is_divisible() -> None:
    by_code = suggestions("accesses::shifted_kernel", "*fp32:16, *fp32:16, 1024")
    assert set(by_code) == {"WK102"}
    assert by_code["WK102"].source is not None
    assert by_code["WK102"].source.line == fault_line("accesses", "# fault", "shifted_kernel")


def test_a_product_in_full_precision_says_why_the_matrix_unit_is_idle() -> None:
    by_code = suggestions("products::full_precision_kernel", "*fp32:16, *fp32:16, *fp32:16, i32:16, 32")
    assert set(by_code) == {"WK103"}
    assert "ieee" in by_code["WK103"].evidence and "tf32" in by_code["WK103"].advice
    assert by_code["WK103"].source is not None and by_code["WK103"].source.line == fault_line("products", "# fault")


def test_too_few_rows_are_shown_to_cost_the_new_matrix_instruction() -> None:
    by_code = suggestions(PRODUCT, f"{HALVES}, i32:16, i32:16, 16, 64, 64", prove=True)
    assert set(by_code) == {"WK103", "WK110"}
    suggestion = by_code["WK103"]
    assert suggestion.source is not None and suggestion.source.line == fault_line("products", "# fault with few rows")
    assert "16 rows" in suggestion.evidence
    assert suggestion.counterfactual is not None and suggestion.counterfactual.change == "M=64"
    assert suggestion.counterfactual.after.matrix_instructions == ("wgmma m64n64k16",)


def test_one_stage_waits_and_three_are_shown_to_load_ahead() -> None:
    by_code = suggestions(PRODUCT, f"{HALVES}, i32:16, i32:16, 64, 64, 64", prove=True, num_stages=1)
    assert set(by_code) == {"WK104"}
    suggestion = by_code["WK104"]
    assert suggestion.source is not None and suggestion.source.line == fault_line("products", "# fault with one stage")
    assert suggestion.counterfactual is not None
    assert ("pipelined_loops", 0, 1) in [(d.measure, d.before, d.after) for d in suggestion.counterfactual.differences]


def test_a_layout_that_changes_in_the_loop_is_found() -> None:
    by_code = suggestions("products::stores_in_loop_kernel", f"{HALVES}, i32:16, i32:16, 64, 64, 64")
    assert set(by_code) == {"WK105"}
    assert by_code["WK105"].source is not None
    assert by_code["WK105"].source.line == fault_line("products", "# fault", "stores_in_loop_kernel")


def test_bank_conflicts_come_with_the_counts_of_padding_and_swizzle() -> None:
    signature = "*fp32:16, *fp32:16, 1, {phases}"
    by_code = suggestions("bank_conflict::transpose_kernel", signature.format(phases=1))
    assert set(by_code) == {"WK106"}
    assert by_code["WK106"].source is not None
    assert by_code["WK106"].source.line == fault_line("bank_conflict", "# fault")
    assert "31 extra passes" in by_code["WK106"].evidence
    assert "by 1 elements gives 0 extra passes, the best swizzle 0" in by_code["WK106"].advice
    assert suggestions("bank_conflict::transpose_kernel", signature.format(phases=32)) == {}


def test_a_tile_that_leaves_threads_idle_or_does_not_fit_is_found() -> None:
    by_code = suggestions("accesses::copy_kernel", "*fp32:16, *fp32:16, 32", prove=True)
    assert set(by_code) == {"WK110"}
    assert "32 elements for 128 threads" in by_code["WK110"].evidence
    large = suggestions(PRODUCT, f"{HALVES}, i32:16, i32:16, 64, 64, 128", num_stages=8)
    assert "the limit is 232448 per block" in large["WK110"].evidence


def test_few_warps_and_a_bad_last_wave_are_found() -> None:
    signature = "*fp32:16, *fp32:16, i32:16, 16384"
    by_code = suggestions(MANY, signature, grid=(150, 1), num_warps=8)
    assert set(by_code) == {"WK108", "WK109"}
    assert "limited by registers" in by_code["WK108"].evidence
    # One block on each of 132 multiprocessors: 18 are left for the second wave.
    assert "2 waves with 18 blocks in the last, which leaves 86 % of it empty" in by_code["WK109"].evidence
    assert "multiple of 132 blocks" in by_code["WK109"].advice and "split K" not in by_code["WK109"].advice
    assert set(suggestions(MANY, signature, grid=(264,), num_warps=8)) == {"WK108"}


def test_less_than_a_wave_counts_multiprocessors_but_not_for_a_script_s_test_data(
    clean: dict[str, tuple[Artefacts, KernelFacts]],
) -> None:
    facts = clean["matmul_unmasked"][1]
    [suggestion] = suggest(facts, grid=(4, 4))
    assert (
        suggestion.evidence == "16 blocks on H100 SXM, which has 132 multiprocessors: 116 of them (88 %) have no block"
    )
    assert "split K" in suggestion.advice
    assert suggest(facts, grid=(4, 4), is_test_data=True) == []
    assert facts.occupancy is not None
    one_more = 132 * facts.occupancy.blocks + 1
    [suggestion] = suggest(facts, grid=(one_more,), is_test_data=True)
    assert "2 waves with 1 block in the last" in suggestion.evidence
    assert suggest(facts, grid=(132,)) == []


def tried(folder: Path, text: str, signature: str) -> list[Suggestion]:
    """What WK102 says of the kernel `copy` of that text, its changes compiled for sm90."""
    source = folder / "copies.py"
    source.write_text(text)
    kernel, target = load_kernel(f"{source}::copy"), TARGETS["sm90"]
    parsed = kernel.signature(signature)
    facts = extract(compile_all(kernel, [CompileJob(parsed, target)])[0])
    return [
        suggestion
        for suggestion in suggest(facts, recompile=recompiler(kernel, parsed, target, {}))
        if suggestion.code == "WK102"
    ]


@pytest.mark.nightly
def test_the_code_to_write_names_what_was_shown_to_help(tmp_path: Path) -> None:
    suggestion = tried(tmp_path, TWO_SIZES, "*fp16:16, *fp16:16, i32, i32, 16, 64")[0]
    assert suggestion.counterfactual is not None and suggestion.counterfactual.change == "N divisible by 16"
    assert "N, M not known to be divisible by 16" in suggestion.evidence
    assert "`N // 8 * 8`" in suggestion.advice and "`M //" not in suggestion.advice


@pytest.mark.nightly
def test_a_helper_that_a_loop_calls_twice_is_two_loads(tmp_path: Path) -> None:
    source = tmp_path / "twice.py"
    source.write_text(TWICE)
    kernel = load_kernel(f"{source}::product")
    signature = kernel.signature("*fp16:16, *fp16:16, *fp32:16, i32:16, i32:16, 64")
    facts = extract(compile_all(kernel, [CompileJob(signature, TARGETS["sm80"])])[0])
    assert [(loop.loads, loop.loads_ahead) for loop in facts.loops] == [(2, 2)]
    assert facts.async_copies == 2


@pytest.mark.nightly
def test_of_many_sizes_those_are_named_that_are_needed(tmp_path: Path) -> None:
    """Each left out in turn shows which are not needed; without all of those it is compiled once more."""
    tried_suggestions = tried(tmp_path, FOUR_SIZES, "*fp16:16, *fp16:16, i32, i32, i32, i32, 16, 64")
    changes = [
        suggestion.counterfactual.change for suggestion in tried_suggestions if suggestion.counterfactual is not None
    ]
    assert changes == ["columns, x_stride divisible by 16", "columns, y_stride divisible by 16"]


@pytest.mark.nightly
def test_a_helper_s_access_is_listed_once_per_call_and_a_box_has_no_width(tmp_path: Path) -> None:
    source = tmp_path / "helped.py"
    source.write_text(HELPED)
    lines = {line.strip(): at for at, line in enumerate(HELPED.splitlines(), 1)}
    kernel = load_kernel(f"{source}::add")
    for target in ("sm90", "gfx942"):
        facts = extract(
            compile_all(
                kernel,
                [CompileJob(kernel.signature("*fp16:16, *fp16, *fp16:16, 1024"), TARGETS[target], {"num_warps": 1})],
            )[0]
        )
        loads = [access for access in facts.accesses if access.kind == "load"]
        assert [(access.argument, access.callers[0].line, access.width_bits) for access in loads] == [
            ("x", lines["a = read(x, at)"], 128),
            ("y", lines["b = read(y, at)"], 16),
        ]
        assert {access.place.line for access in loads} == {lines["return tl.load(ptr + at)"]}
        rows = facts_tables([facts])[2].to_dicts()
        assert [row["called_at"] for row in rows] == [
            f"helped.py:{lines['a = read(x, at)']}",
            f"helped.py:{lines['b = read(y, at)']}",
            None,
        ]
    boxes = load_kernel(f"{source}::boxes")
    facts = extract(
        compile_all(
            boxes, [CompileJob(boxes.signature("*fp16:16, *fp16:16, i32:16, i32:16, 64, 32"), TARGETS["sm90"])]
        )[0]
    )
    copy = next(access for access in facts.accesses if access.kind == "tma copy")
    assert copy.is_vectorised and copy.shape == (64, 32)
    [mark] = [mark for mark in marks(facts, copy.place.file, copy.place.line) if mark.text.startswith("tma")]
    assert (mark.text, mark.is_bad) == ("tma 64×32", False)
    assert all(
        row["width_bits"] is None for row in facts_tables([facts])[2].to_dicts() if row["kind"].startswith("tma")
    )


@pytest.mark.nightly
def test_fp8_that_the_matrix_unit_does_not_take_is_reported() -> None:
    signature = "*{0}:16, *{0}:16, *fp16:16, i32:16, i32:16, 64, 64, 64"
    by_code = suggestions(PRODUCT, signature.format("fp8e4nv"), target="gfx942")
    assert (
        "on f16: gfx942 does not multiply this fp8" in by_code["WK103"].evidence
        and "fp8e4b8" in by_code["WK103"].advice
    )
    assert "WK103" not in suggestions(PRODUCT, signature.format("fp8e4b8"), target="gfx942")


def test_two_compilations_are_compared_and_regressions_named() -> None:
    kernel = faulty_kernel(ROWS)
    good, bad = (
        extract(
            compile_all(
                kernel, [CompileJob(kernel.signature(f"*fp16:16, *fp16:16, i32:16, i32{mark}, 1024"), TARGETS["sm90"])]
            )[0]
        )
        for mark in (":16", "")
    )
    assert regressions(compare(good, good)) == []
    measures = regressions(compare(good, bad))
    assert {"narrowest_access_bits", "width of load of x_ptr, bits"} <= set(measures)
    # More instructions may be an unrolled loop: what makes them slower is listed by itself.
    verdicts = {row["measure"]: row["verdict"] for row in compare(good, bad).to_dicts()}
    assert verdicts["instructions"] == "changed"
    assert regressions(compare(bad, good)) == []
    assert any(note.startswith("signature:") for note in compare(good, bad).notes)


def test_configs_are_ranked_and_what_is_not_known_is_said() -> None:
    kernel = faulty_kernel(PRODUCT)
    signature = kernel.signature(f"{HALVES}, i32:16, i32:16, 64, 64, 64")
    texts = ("M=48", "M=64,num_stages=1", "M=16", "M=64")
    ranked = rank_configs(kernel, signature, [parse_config(text) for text in texts], TARGETS["sm90"])
    assert [(entry.config.text(), entry.tier) for entry in ranked] == [
        ("M=64", "good"),
        ("M=64, num_stages=1", "does not load ahead"),
        ("M=16", "uses an older matrix instruction"),
        ("M=48", "does not compile"),
    ]
    table = ranking_table(ranked)
    assert table.frame["rank"].to_list() == [1, 2, 3, 4]
    assert any("not known without running" in note for note in table.notes)
    with pytest.raises(UsageError, match="no config"):
        rank_configs(kernel, signature, [], TARGETS["sm90"])


def test_what_does_not_compile_has_no_suggestions_but_a_row() -> None:
    kernel = load_kernel(f"{KERNELS}/faulty_products.py::uneven_kernel")
    facts = extract(compile_all(kernel, [CompileJob(kernel.signature("*i32, 48"), TARGETS["sm90"])])[0])
    assert suggest(facts) == []
    assert facts.failure_place is not None
    assert facts_tables([facts])[0].to_dicts()[0]["failure"] == "arange's range must be a power of 2"


def test_cached_facts_need_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = faulty_kernel(PRODUCT)
    signature = kernel.signature(f"{HALVES}, i32:16, i32:16, 64, 64, 64")
    compile_all(kernel, [CompileJob(signature, TARGETS["sm90"])])[0]
    monkeypatch.setattr(compiling, "run_worker", lambda *_: pytest.fail("what is cached needs no process"))
    artefacts = compile_all(load_kernel(f"{kernel.file}::{kernel.name}"), [CompileJob(signature, TARGETS["sm90"])])[0]
    assert extract(artefacts).is_compiled
    assert artefacts.is_cached


def test_every_code_has_a_rule_and_every_threshold_a_reason() -> None:
    rules = "".join(path.read_text() for path in Path(suggest.__code__.co_filename).parent.glob("*_rules.py"))
    assert [code for code in RULES.codes if f'"{code}"' not in rules] == []
    assert [name for name in RULES.thresholds.values() if f"THRESHOLDS.{name}" not in rules] == []
    assert all(RULES.thresholds.reasons().values())
