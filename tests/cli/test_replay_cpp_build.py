"""The exported C++ project is built against the PyTorch of the tests, run on the CPU, and compared with the Python runner.

Without a compiler the tests are skipped with a word, and fail where CI runs them.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from replay_plans import listed, plan, storage, tensor, unit, value
from support import HANG_SECONDS
from warplens.replay import cpp
from warplens_run.formats import replay_plan as plan_file
from warplens_run.formats import replay_result as result_file
from warplens_run.formats.replay_plan import Fill, KernelSource, ReplayPlan, Rest, SourceKernel, Storage, Unit
from warplens_run.formats.replay_result import ReplayResult, UnitResult
from warplens_run.replay import safe_values
from warplens_run.replay.text import summary_lines

NORM = (
    "aten::native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
    "-> (Tensor, Tensor, Tensor)"
)
INDICES = Fill("integers", 0, 10)
NO_COLLECTING = "--param ggc-min-heapsize=4000000"
"""GCC looks for memory to free while it compiles, a tenth of the CPU time. Clang ignores it."""
HUGE_STEPS = Fill("ramp", 0, 1e15, 1e12)


def op(name: str, schema: str, arguments: tuple[Any, ...], storages: tuple[Storage, ...], **facts: Any) -> Unit:
    return replace(unit(name, arguments, storages, **facts), schema=schema)


RIGHT = (
    op(
        "aten::addmm",
        "aten::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
        (tensor(0, 8), tensor(1, 4, 6), tensor(2, 6, 8), value("int", 1), value("float", 0.5)),
        (storage(8), storage(24), storage(48)),
        ns=9000,
        notes=("a note of the plan",),
    ),
    op(
        "aten::index_select",
        "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor",
        (tensor(0, 5, 4), value("int", 0), tensor(1, 5, dtype="int32")),
        (storage(20), storage(5, "int32", Fill("permutation", 0, 5))),
    ),
    op(
        "aten::native_layer_norm",
        NORM,
        (tensor(0, 4, 16), listed(value("int", 16)), tensor(1, 16), value("none"), value("float", 1e-05)),
        (storage(64), storage(16)),
    ),
    op(
        "aten::embedding",
        "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, "
        "bool sparse=False) -> Tensor",
        (tensor(0, 10, 8), tensor(1, 5, dtype="int64"), value("int", -1), value("bool", False), value("bool", False)),
        (storage(80), storage(5, "int64", INDICES)),
    ),
    op(
        "aten::add_.Tensor",
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        (tensor(0, 4, 8), tensor(1, 8), value("int", 2)),
        (storage(32, fill=Fill("rectified"), written=True), storage(8, fill=Fill("masked"))),
    ),
    op(
        "aten::cat",
        "aten::cat(Tensor[] tensors, int dim=0) -> Tensor",
        (listed(tensor(0, 2, 3), tensor(1, 4, 3)), value("int", 0)),
        (storage(6), storage(12)),
    ),
    op(
        "aten::_foreach_add_.Scalar",
        "aten::_foreach_add_.Scalar(Tensor(a!)[] self, Scalar scalar) -> ()",
        (listed(tensor(0, 3), tensor(1, 2, 2)), value("float", 1.5)),
        (storage(3, written=True), storage(4, written=True)),
    ),
    op(
        "aten::gelu",
        "aten::gelu(Tensor self, *, str approximate='none') -> Tensor",
        (tensor(0, 4, 8, stride=(1, 4)), value("str", "tanh")),
        (storage(32),),
    ),
    op(
        "aten::mm.out",
        "aten::mm.out(Tensor self, Tensor mat2, *, Tensor(a!) out) -> Tensor(a!)",
        (tensor(0, 4, 4, dtype="bfloat16"), tensor(0, 4, 4, dtype="bfloat16"), tensor(1, 4, 4, dtype="bfloat16")),
        (storage(16, "bfloat16"), storage(16, "bfloat16", written=True)),
    ),
    op(
        "aten::index.Tensor",
        "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        (tensor(0, 10, 4), listed(value("none"), tensor(1, 3, dtype="int64"))),
        (storage(40), storage(3, "int64", Fill("integers", 0, 4))),
    ),
    op(
        "aten::take",
        "aten::take(Tensor self, Tensor index) -> Tensor",
        (tensor(0, 72), tensor(1, 2, 4, 4, dtype="int64")),
        (storage(72), storage(32, "int64", Fill("digits", digits=(4, 4, 16, 1, 4, 2)))),
    ),
    op(
        "aten::repeat_interleave.Tensor",
        "aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
        (tensor(0, 3, dtype="int64"), value("int", 8)),
        (storage(3, "int64", Fill("shares", 8, step=3)),),
    ),
    op(
        "aten::clone",
        "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor",
        (tensor(0, 2, 3, 4, 5), value("memory_format", "torch.channels_last")),
        (storage(120),),
    ),
    op(
        "aten::_to_copy",
        "aten::_to_copy(Tensor self, *, ScalarType? dtype=None, Layout? layout=None, Device? device=None, "
        "bool? pin_memory=None, bool non_blocking=False, MemoryFormat? memory_format=None) -> Tensor",
        (
            tensor(0, 8),
            value("dtype", "float64"),
            value("layout", "strided"),
            value("device", "cuda:0"),
            value("none"),
            value("bool", False),
            value("none"),
        ),
        (storage(8),),
    ),
    # Without the schema it cannot be written out, and what the plan leaves out is the schema's default.
    unit("aten::sum.dim_IntList", (tensor(0, 4, 8), listed(value("int", -1))), (storage(32, fill=Fill("uniform")),)),
    op(
        "aten::erf",
        "aten::erf(Tensor self) -> Tensor",
        (tensor(0, 4, 4, dtype="float8_e4m3fn"),),
        (storage(16, "float8_e4m3fn"),),
        id='odd "name" \\ // */ µ',
    ),
)
NUMBERS = listed(value("int", 2), value("int", 4))
WRONG = (
    unit("aten::no_such_op", (tensor(0, 4),), (storage(4),)),
    unit("aten::relu", (value("str", "x"),), id="bad argument"),
    unit("aten::relu", (tensor(0, 4), tensor(0, 4)), (storage(4),), id="too\nmany"),
    unit("aten::mm", (tensor(0, 4, 4), tensor(0, 2, 8)), (storage(16),), id="bad shapes"),
    unit("aten::relu", (tensor(0, 4),), (Storage(1 << 40, "float32"),), id="too large"),
    unit("aten::from_file", (value("str", "/etc/hostname"),), id="file"),
    unit("aten::_print", (value("str", "from the plan"),), id="print"),
    unit("inductor::_mm_plus_mm", (tensor(0, 4, 4),), (storage(16),), id="namespace"),
    unit("aten::as_strided", (tensor(0, 4), NUMBERS, NUMBERS), (storage(4),), id="beyond"),
    unit("aten::_nnpack_available", id="no tensor"),
    unit(
        "aten::_convert_indices_from_csr_to_coo",
        (tensor(0, 3, dtype="int64"), tensor(1, 4, dtype="int64")),
        (storage(3, "int64", HUGE_STEPS), storage(4, "int64", INDICES)),
        id="crash",
    ),
    unit(
        "aten::_convert_indices_from_csr_to_coo",
        (tensor(0, 33, dtype="int64"), tensor(1, 4, dtype="int64")),
        (storage(33, "int64", Fill("integers", 0, 1e15)), storage(4, "int64", INDICES)),
        id="crash with most values",
    ),
    unit("aten::relu", status="refused", reason="nothing is known of its inputs", id="refused"),
    unit("triton_poi", id="triton", triton=SourceKernel("k.py", "triton_poi")),
    unit(
        "product",
        (value("function", "relu"), value("int", 4)),
        id="own kernel",
        triton=SourceKernel("k.py", "product", {"num_warps": 4, "launch_pdl": True}, (8, 1, 1)),
    ),
)
TEXT = "# a kernel"


def small_plan() -> ReplayPlan:
    source = KernelSource(TEXT, sha256(TEXT.encode()).hexdigest())
    rest = (Rest("k", "kernel", 1, 500, "no launch"), Rest("l", "kernel", 2, 700, "no launch"))
    settings: dict[str, Any] = {
        "backends.cuda.matmul.allow_tf32": True,
        "get_float32_matmul_precision": "high",
        "odd": 1,
    }
    return plan(*RIGHT, *WRONG, rest=rest, sources={"k.py": source}, settings=settings, versions={"torch": "2.13 µ"})


@dataclass(frozen=True)
class Run:
    result: ReplayResult
    described: dict[str, list[tuple[str, float]]]
    """Per unit, of each output its type and shape, and the sum of its elements."""
    text: str
    status: int
    printed: str = ""

    def unit(self, identity: str) -> UnitResult:
        return next(each for each in self.result.units if each.id == identity)


def torch_prefix() -> str:
    import torch

    return str(torch.utils.cmake_prefix_path)


class Project:
    def __init__(self, folder: Path) -> None:
        self.folder, self.plan = folder, replace(small_plan(), id="plan-of.tests")
        self.json: Any = json.loads(json.dumps(plan_file.to_json(self.plan)))

    def build(self, *, readable: bool) -> float:
        cpp.export(self.plan, self.folder, readable=readable, force=readable)
        start = time.monotonic()
        # The documented command, with the PyTorch of the tests as the one that python3 has, nothing optimised, and no
        # header read twice: 9 s less of CPU. The second time it is told where PyTorch is, as the README has it.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        options = f"-DTORCH_BATCH=0 -DOTHER_BATCH=0{f' -DCMAKE_PREFIX_PATH={torch_prefix()}' if readable else ''}"
        made = subprocess.run(
            cpp.BUILD_COMMAND.replace("-B build", f"-B build {options}", 1),
            shell=True,
            cwd=self.folder,
            capture_output=True,
            text=True,
            env={**os.environ, "PATH": path, "CXXFLAGS": f"-O0 {NO_COLLECTING}"},
        )
        assert made.returncode == 0, made.stdout[-4000:] + made.stderr[-4000:]
        return time.monotonic() - start

    def call(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        command = [str(self.folder / "build" / "replay"), "--device", "cpu", *words]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=HANG_SECONDS)
        assert code is None or ran.returncode == code, ran.stderr
        return ran

    def run(self, *words: str) -> Run:
        output = self.folder / "result.json"
        ran = self.call("--force", "--describe", "--max-repeats", "25", "-o", str(output), *words, code=None)
        described: dict[str, list[tuple[str, float]]] = {}
        for line in ran.stderr.splitlines():
            if found := re.fullmatch(r"(.*) gives (.*) sum (.*)", line):
                described.setdefault(found[1], []).append((found[2], float(found[3])))
        return Run(result_file.load(output), described, ran.stderr, ran.returncode, ran.stdout)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    pytest.importorskip("torch")
    for tool in ("cmake", "c++"):
        if shutil.which(tool) is None:
            text = f"no {tool}: the C++ replay is NOT tested (apt-get install cmake g++ make)"
            pytest.fail(text) if os.environ.get("WARPLENS_CI") else pytest.skip(text)
    made = Project(tmp_path_factory.mktemp("cpp"))
    seconds = made.build(readable=False)
    print(f"the C++ replay was built in {seconds:.0f} s")
    return made


@pytest.fixture(scope="module")
def boxed(project: Project) -> Run:
    return project.run()


def in_python(each: Unit) -> list[tuple[str, float]]:
    """The outputs as the Python runner's own inputs and call give them, told as --describe tells them."""
    import torch

    from warplens_run.replay.calls import bind, combinations, resolve
    from warplens_run.replay.inputs import Inputs

    cpu = torch.device("cpu")
    inputs = Inputs.build(each, cpu, 0)
    call = bind(resolve(each.op, each.overload), combinations(each)[0], inputs, cpu)
    found = call.function(*call.args, **call.named)
    if found is None:
        found = call.args[0]
    tensors = found if isinstance(found, (tuple, list)) else [found]
    names = {torch.float32: "Float", torch.float64: "Double", torch.bfloat16: "BFloat16", torch.int64: "Long"}
    return [(f"{names[each.dtype]} {list(each.shape)}", float(each.to(torch.float64).sum())) for each in tensors]


@pytest.mark.parametrize("each", RIGHT[:-1], ids=lambda each: each.id)
def test_a_unit_runs_and_gives_what_python_gives(boxed: Run, each: Unit) -> None:
    found = boxed.unit(each.id)
    assert (found.status, found.reason, found.same, found.energy) == ("done", "", None, None)
    assert found.time is not None
    assert found.time.timer == "host"
    assert 20 <= found.time.repeats <= 25
    assert 0 < found.time.min_ns <= found.time.p10_ns <= found.time.median_ns <= found.time.p90_ns
    assert boxed.described[each.id] == in_python(each)


def test_a_dtype_that_the_cpu_lacks_is_widened_and_told(boxed: Run) -> None:
    found = boxed.unit(RIGHT[-1].id)
    assert found.status == "done"
    assert "widened to float32" in found.notes[0]


@pytest.mark.parametrize(
    ("identity", "status", "reason"),
    [
        ("aten::no_such_op", "failed", "this PyTorch has no aten::no_such_op"),
        ("bad argument", "failed", r"argument 0 \(self\): a str where the op takes a tensor"),
        ("too\nmany", "failed", "aten::relu takes 1 arguments, the plan has 2"),
        ("bad shapes", "failed", "mat1 and mat2 shapes cannot be multiplied.*"),
        ("too large", "refused", r"needs 1024\.0 GiB, .* GiB are free"),
        ("file", "refused", "aten::from_file is not replayed: it accesses files"),
        ("print", "refused", "aten::_print is not replayed: it prints a text of the plan"),
        ("namespace", "refused", "inductor::_mm_plus_mm is not replayed: its namespace is neither aten nor prims; .*"),
        ("beyond", "refused", "aten::as_strided is not replayed: the view extends beyond its storage"),
        ("no tensor", "refused", "aten::_nnpack_available is not replayed: it neither takes nor returns a tensor"),
        ("crash", "failed", r"its process was ended by SIG.*"),
        ("refused", "refused", "nothing is known of its inputs"),
        ("own kernel", "refused", "needs Triton to compile its source; the C\\+\\+ replay carries no compiler"),
        ("triton", "refused", "needs Triton to compile its source; the C\\+\\+ replay carries no compiler"),
    ],
)
def test_what_cannot_run_is_one_line(boxed: Run, identity: str, status: str, reason: str) -> None:
    found = boxed.unit(identity)
    assert found.status == status
    assert re.fullmatch(reason, found.reason), found.reason
    assert found.time is None


def test_a_run_with_failed_units_ends_with_status_1_and_writes_its_result(boxed: Run) -> None:
    failed = [each.id for each in boxed.result.units if each.status == "failed"]
    assert boxed.status == 1
    assert len(failed) == 5
    assert "replay: 5 units failed: aten::no_such_op, bad argument, too" in boxed.text
    assert boxed.text.endswith("and 2 more\n")
    assert boxed.unit("aten::addmm").status == "done"


def test_a_unit_that_crashes_runs_again_with_safe_values(boxed: Run) -> None:
    found = boxed.unit("crash with most values")
    assert (found.status, found.reason) == ("done", "")
    assert found.notes == (safe_values.NOTE + "its process was ended by SIGSEGV",)
    assert boxed.unit("crash").notes == ()


def test_notes_of_the_plan_are_in_the_result(boxed: Run) -> None:
    assert boxed.unit("aten::addmm").notes == ("a note of the plan",)


def test_the_summary_is_that_of_the_python_runner(boxed: Run) -> None:
    assert boxed.printed.splitlines() == list(summary_lines(boxed.result))


def test_a_run_in_which_no_unit_ran_ends_with_status_1(project: Project) -> None:
    run = project.run("--units", "file")
    assert run.status == 1
    assert run.text.endswith("replay: no unit of the plan ran\n")
    assert run.unit("file").status == "refused"


def test_the_result_says_what_the_plan_says(boxed: Run, project: Project) -> None:
    result = boxed.result
    assert result.plan == "plan-of.tests"
    assert (result.runner, result.device, result.cache) == ("c++", "cpu", "in-situ")
    assert [each.id for each in result.units] == [each.id for each in project.plan.units]
    assert result.units[0].traced.total_ns == 9000
    assert result.units[4].op == "aten::add_.Tensor"
    assert result.units[0].kernel == "some_kernel"
    assert result.rest == {"no launch": 1200}
    assert any("odd" in note and "not restored" in note for note in result.notes)
    assert result.versions["torch"].startswith("2.")


def test_units_can_be_picked_and_results_are_not_overwritten(project: Project) -> None:
    run = project.run("--units", "aten::cat", "--cache", "hot")
    assert run.status == 0
    assert {each.id for each in run.result.units if each.status == "done"} == {"aten::cat"}
    assert run.unit("aten::gelu").status == "not run"
    assert run.result.cache == "hot"
    assert "exists" in project.call("-o", str(project.folder / "result.json"), code=2).stderr
    assert "no unit 'zz'" in project.call("--units", "zz", code=2).stderr
    assert "not one of" in project.call("--cache", "warm", code=2).stderr


def test_a_result_goes_to_standard_output_alone(project: Project) -> None:
    printed = project.call("--units", "aten::cat", "--no-energy").stdout
    assert result_file.parse(json.loads(printed)).runner == "c++"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 99}, "version 99"),
        ({"format": "x"}, "not a replay plan"),
        ({"units": [{"id": "x"}]}, "units[0]: 'op' is missing"),
        ({"units": 3}, "units: not a list"),
        ({"gpu_ns": -5}, "gpu_ns: a number below zero"),
        ({"wall_ns": 10**400}, "wall_ns: a number beyond 64 bits"),
        ({"colour": 1}, "plan.json: unknown key 'colour'"),
        ({"rest": [{"total": 1}]}, "rest[0]: unknown key 'total'"),
        ({"units": [{"storage": []}]}, "units[0]: unknown key 'storage'"),
    ],
)
def test_a_bad_plan_is_one_line(project: Project, tmp_path: Path, change: dict[str, Any], words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**project.json, **change}))
    said = project.call("--plan", str(path), code=1).stderr
    assert words in said
    assert said.count("\n") == 1


def test_a_plan_cut_short_is_one_line(project: Project, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(project.json)[:400])
    assert "not JSON" in project.call("--plan", str(path), code=1).stderr


@pytest.mark.nightly
def test_readable_calls_give_the_same(project: Project, boxed: Run) -> None:
    assert "without it" in project.call("--readable", code=1).stderr
    seconds = project.build(readable=True)
    print(f"with the calls written out, building went on for {seconds:.0f} s")
    found = project.run("--readable")
    named = [each.id for each in found.result.units if any("not written out" in note for note in each.notes)]
    assert named == ["aten::sum.dim_IntList", "crash with most values"]
    for each in RIGHT[:-1]:
        assert found.unit(each.id).status == "done", found.unit(each.id).reason
    for each in RIGHT:  # what remains of a crash with safe values has no rows: its memory is whatever it was
        assert found.described[each.id] == boxed.described[each.id]


@pytest.mark.nightly
def test_written_out_calls_of_another_plan_are_refused(project: Project, tmp_path: Path) -> None:
    if not (project.folder / "readable" / "units.cpp").exists():
        project.build(readable=True)
    path = tmp_path / "plan.json"
    path.write_text(json.dumps({**project.json, "id": "another"}))
    assert "another plan" in project.call("--plan", str(path), "--readable", code=1).stderr
