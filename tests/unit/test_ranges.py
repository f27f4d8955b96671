"""`--range`: the part of a trace that the host began between two times, or in calls of a name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from support import ROOT, Opened, RunInside, annotation, frame, kernel, launch, op
from warplens.model.check import self_check
from warplens_run.base.errors import UsageError

Event = dict[str, Any]
STEPS = "samples/faults/dataloader_stall.before.json.gz"


def program() -> list[Event]:
    """Two calls of `forward`; a kernel of the second call runs long after it, one of the first within the second."""
    events = [frame("train.py(3): loop", 0, 1000), annotation("setup", 0, 90)]
    for at, correlation, runs_at in ((100, 1, 130), (110, 2, 330), (300, 3, 340), (310, 4, 700)):
        events += [op("aten::mm" if at % 100 else "aten::relu", at, 8), launch(at + 2, 3, correlation)]
        events.append(kernel(f"k{correlation}", runs_at, 5, correlation))
    return [*events, annotation("model forward", 95, 100), annotation("model forward", 295, 100)]


def kernels(profile: warplens.Profile) -> list[str]:
    return sorted(profile.table("kernels").frame["kernel"])


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ("model forward", ["k1", "k2"]),
        ("model forward#0", ["k1", "k2"]),
        ("model forward#1", ["k3", "k4"]),
        ("model forward#0-1", ["k1", "k2", "k3", "k4"]),
        ("forward#1", ["k3", "k4"]),  # by part of an annotation's name
        ("aten::mm#1", ["k4"]),
        ("train.py(3): loop", ["k1", "k2", "k3", "k4"]),
        ("105us-302us", ["k2"]),  # the call at 300 µs launches at 302
        ("105us - 0.303ms", ["k2", "k3"]),
    ],
)
def test_gpu_work_is_of_the_range_that_launched_it(opened: Opened, chosen: str, names: list[str]) -> None:
    part = opened(program()).of_range(chosen)
    self_check(part.trace)
    assert kernels(part) == names


def test_callers_last_as_long_as_the_range_which_is_a_step(opened: Opened) -> None:
    part = opened(program(), range="forward#1")
    (step,) = part.table("steps").to_dicts()
    assert (step["name"], step["start_ms"], step["host_ms"], step["count"]) == ("model forward", 0.295, 0.1, 2)
    host = {row["op"]: (row["count"], row["cpu_us"]) for row in part.table("ops").to_dicts()}
    assert host == {"aten::relu": (1, 8.0), "aten::mm": (1, 8.0)}
    loop = part.trace.events.filter(pl.Series(part.trace.is_kind("python")))
    assert loop.select("start_ns", "dur_ns").rows() == [(295_000, 100_000)]
    (note,) = [note for note in part.trace.quality.notes if note.code == "one_range"]
    assert note.message.startswith("only what the host began in forward#1 (100.0 µs); omitted: 2 GPU events (50.0 %")


def test_the_critical_path_is_that_of_one_call(opened: Opened) -> None:
    """From the call's begin, through the host and the launch of its last kernel, to that kernel's end."""
    path = opened(program(), range="forward#1").table("critical_path").frame
    assert path["recorded_ms"][0] == 0.295
    assert path["recorded_us"].sum() == pytest.approx(705 - 295)
    assert path.row(-1, named=True)["name"] == "k4"


def test_forward_ops_outside_of_the_range_give_modules_and_count_no_calls(opened: Opened) -> None:
    events = [
        frame("nn.Module: Net_0", 0, 50), op("aten::mm", 5, 10, **{"Sequence number": 7, "Fwd thread id": 0}),
        annotation("backward", 100, 100),
        op("MmBackward0", 110, 40, **{"Sequence number": 7, "Fwd thread id": 1}), launch(115, 5, 1), kernel("dgrad", 130, 9, 1),
    ]  # fmt: skip
    part = opened(events, range="backward")
    assert part.table("modules").frame["module"].to_list() == opened(events).table("modules").frame["module"].to_list()
    assert part.table("ops").frame["op"].to_list() == ["MmBackward0"]


def test_a_range_that_is_a_marked_step_has_that_step_s_work() -> None:
    profile = warplens.open(ROOT / STEPS, cache=False)
    assert isinstance(profile, warplens.Profile)
    whole = profile.workspace.gpu.group_by("step").agg(pl.col("dur_ns").sum())
    by_step = dict(whole.iter_rows())
    for step, name in profile.trace.steps.select("step", "name").iter_rows():
        part = profile.of_range(name)
        self_check(part.trace)
        assert part.trace.steps["step"].to_list() == [step]
        assert part.workspace.gpu_total_ns == by_step[step]


def test_without_a_recorded_host_gpu_work_is_of_the_range_in_which_it_begins(opened: Opened) -> None:
    part = opened([kernel("a", 10, 50), kernel("b", 70, 10), kernel("c", 90, 10)], range="20us-75us")
    assert kernels(part) == ["b"]


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ("forwrd", "no annotation, module or op 'forwrd'"),
        ("forward#2", "'forward' has 2 calls"),
        ("#1", "no annotation, module or op ''"),
        ("30us-20us", "ends before it begins"),
        ("2s-3s", "nothing begins in the range"),
        ("1-2", "'1' is not a duration"),
    ],
)
def test_what_is_not_a_range_is_one_line_with_a_hint(opened: Opened, chosen: str, words: str) -> None:
    with pytest.raises(UsageError, match=words) as error:
        opened(program(), range=chosen)
    assert error.value.hint


def test_every_verb_that_opens_a_trace_takes_a_range(run_inside: RunInside, tmp_path: Path) -> None:
    whole, part = (
        run_inside("sql", STEPS, "select sum(count) n from kernels", "--json", *words).stdout
        for words in ((), ("--range", "ProfilerStep#4"))
    )
    assert whole != part
    for words in (("report", STEPS), ("tree", STEPS), ("show", STEPS, "critical_path"), ("what-if", STEPS)):
        done = run_inside(*words, "--range", "ProfilerStep#4")
        assert done.returncode == 0, done.stderr
    written = run_inside("report", STEPS, "--range", "ProfilerStep#4", "-q", "-o", tmp_path / "r.html")
    assert written.returncode == 0 and (tmp_path / "r.html").exists()
    compared = run_inside("diff", STEPS, STEPS, "--range", "ProfilerStep#4")
    assert compared.returncode == 0
    refused = run_inside("report", "samples/ranks/nccl4", "--range", "x")
    assert refused.returncode == 2 and "--range is for one trace" in refused.stderr
