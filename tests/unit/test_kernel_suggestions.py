"""What suggestions say and leave unsaid; most from facts that are written down here, because compiling takes seconds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from warplens.model.targets import RowTarget
from warplens_lab.checking.checks import CheckResult, KernelCheck, effect, merged, suggestions_table
from warplens_lab.cli.check_text import check_lines
from warplens_lab.comparing.verdicts import FactDifference
from warplens_lab.compiling import compiling
from warplens_lab.compiling.compiling import CompileJob, compile_many
from warplens_lab.compiling.loading import load_kernel
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts import extract
from warplens_lab.facts.ir import Module
from warplens_lab.facts.products import loops
from warplens_lab.facts.records import Access, Dot, KernelFacts, Line, Occupancy, SourcePlace
from warplens_lab.facts.schedule import loop_schedules
from warplens_lab.facts.tables import facts_tables
from warplens_lab.suggesting.counterfactual import Change, Counterfactual
from warplens_lab.suggesting.free_constants import free_constants
from warplens_lab.suggesting.suggestions import suggest

PERSISTENT = """\
import triton, triton.language as tl
@triton.jit
def product(a, b, c, M, N, K, PROGRAMS: tl.constexpr, B: tl.constexpr, FLAT: tl.constexpr):
    for tile in tl.range(tl.program_id(0), M // B, PROGRAMS, flatten=FLAT):
        rows = tile * B + tl.arange(0, B)
        columns = tl.arange(0, B)
        total = tl.zeros((B, B), tl.float32)
        for at in range(0, K, B):
            inner = at + tl.arange(0, B)
            x = tl.load(a + rows[:, None] * K + inner[None, :])
            y = tl.load(b + inner[:, None] * N + columns[None, :])
            total = tl.dot(x, y, total)
        tl.store(c + rows[:, None] * N + columns[None, :], total.to(tl.float16))
@triton.jit
def boxes(source, target, M):
    at = tl.program_id(0) * M
    target.store([at, 0], source.load([at, 0]))
"""
BOXES = "tensordesc<fp16[64,64]>, tensordesc<fp16[64,64]>, i32"
LINE = SourcePlace("kernel.py", 7, 3)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory, warm_compiler: None) -> dict[str, KernelFacts]:
    """All in one process."""
    pytest.importorskip("triton")
    folder = tmp_path_factory.mktemp("kernels")
    file: Path = folder / "persistent.py"
    file.write_text(PERSISTENT)
    sizes = "*fp16:16, *fp16:16, *fp16:16, i32:16, i32:16, i32:16, 132, 64"
    kernels = {
        "nested": ("product", f"{sizes}, False", "sm80"),
        "flat": ("product", f"{sizes}, True", "sm80"),
        "boxes": ("boxes", BOXES, "gfx942"),
        "tma": ("boxes", BOXES, "sm90"),
    }
    jobs = []
    for name, signature, target in kernels.values():
        kernel = load_kernel(f"{file}::{name}")
        jobs.append((kernel, CompileJob(kernel.signature(signature), TARGETS[target], {})))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("WARPLENS_CACHE", str(folder))
        patched.setattr(compiling, "MOST_PROCESSES", 1)
        return dict(zip(kernels, map(extract, compile_many(jobs)), strict=True))


@pytest.mark.parametrize("which", ["nested", "flat"])
def test_a_layout_that_changes_once_per_tile_of_a_persistent_product_is_not_a_fault(
    compiled: dict[str, KernelFacts], which: str
) -> None:
    facts = compiled[which]
    assert any(item.in_loop and item.through == "warps" for item in facts.conversions)
    assert not any(item.in_every_turn for item in facts.conversions)
    assert "WK105" not in {item.code for item in suggest(facts)}


def test_a_host_s_descriptor_without_tma_has_strides_that_are_not_known(compiled: dict[str, KernelFacts]) -> None:
    facts = compiled["boxes"]
    assert [(item.argument, item.by_strides) for item in facts.accesses] == [("target", True), ("source", True)]
    narrow = [item for item in suggest(facts) if item.code in ("WK102", "WK107")]
    assert [(item.code, len(item.places)) for item in narrow] == [("WK102", 2)]
    assert "gfx942 has no TMA" in narrow[0].evidence and "divisible" not in narrow[0].evidence + narrow[0].advice
    assert "tl.make_tensor_descriptor" in narrow[0].advice
    assert not any(item.by_strides for item in compiled["tma"].accesses)


def kernel_facts(**fields: Any) -> KernelFacts:
    fixed: dict[str, Any] = {"target": "sm90", "triton_version": "3.6.0", "signature": "*fp16", "config": "B=64"}
    return KernelFacts("kernel", "kernel.py", **fixed, num_warps=4, num_stages=3, num_ctas=1, **fields)


def access(**fields: Any) -> Access:
    fixed: dict[str, Any] = {"place": LINE, "kind": "load", "element": "f32", "element_bits": 32, "shape": (1024,)}
    marks = {"is_masked": False, "is_indirect": False, "in_loop": False}
    widths = {"width_bits": 16, "narrowest_bits": 16, "best_bits": 128, "instructions": 8}
    return Access(argument="x", **fixed, **marks, **widths, **fields)


@pytest.mark.parametrize(
    ("names", "begins", "has_sizes"),
    [
        (("x",), "pass x at an address that is a multiple of 16 bytes", False),
        (("n",), "pass n divisible by 16 (a multiple of 16", True),
        (("n", "x"), "pass x at an address that is a multiple of 16 bytes", True),
    ],
)
def test_a_pointer_is_to_be_aligned_and_a_size_to_be_a_multiple(
    names: tuple[str, ...], begins: str, has_sizes: bool
) -> None:
    suggestions = suggest(kernel_facts(accesses=(access(depends_on=names, undivided=names, undivided_address=names),)))
    assert [suggestion.code for suggestion in suggestions] == ["WK102"]
    assert suggestions[0].advice.startswith(begins)
    assert ("`n // 4 * 4`" in suggestions[0].advice) == has_sizes and "`x //" not in suggestions[0].advice


def test_more_rows_are_advised_where_the_problem_has_them_and_operands_are_what_is_counted() -> None:
    dot = Dot(LINE, (16, 64, 64), "f16", "tf32", "mma.sync", "m16n8k16", in_loop=True)
    by_code = {
        suggestion.code: suggestion for suggestion in suggest(kernel_facts(dots=(dot,), constants=(("BM", 16),)))
    }
    assert by_code["WK103"].advice == "compile with BM=64 where the problem is that large"
    assert by_code["WK110"].evidence.endswith("does 13 multiplications for each element of its operands")
    few_warps = replace(kernel_facts(dots=(replace(dot, shape=(64, 64, 64)),)), num_warps=2)
    assert suggest(few_warps)[0].advice == "compile with num_warps=4"


def test_a_constant_is_changed_only_where_it_is_free() -> None:
    dot = Dot(LINE, (16, 64, 64), "f16", "tf32", "mma.sync", "m16n8k16", in_loop=True)
    facts = kernel_facts(dots=(dot,), constants=(("HEAD_DIM", 16), ("BM", 16)))
    by_code = {item.code: item for item in suggest(facts, free=frozenset({"BM"}))}
    assert by_code["WK103"].advice == "compile with BM=64 where the problem is that large"
    bound = {item.code: item for item in suggest(facts, free=frozenset())}
    assert bound["WK103"].advice == "give the tile at least 64 rows and the block a multiple of 4 warps"


def test_free_constants_are_those_that_step_through_the_problem(tmp_path: Path) -> None:
    file = tmp_path / "k.py"
    file.write_text(
        "import triton, triton.language as tl\n@triton.jit\n"
        "def k(x, n, BM: tl.constexpr, BN: tl.constexpr, HEAD_DIM: tl.constexpr, BK: tl.constexpr, G: tl.constexpr):\n"
        "    start = tl.program_id(0)\n    tl.static_assert(BN <= HEAD_DIM)\n    half: tl.constexpr = G // 2\n"
        "    rows = start * BM + tl.arange(0, BM)\n    columns = tl.arange(0, HEAD_DIM)\n"
        "    for at in range(0, n, BN):\n        for k in range(0, tl.cdiv(n, BK)):\n            x += BK * G\n"
        "    tl.store(x + rows[:, None] * HEAD_DIM + columns[None, :], half)\n"
    )
    assert free_constants(load_kernel(f"{file}::k")) == {"BM", "BK"}


def test_one_cause_is_one_entry_with_all_its_lines() -> None:
    marks = {"depends_on": ("n",), "undivided": ("n",), "undivided_address": ("n",)}
    lines = [replace(access(**marks), place=SourcePlace("kernel.py", line, 1)) for line in (7, 9, 9, 12)]
    (only,) = suggest(kernel_facts(accesses=tuple(lines)))
    assert (only.place, [place.line for place in only.places]) == ("kernel.py:7, 9, 12", [7, 9, 12])
    assert len(only.targets) == 3 and only.evidence.count("moves 16 bits") == 1


def test_what_a_change_makes_worse_is_said_last() -> None:
    moved = (
        FactDifference("registers", 80, 40, "improvement"),
        FactDifference("instructions", 300, 600, "regression"),
    )
    (draft,) = suggest(kernel_facts(accesses=(access(depends_on=("x",), undivided=("x",), undivided_address=("x",)),)))
    change = Counterfactual("BM=64", moved, kernel_facts(), Change(constants=(("BM", 64),)))
    assert effect(replace(draft, counterfactual=change)) == "registers 80 → 40; worse: instructions 300 → 600"


def test_the_lines_of_occupancy_add_up_where_partitions_have_warps_of_their_own() -> None:
    facts = kernel_facts(occupancy=Occupancy(2, 24, 64, "shared memory", (("shared memory", 2),)))
    lines = list(check_lines(CheckResult((KernelCheck(facts, ()),)), 100))
    assert (
        "  occupancy   38 %: 2 blocks of 12 warps (num_warps=4, and those of its partitions) fit, 24 of 64 warps, "
        "limited by shared memory" in lines
    )


SPECIALISED = """\
#loc = loc("kernel.py":3:1)
module {
  tt.func public @k() {
    %m = ttg.local_alloc : () -> !ttg.memdesc<3x64x64xf16> loc(#loc)
    ttg.warp_specialize(%a) attributes {requestedRegisters = array<i32: 24>}
    default {
      scf.for %i = %c0 to %n step %c1 : i32 {
        %d = ttng.warp_group_dot %x, %y, %z : !ttg.memdesc<64x64xf16> * !ttg.memdesc<64x64xf16> -> tensor<64x64xf32> loc(#loc5)
      } loc(#loc4)
      ttg.warp_yield loc(#loc4)
    }
    partition0(%arg0: i32) num_warps(1) {
      scf.for %j = %c0 to %n step %c1 : i32 {
        ttng.async_tma_copy_global_to_local %t[%j] %m, %b, %p : !tt.tensordesc<tensor<64x64xf16>>, !ttg.memdesc<1xi64> -> !ttg.memdesc<64x64xf16> loc(#loc6)
      } loc(#loc4)
      ttg.warp_return loc(#loc4)
    } : (i32) -> () loc(#loc4)
    tt.return loc(#loc4)
  } loc(#loc4)
} loc(#loc4)
#loc4 = loc("kernel.py":4:1)
#loc5 = loc("kernel.py":9:5)
#loc6 = loc("kernel.py":8:5)
"""
PLAIN = """\
module {
  tt.func public @k() {
    scf.for %i = %c0 to %n step %c1 : i32 {
      %l = tt.descriptor_load %t[%i] : !tt.tensordesc<tensor<64x64xf16>> -> tensor<64x64xf16> loc(#loc6)
      %d = tt.dot %l, %l, %z : tensor<64x64xf16> * tensor<64x64xf16> -> tensor<64x64xf32> loc(#loc5)
    } loc(#loc4)
    tt.return loc(#loc4)
  } loc(#loc4)
} loc(#loc4)
#loc4 = loc("kernel.py":4:1)
#loc5 = loc("kernel.py":9:5)
#loc6 = loc("kernel.py":8:5)
"""


def test_loads_of_other_warps_than_those_that_multiply_are_ahead() -> None:
    lowered = Module(SPECIALISED)
    assert [op.partition for op in lowered.named("ttng.warp_group_dot", "ttng.async_tma_copy_global_to_local")] == [
        "default",
        "partition 0",
    ]
    (loop,) = loops(Module(PLAIN), lowered, loop_schedules(lowered))
    assert (loop.has_dot, loop.loads, loop.loads_ahead, loop.buffers) == (True, 1, 1, 3)
    for text in (
        SPECIALISED.replace("partition0(%arg0: i32) num_warps(1) {", "default {"),
        SPECIALISED.replace("memdesc<3x", "memdesc<1x"),
    ):
        alone = Module(text)
        assert loops(Module(PLAIN), alone, loop_schedules(alone))[0].loads_ahead == 0


def test_loads_whose_location_the_compiler_lost_are_those_of_their_loop() -> None:
    lost = Module(SPECIALISED.replace("64x64xf16> loc(#loc6)", "64x64xf16> loc(#loc)"))
    (loop,) = loops(Module(PLAIN), lost, loop_schedules(lost))
    assert (loop.loads, loop.loads_ahead, loop.buffers) == (1, 1, 3)


def test_launches_that_differ_in_their_grid_only_are_reported_once_unless_it_matters() -> None:
    facts = kernel_facts(occupancy=Occupancy(1, 64, 64, "registers", (("registers", 1),)))
    grids = ((2, 1), (133,), (4, 1), (2, 1))
    checks = [KernelCheck(facts, tuple(suggest(facts, grid=grid, is_test_data=True)), 3, grid=grid) for grid in grids]
    result = merged(CheckResult(tuple(checks)))
    assert [(check.launches, check.grids) for check in result.checks] == [(9, ((2, 1), (4, 1))), (3, ((133,),))]
    heads = [line for line in check_lines(result, 100) if line.startswith("kernel on")]
    assert [line.partition("B=64")[2] for line in heads] == [
        ", launched 9 times (grids 2×1, 4×1)",
        ", launched 3 times (grid 133)",
    ]
    assert suggestions_table(result).frame["code"].to_list() == ["WK109"]
    alone = next(check_lines(CheckResult((checks[0],)), 100))
    assert alone.endswith("launched 3 times")


def test_spilled_bytes_and_those_read_back_are_distinguished() -> None:
    facts = kernel_facts(registers=255, spill_store_bytes=40, spill_load_bytes=96)
    lines = list(check_lines(CheckResult((KernelCheck(facts, ()),)), 100))
    assert "  registers   255 per thread, 40 B spilled and 96 B read back by each" in lines


def test_suggestions_point_at_the_rows_they_are_about_in_the_tables_of_all_compilations() -> None:
    other, narrow = (
        SourcePlace("kernel.py", 9, 5),
        access(depends_on=("n",), undivided=("n",), undivided_address=("n",)),
    )
    dot = Dot(other, (16, 64, 64), "f16", "tf32", "mma.sync", "m16n8k16", in_loop=True)
    lines = tuple(Line(place, "", 1, 0, ()) for place in (LINE, other))
    facts = kernel_facts(
        accesses=(replace(narrow, width_bits=128), narrow), dots=(dot,), lines=lines, spill_store_bytes=64
    )
    compiled = [facts, replace(facts, target="sm80"), replace(facts, config="B=128")]
    tables = {table.name: table.to_dicts() for table in facts_tables(compiled)}
    findings = CheckResult(tuple(KernelCheck(item, tuple(suggest(item))) for item in compiled)).findings()
    expected = {"WK101": "kernel_facts", "WK102": "kernel_accesses", "WK103": "kernel_lines", "WK110": "kernel_lines"}
    assert {item.code for item in findings} == set(expected)
    for suggestion in findings:
        (target,) = suggestion.targets
        assert isinstance(target, RowTarget) and target.table == expected[suggestion.code]
        row = tables[target.table][target.row]
        assert (row["target"], row["config"]) == (suggestion.compiled_for, suggestion.config)
        if suggestion.source is not None:
            assert (row["line"], suggestion.place) == (suggestion.source.line, f"kernel.py:{suggestion.source.line}")
        if suggestion.code == "WK102":
            assert row["width_bits"] == narrow.width_bits
