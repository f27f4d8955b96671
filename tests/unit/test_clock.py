"""The clock: which step time there is for each kind of recording, and how sure it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

import warplens
from finding_traces import GEMM
from support import ROOT, Opened, annotation, kernel, launch, op
from warplens.analyses.graph.as_recorded import IN_GRAPHS, NO_OPS, OF_FORMAT
from warplens.analyses.graph.clock import NO_LAUNCHES
from warplens.model.clock import ESTIMATED, GIVEN, MEASURED, RECORDED, Clock
from warplens.profiles.trace import Profile

SAMPLES = ROOT / "samples"
KINDS = {
    # what is opened: where its clock is from, and what it is of
    "faults/bundles/launch_bound.zip": (MEASURED, "step", ""),
    "memory/conv_sgd.zip": (MEASURED, "step", ""),
    "kineto/gpt2_train_step.json.gz": (ESTIMATED, "step", ""),
    "execution_trace/mlp_train.json.gz": (ESTIMATED, "run", ""),
    "serving/served.json.gz": (ESTIMATED, "iteration", ""),
    "kineto/cudagraph_infer.json.gz": (RECORDED, "run", NO_OPS),
    "graphs/transformer.replay.json.gz": (RECORDED, "run", NO_OPS),
    "jax/transformer_step.xplane.pb.gz": (RECORDED, "step", OF_FORMAT["xplane"]),
    "proton/trace.chrome_trace.gz": (RECORDED, "run", NO_LAUNCHES),
}
WITHOUT = ("proton/scopes.hatchet.gz", "memory/gpt_expandable_oom.pickle.gz", "kernels/slow_softmax.facts.json",
           "ncu/kernels_raw.csv.gz", "kineto/cpu_mlp_train.json.gz")  # fmt: skip


@pytest.mark.parametrize("path", KINDS)
def test_each_kind_of_recording_has_its_clock(path: str) -> None:
    clock = warplens.open(SAMPLES / path).answer().clock
    assert clock is not None
    assert (clock.source, clock.whole, clock.reason) == KINDS[path]
    assert clock.low_ms <= clock.step_ms <= clock.high_ms
    assert (clock.low_ms == clock.high_ms) == (clock.source != ESTIMATED) or clock.recorded_ms == clock.step_ms


@pytest.mark.parametrize("rank", range(4))
def test_a_step_is_estimated_no_longer_than_it_was_recorded(rank: int) -> None:
    """Steps that mostly wait for other ranks: a faster host shifts the waits, and their median with them."""
    clock = warplens.open(SAMPLES / "ranks" / "nccl4" / f"nccl4_rank{rank}.json.gz").answer().clock
    assert clock is not None
    assert clock.source == ESTIMATED
    assert clock.step_ms <= clock.recorded_ms


@pytest.mark.parametrize("path", WITHOUT)
def test_what_has_no_times_of_a_run_has_no_clock(path: str) -> None:
    assert warplens.open(SAMPLES / path).answer().clock is None


def a_program(opened: Opened, **options: Any) -> Profile:
    events = []
    for number in range(1, 5):
        at = 1000 * number
        events += [
            annotation(f"ProfilerStep#{number}", at, 1000),
            op("aten::mm", at + 10, 900),
            op("aten::t", at + 20, 2),
        ]
        events += [launch(at + 700, 5, number), kernel(GEMM, at + 710, 100, number)]
    return opened(events, **options)


def test_a_step_time_that_is_given_is_the_clock(opened: Opened) -> None:
    clock = a_program(opened, step_ms=0.9).clock
    assert clock is not None
    assert (clock.source, clock.step_ms, clock.certainty) == (GIVEN, pytest.approx(0.9), MEASURED)


@pytest.mark.parametrize("format", OF_FORMAT)
def test_formats_without_ops_are_as_recorded(format: str, opened: Opened) -> None:
    profile = a_program(opened)
    meta = msgspec.structs.replace(profile.trace.meta, format=format)
    clock = Profile(replace(profile.trace, meta=meta)).clock
    assert clock is not None
    assert (clock.source, clock.reason, clock.step_ms) == (RECORDED, OF_FORMAT[format], clock.recorded_ms)


def test_where_graphs_launch_nearly_everything_the_step_is_as_recorded(opened: Opened) -> None:
    events = [op("aten::mm", 0, 5), launch(20, 5, 1, name="cudaGraphLaunch")]
    events += [kernel(GEMM, 30 + 10 * at, 9, 1) for at in range(20)]
    clock = opened(events).clock
    assert clock is not None
    assert (clock.source, clock.reason) == (RECORDED, IN_GRAPHS)


def test_an_interval_is_said_where_it_is_wide() -> None:
    narrow, wide = (Clock(39.6, low, high, ESTIMATED, 50.0) for low, high in ((38.0, 41.0), (31.0, 52.0)))
    assert (narrow.amount, narrow.sure) == ("39.6 ms", "38.0 to 41.0, estimated")
    assert wide.amount == "31.0 to 52.0 ms"


def test_what_follows_from_an_estimated_step_has_its_interval() -> None:
    wide, narrow = Clock(10, 8, 12.5, ESTIMATED, 15), Clock(10, 9.5, 10.5, ESTIMATED, 11)
    given = Clock(10, 10, 10, GIVEN, 11)
    assert [clock.share(4) for clock in (wide, narrow, given)] == ["32.0 to 50.0 %", "40.0 % (38.1 to 42.1)", "40.0 %"]
    assert wide.share(9) == "72.0 to 100.0 %"
    assert [clock.rate(100, "{:.0f}".format) for clock in (wide, given)] == ["80 to 125", "100"]
    assert [clock.text for clock in (wide, narrow, given)] == [
        "8.0 to 12.5 ms (estimated)",
        "10.0 ms (9.5 to 10.5, estimated)",
        "10.0 ms (measured, given)",
    ]
    assert (wide.between(1, 2), wide.between(1, 1)) == ("1.0 to 2.0 ms", "1.0 ms")
