"""Named barriers of CUDA C++: who comes to which, what cannot be met, who produces, consumes and takes turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from support import ROOT
from warplens_lab.checking.checks import KernelCheck
from warplens_lab.cuda import toolkit
from warplens_lab.cuda.checking import check_cuda
from warplens_lab.cuda.request import CudaRequest
from warplens_run.base.errors import WarplensError

try:
    toolkit.require_toolkit()
except WarplensError as error:
    pytest.skip(f"{error.message}: {error.hint}", allow_module_level=True)

HELPERS = """
__device__ __forceinline__ void wait_at(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ __forceinline__ void arrive_at(int id, int n) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory");
}
"""
FAULTS = {
    # name: fault, body of a kernel with 256 threads
    "too_many": (
        "it waits for 64 threads and 128 come: which of them meet is left to chance",
        'if (t < 128) { asm volatile("bar.sync 1, 64;" ::: "memory"); x[t] = 1; }',
    ),
    "too_few": ("it waits for 96 threads and 64 come", "if (t < 64) { wait_at(1, 96); x[t] = 1; }"),
    "counted": (
        "it waits for 64 threads and 256 come: which of them meet is left to chance",
        "x[t] = 1; __barrier_sync_count(3, 64); x[t ^ 64] += 1;",
    ),
    "uneven": ("80 threads are not a multiple of 32", "if (t < 96) { wait_at(1, 80); x[t] = 1; }"),
    "too_few_together": (
        "it waits for 256 threads and 192 come",
        "if (t < 128) { for (int i = 0; i < n; ++i) { wait_at(2, 192); x[t] = i; arrive_at(1, 256); } }"
        " else if (t < 192) { arrive_at(2, 192); for (int i = 0; i < n; ++i) { wait_at(1, 256); x[t] = i; arrive_at(2, 192); } }",
    ),
    "too_many_together": (
        "it waits for 192 threads and 256 come: which of them meet is left to chance",
        "if (t < 128) { x[t] = 1; arrive_at(1, 192); } else { wait_at(1, 192); x[t] += x[t - 128]; }",
    ),
    "two_counts": (
        "warps give it different numbers of threads, 128 and 256",
        "if (t < 128) { x[t] = 1; arrive_at(1, 128); } else { wait_at(1, 256); x[t] += x[t - 128]; }",
    ),
    "crossed": (
        "all warps wait, here or at other barriers",
        "if (t < 128) { wait_at(1, 256); x[t] = 1; wait_at(2, 256); }\n else { wait_at(2, 256);\n x[t] = 2; wait_at(1, 256); }",
    ),
    "ring": (
        "it waits for 256 threads and 192 come",
        "int stage = 0; if (t < 128) for (int i = 0; i < n; ++i) { wait_at(5 + stage, 192); x[t] = i; arrive_at(1 + stage, 256);"
        " if (++stage == 3) stage = 0; }\n else if (t < 192) { for (int k = 0; k < 3; ++k) arrive_at(5 + k, 192);\n"
        " for (int i = 0; i < n; ++i) { wait_at(1 + stage, 256); x[t] = i; arrive_at(5 + stage, 192); if (++stage == 3) stage = 0; } }",
    ),
}
SOUND = {
    "pairs": "x[t] = 1; wait_at(1 + t / 64, 64); x[t ^ 1] += 1;",
    "phases": "int w = t / 32; if (w < 2) wait_at(1, 64);\n __syncthreads();\n if (w > 1 && w < 4) { wait_at(1, 64); x[w] = 1; }"
    "\n __syncthreads();\n if (w > 3) { wait_at(1, 128); x[w] = 2; }",
    "ended": "if (t >= 128) return; for (int i = 0; i < n; ++i) { wait_at(1, 128); x[i * 128 + t] += 1; __syncthreads(); }",
    "in_turn": "for (int i = 0; i < n; ++i) { if (t / 128 == i % 2) { x[t] += i; wait_at(1, 128); x[t ^ 1] += 2; } __syncthreads(); }",
    "by_flags": "int w = t / 32; if (flags[w / 4]) { wait_at(1 + w / 4, 128); x[t] = 1; }"
    "\n if (flags[8]) { wait_at(3, 256); x[t] = 3; }\n if (flags[t & ~31]) { wait_at(4, 128); x[t] = 4; }",
    "by_argument": "wait_at(n, 256); x[t] = 1; wait_at(n + 1, 256);",
    "all_of_the_block": "x[t] = 1; __barrier_sync(2); x[t ^ 64] += 1; if (__syncthreads_count(x[t] > 1)) x[0] = 1;",
}


def kernel(name: str, body: str) -> str:
    return (
        f"__global__ void __launch_bounds__(256) {name}(float* x, const int* flags, int n) {{ int t = threadIdx.x;\n"
        f"{body} }}\n"
    )


def checked(folder: Path, text: str, **options: object) -> dict[str, KernelCheck]:
    file = folder / "k.cu"
    file.write_text(HELPERS + text)
    return {check.facts.kernel: check for check in check_cuda(CudaRequest(str(file), **options)).checks}  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelCheck]:
    text = "".join(kernel(name, body) for name, (_, body) in FAULTS.items())
    return checked(tmp_path_factory.mktemp("faulty"), text)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelCheck]:
    return checked(tmp_path_factory.mktemp("sound"), "".join(kernel(name, body) for name, body in SOUND.items()))


@pytest.mark.parametrize("name", FAULTS)
def test_a_barrier_that_cannot_be_met_is_a_fault(name: str, faulty: dict[str, KernelCheck]) -> None:
    check = faulty[name]
    expected = FAULTS[name][0]
    assert {use.fault for use in check.facts.barriers if use.fault} == {expected}
    suggestions = [suggestion for suggestion in check.suggestions if suggestion.code == "WK124"]
    assert suggestions
    assert all(suggestion.evidence.endswith(expected) for suggestion in suggestions)
    assert "in a block of 256 threads" in suggestions[0].evidence


@pytest.mark.parametrize("name", SOUND)
def test_a_barrier_that_is_met_is_none(name: str, sound: dict[str, KernelCheck]) -> None:
    check = sound[name]
    assert any(use.is_named for use in check.facts.barriers)
    assert [use.fault for use in check.facts.barriers if use.fault] == []
    assert "WK124" not in [suggestion.code for suggestion in check.suggestions]


def test_of_a_handover_only_the_barrier_with_the_wrong_number_is_named(faulty: dict[str, KernelCheck]) -> None:
    assert {use.number for use in faulty["too_few_together"].facts.barriers if use.fault} == {"1"}
    assert {use.number for use in faulty["ring"].facts.barriers if use.fault} == {"1–3"}


def test_warps_with_computed_numbers_come_to_barriers_of_their_own(sound: dict[str, KernelCheck]) -> None:
    uses = {use.number: (use.warps, use.threads) for use in sound["pairs"].facts.barriers}
    assert uses == {"1": ((0, 1), 64), "2": ((2, 3), 64), "3": ((4, 5), 64), "4": ((6, 7), 64)}
    (use,) = sound["by_argument"].facts.barriers
    assert (use.number, use.first, use.warps) == ("n, n+1", None, tuple(range(8)))


def test_a_block_whose_size_nothing_says_may_be_right_for_its_barriers(tmp_path: Path) -> None:
    text = "__global__ void k(float* x) { x[threadIdx.x] = 1; wait_at(1, 128); x[threadIdx.x ^ 1] = 2; }\n"
    assert [use.fault for use in checked(tmp_path, text)["k"].facts.barriers] == [""]
    (use,) = checked(tmp_path, text, block=(512,))["k"].facts.barriers
    assert use.fault.startswith("it waits for 128 threads and 512 come")
    launched = text.replace("void k", "void __launch_bounds__(512) k") + "void run() { k<<<1, 128>>>(nullptr); }\n"
    assert [use.fault for use in checked(tmp_path, launched)["k"].facts.barriers] == [""]


TEMPLATE = """
template <int THREADS> __global__ void __launch_bounds__(THREADS) k(float* x) {
    x[threadIdx.x] = 1;
    wait_at(1, THREADS);
    x[threadIdx.x ^ 1] = 2;
}
void run() { k<256><<<1, 256>>>(nullptr); k<384><<<1, 384>>>(nullptr); }
"""


def test_a_template_has_the_block_of_its_own_launch(tmp_path: Path) -> None:
    checks = checked(tmp_path, TEMPLATE)
    assert {name: check.facts.block for name, check in checks.items()} == {"k<256>": (256,), "k<384>": (384,)}
    assert [use.fault for check in checks.values() for use in check.facts.barriers] == ["", ""]


PING_PONG = """
__global__ void __launch_bounds__(256) two(float* x, int n) {
    int group = __shfl_sync(0xffffffff, threadIdx.x / 128, 0);
    if (group == 1) arrive_at(1, 256);
    for (int i = group; i < n; i += 2) {
        wait_at(1 + group, 256);
        x[i * 128 + threadIdx.x % 128] *= 2;
        arrive_at(1 + (group ^ 1), 256);
    }
}
__global__ void __launch_bounds__(512) three(const float* in, float* out, int n) {
    __shared__ float s[3][128];
    int group = threadIdx.x / 128, t = threadIdx.x % 128;
    if (group == 0) {
        for (int i = 0; i < n; ++i) {
            wait_at(4 + i % 3, 256);
            s[i % 3][t] = in[i * 128 + t];
            arrive_at(7 + i % 3, 256);
        }
    } else {
        int own = group - 1;
        if (own == 2) arrive_at(1, 256);
        arrive_at(4 + own, 256);
        for (int i = own; i < n; i += 3) {
            wait_at(7 + own, 256);
            float v = s[own][t];
            arrive_at(4 + own, 256);
            wait_at(1 + own, 256);
            out[i * 128 + t] = v * 2;
            arrive_at(1 + (own + 1) % 3, 256);
        }
    }
}
__global__ void __launch_bounds__(256) toggled(const float* in, float* out, int n) {
    __shared__ float s[2][128];
    int t = threadIdx.x % 128, stage = 0;
    if (threadIdx.x < 128) {
        for (int i = 0; i < n; ++i) { wait_at(3 + stage, 256); s[stage][t] = in[i * 128 + t]; arrive_at(1 + stage, 256); stage ^= 1; }
    } else {
        arrive_at(3, 256);
        arrive_at(4, 256);
        for (int i = 0; i < n; ++i) { wait_at(1 + stage, 256); out[i * 128 + t] = s[stage][t]; arrive_at(3 + stage, 256); stage ^= 1; }
    }
}
"""


def test_groups_that_take_turns_are_a_ping_pong_by_their_barriers(tmp_path: Path) -> None:
    checks = checked(tmp_path, PING_PONG)
    two, three, toggled = (checks[name].facts for name in ("two", "three", "toggled"))
    assert [use.fault for facts in (two, three, toggled) for use in facts.barriers if use.fault] == []
    (schedule,) = two.schedule
    assert schedule.pattern == "ping-pong"
    assert {(partition.name, partition.role, partition.warps) for partition in schedule.partitions} == {
        ("warps 0–3", "takes turns", 4),
        ("warps 4–7", "takes turns", 4),
    }
    assert "barrier 2 from warps 0–3 to warps 4–7 and barrier 1 from warps 4–7 to warps 0–3" in schedule.sentence
    steps = [(s.kind, s.waits_for, s.signals) for s in schedule.steps if s.partition == "warps 0–3"]
    assert steps == [("wait", "barrier 1", ""), ("load", "", ""), ("store", "", ""), ("signal", "", "barrier 2")]
    (schedule,) = three.schedule
    roles = {partition.name: partition.role for partition in schedule.partitions}
    assert roles == {"warps 0–3": "produces"} | dict.fromkeys(("warps 4–7", "warps 8–11", "warps 12–15"), "takes turns")
    assert schedule.pattern == "ping-pong"
    assert "barriers 1–3 among those that take turns" in schedule.sentence
    (schedule,) = toggled.schedule
    assert schedule.sentence == (
        "producer/consumer: warps 0–3 produce (loads); warps 4–7 consume (stores); handed over by barriers 1–2 from "
        "warps 0–3 to warps 4–7 and barriers 3–4 from warps 4–7 to warps 0–3"
    )


def test_a_sample_shows_who_produces_and_who_consumes() -> None:
    (check,) = check_cuda(CudaRequest(str(ROOT / "samples" / "kernels" / "cuda" / "producer_consumer.cu"))).checks
    (schedule,) = check.facts.schedule
    assert schedule.pattern == "producer/consumer"
    assert [partition.role for partition in schedule.partitions] == ["produces", "consumes"]


NAMED = """
namespace cutlass { namespace gemm { struct KernelTmaWarpSpecializedPingpong {}; struct KernelTmaWarpSpecializedCooperative {}; } }
template <typename Schedule> struct Parameters { float* x; };
template <typename Schedule> __global__ void gemm(Parameters<Schedule> p) { p.x[threadIdx.x] = 1; }
void run(Parameters<cutlass::gemm::KernelTmaWarpSpecializedPingpong> p) {
    gemm<cutlass::gemm::KernelTmaWarpSpecializedPingpong><<<1, 384>>>(p);
}
"""


def test_kernels_of_cutlass_are_recognised_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "named.cu"
    file.write_text(NAMED)
    for schedule, pattern in (("Pingpong", "ping-pong"), ("Cooperative", "producer/consumer")):
        name = f"gemm<cutlass::gemm::KernelTmaWarpSpecialized{schedule}>"
        (check,) = check_cuda(CudaRequest(f"{file}::{name}")).checks
        (named,) = check.facts.schedule
        assert named.pattern == pattern
        assert f"(KernelTmaWarpSpecialized{schedule} of CUTLASS)" in named.sentence
