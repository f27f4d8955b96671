"""CUDA C++ without its compiler: the source's text, PTX as statements, and what follows for lanes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from warplens_lab.cuda import toolkit
from warplens_lab.cuda.evaluating import Evaluation
from warplens_lab.cuda.flow import EXIT, Flow
from warplens_lab.cuda.headers import stand_in
from warplens_lab.cuda.ptx import PtxKernel, Statement, parse_kernel
from warplens_lab.cuda.request import CudaRequest, parse_block
from warplens_lab.cuda.shared_banks import shared_arrays
from warplens_lab.cuda.slicing import ptx_of, report_of, sass_of
from warplens_lab.cuda.source import CudaLaunch, CudaSource
from warplens_lab.cuda.text import blanked, functions
from warplens_run.base.errors import MissingExtra, UsageError

SOURCE = """
// __global__ void hidden(int* x) {}
#define KERNEL __global__ __launch_bounds__(128)
#define TILE 16
constexpr int WIDE = TILE * 2;
struct Point { float x; int sum() { return 1; } };
namespace outer { namespace inner {
template <typename T, int N = 4>
__global__ void __launch_bounds__(256, 2) copy(const T* __restrict__ in, T* out, int sizes[3], int n = 8) {
    __shared__ T tile[N][WIDE + 1], other[TILE];
    extern __shared__ char dynamic[];
}
} }
KERNEL void plain(int* x) { if (x) { x[0] = '}'; } }
static int table[] = {1, 2, 3};
void host(int n) {
    dim3 block(TILE, 4);
    outer::inner::copy<float, 8><<<n / 4, block>>>(nullptr, nullptr, nullptr);
    plain<<<dim3(n, n), dim3(WIDE, 2, 2)>>>(nullptr);
    plain<<<n, n>>>(nullptr);
}
"""
PTX = """
.version 9.4
.target sm_90a
.visible .entry _Z1aPf(
	.param .u64 _Z1aPf_param_0,
	.param .u32 _Z1aPf_param_1
)
.maxntid 64, 1, 1
{
	.reg .pred %p<4>;
	.shared .align 4 .b8 _ZZ1aPfE1s[512];
	.loc 1 3 0
	ld.param.u64 %rd1, [_Z1aPf_param_0];
	ld.param.u32 %r9, [_Z1aPf_param_1];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, 0;
$L1:
	.loc 1 5 2
	shl.b32 %r3, %r1, 2;
	add.s32 %r4, %r3, %r2;
	{ .reg .pred p; setp.eq.u32 p, %r1, 3; @p bar.arrive 1, 64;
}
	add.s32 %r2, %r2, 128;
	setp.lt.s32 %p1, %r2, %r9;
	@%p1 bra $L1;
	and.b32 %r5, %r1, 1;
	setp.eq.s32 %p2, %r5, 0;
	mov.u32 %r6, 8;
	@!%p2 bra $L2;
	mov.u32 %r6, 16;
$L2:
	add.s32 %r7, %r6, 1;
	ret;
}
.visible .entry _Z1bPf(
	.param .u64 _Z1bPf_param_0
)
{
	ret;
}
	.file	1 "/k.cu"
"""


@pytest.fixture(scope="module")
def source() -> CudaSource:
    return CudaSource(Path("/k.cu"), SOURCE)


@pytest.fixture(scope="module")
def kernel() -> PtxKernel:
    return parse_kernel(PTX, "_Z1aPf")


def test_kernels_are_found_with_their_parameters_namespaces_and_templates(source: CudaSource) -> None:
    assert list(source.kernels) == ["outer::inner::copy", "plain"]
    copy = source.kernels["outer::inner::copy"]
    assert [parameter.text() for parameter in copy.parameters] == ["const T* in", "T* out", "int[3] sizes", "int n"]
    assert [parameter.name for parameter in copy.template] == ["T", "N"]
    assert (copy.first_line, copy.last_line) == (8, 12)
    assert source.named("copy<float, 8>") is copy
    assert source.shared_arrays(copy, "float, 8", ()) == {"tile": (8, 33), "other": (16,)}
    assert source.shared_arrays(copy, "float, 8", ("TILE=4",))["other"] == (4,)


def test_launches_give_blocks_where_the_text_says_them(source: CudaSource) -> None:
    assert source.launches == (
        CudaLaunch("outer::inner::copy", "float, 8", (16, 4)),
        CudaLaunch("plain", "", (32, 2, 2)),
        CudaLaunch("plain", "", ()),
    )


def test_functions_of_the_host_are_blanked_with_their_lines_kept() -> None:
    (host,) = (function for function in functions(SOURCE) if function.head.startswith("void host"))
    text = blanked(SOURCE, [host])
    assert "host" not in text
    assert text.count("\n") == SOURCE.count("\n")
    assert "table[] = {1, 2, 3};" in text


def test_each_kernel_has_its_own_part_of_the_texts() -> None:
    assert "_Z1bPf" not in ptx_of(PTX, "_Z1aPf")
    assert ".file" in ptx_of(PTX, "_Z1bPf")
    assert "bar.arrive" not in ptx_of(PTX, "_Z1bPf")
    sass = "head\n//----- .text.a  -----\nA\n//----- .text.b -----\nB\n//----- SYMBOLS -----\n"
    assert sass_of(sass, "a").splitlines() == ["head", "//----- .text.a  -----", "A"]
    log = (
        "info : Compiling entry function 'a' for 'sm_90a'\ninfo : Function properties for a\n"
        " 8 bytes stack frame, 4 bytes spill stores\ninfo : Used 30 registers\ninfo : Function properties for helper\n"
        " 0 bytes stack frame, 0 bytes spill stores\ninfo : Compiling entry function 'b' for 'sm_90a'\n"
        "info : Function properties for b\ninfo : Used 99 registers\n"
    )
    report = report_of(log, "a")
    assert "8 bytes stack" in report
    assert "0 bytes stack" not in report
    assert "99" not in report


def test_statements_keep_lines_guards_and_names_of_inline_assembly(kernel: PtxKernel) -> None:
    statements = [item for item in kernel.items if isinstance(item, Statement)]
    arrive = next(statement for statement in statements if statement.name == "bar.arrive")
    assert (arrive.guard, arrive.operands, arrive.frames[0].line) == ("p@1", ("1", "64"), 5)
    assert (kernel.parameters, kernel.shared, kernel.threads) == (
        ("_Z1aPf_param_0", "_Z1aPf_param_1"),
        {"_ZZ1aPfE1s": 512},
        (64, 1, 1),
    )
    assert shared_arrays(kernel.shared, {"s": (4, 32)})["_ZZ1aPfE1s"].text() == "s[4][32]"
    assert shared_arrays(kernel.shared, {"s": (5, 33)})["_ZZ1aPfE1s"].shape == ()


def test_lanes_are_followed_through_loops_and_lost_where_they_part(kernel: PtxKernel) -> None:
    flow = Flow(kernel.items)
    evaluation = Evaluation(kernel, flow, (64,), ["x", "n"])
    assert evaluation.is_complete
    (loop,) = flow.loops
    (head,) = loop
    in_loop = evaluation.value("%r4", head)
    assert not in_loop.is_concrete
    assert np.array_equal(in_loop.steps()[0], np.arange(32) * 4)
    last = flow.order[-1]
    assert (evaluation.value("%r7", last).is_known, evaluation.value("%r7", last).reason) == (False, "lanes")
    differences = [condition.difference for condition in evaluation.branches.values()]
    assert differences == ["", "lanes"]


def test_ways_that_meet_and_ways_that_turn_back_are_told_apart(kernel: PtxKernel) -> None:
    flow = Flow(kernel.items)
    turning, choosing = (block for block in flow.order if flow.blocks[block].condition is not None)
    assert flow.joins(turning) == set()
    assert flow.joins(choosing) == {flow.meeting(choosing)}
    assert flow.meeting(flow.order[-1]) == EXIT


LOOP = """
.visible .entry loop(
	.param .u64 loop_param_0
)
{
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %r1;
$L1:
	add.s32 %r2, %r2, STEP;
	setp.RELATION.TYPE %p1, %r2, BOUND;
	@%p1 bra $L1;
	add.s32 %r3, %r2, 0;
	ret;
}
"""


@pytest.mark.parametrize(
    ("relation", "step", "bound", "is_left_together"),
    [
        ("lt.s32", 32, 512, True),
        ("lt.u32", 32, 512, True),
        ("lt.s32", 32, 500, False),
        ("lt.s32", 16, 512, False),
        ("le.s32", 32, 511, True),
        ("le.s32", 32, 512, False),
        ("ne.s32", 32, 512, False),
        ("lt.s32", 64, 512, True),
    ],
)
def test_lanes_leave_a_loop_together_where_the_bound_lies_between_turns(
    relation: str, step: int, bound: int, is_left_together: bool
) -> None:
    name, kind = relation.split(".")
    filled = {"RELATION": name, "TYPE": kind, "STEP": str(step), "BOUND": str(bound)}
    text = LOOP
    for word, value in filled.items():
        text = text.replace(word, value)
    kernel = parse_kernel(text, "loop")
    evaluation = Evaluation(kernel, Flow(kernel.items), (32, 1, 1), ["in"])
    (condition,) = evaluation.branches.values()
    assert (condition.difference == "") is is_left_together
    assert (len({_turns(lane, step, name, bound) for lane in range(32)}) == 1) is is_left_together


def _turns(value: int, step: int, relation: str, bound: int) -> int:
    """Run as the kernel would; a counter that never meets its bound goes on."""
    goes_on = {"lt": int.__lt__, "le": int.__le__, "ne": int.__ne__}[relation]
    for turn in range(1, 100):
        value += step
        if not goes_on(value, bound):
            return turn
    return -1


def test_headers_of_the_host_have_stand_ins_and_others_have_none() -> None:
    assert "uint32_t" in (stand_in("cstdint", has_cuda_headers=False) or "")
    assert "cuda/std/limits" in (stand_in("limits", has_cuda_headers=True) or "")
    assert "namespace std" in (stand_in("iostream", has_cuda_headers=False) or "")
    assert stand_in("cutlass/gemm.h", has_cuda_headers=True) is None


def test_without_nvrtc_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolkit, "_libraries", lambda: iter(()))
    with pytest.raises(MissingExtra, match="compiling CUDA C\\+\\+ needs NVRTC") as error:
        toolkit.require_toolkit()
    assert error.value.hint == "pip install 'warplens[cuda]'"


def test_requests_that_make_no_sense_are_refused() -> None:
    for text in ("0", "32,32,32,1", "2000", "a", "-1"):
        with pytest.raises(UsageError, match="not a valid block"):
            parse_block(text)
    with pytest.raises(UsageError, match="not compiled for gfx950"):
        CudaRequest("k.cu", "sm90,gfx950").parsed_targets()
