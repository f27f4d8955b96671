"""What a capture keeps of the Triton kernels that a program launches itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from triton.compiler import CompiledKernel

import user_kernels
import warm_python
import warplens
from launch_bundles import product, recorded, scale, softmax
from triton_stub import StubLauncher, stubbed
from warplens_run.capture.triton_arguments import ArgumentWriter
from warplens_run.capture.triton_launches import MOST_VARIANTS, LaunchRecorder
from warplens_run.capture.triton_source import NotWritable, module_text
from warplens_run.capture.triton_tuning import timed_configs
from warplens_run.formats.bundle_files import LAUNCHES

pytestmark = pytest.mark.filterwarnings("ignore:TRITON_DEFAULT_FP_FUSION")


def written(recorder: LaunchRecorder) -> dict[str, Any]:
    content: dict[str, Any] = dict(recorder.files())[LAUNCHES]
    assert json.loads(json.dumps(content)) == json.loads(json.dumps(content, allow_nan=False))
    return content


def test_a_launch_is_kept_with_its_grid_arguments_and_options() -> None:
    content = written(recorded(lambda: scale(num_warps=8)))
    [kernel], [launch] = content["kernels"], content["launches"]
    assert (kernel["name"], kernel["parameters"]) == ("scale_shift", ["x", "out", "count", "factor", "block"])
    assert kernel["options"] == {"num_warps": 8, "num_stages": 3, "num_ctas": 1}
    x, out, *values = launch["arguments"]
    assert (launch["grid"], x["shape"], x["stride"], x["dtype"]) == ((8,), [1000], [1], "float32")
    assert (x["storage"], out["storage"]) == (0, 1)
    assert values == [
        {"kind": "int", "value": 1000}, {"kind": "float", "value": 2.0}, {"kind": "int", "value": 128},
    ]  # fmt: skip


def test_of_a_tuned_kernel_the_configuration_that_was_chosen_is_kept() -> None:
    content = written(recorded(softmax, warm=softmax))
    assert len(content["kernels"]) == 1, "the others ran before the recording only"
    values = dict(zip(content["kernels"][0]["parameters"], content["launches"][0]["arguments"], strict=True))
    chosen = user_kernels.row_softmax.best_config
    assert content["kernels"][0]["options"]["num_warps"] == chosen.num_warps
    assert values["block"] == {"kind": "int", "value": chosen.kwargs["block"]}
    assert values["is_even"] == {"kind": "bool", "value": False}, "what the heuristic computed"


def test_launches_of_one_grid_and_other_sizes_are_others() -> None:
    def program() -> None:
        for depth in (64, 128, 64):
            product(depth)

    content = written(recorded(program, warm=program))
    assert content["order"] == [0, 1, 0]
    assert [launch["arguments"][5]["value"] for launch in content["launches"]] == [64, 128]
    assert [len(launch["arguments"]) for launch in content["launches"]] == [9, 9]


def test_only_launches_of_the_recorded_steps_are_kept() -> None:
    recorder = recorded(scale, warm=lambda: product(64))
    assert [kernel["name"] for kernel in written(recorder)["kernels"]] == ["scale_shift"]
    assert list(recorded(lambda: None, warm=scale).files()) == []


def test_a_known_launch_is_described_once(monkeypatch: pytest.MonkeyPatch) -> None:
    described: list[int] = []
    describe = ArgumentWriter.written
    monkeypatch.setattr(
        ArgumentWriter, "written", lambda self, values: (described.append(1), describe(self, values))[1]
    )

    def program() -> None:
        for _ in range(50):
            scale()
            user_kernels.scale_shift[[8]](torch.ones(1000), torch.empty(1000), 1000, 2.0, block=128)

    content = written(recorded(program))
    assert content["order"] == [0] * 100, "a grid that is a list is the same grid"
    assert described == [1]


def test_tensors_that_share_memory_and_their_places_are_kept() -> None:
    both = torch.ones(2, 1024)
    content = written(recorded(lambda: user_kernels.scale_shift[(8,)](both[0], both[1], 1024, 0.5, block=128)))
    first, second = content["launches"][0]["arguments"][:2]
    assert (first["storage"], first["offset"], second["storage"], second["offset"]) == (0, 0, 0, 1024)
    assert first["bytes"] == second["bytes"] == 2 * 1024 * 4


def test_bounds_of_whole_numbers_are_read_before_the_recording_and_never_in_it() -> None:
    def program() -> None:
        x = torch.ones(16, 100)
        user_kernels.gather[(4,)](x, torch.tensor([3, 1, 15, 7]), torch.empty(4, 100), 100, block=128)

    def index(recorder: LaunchRecorder) -> dict[str, Any]:
        found: dict[str, Any] = written(recorder)["launches"][0]["arguments"][1]
        return found

    seen = index(recorded(program, warm=program))
    assert (seen["low"], seen["high"], seen["rising"]) == (1, 15, False)
    assert "low" not in index(recorded(program))


def test_a_value_that_always_changes_does_not_fill_the_memory() -> None:
    def program() -> None:
        for count in range(MOST_VARIANTS + 20):
            scale(900 + count)

    recorder = recorded(program)
    assert len(recorder.launches) <= 2 * MOST_VARIANTS, "at most so many of each of the two compiled kernels"
    assert len(recorder.order) == MOST_VARIANTS + 20
    assert min(recorder.order) >= 0


def test_a_launch_goes_on_where_it_cannot_be_described(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ArgumentWriter, values: Any) -> Any:
        raise RuntimeError("no such tensor")

    monkeypatch.setattr(ArgumentWriter, "written", broken)
    recorder = recorded(scale)
    assert [name for name, _, _ in StubLauncher.launched] == ["scale_shift"]
    assert recorder.order == [-1]
    assert recorder.notes == ["a launch of a Triton kernel is not described: RuntimeError: no such tensor"]


def test_nothing_is_left_behind() -> None:
    before = CompiledKernel.launch_metadata
    first, second = LaunchRecorder(lambda: True), LaunchRecorder(lambda: True)
    with stubbed():
        first.install()
        second.install()
        first.remove()
        scale()
        second.remove()
        scale()
    assert (len(first.order), len(second.order)) == (0, 1)
    first.install()
    first.remove()
    CompiledKernel.launch_metadata = before  # type: ignore[method-assign]


IMPORTED = """
import importlib.util, sys, torch
spec = importlib.util.spec_from_file_location("made", sys.argv[1])
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
assert "user_kernels" not in sys.modules and "user_kernel_parts" not in sys.modules
"""
PRODUCT = """
a, b, out = torch.randn(64, 64), torch.randn(64, 32), torch.empty(64, 32)
made.product[(2, 1)](a, b, out, 64, 32, 64, made.positive, 32)
assert torch.allclose(out, (a @ b).relu(), atol=1e-4), (out, a @ b)
"""
SCALE = """
x, out = torch.randn(1000), torch.empty(1000)
made.scale_shift[(8,)](x, out, 1000, 2.0, block=128, num_warps=8)
assert torch.allclose(out, x * 3), out
"""


@pytest.mark.parametrize(
    ("functions", "check"),
    [((user_kernels.product, user_kernels.positive), PRODUCT), ((user_kernels.scale_shift,), SCALE)],
    ids=["product", "scale"],
)
def test_a_source_stands_alone(functions: Any, check: str, tmp_path: Path) -> None:
    """In a process that has neither module of the kernels, on the CPU."""
    path, program = tmp_path / "kernel.py", tmp_path / "program.py"
    path.write_text(module_text(*functions))
    program.write_text(IMPORTED + check)
    environment = {"TRITON_INTERPRET": "1", "PATH": "", "HOME": str(tmp_path)}
    done = warm_python.run([str(program), str(path)], tmp_path, environment)
    assert done.returncode == 0, done.stderr


def test_a_source_that_reads_what_cannot_be_written_has_a_reason() -> None:
    with pytest.raises(NotWritable, match="reads table, a dict that cannot be written as source"):
        module_text(user_kernels.table_reader({0: 1.0}))


def test_options_of_the_decorator_and_functions_of_triton_are_kept() -> None:
    text = module_text(user_kernels.unspecialised)
    assert "from triton.language.core import arange\n" in text
    assert "@triton.jit(do_not_specialize=['count'], noinline=True)\ndef unspecialised" in text


def test_a_capture_keeps_the_launches_of_its_measured_steps(tmp_path: Path) -> None:
    """With the profiler of PyTorch itself: one step for arguments, two measured, and others around them."""
    with stubbed():
        warplens.start(str(tmp_path / "run"), data="trace", backend="torch", steps=2, wait=2)
        for number in range(8):
            scale(1000 + 16 * (number in (2, 3)))
            softmax()
            warplens.step()
        path = warplens.finalize()
    assert CompiledKernel.launch_metadata.__module__ == "triton.compiler.compiler"
    content = json.loads((tmp_path / "run.warplens" / LAUNCHES).read_text())
    assert path is not None
    assert content["order"] == [0, 1, 0, 1]
    assert [launch["arguments"][2]["value"] for launch in content["launches"]] == [1016, 100]
    for kernel in content["kernels"]:
        folder = tmp_path / "run.warplens" / "kernels" / "launched"
        assert f"def {kernel['name']}(" in (folder / kernel["source"]).read_text()
        assert "tt.func" in (folder / kernel["ttir"]).read_text()


def test_what_was_timed_is_kept_where_the_choice_is_not() -> None:
    recorded(softmax)
    tuner = user_kernels.row_softmax
    kept = dict(tuner.cache)
    tuner.cache.clear()
    try:
        rows = timed_configs()[tuner.base_fn]
    finally:
        tuner.cache.update(kept)
    assert [(row["ms"], row["chosen"]) for row in rows] == [(1.0, False)] * 2
