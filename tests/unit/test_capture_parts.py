"""Parts of a capture that need no profiler: what is masked, odd names, marks of steps, the clock on the main thread."""

from __future__ import annotations

import gc
import importlib.util
import json
import signal
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import HANG_SECONDS
from warplens_run.base.errors import UsageError
from warplens_run.capture import environment
from warplens_run.capture.masking import masked, without_secrets
from warplens_run.capture.odd_names import PLAIN, OddNames
from warplens_run.capture.plan import PlanOptions, RecordingPlan
from warplens_run.capture.steps import StepMarks
from warplens_run.capture.ticker import Ticker
from warplens_run.capture.tree_process import TreeProcess
from warplens_run.formats.bundle import Staging, of_rank

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")


def test_no_secret_of_the_environment_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    hidden = ("FAKE_TOKEN", "NCCL_SECRET", "CUDA_API_KEY", "TORCH_PASSWORD", "JAX_AUTH", "HOME_OF_MINE")
    for name in hidden:
        monkeypatch.setenv(name, "hidden")
    monkeypatch.setenv("NCCL_PROXY", "http://me:hidden@proxy:80")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    shown = environment.variables()
    assert "hidden" not in json.dumps(shown)
    assert (shown["NCCL_PROXY"], shown["CUDA_VISIBLE_DEVICES"]) == ("http://***@proxy:80", "0,1")


@pytest.mark.parametrize(("text", "seconds"), [("3600", 3600.0), ("0.5", 0.5), ("", 2.0), ("long", 2.0), ("-1", 2.0)])
def test_a_time_from_the_environment_is_positive_or_the_default(
    text: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WARPLENS_PIECE_SECONDS", text)
    assert environment.seconds_from("WARPLENS_PIECE_SECONDS", default=2.0) == seconds


@pytest.mark.parametrize(("words", "shown"), [
    (["t.py", "--token", "x"], ["t.py", "--token", "***"]),
    (["t.py", "--token", "--lr", "1"], ["t.py", "--token", "--lr", "1"]),
    (["t.py", "--HF_TOKEN=x"], ["t.py", "--HF_TOKEN=***"]),
    (["t.py", "--api-key", "x", "y"], ["t.py", "--api-key", "***", "y"]),
    (["t.py", "--tokenizer", "gpt2", "--max-tokens", "8"], ["t.py", "--tokenizer", "gpt2", "--max-tokens", "8"]),
    (["t.py", "hf_abcdefghijklmnopqrst"], ["t.py", "***"]),
])  # fmt: skip
def test_a_command_is_shown_without_its_secrets(words: list[str], shown: list[str]) -> None:
    assert without_secrets(words) == shown


def test_a_plain_text_stays_as_it_is() -> None:
    for text in ("s3://bucket/key", "user@host:path", "a:b@c", "sk-learn"):
        assert masked(text) == text


@pytest.mark.parametrize(("path", "world", "found"), [
    ("out", 1, "out"), ("out", 2, "out/rank1"), ("a/out.zip", 2, "a/out-rank1.zip"), ("x.warplens", 8, "x.warplens/rank1"),
])  # fmt: skip
def test_each_rank_has_a_bundle_of_its_own(path: str, world: int, found: str) -> None:
    assert of_rank(Path(path), 1, world) == Path(found)


def test_odd_names_are_recorded_plain_and_restored(tmp_path: Path) -> None:
    names = OddNames()
    odd = ['q"uote', "new\nline", "back\\slash", "größe 空 🚀", "\x01", "half \ud800", f"{PLAIN}0"]
    plain = [names.plain(name) for name in odd]
    assert len(set(plain)) == len(odd)
    assert all(name.isascii() and name.isprintable() and not set(name) & {'"', "\\"} for name in plain)
    assert (names.plain("plain </script>"), names.plain(odd[0])) == ("plain </script>", plain[0])
    trace = tmp_path / "trace.json"
    trace.write_text("[\n" + ",\n".join(f'{{"name": "{name}"}}' for name in plain) + "\n]")
    names.restore(trace)
    assert [event["name"] for event in json.loads(trace.read_text())] == [*odd[:5], "half ?", odd[6]]
    assert [path.name for path in tmp_path.iterdir()] == ["trace.json"]


def test_the_clock_calls_on_the_main_thread() -> None:
    called: list[Any] = []
    ticker = Ticker(0.01, lambda: called.append(threading.current_thread()))
    (thread,) = (each for each in threading.enumerate() if each.name == "warplens ticker")
    deadline = time.monotonic() + HANG_SECONDS
    while len(called) < 3 and time.monotonic() < deadline:
        pass
    ticker.stop()
    count = len(called)
    assert set(called) == {threading.main_thread()}
    thread.join(HANG_SECONDS)
    assert not thread.is_alive()
    assert len(called) == count >= 3, "it has stopped"


@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is signal.SIG_IGN, reason="interrupts are ignored here")
def test_an_interrupt_while_the_clock_calls_reaches_the_program() -> None:
    called = []

    def interrupted() -> None:
        if not called:
            called.append(1)
            raise KeyboardInterrupt

    ticker = Ticker(0.01, interrupted)
    deadline = time.monotonic() + HANG_SECONDS
    with pytest.raises(KeyboardInterrupt):
        while time.monotonic() < deadline:
            time.sleep(0.01)
    ticker.stop()
    assert called == [1]


def test_a_piece_that_cannot_be_folded_is_told_and_the_others_are_kept(tmp_path: Path) -> None:
    staging = Staging(tmp_path / "run")
    folder = TreeProcess(staging)
    good = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5, "pid": 1, "tid": 1, "args": {}}
    for text in (json.dumps({"traceEvents": [good]}), '{"traceEvents": [', json.dumps({"traceEvents": [good]})):
        trace = staging.path("trace.json")
        trace.write_text(text)
        folder.add(trace, 1.0)
    folder.finish()
    assert (folder.pieces, folder.lost_pieces) == (3, 1)
    assert "1 of 3 pieces of the recording could not be folded: json.decoder.JSONDecodeError" in folder.notes()[0]
    assert [path.name for path in staging.folder.iterdir()] == ["tree.hatchet.gz"]


@pytest.fixture
def marks() -> Iterator[tuple[StepMarks, list[str]]]:
    heard: list[str] = []

    class Recorder:
        def step(self) -> None:
            heard.append("step")

    steps = StepMarks(lambda: [Recorder()])
    yield steps, heard
    steps.forget()


@needs_torch
def test_the_first_optimizers_steps_are_marks(marks: tuple[StepMarks, list[str]]) -> None:
    import torch

    steps, heard = marks
    weight = torch.nn.Parameter(torch.ones(1))
    early = torch.optim.SGD([weight], lr=0.1)
    before = torch.optim.SGD.step
    steps.watch_optimizers()

    class Late(torch.optim.Adagrad):
        """A class that PyTorch has not seen before."""

    late = Late([weight])
    for _ in range(2):
        early.step()
        late.step()
    assert heard == ["step"] * 2
    died = weakref.ref(early)
    del early
    gc.collect()
    assert died() is None, "what marks steps keeps no optimizer alive"
    late.step()
    assert len(heard) == 3, "the next one's, once the program is done with the first"
    scheduler = torch.optim.lr_scheduler.StepLR(late, 1)
    late.step()
    scheduler.step()
    assert len(heard) == 4, "also behind a scheduler"
    steps.forget()
    late.step()
    assert len(heard) == 4
    assert torch.optim.SGD.step is before, "nothing is left behind"


@needs_torch
def test_a_mark_comes_after_the_optimizers_own_annotation(
    marks: tuple[StepMarks, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    steps, heard = marks
    real = torch.autograd.profiler.record_function

    class Annotation(real):  # type: ignore[misc, valid-type]
        def __exit__(self, *error: Any) -> None:
            super().__exit__(*error)
            heard.append(self.name)

    monkeypatch.setattr(torch.autograd.profiler, "record_function", Annotation)
    steps.watch_optimizers()
    torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1).step()
    assert heard == ["Optimizer.step#SGD.step", "step"]


@needs_torch
def test_the_programs_own_marks_take_the_place_of_the_optimizers(marks: tuple[StepMarks, list[str]]) -> None:
    import torch

    steps, heard = marks
    steps.watch_optimizers()
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    for _ in range(3):
        optimizer.step()
        optimizer.step()  # two of these to an iteration
        steps.mark()
    assert len(heard) == 2 + 0 + 1 + 1, "the first iteration was the optimizer's, before the program spoke for itself"


def test_options_of_a_recording_are_the_fields_of_its_plan() -> None:
    assert set(PlanOptions.__annotations__) == {field.name for field in fields(RecordingPlan)}


def test_an_unknown_option_of_a_decorated_function_is_refused_at_once() -> None:
    options: Any = {"stakcs": True}
    with pytest.raises(UsageError, match="no option 'stakcs'") as refused:
        warplens.profile(**options)
    assert "stacks" in (refused.value.hint or "")
    with pytest.raises(UsageError, match="no data 'forest'"):
        warplens.profile(data="forest")
