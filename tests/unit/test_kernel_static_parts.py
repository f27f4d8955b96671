"""The parts that need no compiler: remarks, MLIR text, machine code, widths, occupancy, layouts and banks."""

from __future__ import annotations

import doctest
import importlib

import pytest

from warplens_lab.compiling.remarks import parse_remarks
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.facts.ir import Module
from warplens_lab.facts.locations import Locations, users_place
from warplens_lab.facts.machine import read_amdgcn, read_ptx, read_sass
from warplens_lab.facts.occupancy import occupancy
from warplens_lab.facts.records import SourcePlace
from warplens_lab.facts.resources import Resources, from_amdgcn
from warplens_lab.layouts.banks import conflicts, matrix_conflicts
from warplens_lab.layouts.memory import UNSWIZZLED, Swizzle, padded, shared_offsets, swizzled
from warplens_lab.layouts.registers import moves_between, register_bases

ROWS = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [4, 1], order = [1, 0]}>"
COLUMNS = "#ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 4], order = [0, 1]}>"
WIDE = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
MODULES = (
    *(f"compiling.{n}" for n in ("signature", "targets", "loading", "remarks")),
    "suggesting.counterfactual",
    *(f"facts.{n}" for n in ("ir", "widths", "occupancy", "resources", "instruction_classes")),
)


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    module = importlib.import_module(f"warplens_lab.{name}")
    assert doctest.testmod(module).failed == 0


REMARKS = """\
warming up
/w/k.py:18:16: remark: MMA version 3 acceleration not applied due to unsupported shapes or data types.
        acc += tl.dot(x, y)
               ^
/w/k.py:18:16: note: Target compute capability (90) supports MMA v3.
/w/k.py:16:13: remark: Warning: vectorization fails vec = 1 origin vec = 1 numElems = 16 mask is -1

        x = tl.load(a)
            ^
/w/k.py:16:13: remark: Warning: vectorization fails vec = 1 origin vec = 1 numElems = 16 mask is -1

        x = tl.load(a)
            ^
"""


def test_remarks_have_line_column_caret_and_notes_and_are_counted() -> None:
    matrix, narrow = parse_remarks(REMARKS)
    assert (matrix.file, matrix.line, matrix.column) == ("/w/k.py", 18, 16)
    assert matrix.notes == ("Target compute capability (90) supports MMA v3.",)
    assert (narrow.source.strip(), narrow.caret.index("^") + 1, narrow.count) == ("x = tl.load(a)", 13, 2)
    assert narrow.text.endswith("mask is -1")


@pytest.mark.parametrize("text", ["", "^\n", "a:1:2: remark: x", "a:1:2: note: x\n^\n\n"])
def test_cut_off_remarks_are_no_reason_to_fail(text: str) -> None:
    assert all(remark.severity for remark in parse_remarks(text))


TTIR = """\
#loc = loc("/w/k.py":6:1)
#blocked = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
module {
  tt.func public @k(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc)), %y: !tt.ptr<i32> loc("y"(#loc)), %n: i32 loc("n"(#loc))) {
    %0 = tt.splat %y : !tt.ptr<i32> -> tensor<512x!tt.ptr<i32>, #blocked> loc(#loc2)
    %1 = tt.load %0 : tensor<512x!tt.ptr<i32>, #blocked> loc(#loc2)
    %2 = tt.splat %x : !tt.ptr<f32> -> tensor<512x!tt.ptr<f32>, #blocked> loc(#loc2)
    %3 = tt.addptr %2, %1 : tensor<512x!tt.ptr<f32>, #blocked>, tensor<512xi32, #blocked> loc(#loc2)
    %4:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %3, %b = %0) -> (tensor<512x!tt.ptr<f32>>, tensor<512x!tt.ptr<i32>>)  : i32 {
      %5 = tt.load %a : tensor<512x!tt.ptr<f32>, #blocked> loc(#loc4)
      scf.yield %a, %b : tensor<512x!tt.ptr<f32>>, tensor<512x!tt.ptr<i32>> loc(#loc3)
    } loc(#loc3)
    tt.store %4#1, %1 : tensor<512x!tt.ptr<i32>, #blocked> loc(#loc2)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc2 = loc("/w/k.py":8:9)
#loc3 = loc("i"("/w/k.py":9:5))
#loc4 = loc(callsite(#loc5 at #loc6))
#loc5 = loc("/site-packages/triton/language/standard.py":196:12)
#loc6 = loc("v"(#loc7))
#loc7 = loc("/w/k.py":10:12)
"""


def test_values_are_followed_to_arguments_through_loops_but_not_through_loads() -> None:
    module = Module(TTIR)
    in_loop = next(op for op in module.named("tt.load") if op.in_loop)
    assert in_loop.place == SourcePlace("/w/k.py", 10, 12)
    assert list(module.loops.values()) == [SourcePlace("/w/k.py", 9, 5)]
    assert module.sources(in_loop.operands[0], frozenset({"tt.load"})) == ({"%x"}, True)
    store = module.named("tt.store")[0]
    assert module.sources(store.operands[0]) == ({"%y"}, False)
    assert module.divisible == {"%x"}


def test_values_named_alike_in_neighbouring_regions_are_distinguished() -> None:
    """MLIR gives a name again where the region that had it has ended."""
    module = Module("""\
tt.func public @k(%x_ptr: !tt.ptr<f16>, %y_ptr: !tt.ptr<f16>, %n: i32) {
  scf.for %i = %c0 to %n step %c1 : i32 {
    %p = tt.addptr %x_ptr, %i : !tt.ptr<f16>, i32
    %q = tt.load %p : !tt.ptr<f16>
  }
  scf.for %i = %c0 to %n step %c1 : i32 {
    %q = tt.addptr %y_ptr, %i : !tt.ptr<f16>, i32
    %p = tt.load %q : !tt.ptr<f16>
  }
}
""")
    first, second = module.named("tt.load")
    stop = frozenset(("tt.load",))
    assert module.sources(first.operands[0], stop) == ({"%x_ptr"}, False)
    assert module.sources(second.operands[0], stop) == ({"%y_ptr"}, False)


def test_a_location_that_points_at_itself_ends() -> None:
    assert Locations("#loc1 = loc(#loc1)\n").frames("#loc1") == ()
    assert users_place(()) is None


SASS = """\
k:
	//## File "/site/triton/language/standard.py", line 196 inlined at "/w/k.py", line 15
	//## File "/w/k.py", line 15
        /*0000*/                   FADD R1, R2, R3 ;
.L_x_0:
	//## File "/w/k.py", line 18
        /*0010*/              @!P0 LDG.E.128 R4, desc[UR6][R2.64] ;
        /*0020*/               @P1 BRA `(.L_x_0) ;
        /*0030*/                   EXIT ;
.L_x_1:
        /*0040*/               @P2 BRA `(.L_x_0) ;
.L_x_2:
        /*0050*/                   BRA `(.L_x_2);
        /*0060*/                   NOP;
"""


def test_disassembly_gives_lines_and_loops_and_leaves_out_padding() -> None:
    instructions = read_sass(SASS)
    assert [(i.name, i.in_loop) for i in instructions] == [
        ("FADD", False),
        ("LDG.E.128", True),
        ("BRA", True),
        ("EXIT", False),
        ("BRA", False),
    ]
    assert instructions[0].place == SourcePlace("/w/k.py", 15)
    assert SASS.splitlines()[instructions[1].position].endswith("desc[UR6][R2.64] ;")


def test_assembly_of_both_vendors_gives_columns_and_callers() -> None:
    ptx = '\t.file\t1 "/w/k.py"\n\t.loc\t1 7 12, function_name $L, inlined_at 1 14 9 // k.py\n\t@%p1 ld.global.v2.b32 {%r1, %r2}, [%rd1];\n'
    (load,) = read_ptx(ptx)
    assert (load.name, load.frames) == (
        "ld.global.v2.b32",
        (SourcePlace("/w/k.py", 7, 12), SourcePlace("/w/k.py", 14, 9)),
    )
    amd = (
        '\t.file\t1 "/w" "k.py"\n\t.file\t2 "/site/triton/language" "standard.py"\n'
        "\t.loc\t2 196 12\t; standard.py:196:12 @[ standard.py:216:16 @[ k.py:15:13 ] ]\n\tv_add_f32_e32 v1, v2, v3\n"
        "\tbuffer_load_dwordx4 v1, s[0:3], 0 offen lds\n\ts_endpgm\n"
    )
    add, copy, _ = read_amdgcn(amd)
    assert add.place == SourcePlace("/w/k.py", 15, 13)
    assert copy.name == "buffer_load_dwordx4_lds"


AMD_LOOPS = """\
; %bb.0:
\ts_cbranch_execnz .LBB0_3
.LBB0_1:                                ; %Flow
\tv_add_u32_e32 v0, v1, v2
.LBB0_2:                                ; %body
                                        ; =>This Inner Loop Header: Depth=1
\tv_mul_f32_e32 v0, v1, v2
\ts_cbranch_scc1 .LBB0_2
; %bb.4:
\tv_sub_u32_e32 v0, v1, v2
.LBB0_3:                                ; %.critedge
\tv_or_b32_e32 v0, v1, v2
\ts_branch .LBB0_1
; %bb.5:
\ts_endpgm
"""


def test_amds_blocks_that_jump_back_are_no_loops_unless_llvm_says_so() -> None:
    looping = [i.name for i in read_amdgcn(AMD_LOOPS) if i.in_loop]
    assert looping == ["v_mul_f32_e32", "s_cbranch_scc1"]


@pytest.mark.parametrize(
    ("target", "registers", "shared", "warps", "blocks", "limiter"),
    [
        # By hand from the data sheets' figures: 65536 registers, 64 warps, 32 blocks, 228 KiB (164 on sm80).
        ("sm90", 32, 0, 4, 16, "warp slots"),
        ("sm90", 255, 0, 8, 1, "registers"),
        ("sm90", 64, 0, 1, 32, "registers"),
        ("sm90", 32, 0, 1, 32, "block slots"),
        ("sm90", 40, 98304, 4, 2, "shared memory"),
        ("sm80", 40, 98304, 4, 1, "shared memory"),
        ("sm80", 40, 200_000, 4, 0, "shared memory"),
        ("gfx942", 128, 0, 4, 4, "registers"),
        ("gfx942", 130, 0, 4, 3, "registers"),
        ("gfx942", 64, 40_000, 4, 1, "shared memory"),
        ("gfx950", 64, 40_000, 4, 4, "shared memory"),
    ],
)
def test_occupancy_is_that_of_the_scarcest_resource(
    target: str, registers: int, shared: int, warps: int, blocks: int, limiter: str
) -> None:
    fit = occupancy(TARGETS[target], registers, shared, warps)
    assert (fit.blocks, fit.limiter) == (blocks, limiter)


def test_tensor_memory_bounds_the_blocks_too() -> None:
    fit = occupancy(TARGETS["sm100"], 32, 1000, 4, tensor_memory_columns=256)
    assert (fit.blocks, fit.limiter) == (2, "tensor memory")


def test_amd_resources_are_read_from_the_assembly() -> None:
    text = "; TotalNumVgprs: 208\n    .private_segment_fixed_size: 16\n    .vgpr_spill_count: 3\n"
    assert from_amdgcn(text) == Resources(208, 12, 12, 16)


def test_columns_of_unswizzled_rows_conflict_and_padding_or_swizzle_cures_it() -> None:
    bases = register_bases(COLUMNS, (32, 32))
    assert bases is not None
    assert conflicts(swizzled(UNSWIZZLED, (32, 32), (1, 0)), bases, 32) == 31
    assert conflicts(padded(32, 1, (32, 32), (1, 0)), bases, 32) == 0
    assert conflicts(swizzled(Swizzle(1, 1, 32), (32, 32), (1, 0)), bases, 32) == 0
    rows = register_bases(ROWS, (32, 32))
    assert rows is not None
    assert conflicts(swizzled(UNSWIZZLED, (32, 32), (1, 0)), rows, 32) == 0


def test_wide_accesses_conflict_within_a_quarter_of_the_warp_only() -> None:
    """Sixteen bytes of 8 rows of 128 bytes: all on the same four banks, unless swizzled."""
    by_rows = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>"
    bases = register_bases(by_rows, (128, 64))
    assert bases is not None
    assert conflicts(swizzled(UNSWIZZLED, (128, 64), (1, 0)), bases, 16) == 7
    assert conflicts(swizzled(Swizzle(8, 1, 8), (128, 64), (1, 0)), bases, 16) == 0


def test_ldmatrix_conflicts_as_its_eight_rows_do() -> None:
    assert matrix_conflicts(swizzled(UNSWIZZLED, (128, 64), (1, 0)), (128, 64), (1, 0), 16) == 7
    assert matrix_conflicts(swizzled(Swizzle(8, 1, 8), (128, 64), (1, 0)), (128, 64), (1, 0), 16) == 0
    assert matrix_conflicts(swizzled(Swizzle(8, 2, 4), (128, 32), (1, 0)), (128, 32), (1, 0), 16) == 0


def test_a_layout_that_is_not_modelled_gives_no_number() -> None:
    assert register_bases("#ttg.unheard_of<{order = [0]}>", (32,)) is None
    assert register_bases("#ttg.blocked<{order = [0", (32,)) is None
    assert shared_offsets("#ttg.unheard_of<{}>", (32, 32), 16) is None


def test_moves_between_layouts_are_distinguished() -> None:
    by_four = WIDE.replace("[1, 8], threadsPerWarp = [4, 8]", "[1, 4], threadsPerWarp = [4, 8]")
    assert moves_between(WIDE, WIDE, (16, 64)) == "registers"
    assert moves_between(WIDE, by_four, (16, 64)) == "lanes"
    assert moves_between(ROWS, COLUMNS, (32, 32)) == "warps"
    assert moves_between(ROWS, "#ttg.unheard_of<{}>", (32, 32)) == "unknown"
