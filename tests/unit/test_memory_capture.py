"""What `--memory` records besides the profiler's events: the allocator's snapshot and the names of tensors."""

from __future__ import annotations

import gzip
import importlib.util
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from warplens_run.capture.memory_history import MOST_ENTRIES, MemoryHistory
from warplens_run.capture.plan import RecordingPlan
from warplens_run.formats.bundle import Staging

if importlib.util.find_spec("torch") is None:
    pytest.skip("PyTorch is not installed", allow_module_level=True)

import torch

from warplens_run.capture.torch_backend import TorchBackend

SNAPSHOT = {
    "segments": [
        {
            "device": 0,
            "address": 4096,
            "blocks": [
                {"size": 512, "state": "active_allocated"},
                {"size": 1024, "state": "inactive"},
                {"size": 2048, "state": "active_awaiting_free"},
            ],
        }
    ]
}


class FakeCuda:
    """The allocator's part of `torch.cuda`; what was asked of it is in `asked`."""

    def __init__(self, *, is_initialized: bool = True) -> None:
        self.asked: list[Any] = []
        self.queue: list[Callable[[], None]] = []
        self._is_initialized = is_initialized
        self.history = False
        self.memory = SimpleNamespace(_record_memory_history=self._record, _snapshot=lambda: SNAPSHOT)

    def initialize(self) -> None:
        self._is_initialized = True
        for call in self.queue:
            call()

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self._is_initialized

    def device_count(self) -> int:
        return 2

    def memory_stats(self, device: int) -> dict[str, int]:
        return {"allocated_bytes.all.peak": 70, "reserved_bytes.all.peak": 90} if device == 0 else {}

    def _lazy_call(self, call: Callable[[], None]) -> None:
        if self._is_initialized:
            call()
        else:
            self.queue.append(call)

    def _record(self, enabled: str | None, **options: Any) -> None:
        self.history = enabled is not None
        self.asked.append((enabled, options.get("max_entries")))


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


def history(cuda: FakeCuda, folder: Path, *, is_whole: bool = False) -> MemoryHistory:
    observers: list[Any] = []
    library = SimpleNamespace(
        _cuda_isHistoryEnabled=lambda: cuda.history,
        _cuda_attach_out_of_memory_observer=observers.append,
        observers=observers,
    )
    fake = SimpleNamespace(cuda=cuda, _C=library, nn=torch.nn, optim=torch.optim, Tensor=torch.Tensor)
    return MemoryHistory(fake, Staging(folder / "run"), is_whole=is_whole)


def facts_of(recorded: MemoryHistory) -> dict[str, Any]:
    return json.loads((recorded._staging.folder / "memory.json").read_text())


def test_the_history_is_kept_up_to_the_first_step_and_in_the_window(cuda: FakeCuda, tmp_path: Path) -> None:
    recorded = history(cuda, tmp_path)
    recorded.begin_run()
    recorded.step_ended(1)
    recorded.step_ended(2)
    recorded.begin_window()
    recorded.step_ended(3)
    recorded.end_window()
    recorded.stop()
    assert cuda.asked == [("all", 1), (None, None), ("all", MOST_ENTRIES), (None, None)]
    snapshot = gzip.decompress((recorded._staging.folder / "memory_snapshot.pickle.gz").read_bytes())
    assert pickle.loads(snapshot) == SNAPSHOT
    facts = facts_of(recorded)
    assert list(facts["devices"]) == ["0"]
    assert (facts["devices"]["0"]["max_memory_allocated"], facts["devices"]["0"]["max_memory_reserved"]) == (70, 90)
    assert facts["devices"]["0"]["blocks"] == [[4096, 512], [5632, 2048]]
    assert 0 < facts["window_ns"][0] <= facts["window_ns"][1]
    assert recorded.notes == []


def test_cuda_is_not_initialised_for_the_history(tmp_path: Path) -> None:
    cuda = FakeCuda(is_initialized=False)
    recorded = history(cuda, tmp_path, is_whole=True)
    recorded.begin_run()
    recorded.begin_window()
    assert cuda.asked == []
    cuda.initialize()
    assert cuda.asked == [("all", MOST_ENTRIES)]
    recorded.stop()


def test_a_history_that_the_program_keeps_is_left_to_it(cuda: FakeCuda, tmp_path: Path) -> None:
    cuda.history = True
    recorded = history(cuda, tmp_path)
    recorded.begin_run()
    recorded.begin_window()
    recorded.end_window()
    recorded.stop()
    assert cuda.asked == []
    assert (recorded._staging.folder / "memory_snapshot.pickle.gz").exists()


def test_the_first_time_that_memory_runs_out_leaves_a_snapshot(cuda: FakeCuda, tmp_path: Path) -> None:
    recorded = history(cuda, tmp_path)
    recorded.begin_run()
    (observer,) = recorded._torch._C.observers
    observer(0, 1 << 30, 2 << 30, 5)
    observer(0, 7, 7, 7)
    recorded.stop()
    assert (recorded._staging.folder / "memory_snapshot_oom.pickle.gz").exists()
    assert facts_of(recorded)["out_of_memory"]["requested"] == 1 << 30


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 3)
        self.rest = torch.nn.Sequential(torch.nn.Linear(3, 2, bias=False), torch.nn.BatchNorm1d(2))


def recorded_training(folder: Path, *, is_before: bool, **plan: Any) -> tuple[TorchBackend, dict[str, Any], Model]:
    """Three steps of a small model that is made before the recording begins, or after."""
    early = Model() if is_before else None
    options = {"steps": 1, "wait": 1, "memory": True, "execution_trace": "none"} | plan
    backend = TorchBackend(RecordingPlan(**options), Staging(folder / "run"))
    backend.start()
    model = early or Model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model.rest(model.first(torch.ones(5, 4))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        backend.step()
    backend.stop()
    return backend, json.loads((backend.staging.folder / "memory.json").read_text()), model


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("plan", [{}, {"steps": 0, "wait": 0}])
def test_what_a_model_and_its_optimizer_hold_is_named(tmp_path: Path, is_before: bool, plan: dict[str, int]) -> None:
    backend, facts, model = recorded_training(tmp_path, is_before=is_before, **plan)
    rows = {(row["kind"], row["name"], row["state"]): row for row in facts["tensors"] if "#" not in row["module"]}
    weight = rows["parameter", "first.weight", ""]
    assert weight["address"] == model.first.weight.untyped_storage().data_ptr()
    assert (weight["module"], weight["bytes"], weight["device"]) == ("Model.first", 48, -1)
    assert rows["optimizer", "rest.0.weight", "exp_avg"]["bytes"] == 24
    assert rows["gradient", "rest.0.weight", ""]["bytes"] == 24
    assert rows["buffer", "rest.1.running_mean", ""]["module"] == "Model.rest.1"
    assert weight["classes"] == "Model/Linear_*"
    assert rows["gradient", "rest.0.weight", ""]["classes"] == "Model/Sequential_*/Linear_*"
    assert facts["devices"] == {}
    assert any(note.startswith("no CUDA allocator here") for note in backend.notes)


def test_gradients_are_noted_at_the_recorded_step_only(tmp_path: Path) -> None:
    _, facts, _ = recorded_training(tmp_path, is_before=False)
    gradients = [row for row in facts["tensors"] if row["kind"] == "gradient"]
    start, end = facts["window_ns"]
    assert len(gradients) == 5
    assert all(start < row["time_ns"] < end for row in gradients)


def test_the_hooks_are_gone_after_the_recording(tmp_path: Path) -> None:
    recorded_training(tmp_path, is_before=False)
    assert not torch.nn.modules.module._global_module_registration_hooks
    assert not torch.nn.modules.module._global_parameter_registration_hooks
