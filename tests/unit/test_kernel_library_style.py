"""Kernels as libraries launch them, in both verbs: scalars, compiled kernels that are kept, addresses in memory."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from support import ROOT  # noqa: E402
from warplens_lab.compiling.gpu_stand_in import gpu_stand_in  # noqa: E402
from warplens_lab.compiling.stand_in_cards import CARDS  # noqa: E402
from warplens_lab.compiling.targets import TARGETS  # noqa: E402
from warplens_lab.tracing.interpreter.assembly import inline_assembly  # noqa: E402
from warplens_lab.tracing.watching.benchmarks import OMITTED, ONE_SIZE  # noqa: E402
from warplens_lab.tracing.watching.script import ScriptTrace, traced_script  # noqa: E402
from warplens_lab.tracing.watching.undefined import UndefinedMemory  # noqa: E402
from warplens_run.base.errors import WarplensError  # noqa: E402

SCRIPT = ROOT / "tests" / "kernels" / "library_style.py"
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU nothing stands in for it")


@pytest.fixture(scope="module")
def traced() -> ScriptTrace:
    return traced_script(SCRIPT)


def test_every_case_gives_its_result_in_the_interpreter_without_faults(traced: ScriptTrace) -> None:
    names = [launch.kernel for launch in traced.trace.launches]
    assert names == [
        "scalar_kernel",
        "rows_kernel",
        "stacked_kernel",
        "stacked_kernel",
        "dependent_kernel",
        "addressed_kernel",
        "pointed_kernel",
        "logical_kernel",
        "scaled_product_kernel",
    ]
    assert (traced.failure, traced.trace.faults) == ("", ())


def test_tensors_that_are_found_by_address_have_names_and_bounds(traced: ScriptTrace, tmp_path: Path) -> None:
    launch = next(launch for launch in traced.trace.launches if launch.kernel == "addressed_kernel")
    names = [tensor.name for tensor in launch.tensors]
    assert names == ["addresses_ptr", "out_ptr", "member#0", "member#1", "member#2"]
    assert {total.tensor for total in launch.accesses if total.op == "load"} == {0, 2, 3, 4}
    script = tmp_path / "beyond.py"
    script.write_text(f"import sys\nsys.path.insert(0, {str(SCRIPT.parent)!r})\nimport library_style as style\n"
                      "style.addresses(21)\n")  # fmt: skip
    faults = [fault for _, fault in traced_script(script).trace.faults]
    assert [(fault.kind, fault.tensor, fault.index) for fault in faults] == [
        ("out_of_bounds", f"member#{number}", 20) for number in range(3)
    ]


def test_the_script_sees_the_gpu_of_the_target(tmp_path: Path) -> None:
    script = tmp_path / "asks.py"
    script.write_text(
        "import torch, triton\n"
        "target = triton.runtime.driver.active.get_current_target()\n"
        "raise ValueError(f'{torch.cuda.get_device_name()}, {torch.cuda.get_device_capability()}, {target.backend}, "
        "{target.arch}, {target.warp_size}, {torch.version.hip is not None}')\n"
    )
    for target, expected in (
        ("sm100", r"NVIDIA B200, \(10, 0\), cuda, 100, 32, False"),
        ("gfx942", r"AMD Instinct MI300X, \(9, 4\), hip, gfx942, 64, True"),
    ):
        with pytest.raises(WarplensError, match=expected):
            traced_script(script, target=target)
    with gpu_stand_in(target="sm80"):
        assert torch.version.cuda is not None


def test_there_is_a_card_for_every_target_with_the_shared_memory_of_its_architecture() -> None:
    for name, target in TARGETS.items():
        card = CARDS[name]
        assert (card.architecture, card.warp_size) == (target.architecture, target.warp_size)
        assert card.shared_per_block == target.shared_bytes_per_block_limit
        assert card.multiprocessors == target.gpu().multiprocessors


def test_assembly_that_numpy_cannot_do_is_refused_by_its_text() -> None:
    from triton.runtime import interpreter

    value = interpreter.TensorHandle(torch.ones(4).numpy(), interpreter.tl.float32)
    with pytest.raises(NotImplementedError, match=r"not run by Triton's interpreter: prmt.b32 \$0"):
        inline_assembly(interpreter)("prmt.b32 $0, $1, 1, 2;", "=r,r", [value], [interpreter.tl.float32], True, 1)


BENCHMARK = """\
import sys; sys.path.insert(0, {folder!r})
import library_style, triton.testing as testing
sizes = testing.Benchmark(["n"], [50, 10**9], "kind", ["ours"], ["Ours"], "doubling", {{}})

@testing.perf_report(sizes)
def timed(n, kind):
    assert n == 50
    return testing.do_bench(library_style.{case})

timed.run(print_data=True, show_plots=True)
timed.run(print_data=True)
"""


def test_a_benchmark_is_omitted_unless_it_makes_the_first_launch(tmp_path: Path) -> None:
    script = tmp_path / "timed.py"
    script.write_text(BENCHMARK.format(folder=str(SCRIPT.parent), case="scalars_and_names"))
    result = traced_script(script)
    assert [launch.kernel for launch in result.trace.launches] == ["scalar_kernel"]
    assert result.messages[:2] == (ONE_SIZE.format("doubling"), OMITTED.format("doubling"))


def test_a_large_tensor_costs_nothing_until_a_kernel_takes_it() -> None:
    memory = UndefinedMemory()
    with memory.watching():
        tracemalloc.start()
        large, filled = torch.empty(1 << 24), torch.empty(1 << 24)
        filled.zero_()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1 << 20
    assert memory.flags(filled.untyped_storage()) is None
    flags = memory.flags(large.untyped_storage())
    assert flags is not None and flags.all()
