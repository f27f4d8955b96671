"""What a recording asks of Proton and makes of its files; Proton itself is a fake here, tests/gpu has the real one."""

from __future__ import annotations

import gzip
import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import warplens
from warplens_run.base.errors import FormatError, UsageError
from warplens_run.capture import proton_backend, session
from warplens_run.capture.plan import RecordingPlan

Write = Callable[[Path], None]
NO_LINES = "TRITON_DISABLE_LINE_INFO"


class FakeProton(types.ModuleType):
    """Takes what a recording asks for, and writes what the test gives it."""

    def __init__(self) -> None:
        super().__init__("triton.profiler")
        self.asked: dict[str, Any] = {}
        self.text = "[]"

    def start(self, name: str, **options: Any) -> int:
        self.stem, self.asked = Path(name), options
        return 0

    def activate(self, session: int) -> None: ...

    def deactivate(self, session: int) -> None: ...

    def finalize(self, session: int) -> None:
        suffix = ".hatchet" if self.asked["data"] == "tree" else ".chrome_trace"
        self.stem.with_name(self.stem.name + suffix).write_text(self.text)


class JITFunction:
    """As Triton's: a kernel with what was compiled of it, by device."""

    def __init__(self, name: str, *, launched: bool) -> None:
        self.__name__ = name
        self.device_caches = {0: ({"signature": "binary"} if launched else {}, "target")}


@pytest.fixture
def proton(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeProton]:
    triton, runtime, jit = (types.ModuleType(name) for name in ("triton", "triton.runtime", "triton.runtime.jit"))
    fake = FakeProton()
    jit.JITFunction = JITFunction  # type: ignore[attr-defined]
    triton.profiler, triton.runtime, runtime.jit = fake, runtime, jit  # type: ignore[attr-defined]
    for module in (triton, runtime, jit, fake):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.delenv(NO_LINES, raising=False)
    monkeypatch.chdir(tmp_path)
    yield fake
    for started in list(session._sessions.values()):
        session.abandon(started)
    os.environ.pop(NO_LINES, None)


def node(name: str, metrics: dict[str, Any], *children: object) -> dict[str, Any]:
    return {"frame": {"name": name, "type": "function"}, "metrics": metrics, "children": list(children)}


def sampled(name: str, samples: int, *children: object, **waits: int) -> dict[str, Any]:
    stalls = {f"stalled_{reason}": count for reason, count in waits.items()}
    return node(name, {"num_samples": samples, "num_stalled_samples": sum(waits.values()), **stalls}, *children)


def recorded(proton: FakeProton, content: object, **options: Any) -> Path:
    """The bundle of a recording of which Proton writes this content."""
    proton.text = content if isinstance(content, str) else json.dumps(content)
    warplens.start("run", backend="proton", **options)
    path = warplens.finalize()
    assert path is not None
    return path


def notes(bundle: Path) -> list[str]:
    return list(json.loads((bundle / "manifest.json").read_text())["notes"])


@pytest.mark.parametrize(("mode", "backend", "proton_mode"), [
    ("pcsampling", None, "pcsampling"),
    ("pcsampling:interval=64", None, "pcsampling:interval=64"),
    ("instrumentation", "instrumentation", "default"),
    ("instrumentation:buffer_type=global:buffer_size=65536", "instrumentation", "default:buffer_type=global:buffer_size=65536"),
    ("mma", "instrumentation", "mma"),
])  # fmt: skip
def test_a_mode_is_a_backend_and_a_mode_of_protons(
    proton: FakeProton, mode: str, backend: str | None, proton_mode: str
) -> None:
    recorded(proton, [node("ROOT", {})], mode=mode)
    assert (proton.asked["backend"], proton.asked["mode"]) == (backend, proton_mode)
    assert proton.asked["data"] == "tree"


def test_without_a_mode_proton_chooses_by_itself(proton: FakeProton) -> None:
    recorded(proton, [node("ROOT", {})])
    assert not {"backend", "mode"} & proton.asked.keys()


def test_a_mode_chooses_proton_whatever_the_program_imports(proton: FakeProton) -> None:
    proton.text = json.dumps([node("ROOT", {})])
    started = session.begin(Path("run.warplens"), RecordingPlan(mode="mma", data="tree"), source="import torch")
    assert started.backend.name == "proton"


@pytest.mark.parametrize(("options", "what"), [
    ({"mode": "cycles"}, "no mode 'cycles'"),
    ({"mode": "pcsampling", "backend": "torch"}, "the backend torch has no modes"),
    ({"mode": "pcsampling", "data": "trace"}, "no instruction samples"),
])  # fmt: skip
def test_a_mode_that_cannot_be_is_refused_with_those_that_can(options: dict[str, Any], what: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        RecordingPlan(**{"data": "tree", **options})
    assert caught.value.hint is not None
    assert "data='tree'" in caught.value.hint or "pcsampling, instrumentation, mma" in caught.value.hint


def test_samples_ask_triton_for_lines_before_it_compiles(proton: FakeProton) -> None:
    recorded(proton, [node("ROOT", {})], mode="pcsampling")
    assert os.environ[NO_LINES] == "0"


def test_lines_that_are_switched_off_are_switched_on_and_the_bundle_says_so(
    proton: FakeProton, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NO_LINES, "1")
    bundle = recorded(proton, [node("ROOT", {})], mode="pcsampling")
    assert os.environ[NO_LINES] == "0"
    assert any("TRITON_DISABLE_LINE_INFO was set" in note for note in notes(bundle))


def test_kernels_that_ran_before_the_recording_are_named_as_without_lines(proton: FakeProton) -> None:
    kernels = [JITFunction(name, launched=name != "late_kernel") for name in ("early_kernel", "lined", "late_kernel")]
    lined = node("lined", {"count": 1}, sampled("/gone.py:3@lined", 5, wait=5))
    tree = node("ROOT", {}, sampled("early_kernel", 9, wait=9), sampled("late_kernel", 9, wait=9), lined)
    bundle = recorded(proton, [tree], mode="pcsampling")
    (note,) = notes(bundle)
    assert note.startswith("samples of early_kernel have no source lines"), kernels


def test_sampled_lines_are_in_the_bundle_with_their_text(proton: FakeProton, tmp_path: Path) -> None:
    source = tmp_path / "k.py"
    source.write_text("first\n    x = tl.load(a)\nthird\n")
    lines = [sampled(f"{source}:2@k", 90, long_scoreboard=60, wait=10), sampled("/gone/other.py:7@k", 10, barrier=9)]
    kernel = node("k", {"time (ns)": 5000, "count": 2}, *lines)
    bundle = recorded(proton, [node("ROOT", {"time (ns)": 0}, kernel), {}], mode="pcsampling")
    source.write_text("changed\nsince\n")
    profile = warplens.open(bundle, cache=False)
    rows = profile.table("stalls").frame.select("line", "file", "source", "samples", "top_stall").rows()
    assert rows == [
        (2, str(source), "    x = tl.load(a)", 90, "long_scoreboard"),
        (7, "/gone/other.py", None, 10, "barrier"),
    ]
    assert profile.verdict().endswith(
        "89 % of the waits are on k.py:2, mostly long_scoreboard (waits for data from global, local or texture memory)."
    )


def test_a_bundle_whose_sampled_lines_are_damaged_opens_without_their_text(proton: FakeProton, tmp_path: Path) -> None:
    source = tmp_path / "k.py"
    source.write_text("x = 1\n")
    kernel = node("k", {"time (ns)": 5000, "count": 2}, sampled(f"{source}:1@k", 9, wait=9))
    bundle = recorded(proton, [node("ROOT", {}, kernel), {}], mode="pcsampling")
    (bundle / "kernels" / "sampled_lines.json").write_text('{"k.py": [1, 2')
    profile = warplens.open(bundle, cache=False)
    assert profile.table("stalls").frame["source"].to_list() == [None]
    assert "kernels/sampled_lines.json" in str(
        profile.table("quality").frame.filter(code="bundle_damaged")["message"][0]
    )


def test_regions_without_scopes_are_a_note(proton: FakeProton) -> None:
    bundle = recorded(proton, [node("ROOT", {})], mode="instrumentation")
    assert notes(bundle) == ["no regions: no kernel that ran marks any with triton.profiler.language"]


def test_recorded_regions_leave_no_note(proton: FakeProton) -> None:
    region = node("load", {"cycles": 7, "normalized_cycles": 1.0})
    bundle = recorded(proton, [node("ROOT", {}, node("k", {}, region)), {}], mode="instrumentation")
    assert notes(bundle) == []
    assert warplens.open(bundle, cache=False).table("regions").to_dicts() == [
        {"kernel": "k", "region": "load", "percent": 100.0, "cycles": 7.0}
    ]


def region(number: int) -> dict[str, Any]:
    return {
        "args": {"call_stack": ["ROOT", "k"]}, "cat": "k", "dur": 1.0, "name": "load", "ph": "X",
        "pid": f"k Core0 CTA{number}", "tid": "warp 0 (line 0)", "ts": float(number),
    }  # fmt: skip


def test_a_large_trace_of_regions_keeps_its_first_launches(proton: FakeProton, monkeypatch: pytest.MonkeyPatch) -> None:
    document = {"displayTimeUnit": "ns", "traceEvents": [region(number) for number in range(100)]}
    monkeypatch.setattr(proton_backend, "LARGEST_REGIONS", 2000)
    text = json.dumps(document, separators=(",", ":"))
    bundle = recorded(proton, text, mode="instrumentation", data="trace")
    kept = gzip.decompress((bundle / "proton.chrome_trace.gz").read_bytes())
    events = json.loads(kept)["traceEvents"]
    assert events == document["traceEvents"][: len(events)] and 10 < len(events) < 20
    (note,) = notes(bundle)
    assert "fewer steps" in note and "data='tree'" in note
    assert warplens.open(bundle, cache=False).table("regions").frame["count"].to_list() == [len(events)]


def test_a_bundle_without_any_region_says_why_it_has_no_profile(proton: FakeProton) -> None:
    bundle = recorded(proton, "", mode="instrumentation", data="trace")
    with pytest.raises(FormatError, match=r"no kernel that ran marks any with triton\.profiler"):
        warplens.open(bundle, cache=False)
