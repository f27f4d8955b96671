"""Branches of CUDA C++: those that the compiler predicates, and those that diverge by data before much work."""

from __future__ import annotations

from pathlib import Path

import pytest

from warplens_lab.checking.checks import KernelCheck
from warplens_lab.cli.cuda_text import cuda_lines
from warplens_lab.cuda import toolkit
from warplens_lab.cuda.checking import check_cuda
from warplens_lab.cuda.request import CudaRequest
from warplens_run.base.errors import WarplensError

try:
    TOOLKIT = toolkit.require_toolkit()
except WarplensError as error:
    pytest.skip(f"{error.message}: {error.hint}", allow_module_level=True)
if not TOOLKIT.nvdisasm:
    pytest.skip("needs nvdisasm, which Triton brings", allow_module_level=True)

HELPERS = """
__device__ __noinline__ float series(float v) { float s = v; for (int i = 0; i < 9; ++i) s = __sinf(s) + v; return s; }
__device__ float larger(float a, float b) {
    if (a > b) return a * 2; // asked: helper
    return b;
}
"""
DATA, LANE = "on loaded values", "by lane"
PREDICATED = {
    # name: who decides, body
    "selected": (DATA, "float v = in[t], y = 0;\nif (v > 0.5f) // asked\n y = v * v;\nout[t] = y;"),
    "one_way_each": (DATA, "float v = in[t], y;\nif (v > 0.5f) // asked\n y = v * v;\nelse y = -v;\nout[t] = y;"),
    "limited": (DATA, "float v = in[t];\nif (v < 0.0f) v = 0.0f; // asked\nout[t] = v;"),
    "stored": (DATA, "float v = in[t];\nif (v > 0.5f) out[t] = v; else out[t] = 1.0f - v; // asked\n"),
    "ended": (DATA, "if (in[t] < 0.0f) return; // asked\nout[t] = in[t + 256];"),
    "by_parity": (LANE, "float v = in[t];\nif (t % 2) v *= 2.0f; else v += 3.0f; // asked\nout[t] = v;"),
    "helper": (DATA, "out[t] = larger(in[t], in[t + 256]);"),
}
HEAVY = {
    # name: words of the evidence, body
    "loop_inside": ("which way a lane goes", "float v = in[t];\nif (v > 0.0f) { // asked\n"
                    " for (int k = 0; k < n; ++k) v = v * 0.9f + __sinf(v);\n}\nout[t] = v;"),
    "long_body": ("PTX instructions", "float v = in[t];\nif (v > 0.0f) { // asked\n"
                  " v = expf(v) + logf(v) * sqrtf(v) + sinf(v);\n}\nout[t] = v;"),
    "called": ("a function that is not inlined", "float v = in[t];\nif (v > 0.5f) v = series(v); // asked\nout[t] = v;"),
    "turns": ("how often the loop turns", "float v = in[t];\nwhile (v > 1.0f) v = v * 0.5f + 0.1f; // asked\nout[t] = v;"),
    "rows": ("how often the loop turns", "float s = 0;\n"
             "for (int k = index[t]; k < index[t + 1]; ++k) s += in[k]; // asked\nout[t] = s;"),
}  # fmt: skip
QUIET = {
    "same_for_all": "float v = in[t];\nif (index[0] > 0) { for (int k = 0; k < n; ++k) v = v * 0.9f + __sinf(v); }\nout[t] = v;",
    "by_argument": "float v = in[t];\nif (n > 5) { for (int k = 0; k < n; ++k) v = v * 0.9f + __sinf(v); }\nout[t] = v;",
    "strided": "float m = -1.0f;\nfor (int i = t; i < n; i += 256) { float v = in[i]; if (v > m) m = v; }\nout[t] = m;",
    "warp_strided": "float s = 0;\nfor (int i = t % 32; i < n; i += 32) s += in[i];\nout[t] = s;",
    "lock": "if (t % 32 == 0) {\n while (atomicCAS(locks, 0, 1) != 0) { }\n out[0] += 1;\n atomicExch(locks, 0);\n}",
}


def checked(folder: Path, bodies: dict[str, str]) -> dict[str, KernelCheck]:
    head = "(const float* in, const int* index, int* locks, float* out, int n) { int t = threadIdx.x;"
    kernels = (f"__global__ void __launch_bounds__(256) {name}{head}\n{body}\n}}\n" for name, body in bodies.items())
    file = folder / "k.cu"
    file.write_text(HELPERS + "".join(kernels))
    return {check.facts.kernel: check for check in check_cuda(CudaRequest(str(file))).checks}


@pytest.fixture(scope="module")
def checks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, KernelCheck]:
    bodies = {name: body for group in (PREDICATED, HEAVY) for name, (_, body) in group.items()}
    return checked(tmp_path_factory.mktemp("branches"), bodies | QUIET)


def asked(check: KernelCheck) -> int:
    """The line of the condition of the kernel."""
    lines = list(enumerate(Path(check.facts.file).read_text().splitlines(), 1))
    if check.facts.kernel == "helper":
        return next(at for at, text in lines if "asked: helper" in text)
    begin = next(at for at, text in lines if f" {check.facts.kernel}(" in text)
    return next(at for at, text in lines if at > begin and text.endswith(("// asked", "// asked ")))


@pytest.mark.parametrize("name", PREDICATED)
def test_a_branch_without_a_jump_is_said_to_be_predicated(name: str, checks: dict[str, KernelCheck]) -> None:
    check = checks[name]
    (branch,) = (branch for branch in check.facts.branches if branch.place.line == asked(check))
    assert (branch.is_predicated, branch.is_divergent, branch.jumps) == (True, False, 0)
    shown = [line for line in cuda_lines(check.facts) if line.startswith("branch")]
    assert shown == [f"branch      {PREDICATED[name][0]}, no divergence: predicated  k.cu:{asked(check)}"]
    assert "WK121" not in [suggestion.code for suggestion in check.suggestions]


@pytest.mark.parametrize("name", HEAVY)
def test_much_work_that_loaded_values_part_lanes_for_gets_its_suggestion(
    name: str, checks: dict[str, KernelCheck]
) -> None:
    check = checks[name]
    (suggestion,) = (suggestion for suggestion in check.suggestions if suggestion.code == "WK121")
    assert suggestion.place == f"k.cu:{asked(check)}"
    assert HEAVY[name][0] in suggestion.evidence
    (branch,) = (branch for branch in check.facts.branches if branch.place.line == asked(check))
    assert (branch.difference, branch.is_divergent, branch.is_predicated) == ("data", True, False)
    assert branch.turns == ("turns" in HEAVY[name][0] and "loop" in HEAVY[name][0])


@pytest.mark.parametrize("name", QUIET)
def test_conditions_that_a_warp_shares_bounds_and_locks_are_not_reported(
    name: str, checks: dict[str, KernelCheck]
) -> None:
    assert "WK121" not in [suggestion.code for suggestion in checks[name].suggestions]


ODD_AFTER = """for (int i = t; i < n; i += 256) out[i] = in[i];
int i = t + n / 2 * 2;
if (i % 2) for (int k = 0; k < n; ++k) out[k + i] = __sinf(in[k]); // asked
"""


def test_a_lanes_own_number_still_parts_after_a_loop_with_a_bound(tmp_path: Path) -> None:
    check = checked(tmp_path, {"odd_after": ODD_AFTER})["odd_after"]
    assert [s.place for s in check.suggestions if s.code == "WK121"] == [f"k.cu:{asked(check)}"]
