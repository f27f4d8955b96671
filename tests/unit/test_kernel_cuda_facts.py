"""CUDA C++ kernels compiled with NVRTC: the samples' facts, lanes against a count by hand, figures against NVIDIA's tools."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from support import ROOT
from warplens_lab.checking.checks import CheckResult, KernelCheck
from warplens_lab.comparing.compilations import differences
from warplens_lab.compiling.targets import TARGETS
from warplens_lab.cuda import toolkit
from warplens_lab.cuda.checking import check_cuda
from warplens_lab.cuda.request import CudaRequest
from warplens_lab.facts import load_facts, save_facts
from warplens_lab.facts.records import KernelFacts
from warplens_run.base.errors import UsageError, WarplensError

try:
    TOOLKIT = toolkit.require_toolkit()
except WarplensError as error:
    pytest.skip(f"{error.message}: {error.hint}", allow_module_level=True)
if not TOOLKIT.nvdisasm:
    pytest.skip("needs nvdisasm, which Triton brings", allow_module_level=True)
SAMPLES = ROOT / "samples" / "kernels" / "cuda"
TOOLS = Path(TOOLKIT.nvdisasm).parent
NAMES = ("transpose_plain", "transpose_padded", "filter_divergent", "filter_branch_free", "producer_consumer")
INDEXES = {
    "t": "t",
    "twice": "t * 2",
    "rows": "t * 32",
    "padded": "t * 33",
    "halved": "t / 2",
    "flipped": "31 - t % 32 + t / 32 * 32",
    "swizzled": "(t / 8 * 8) + ((t % 8) ^ (t / 8 % 8))",
    "scattered": "(t * 17) % 256",
    "by_sevens": "(t % 7) * 32",
    "moved": "t * 4 + (int)blockIdx.x",
    "in_a_loop": "k * 40 + t * 8",
}
CONDITIONS = {
    "t % 2 == 0": ("lanes", 16, 4),
    "t < 32": ("", None, 0),
    "t / 32 == 1": ("", None, 0),
    "t == 0": ("lanes", 1, 1),
    "(t & 16) != 0": ("lanes", 16, 4),
    "blockIdx.x * 128 + t < n": ("edge", None, None),
    "n > 3": ("", None, 0),
    "in[t] > 0.0f": ("data", None, None),
    "in[0] > 0.0f": ("", None, 0),
    "__shfl_sync(0xffffffff, t / 32, 0) == 1": ("", None, 0),
}


def checked(tmp_path_factory: pytest.TempPathFactory, text: str, name: str = "k.cu", **options: object) -> CheckResult:
    file = tmp_path_factory.mktemp("cuda") / name
    file.write_text(text)
    return check_cuda(CudaRequest(str(file), cache=False, **options))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def samples() -> dict[str, KernelCheck]:
    return {name: check_cuda(CudaRequest(str(SAMPLES / f"{name}.cu"), cache=False)).checks[0] for name in NAMES}


def by_line(facts: KernelFacts, text: str) -> int:
    return next(at for at, line in enumerate(Path(facts.file).read_text().splitlines(), 1) if text in line)


def test_a_column_of_a_tile_is_a_conflict_of_32_ways_and_a_padded_one_none(samples: dict[str, KernelCheck]) -> None:
    plain, padded = samples["transpose_plain"].facts, samples["transpose_padded"].facts
    for facts, conflicts, shape in ((plain, 31, (32, 32)), (padded, 0, (32, 33))):
        store, load = facts.shared
        assert (store.kind, store.conflicts, store.place.line) == ("store", 0, by_line(facts, "= in["))
        assert (load.kind, load.conflicts, load.shape) == ("load", conflicts, shape)
        assert facts.block == (32, 8)
    (suggestion,) = samples["transpose_plain"].suggestions
    assert (suggestion.code, suggestion.place) == ("WK106", f"transpose_plain.cu:{by_line(plain, 'out[(y')}")
    assert "32-way" in suggestion.evidence
    assert "`tile[32][33]` (no conflict)" in suggestion.advice
    assert samples["transpose_padded"].suggestions == ()
    moved = {difference.measure: difference.verdict for difference in differences(plain, padded)}
    assert moved["bank_conflicts"] == "improvement"
    assert "regression" not in moved.values()


def test_both_transpositions_access_memory_without_gaps(samples: dict[str, KernelCheck]) -> None:
    for name in NAMES[:2]:
        for access in samples[name].facts.accesses:
            assert (access.width_bits, access.sectors, access.sectors_needed) == (32, 4, 4)
        assert [access.argument for access in samples[name].facts.accesses] == ["in", "out"]


def test_a_branch_on_the_parity_of_a_lane_diverges_and_a_selection_does_not(samples: dict[str, KernelCheck]) -> None:
    divergent, free = samples["filter_divergent"], samples["filter_branch_free"]
    assert (divergent.facts.divergent_branches, free.facts.divergent_branches) == (1, 0)
    (branch,) = (branch for branch in divergent.facts.branches if branch.is_divergent)
    assert (branch.lanes, branch.warps, branch.place.line) == (16, 8, by_line(divergent.facts, "% 2 == 0"))
    assert [suggestion.code for suggestion in divergent.suggestions] == ["WK121"]
    assert free.suggestions == ()
    assert divergent.facts.instructions > free.facts.instructions


def test_named_barriers_are_known_with_the_warps_that_signal_and_that_wait(samples: dict[str, KernelCheck]) -> None:
    facts = samples["producer_consumer"].facts
    uses = {(use.kind, use.number, use.threads): (use.warps, use.in_loop) for use in facts.barriers}
    producers, consumers = (0, 1, 2, 3), (4, 5, 6, 7)
    assert uses == {
        ("sync", "3–4", 256): (producers, True),
        ("arrive", "1–2", 256): (producers, True),
        ("arrive", "3", 256): (consumers, False),
        ("arrive", "4", 256): (consumers, False),
        ("sync", "1–2", 256): (consumers, True),
        ("arrive", "3–4", 256): (consumers, True),
    }
    assert all(use.parted_by is None for use in facts.barriers)
    assert {access.width_bits for access in facts.accesses} == {128}
    assert samples["producer_consumer"].suggestions == ()


def test_figures_are_those_of_nvidias_own_tools(samples: dict[str, KernelCheck], tmp_path: Path) -> None:
    for check in samples.values():
        assert check.artefacts is not None
        (tmp_path / "cubin").write_bytes(check.artefacts.binary)
        used = subprocess.run(
            [TOOLS / "cuobjdump", "-res-usage", tmp_path / "cubin"], capture_output=True, text=True, check=True
        )
        match = re.search(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)", used.stdout)
        assert match is not None
        facts = check.facts
        # There, what the driver reserves for each block is included, where a kernel has some of its own.
        reserved_bytes = TARGETS[facts.target].shared_bytes_reserved if facts.shared_bytes else 0
        shared_bytes = facts.shared_bytes + reserved_bytes
        assert (facts.registers, facts.stack_bytes, shared_bytes) == tuple(map(int, match.groups()))


SPILLING = """
__global__ void __launch_bounds__(1024, 2) wide(const float* in, float* out) {
    float values[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) values[i] = in[i * 1024 + threadIdx.x];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) out[i * 1024 + threadIdx.x] = values[i] * values[63 - i];
}
"""


def test_spills_are_those_of_the_assembler(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    (check,) = checked(tmp_path_factory, SPILLING).checks
    assert check.artefacts is not None
    ptx = check.artefacts.texts["ptx"]
    command = [TOOLS / "ptxas-blackwell", "-v", "--gpu-name=sm_90a", tmp_path / "ptx", "-o", tmp_path / "out"]
    (tmp_path / "ptx").write_text(ptx)
    assembled = subprocess.run(command, capture_output=True, text=True, check=False)
    if known := re.search(r"Unsupported \.version .*current version is '([\d.]+)'", assembled.stderr):
        # NVRTC is newer than Triton's assembler, and the kernel has nothing new but the version at its head.
        (tmp_path / "ptx").write_text(re.sub(r"(?m)^\.version .*$", f".version {known[1]}", ptx, count=1))
        assembled = subprocess.run(command, capture_output=True, text=True, check=False)
    assert assembled.returncode == 0, assembled.stderr
    match = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", assembled.stderr)
    assert match is not None
    assert (check.facts.spill_store_bytes, check.facts.spill_load_bytes) == tuple(map(int, match.groups()))
    assert check.facts.spill_store_bytes > 32
    assert check.facts.block == (1024,)
    assert "WK101" in [suggestion.code for suggestion in check.suggestions]


def test_ways_of_every_index_are_those_that_counting_gives(tmp_path_factory: pytest.TempPathFactory) -> None:
    kernels = "\n".join(
        f"__global__ void {name}(float* out, int n) {{\n    __shared__ float s[8192];\n    int t = threadIdx.x;\n"
        f"    s[t] = out[t];\n    __syncthreads();\n    float sum = 0;\n"
        f"    for (int k = 0; k < n; ++k) sum += s[{index}] * k; // read\n    out[t] = sum;\n}}"
        for name, index in INDEXES.items()
    )
    result = checked(tmp_path_factory, kernels, block=(128,))
    assert len(result.checks) == len(INDEXES)
    for check in result.checks:
        expression = INDEXES[check.facts.kernel].replace("(int)blockIdx.x", "0").replace("/", "//")
        words = [{eval(expression, {"t": warp * 32 + lane, "k": 0}) for lane in range(32)} for warp in range(4)]
        ways = max(max([word % 32 for word in warp].count(bank) for bank in range(32)) for warp in words)
        loads = [access for access in check.facts.shared if access.kind == "load"]
        assert [access.conflicts for access in loads] == [ways - 1], check.facts.kernel


def test_conditions_part_the_lanes_that_they_should(tmp_path_factory: pytest.TempPathFactory) -> None:
    kernels = "\n".join(
        f"__global__ void k{at}(const float* in, float* out, int n) {{\n    int t = threadIdx.x;\n    float sum = 0;\n"
        f"    if ({condition}) {{ // asked\n        for (int k = 0; k < n; ++k) sum = sum * 0.5f + __sinf(in[k]);\n    }}\n"
        "    out[blockIdx.x * 128 + t] = sum;\n}"
        for at, condition in enumerate(CONDITIONS)
    )
    result = checked(tmp_path_factory, kernels, block=(128,))
    for check, (condition, expected) in zip(result.checks, CONDITIONS.items(), strict=True):
        line = check.artefacts.kernel.first_line + 3 if check.artefacts else 0
        asked = [b for b in check.facts.branches if b.place.line == line]
        got = [(b.difference, b.lanes if b.lanes in (None, 16) else min(b.lanes, 32 - b.lanes), b.warps) for b in asked]
        assert got == [expected], condition


UNKNOWN = """
__global__ void left_at_different_times(const int* in, float* out) {
    __shared__ float s[4096];
    int t = threadIdx.x, k = 0;
    while (in[t] > k) ++k;
    s[k * 32 + t] = 1.0f;
    __syncthreads();
    out[t] = s[t];
}
__global__ void chosen_by_lane(const int* in, float* out, int a, int b) {
    __shared__ float s[4096];
    int t = threadIdx.x, at;
    if (t % 2 == 0) { at = a; out[t + 1000] = __sinf(in[t]); } else { at = b; }
    s[at + t] = 1.0f;
    __syncthreads();
    out[t] = s[t];
}
__global__ void times_an_argument(float* out, int stride) {
    __shared__ float s[4096];
    int t = threadIdx.x;
    s[t * stride] = 1.0f;
    __syncthreads();
    out[t] = s[t];
}
"""


def test_addresses_that_cannot_be_known_are_not_guessed(tmp_path_factory: pytest.TempPathFactory) -> None:
    for check in checked(tmp_path_factory, UNKNOWN, block=(128,)).checks:
        stores = [access for access in check.facts.shared if access.kind == "store"]
        loads = [access for access in check.facts.shared if access.kind == "load"]
        assert [access.conflicts for access in stores] == [None], check.facts.kernel
        assert [access.conflicts for access in loads] == [0]


ACCESSES = """
#include <cuda_fp16.h>
struct Pair { float a, b; };
__global__ void strided(const float* in, float* out, int n) {
    out[threadIdx.x] = in[threadIdx.x * 32];
}
__global__ void one_by_one(const float* in, float* out) {
    int i = threadIdx.x * 4;
    out[threadIdx.x] = in[i] + in[i + 1] + in[i + 2] + in[i + 3];
}
__global__ void stencil(const float* in, float* out) {
    out[threadIdx.x] = in[threadIdx.x] + in[threadIdx.x + 1] + in[threadIdx.x + 2];
}
__global__ void halves(const __half* in, __half* out) {
    out[threadIdx.x] = __hadd(in[threadIdx.x], in[threadIdx.x]);
}
__global__ void early(float* out, int n) {
    __shared__ float s[256];
    if (threadIdx.x >= n) return;
    s[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 1];
}
__global__ void hangs(float* out) {
    __shared__ float s[256];
    s[threadIdx.x] = out[threadIdx.x];
    if (threadIdx.x % 2 == 0) {
        __syncthreads();
        out[threadIdx.x] = s[threadIdx.x + 1];
    }
    out[threadIdx.x + 256] = s[threadIdx.x ^ 2];
}
"""


def test_scattered_and_narrow_accesses_and_lonely_barriers_are_found(tmp_path_factory: pytest.TempPathFactory) -> None:
    result = checked(tmp_path_factory, ACCESSES, block=(256,))
    codes = {check.facts.kernel: {s.code for s in check.suggestions} for check in result.checks}
    assert codes == {
        "strided": {"WK122"},
        "one_by_one": {"WK102", "WK122"},
        "stencil": set(),
        "halves": {"WK102"},
        "early": set(),
        "hangs": {"WK123"},
    }
    strided = result.checks[0].facts.accesses[0]
    assert (strided.argument, strided.sectors, strided.sectors_needed) == ("in", 32, 4)
    by_fours = next(access for access in result.checks[1].facts.accesses if access.kind == "load")
    assert (by_fours.width_bits, by_fours.best_bits, by_fours.instructions) == (32, 128, 4)


SHAPES = """
__global__ void along(float* c, const float* a, const float* b, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && column < n) {
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
        c[row * n + column] = sum;
    }
}
__global__ void across(float* c, const float* a, const float* b, int n) {
    int column = blockIdx.y * blockDim.y + threadIdx.y, row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n && column < n) {
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
        c[row * n + column] = sum;
    }
}
"""


@pytest.mark.parametrize(
    ("block", "along", "across"),
    [
        # A warp is two rows of 16: two stretches of 64 bytes, or 16 rows with two neighbours each.
        ((16, 16), {"a": (2, 1), "b": (2, 2), "c": (4, 4)}, {"a": (16, 2), "b": (1, 1), "c": (16, 4)}),
        ((32, 8), {"a": (1, 1), "b": (4, 4), "c": (4, 4)}, {"a": (32, 4), "b": (1, 1), "c": (32, 4)}),
    ],
)
def test_sectors_are_counted_where_rows_are_an_unknown_length_apart(
    block: tuple[int, ...],
    along: dict[str, tuple[int, int]],
    across: dict[str, tuple[int, int]],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    for check, expected in zip(checked(tmp_path_factory, SHAPES, block=block).checks, (along, across), strict=True):
        counts = {access.argument: (access.sectors, access.sectors_needed) for access in check.facts.accesses}
        assert counts == expected, check.facts.kernel
        # Whether a row or a column is beyond the end changes once along a warp at most, or for whole rows of it.
        assert check.facts.divergent_branches == 0 or block == (16, 16)


VECTORS = """
__global__ void __launch_bounds__(64) sums(const float* in, float* out) {
    __shared__ float s[1024];
    for (int i = 0; i < 16; ++i) s[i * 64 + threadIdx.x] = in[i * 64 + threadIdx.x];
    __syncthreads();
    float sum = 0;
    #pragma unroll
    for (int i = 0; i < 8; ++i) sum += s[threadIdx.x * 8 + i]; // read
    out[threadIdx.x] = sum;
}
__global__ void sized(float* out) {
    extern __shared__ float dynamic[];
    dynamic[threadIdx.x] = out[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = dynamic[threadIdx.x ^ 1];
}
void launch() { sized<<<4, 128, 128 * sizeof(float)>>>(nullptr); sized<<<4, 128, 4096>>>(nullptr); }
"""


def test_accesses_that_the_assembler_joins_are_as_wide_as_it_makes_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    sums, sized = checked(tmp_path_factory, VECTORS).checks
    (load,) = (access for access in sums.facts.shared if access.kind == "load")
    assert sums.artefacts is not None
    assert "LDS.128" in sums.artefacts.texts["sass"]
    # Eight lanes at a time read 16 bytes each, 32 apart: every second group of four banks, twice.
    assert (load.vector_bits, load.conflicts) == (128, 1)
    assert (sized.facts.block, sized.facts.shared_bytes) == ((128,), 4096)


TEMPLATES = """
#include <cstdio>
#include <vector>
#include "own.h"
#ifndef FACTOR
#define FACTOR 2
#endif
namespace lab {
template <typename T, int N>
__global__ void scale(T* x) {
    __shared__ T s[N][N];
    s[threadIdx.x][0] = x[threadIdx.x] * FACTOR;
    __syncthreads();
    x[threadIdx.x] = s[threadIdx.x][0] + own(1);
}
}
template <int N> __global__ void unused(int* x) { x[threadIdx.x] = N; }
__global__ void plain(int* x) { x[threadIdx.x] = 1; }
int main() {
    std::vector<float> host(32);
    lab::scale<float, 32><<<1, 32>>>(nullptr);
    cudaDeviceSynchronize();
    printf("%f\\n", host[0]);
}
"""


def test_a_whole_program_is_checked_with_templates_as_it_launches_them(tmp_path: Path) -> None:
    file = tmp_path / "program.cu"
    file.write_text(TEMPLATES)
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "own.h").write_text("__device__ int own(int x) { return x + threadIdx.x; }\n")
    includes = (str(tmp_path / "include"),)
    result = check_cuda(CudaRequest(str(file), includes=includes, cache=False))
    assert [check.facts.kernel for check in result.checks] == ["lab::scale<float, 32>", "plain"]
    scale = result.checks[0].facts
    assert (scale.block, scale.shared[0].layout, scale.shared[0].conflicts) == ((32,), "s[32][32]", 31)
    assert [note for note in result.notes if "template" in note] == [
        f"unused is a template whose arguments are not known: name them, {file}::unused<256>"
    ]
    named = check_cuda(CudaRequest(f"{file}::scale<double, 16>", includes=includes, defines=("FACTOR=3",), cache=False))
    assert named.checks[0].facts.kernel == "lab::scale<double, 16>"
    assert "FACTOR=3" in named.checks[0].facts.config
    with pytest.raises(UsageError, match="unused is a template"):
        check_cuda(CudaRequest(f"{file}::unused", includes=includes))
    with pytest.raises(UsageError) as error:
        check_cuda(CudaRequest(f"{file}::nothing"))
    assert error.value.hint is not None
    assert "lab::scale<float, 256>, unused<256>, plain" in error.value.hint


EXTENSION = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
using namespace at;
torch::Tensor forward(torch::Tensor x);
namespace {
template <typename scalar_t>
__global__ void twice(const scalar_t* in, scalar_t* out, uint32_t n) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * 2;
}
__global__ void plain(float* x) { x[threadIdx.x] = 0; }
}
torch::Tensor forward(torch::Tensor x) {
    AT_DISPATCH_FLOATING_TYPES(x.type(), "twice", ([&] { twice<scalar_t><<<1, 64>>>(x.data<scalar_t>(), x.data<scalar_t>(), 1); }));
    plain<<<1, 96>>>(x.data<float>());
    return x;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "x"); }
"""


def test_an_extension_of_pytorch_is_checked_without_pytorchs_headers(tmp_path: Path) -> None:
    file = tmp_path / "extension.cu"
    file.write_text(EXTENSION)
    result = check_cuda(CudaRequest(str(file), cache=False))
    assert [(check.facts.kernel, check.facts.failure, check.facts.block) for check in result.checks] == [
        ("plain", "", (96,))
    ]
    assert [note.partition(":")[0] for note in result.notes] == ["twice is a template whose arguments are not known"]
    (twice,) = check_cuda(CudaRequest(f"{file}::twice<double>", cache=False)).checks
    assert [(access.width_bits, access.sectors) for access in twice.facts.accesses] == [(64, 8), (64, 8)]
    assert twice.facts.block == (64,)


def test_an_error_has_its_line_and_the_compilers_words(tmp_path: Path) -> None:
    file = tmp_path / "wrong.cu"
    file.write_text(
        "__global__ void good(int* x) { x[0] = 1; }\n__global__ void bad(int* x) {\n    x[0] = missing;\n}\n"
    )
    result = check_cuda(CudaRequest(str(file), cache=False))
    for check in result.checks:
        facts = check.facts
        assert facts.failure == 'identifier "missing" is undefined: x[0] = missing;'
        assert facts.failure_place is not None
        assert (facts.failure_place.file, facts.failure_place.line, facts.failure_place.column) == (str(file), 3, 12)
    file.write_text('#include "absent.h"\n__global__ void good(int* x) { x[0] = 1; }\n')
    (check,) = check_cuda(CudaRequest(str(file), cache=False)).checks
    assert 'cannot open source file "absent.h"' in check.facts.failure


def test_a_changed_header_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WARPLENS_CACHE", str(tmp_path / "cache"))
    (tmp_path / "size.h").write_text("#define SIZE 32\n")
    file = tmp_path / "k.cu"
    text = '#include "size.h"\n__global__ void k(float* x) { __shared__ float s[SIZE * 64]; s[threadIdx.x] = x[1]; '
    file.write_text(text + "__syncthreads(); x[0] = s[threadIdx.x ^ 1]; }\n")
    seen = []
    for size in (32, 32, 64):
        (tmp_path / "size.h").write_text(f"#define SIZE {size}\n")
        check = check_cuda(CudaRequest(str(file))).checks[0]
        assert check.artefacts is not None
        seen.append((check.facts.shared_bytes, check.artefacts.is_cached))
    assert seen == [(8192, False), (8192, True), (16384, False)]


def test_facts_are_the_same_after_saving(samples: dict[str, KernelCheck], tmp_path: Path) -> None:
    facts = [check.facts for check in samples.values()]
    save_facts(tmp_path / "facts.json", facts)
    assert load_facts(tmp_path / "facts.json") == facts


def test_every_target_of_nvidia_is_compiled_for_and_no_other(samples: dict[str, KernelCheck]) -> None:
    source = str(SAMPLES / "transpose_plain.cu")
    checks = check_cuda(CudaRequest(source, "sm80,sm100", cache=False)).checks
    assert [(check.facts.target, check.facts.shared[1].conflicts) for check in checks] == [("sm80", 31), ("sm100", 31)]
    with pytest.raises(UsageError, match="not compiled for gfx942"):
        check_cuda(CudaRequest(source, "gfx942"))
