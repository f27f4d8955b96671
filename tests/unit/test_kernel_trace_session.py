"""A trace leaves the program as it was: right results, Triton unchanged after it; launches, samples and types."""

from __future__ import annotations

import io
from bdb import BdbQuit
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

from triton.runtime import interpreter  # noqa: E402
from triton.runtime.jit import JITFunction  # noqa: E402

from kernels import flash_attention, matmul, matmul_unmasked, softmax, trace_cases, vector_add  # noqa: E402
from warplens_lab.tracing import TABLES, ProgramDebugger, trace, trace_kernel  # noqa: E402
from warplens_lab.tracing.watching.values import decoded  # noqa: E402
from warplens_run.base.errors import UsageError  # noqa: E402


def state_of_triton() -> list[Any]:
    import triton.language as tl

    builder = interpreter.interpreter_builder
    members = [tl.load, tl.store, tl.core.load, tl.core.reduce, tl.reduce, tl.range, tl.dtype.to_ir, tl.tensor.__add__]
    taps = [JITFunction.run, JITFunction.__call__, interpreter.GridExecutor.__call__, interpreter._implicit_cvt]
    own = {name: value for name, value in vars(builder).items() if not name.startswith("grid_")}
    return [*members, *taps, interpreter._patch_lang, own, triton.knobs.runtime.interpret]


def test_triton_is_unchanged_after_a_trace() -> None:
    before = state_of_triton()
    with trace():
        softmax.launch(*softmax.inputs())
    assert state_of_triton() == before


def test_triton_is_unchanged_after_a_failed_launch() -> None:
    before = state_of_triton()
    with pytest.raises(ValueError, match="multiples"), trace():
        matmul_unmasked.launch(*matmul_unmasked.inputs(33))
    with pytest.raises(interpreter.InterpreterError), trace():
        vector_add.vector_add_kernel[(1,)](torch.ones(4), torch.ones(4), torch.ones(4), "four", BLOCK=4)
    assert state_of_triton() == before


def test_launches_are_kept_apart() -> None:
    with trace() as tracing:
        vector_add.launch(*vector_add.inputs(100))
        softmax.launch(*softmax.inputs(2, 10))
        vector_add.launch(*vector_add.inputs(300))
    rows = TABLES["kernel_launches"](tracing.trace).to_dicts()
    assert [(row["launch"], row["kernel"], row["true_bytes"]) for row in rows] == [
        (0, "vector_add_kernel", 1200),
        (1, "softmax_kernel", 160),
        (2, "vector_add_kernel", 3600),
    ]
    assert all("vector_add.py" in rows[at]["called_from"] for at in (0, 2))


def test_a_sample_is_seeded_and_all_programs_still_run() -> None:
    def traced(seed: int, sample: float) -> tuple[set[int], Any]:
        with trace(sample=sample, seed=seed) as tracing:
            x, y = vector_add.inputs(1000)
            result = vector_add.launch(x, y, block=32)
        assert torch.equal(result, x + y)
        assert tracing.launches[0].events is not None
        return set(tracing.launches[0].events.program.tolist()), tracing

    programs, tracing = traced(1, 5)
    assert len(programs) == 5 == tracing.launches[0].traced_programs
    assert traced(1, 5)[0] == programs != traced(2, 5)[0]
    assert len(traced(1, 0.25)[0]) == 8
    assert tracing.launches[0].loaded_bytes == 2 * 4 * sum(min(32, 1000 - 32 * at) for at in programs)
    assert "sampled" in TABLES["kernel_launches"](tracing.trace).notes[0]


@pytest.mark.nightly
def test_thousands_of_programs() -> None:
    with trace("count") as tracing:
        vector_add.launch(*vector_add.inputs(4000), block=2)
    launch = tracing.launches[0]
    assert (launch.programs, launch.true_bytes, launch.faults) == (2000, 48_000, ())


def test_bfloat16_is_computed_right() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 64).bfloat16()
    with trace() as tracing:
        out, sums = trace_cases.bfloat_arithmetic(x, y)
    product = x * y + x
    assert torch.equal(out, torch.where(x > y, product, -product))
    torch.testing.assert_close(sums, product.float().sum().bfloat16().reshape(1))
    launch = tracing.launches[0]
    assert (launch.loaded_bytes, launch.stored_bytes) == (256, 130)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_products_are_computed_right(dtype: str) -> None:
    inputs = matmul.inputs(dtype=getattr(torch, dtype))
    with trace() as tracing:
        result = matmul.launch(*inputs)
    torch.testing.assert_close(result, matmul.reference(*inputs))
    assert tracing.launches[0].stored_bytes == 40 * 24 * 2


def test_attention_in_bfloat16() -> None:
    inputs = flash_attention.inputs(dtype=torch.bfloat16)
    with trace("count"):
        result = flash_attention.launch(*inputs, causal=True)
    torch.testing.assert_close(result, flash_attention.reference(*inputs, causal=True), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("source", ["float32", "bfloat16", "float16", "float8_e4m3fn"])
@pytest.mark.parametrize("target", ["float8_e5m2", "float8_e4m3fn", "bfloat16", "float16"])
def test_conversions_are_rounded_as_pytorch_rounds_them(source: str, target: str) -> None:
    x = (torch.randn(512, generator=torch.Generator().manual_seed(0)) * 3).to(getattr(torch, source))
    with trace("count"):
        result = trace_cases.convert(x, getattr(torch, target))
    assert torch.equal(result.view(torch.uint8), x.float().to(getattr(torch, target)).view(torch.uint8))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_is_read_as_one_byte(dtype: str) -> None:
    x = torch.randn(32).to(getattr(torch, dtype))
    with trace(values=True) as tracing:
        out = trace_cases.to_float(x)
    assert torch.equal(out, x.float())
    launch = tracing.launches[0]
    assert (launch.loaded_bytes, launch.stored_bytes, launch.tensors[0].dtype) == (32, 128, dtype)
    assert launch.values is not None
    assert np.array_equal(decoded(launch.values.before[0], dtype), x.float().numpy())


def test_tensor_descriptors_are_masked_loads_and_stores() -> None:
    x = torch.randn(20, 8)
    with trace() as tracing:
        result = trace_cases.descriptor_copy(x)
    assert torch.equal(result, x)
    launch = tracing.launches[0]
    assert (launch.loaded_bytes, launch.stored_bytes, launch.attempted_bytes) == (640, 640, 2 * 3 * 256)
    assert [row.tensor for row in launch.accesses] == [0, 1]
    assert launch.faults == ()


def test_the_call_path_goes_through_device_functions() -> None:
    x = torch.randn(16)
    with trace() as tracing:
        result = trace_cases.nested_call(x)
    assert torch.equal(result, 2 * x)
    rows = TABLES["kernel_accesses_traced"](tracing.trace).to_dicts()
    (load,) = [row for row in rows if row["op"] == "load"]
    names = [step.split(":")[0] for step in load["path"].split(" > ")]
    assert (load["accesses"], names) == (2, ["nested_call_kernel", "load_twice"])


def test_reductions_and_scans_of_any_combination() -> None:
    x = torch.rand(8) + 0.5
    with trace() as tracing:
        out, running = trace_cases.product(x)
    torch.testing.assert_close(out, x.prod().reshape(1))
    torch.testing.assert_close(running, x.cumsum(0))
    flops = {row.op: row.flop for row in tracing.launches[0].accesses if row.flop}
    assert flops == {"reduce_product_combine": 7, "scan_sum": 7}
    assert tracing.launches[0].elementwise_flop == 0


def test_a_floating_atomic_add_is_one_flop_per_lane() -> None:
    with trace() as tracing:
        trace_cases.block_sum(torch.ones(64), torch.zeros(1))
    rows = {row.op: row for row in tracing.launches[0].accesses}
    assert (rows["atomic_add"].flop, rows["atomic_add"].true_bytes) == (4, 16)


@pytest.mark.parametrize(("step", "sectors"), [(1, 8), (2, 16), (8, 64), (16, 64)])
def test_sectors_of_strided_loads(step: int, sectors: int) -> None:
    with trace() as tracing:
        trace_cases.strided_copy(torch.randn(64 * step), step, 64)
    (load,) = tracing.launches[0].of("load")
    assert (load.sectors, load.minimum_sectors) == (sectors, 8)


def test_a_transposed_tile_is_coalesced_along_its_contiguous_dimension() -> None:
    """The keys of attention are loaded as columns: lanes go down a column, where the memory is."""
    with trace() as tracing:
        flash_attention.launch(*flash_attention.inputs(1, 32, 16))
    rows = TABLES["kernel_accesses_traced"](tracing.trace).to_dicts()
    assert {row["sector_percent"] for row in rows if row["tensor"] == "k_ptr"} == {100.0}


def test_autotuned_kernels_take_their_first_configuration() -> None:
    x = torch.randn(100)
    tuner = trace_cases.tuned_copy_kernel
    with trace() as tracing:
        result = trace_cases.tuned_copy(x)
    assert torch.equal(result, x)
    assert [launch.grid for launch in tracing.launches] == [(4, 1, 1)]
    assert tuner.cache == {}


def test_values_are_kept_on_demand() -> None:
    x, y = vector_add.inputs(40)
    with trace(values=True) as tracing:
        result = vector_add.launch(x, y, block=64)
    launch = tracing.launches[0]
    assert launch.values is not None
    assert launch.events is not None
    assert len(launch.values.events) == len(launch.events) == 4
    (loaded, _, added, stored) = [array for _, array in launch.values.events]
    assert added.size == 0  # what is between loads and stores is not kept
    assert np.array_equal(loaded[:40], x.numpy())
    assert np.array_equal(stored[:40], result.numpy())
    assert np.array_equal(launch.values.before[0], x.numpy())
    assert np.array_equal(launch.values.after[2], result.numpy())


def test_a_decorated_kernel_keeps_its_own_trace() -> None:
    kernel = trace_kernel(vector_add.vector_add_kernel, mode="count")
    x, y = vector_add.inputs(100)
    with pytest.raises(UsageError, match="not been launched"):
        _ = kernel.trace
    for _ in range(2):
        out = torch.empty(100)
        kernel[(1,)](x, y, out, 100, BLOCK=128)
        assert torch.equal(out, x + y)
    assert [launch.index for launch in kernel.trace.launches] == [0, 1]
    assert kernel.arg_names == ["x_ptr", "y_ptr", "out_ptr", "n", "BLOCK"]
    with trace() as outer:
        kernel[(1,)](x, y, out, 100, BLOCK=128)
    assert len(outer.launches) == 1
    assert len(kernel.trace.launches) == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "guess"}, "mode 'guess'"),
        ({"sample": 0}, "sample 0"),
        ({"sample": 2.5}, "sample 2.5"),
        ({"out_of_bounds": "ignore"}, "out_of_bounds 'ignore'"),
        ({"mode": "count", "values": True}, "values are kept only"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text), trace(**options):
        pass


def test_one_trace_at_a_time() -> None:
    with trace(), pytest.raises(UsageError, match="open already"), trace():
        pass


def test_tensors_print_as_their_values(capsys: pytest.CaptureFixture[str]) -> None:
    with trace():
        trace_cases.printing(torch.tensor([1.5, -2.0], dtype=torch.bfloat16))
    first, second = capsys.readouterr().out.splitlines()
    assert first == "x is array([ 1.5, -2. ], dtype=float32)"
    assert second.split() == ["(0,", "0,", "0)", "and", "again:", "[", "1.5", "-2.", "]"]


def test_a_kernel_still_compiles_after_a_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    if not isinstance(softmax.softmax_kernel, JITFunction):
        pytest.skip("TRITON_INTERPRET is set, so nothing compiles")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")
    with trace():
        softmax.launch(*softmax.inputs())
    types = ["*fp32", "*fp32", "i32", "i32", "constexpr"]
    signature = dict(zip(softmax.softmax_kernel.arg_names, types, strict=True))
    source = ASTSource(softmax.softmax_kernel, signature, {(4,): 128})
    assert "softmax_kernel" in triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]


def test_the_debugger_stops_in_the_chosen_programs() -> None:
    typed, printed = io.StringIO("n\nn\np offsets\nc\np n\nc\n"), io.StringIO()
    debugger = ProgramDebugger([(1,), (3, 0)], stdin=typed, stdout=printed)
    x, y = vector_add.inputs(32)
    with trace(debugger=debugger):
        result = vector_add.launch(x, y, block=8)
    assert torch.equal(result, x + y)
    text = printed.getvalue()
    assert "array([ 8,  9, 10, 11, 12, 13, 14, 15]" in text
    assert text.count("vector_add_kernel") >= 2
    assert "(program 1, 0, 0) " in text
    assert "(program 3, 0, 0) " in text
    assert "(program 0, 0, 0) " not in text


def test_quitting_the_debugger_ends_the_launch() -> None:
    debugger = ProgramDebugger([(0,)], stdin=io.StringIO("q\n"), stdout=io.StringIO())
    with pytest.raises(BdbQuit), trace(debugger=debugger):
        vector_add.launch(*vector_add.inputs(32))
