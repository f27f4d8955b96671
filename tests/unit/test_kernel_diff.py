"""Two versions of a CUDA C++ kernel compared access by access and by what their accesses cost, as `kernel diff` does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from warplens_lab.comparing.compilations import compare
from warplens_lab.cuda import toolkit
from warplens_lab.cuda.checking import check_cuda
from warplens_lab.cuda.request import CudaRequest
from warplens_lab.facts.records import KernelFacts
from warplens_run.base.errors import WarplensError

try:
    TOOLKIT = toolkit.require_toolkit()
except WarplensError as error:
    pytest.skip(f"{error.message}: {error.hint}", allow_module_level=True)
if not TOOLKIT.nvdisasm:
    pytest.skip("needs nvdisasm, which Triton brings", allow_module_level=True)

TILED = """
__global__ void {name}(const {type}* in, {type}* out, int n) {{
    __shared__ {type} tile[{rows}][{columns}];
    int x = threadIdx.x, y = threadIdx.y;
    #pragma unroll {unroll}
    for (int j = 0; j < 32; j += {step}) tile[y + j][{written}] = in[(y + j) * n + x];
    __syncthreads();
    #pragma unroll {unroll}
    for (int j = 0; j < 32; j += {step}) out[(y + j) * n + x] = tile[x][{read}];
}}
"""
TWO = """
__global__ void {name}(const float* in, float* out, int n) {{
    __shared__ float a[32][{first}], b[32][{second}];
    int x = threadIdx.x, y = threadIdx.y;
    a[y][x] = in[y * n + x]; b[y][x] = in[y * n + x + 1024];
    __syncthreads();
    out[y * n + x] = a[x][y] + b[x][y];
}}
"""
NAIVE = "__global__ void {name}(const float* in, float* out, int n) {{ out[threadIdx.x * n + threadIdx.y] = in[threadIdx.y * n + threadIdx.x]; }}\n"
LOOP = """
__global__ void {name}(const float* in, float* out, int n) {{
    __shared__ float tile[32][{columns}];
    int x = threadIdx.x, y = threadIdx.y;
    float sum = 0;
    #pragma unroll {unroll}
    for (int k = 0; k < n; ++k) {{
        tile[y][x] = in[(k * 32 + y) * 32 + x];
        __syncthreads();
        sum += tile[x][y];
        __syncthreads();
    }}
    out[y * 32 + x] = sum;
}}
"""
COPY = "__global__ void {name}(const {type}* in, {type}* out, int n) {{ int i = threadIdx.x * {stride}; if (i < n) out[threadIdx.x] = in[i]; }}\n"
HEADS = """
__global__ void {name}(const float* in, float* out, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (4 * i + 3 < n)
        reinterpret_cast<float4*>(out)[i] = reinterpret_cast<const float4*>(in)[i];
    else if (i < n)
        out[i] = in[i];
}}
"""
SPILLING = """
__global__ void __launch_bounds__(1024, {blocks}) {name}(const float* in, float* out, int n) {{
    float values[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) values[i] = in[i * 1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) out[i * 1024 + threadIdx.x] = values[i] * values[63 - i];
}}
"""
PLAIN = {"type": "float", "rows": 32, "columns": 32, "step": 8, "written": "x", "read": "y + j", "unroll": 4}
KERNELS: dict[str, tuple[str, dict[str, object], tuple[int, ...]]] = {
    # name: text, what is filled in, block
    "plain": (TILED, PLAIN, (32, 8)),
    "padded": (TILED, PLAIN | {"columns": 33}, (32, 8)),
    "one_row_more": (TILED, PLAIN | {"rows": 33}, (32, 8)),
    "swizzled": (TILED, PLAIN | {"written": "x ^ (y + j)", "read": "(y + j) ^ x"}, (32, 8)),
    "rolled": (TILED, PLAIN | {"unroll": 1}, (32, 8)),
    "large_block": (TILED, PLAIN | {"step": 32}, (32, 32)),
    "padded_halves": (TILED, PLAIN | {"type": "short", "columns": 34}, (32, 8)),
    "halves": (TILED, PLAIN | {"type": "short"}, (32, 8)),
    "doubles": (TILED, PLAIN | {"type": "double"}, (32, 8)),
    "padded_doubles": (TILED, PLAIN | {"type": "double", "columns": 33}, (32, 8)),
    "two": (TWO, {"first": 32, "second": 32}, (32, 32)),
    "two_one_padded": (TWO, {"first": 33, "second": 32}, (32, 32)),
    "naive": (NAIVE, {}, (32, 32)),
    "loop": (LOOP, {"columns": 32, "unroll": 1}, (32, 32)),
    "loop_unrolled": (LOOP, {"columns": 32, "unroll": 4}, (32, 32)),
    "loop_padded": (LOOP, {"columns": 33, "unroll": 4}, (32, 32)),
    "copy": (COPY, {"type": "float", "stride": 1}, (256,)),
    "copy_4": (COPY, {"type": "float4", "stride": 1}, (256,)),
    "copy_double": (COPY, {"type": "double", "stride": 1}, (256,)),
    "apart": (COPY, {"type": "float", "stride": 8}, (256,)),
    "heads": (HEADS, {}, (256,)),
    "roomy": (SPILLING, {"blocks": 1}, (1024,)),
    "spilling": (SPILLING, {"blocks": 2}, (1024,)),
}


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelFacts]:
    folder, facts = tmp_path_factory.mktemp("diff"), {}
    for block in {block for _, _, block in KERNELS.values()}:
        file = folder / f"{'x'.join(map(str, block))}.cu"
        own = {name: text.format(name=name, **fields) for name, (text, fields, b) in KERNELS.items() if b == block}
        file.write_text("".join(own.values()))
        facts |= {check.facts.kernel: check.facts for check in check_cuda(CudaRequest(str(file), block=block)).checks}
    return facts


def moved(compiled: dict[str, KernelFacts], before: str, after: str) -> dict[str, tuple[str | None, str | None, str]]:
    rows = compare(compiled[before], compiled[after]).to_dicts()
    return {row["measure"]: (row["before"], row["after"], row["verdict"]) for row in rows if row["verdict"] != "same"}


def verdicts(compiled: dict[str, KernelFacts], before: str, after: str) -> set[str]:
    return {verdict for _, _, verdict in moved(compiled, before, after).values()}


MEASURED = {
    # On an H200 by Nsight Compute: wavefronts of shared loads and stores, sectors of global loads and stores.
    "plain": (1024, 32, 128, 128),
    "padded": (32, 32, 128, 128),
    "swizzled": (32, 32, 128, 128),
    "halves": (512, 32, 64, 64),
    "padded_halves": (32, 32, 64, 64),
    "doubles": (1024, 64, 256, 256),
    "padded_doubles": (64, 64, 256, 256),
    "two": (2048, 64, 256, 128),
    "two_one_padded": (1056, 64, 256, 128),
    "naive": (0, 0, 128, 1024),
}


@pytest.mark.parametrize("name", MEASURED)
def test_wavefronts_and_sectors_are_those_that_the_hardware_counts(name: str, compiled: dict[str, KernelFacts]) -> None:
    facts = compiled[name]
    passes = [sum(a.wavefronts or 0 for a in facts.shared if a.kind == kind) for kind in ("load", "store")]
    touched = [
        facts.num_warps * sum(a.instructions * (a.sectors or 0) for a in facts.accesses if a.kind == kind)
        for kind in ("load", "store")
    ]
    assert (*passes, *touched) == MEASURED[name]


@pytest.mark.parametrize(
    ("before", "after", "extra", "ways"),
    [
        # eight warps read four times with 31 extra passes; a double takes two wavefronts of 16 lanes
        ("plain", "padded", ("992", "0"), ("32", "1")),
        ("plain", "swizzled", ("992", "0"), ("32", "1")),
        ("halves", "padded_halves", ("480", "0"), ("16", "1")),
        ("doubles", "padded_doubles", ("960", "0"), ("16", "1")),
        ("plain", "large_block", None, None),
        ("plain", "one_row_more", None, None),
    ],
)
def test_another_layout_of_a_tile_is_judged_by_the_passes_that_conflicts_add(
    before: str,
    after: str,
    extra: tuple[str, str] | None,
    ways: tuple[str, str] | None,
    compiled: dict[str, KernelFacts],
) -> None:
    there, back = moved(compiled, before, after), moved(compiled, after, before)
    if extra is None or ways is None:
        assert {"improvement", "regression"} & {
            verdict for name, (_, _, verdict) in there.items() if "inst" not in name
        } == set()
        return
    assert there["extra_wavefronts"] == (*extra, "improvement")
    assert there["bank conflict of load of tile, ways"] == (*ways, "improvement")
    assert "regression" not in {verdict for _, _, verdict in there.values()}
    assert back["extra_wavefronts"] == (*extra[::-1], "regression")
    assert back["bank_conflicts"][2] == "regression"


def test_one_of_two_tiles_that_is_padded_is_an_improvement_whatever_the_worst_access_is(
    compiled: dict[str, KernelFacts],
) -> None:
    differences = moved(compiled, "two", "two_one_padded")
    assert "bank_conflicts" not in differences  # 31 in both
    assert differences["extra_wavefronts"] == ("1984", "992", "improvement")
    assert differences["bank conflict of load of a, ways"] == ("32", "1", "improvement")
    assert differences["registers"][2] == "changed"
    assert verdicts(compiled, "two", "two_one_padded") == {"changed", "improvement"}
    assert moved(compiled, "two_one_padded", "two")["extra_wavefronts"] == ("992", "1984", "regression")


def test_how_far_a_loop_is_unrolled_is_neither_better_nor_worse(compiled: dict[str, KernelFacts]) -> None:
    for before, after in (("rolled", "plain"), ("plain", "rolled"), ("loop", "loop_unrolled")):
        differences = moved(compiled, before, after)
        assert not any("wavefronts" in name or "conflict" in name for name in differences), (before, after)
        assert "regression" not in {verdict for _, _, verdict in differences.values()}
    assert moved(compiled, "loop", "loop_padded")["extra_wavefronts_in_loops"] == ("992", "0", "improvement")
    assert moved(compiled, "loop_padded", "loop")["extra_wavefronts_in_loops"][2] == "regression"


def test_conflicts_of_a_tile_that_is_new_are_a_change_beside_sectors_that_are_saved(
    compiled: dict[str, KernelFacts],
) -> None:
    differences = moved(compiled, "naive", "large_block")
    assert differences["extra_wavefronts"] == (None, "992", "changed")
    assert differences["sectors of store of out"] == ("32 of 4", "4 of 4", "improvement")
    assert "regression" not in verdicts(compiled, "naive", "large_block")
    assert moved(compiled, "large_block", "naive")["extra_sectors"] == ("0", "28", "regression")


def test_narrower_accesses_and_more_sectors_are_worse_and_other_types_are_not(compiled: dict[str, KernelFacts]) -> None:
    assert moved(compiled, "copy_4", "copy")["width of load of in, bits"] == ("128", "32", "regression")
    assert moved(compiled, "copy", "copy_4")["width of load of in, bits"] == ("32", "128", "improvement")
    assert moved(compiled, "copy", "apart")["sectors of load of in"] == ("4 of 4", "32 of 4", "regression")
    assert verdicts(compiled, "copy", "copy_double") <= {"changed"}
    assert verdicts(compiled, "copy_double", "copy") <= {"changed"}
    # A remainder that is accessed one by one makes no other access narrower.
    assert moved(compiled, "copy_4", "heads")["narrowest_access_bits"] == ("128", "32", "changed")
    assert "regression" not in verdicts(compiled, "copy_4", "heads")


def test_registers_count_where_they_cost_occupancy_and_spills_always(compiled: dict[str, KernelFacts]) -> None:
    differences = moved(compiled, "roomy", "spilling")
    assert differences["spill_bytes"][2] == "regression"
    assert differences["registers"] == ("64", "32", "improvement")
    assert moved(compiled, "spilling", "roomy")["registers"] == ("32", "64", "regression")
    facts = compiled["plain"]
    fewer = compare(replace(facts, registers=facts.registers + 8), facts).to_dicts()
    assert [row["verdict"] for row in fewer if row["measure"] == "registers"] == ["changed"]


def test_facts_that_know_no_passes_are_judged_by_their_worst_access(compiled: dict[str, KernelFacts]) -> None:
    old = {
        name: replace(facts, shared=tuple(replace(access, wavefronts=None) for access in facts.shared))
        for name, facts in compiled.items()
    }
    assert moved(old, "padded", "plain")["bank_conflicts"] == ("0", "31", "regression")
    assert "extra_wavefronts" not in moved(old, "padded", "plain")


EDITED = """
__global__ void edited(const float* in, const float* bias, float* out, int n) {
    __shared__ float tile[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    float shift = bias[y];
    tile[y][x] = in[y * n + x] + shift;
    __syncthreads();
    out[y * n + x] = tile[x][y];
}
"""


def test_accesses_are_matched_by_what_they_are_not_by_their_lines(
    compiled: dict[str, KernelFacts], tmp_path: Path
) -> None:
    file = tmp_path / "edited.cu"
    file.write_text(EDITED)
    renamed = tmp_path / "renamed.cu"
    renamed.write_text(EDITED.replace("tile", "kept").replace("bias[y]", "1.0f").replace("[32][32]", "[32][33]"))
    first, second = (check_cuda(CudaRequest(str(path), block=(32, 32))).checks[0].facts for path in (file, renamed))
    rows = {row["measure"]: row["verdict"] for row in compare(first, second).to_dicts()}
    assert rows["bank conflict of load of tile, ways"] == "improvement"
    assert not any("bias" in name for name in rows)
    assert "regression" not in rows.values()
