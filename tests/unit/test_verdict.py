"""The verdict: what limits the step, from its graph."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest

import warplens
from finding_traces import ALL_REDUCE, GEMM
from support import SHARED, Opened, annotation, kernel, launch, op
from warplens.advice.limits import at_most_ms, limits
from warplens.advice.thresholds import LIMIT_PERCENT, LIMIT_SHARE
from warplens.advice.verdict import Verdict
from warplens.advice.verdict import verdict as verdict_of
from warplens.analyses.graph.bounds import StepBounds
from warplens.analyses.graph.simulating import simulate
from warplens.model.answer import Part
from warplens.model.clock import Clock
from warplens.model.idle_causes import largest_cause
from warplens.outputs.summary import render_summary

WHAT_IF = SHARED / "traces" / "whatif"
Event = dict[str, Any]


def repeated(host: float, gpu: float, *, name: str = GEMM, sync: bool = False, count: int = 20) -> list[Event]:
    """Steps of one launch each: the host takes so many µs for it, the GPU for its kernel; with `sync` it waits for it."""
    events, at, free = [], 0.0, 0.0
    for number in range(1, count + 1):
        events.append(annotation(f"ProfilerStep#{number}", at, host))
        events.append(launch(at + host - 6, 5, number))
        begin = max(at + host, free + 1)
        events.append(kernel(name, begin, gpu, number))
        free, at = begin + gpu, at + host
        if sync:
            events.append(launch(at + 1, free + 9 - at, 1000 + number, name="cudaStreamSynchronize"))
            at = free + 11
    return events


def saving(gpu: float = 0, host: float = 0, communication: float = 0, streams: float = 0) -> StepBounds:
    """Of a step of 100 ms."""
    cases_ms = (100.0 - saved for saved in (gpu, host, communication, streams))
    return StepBounds(100, 100, *cases_ms, with_pauses_ms=100.0 - host)


def test_where_the_gpu_waits_for_the_host_the_step_is_host_bound(opened: Opened) -> None:
    verdict = opened(repeated(host=10_000, gpu=2000)).verdict()
    assert verdict == (
        "Host-bound: unrecorded work of the host takes 8.0 ms. "
        "Removing all host time would save up to 8.0 ms (simulated) of 10.0 ms a step (measured)."
    )


def test_host_time_without_a_name_is_said_where_it_is_large(opened: Opened) -> None:
    """Between its calls nothing of the host is recorded."""
    bare = opened(repeated(host=10_000, gpu=2000)).answer()
    (limit,) = [text for text in bare.limits if text.startswith("what the host does in ")]
    assert limit == "what the host does in 80 % of the time is not recorded: record Python stacks (with_stack=True)"
    busy = opened(repeated(host=10_000, gpu=9500)).answer()
    assert not any(text.startswith("what the host does in ") for text in busy.limits)


def test_a_busy_gpu_does_not_make_a_step_gpu_bound_that_the_host_limits(opened: Opened) -> None:
    """The GPU is busy 62 % of the time, and a faster one wins nothing; its work is the first row of the table."""
    verdict = opened(repeated(host=10_000, gpu=6200)).verdict()
    named = "GEMM takes 6.2 ms and unrecorded work of the host 3.8 ms"
    assert verdict.startswith(
        f"Host-bound: {named}. Removing all host time would save up to 3.8 ms (simulated) of 10.0 ms"
    )


def test_where_the_host_runs_ahead_the_step_is_gpu_bound(opened: Opened) -> None:
    verdict = opened(repeated(host=2000, gpu=10_000)).verdict()
    assert (
        verdict == "GPU-bound. GEMM takes 10.0 of 10.0 ms a step (measured); removing all host time would save "
        "nothing (simulated)."
    )


def test_where_each_waits_for_the_other_the_verdict_names_both(opened: Opened) -> None:
    name, _, savings = opened(repeated(host=5000, gpu=5000, sync=True)).verdict().partition(". ")
    bound, _, named = name.partition(": ")
    assert bound in ("Mixed, GPU- and host-bound", "Mixed, host- and GPU-bound") and "takes" in named
    assert "all GPU time" in savings and "all host time" in savings and savings.count("up to 5.0 ") == 2


def test_communication_that_the_step_waits_for_is_the_limit(opened: Opened) -> None:
    verdict = opened(repeated(host=2000, gpu=10_000, name=ALL_REDUCE)).verdict()
    assert verdict == (
        "Communication-bound: exposed communication takes 10.0 ms. "
        "Removing all communication would save up to 8.0 ms (simulated) of 10.0 ms a step (measured)."
    )


def test_where_host_and_gpu_take_equally_long_neither_alone_wins(opened: Opened) -> None:
    verdict = opened(repeated(host=10_000, gpu=9850)).verdict()
    assert verdict.startswith("Balanced. Neither a faster GPU nor a faster host alone would save more than ")


def test_a_long_trace_without_steps_is_in_seconds(opened: Opened) -> None:
    events = [event for event in repeated(host=100_000, gpu=2000) if event["cat"] != "user_annotation"]
    assert " s (simulated) of 1.90 s of the run (measured)" in opened(events).verdict()


@pytest.mark.parametrize(
    ("bounds", "limiting"),
    [
        (saving(gpu=LIMIT_PERCENT, host=9), ("GPU",)),
        (saving(gpu=9, host=9), ()),
        (saving(gpu=15, host=100 * 0.15 / LIMIT_SHARE), ("host", "GPU")),
        (saving(gpu=14.9, host=100 * 0.15 / LIMIT_SHARE), ("host",)),
        (saving(communication=80, streams=90), ("communication",)),
        (saving(gpu=5, streams=30), ("streams",)),
        (StepBounds(0, 0, 0, 0, 0, 0), ()),
    ],
)
def test_what_limits_a_step_saves_a_tenth_of_it_and_a_quarter_of_the_first(
    bounds: StepBounds, limiting: tuple[str, ...]
) -> None:
    assert limits(bounds) == limiting


def test_a_launch_that_waits_for_room_behind_unrecorded_work_is_the_gpus_time(opened: Opened) -> None:
    """The recording begins while the queue is full: the launch returns long before its stream's turn."""
    events: list[Event] = []
    for step in range(3):
        events += [annotation(f"ProfilerStep#{step}", 5000 * step, 4990), launch(5000 * step + 10, 4970, step + 1)]
        events.append(kernel(GEMM, 20_000 + 5000 * step, 4999, step + 1))
    verdict = opened([kernel(GEMM, 15_000, 4999), *events]).verdict()
    assert (
        verdict == "GPU-bound. GEMM takes 5.0 of 5.0 ms a step (measured); removing all host time would save "
        "nothing (simulated)."
    )


def test_waits_for_work_from_before_the_recording_are_named_and_limit_nothing(opened: Opened) -> None:
    """The GPU is at something else first; then the host launches far ahead of it."""
    launches = [launch(10 * number, 5, number + 1) for number in range(20)]
    kernels = [kernel(GEMM, 5000 + 1001 * number, 1000, number + 1) for number in range(20)]
    assert opened([*launches, *kernels]).verdict() == (
        "GPU-bound. GEMM takes 20.0 of 25.0 ms of the run (measured); removing all host time would save "
        "up to 0.05 ms (simulated)."
    )
    late = [{**event, "ts": event["ts"] + 45_000} for event in kernels]
    assert opened([*launches, *late]).verdict() == (
        "Mostly waiting. 50.0 ms (simulated) of 70.0 ms of the run (measured) are waits for work from "
        "before the recording."
    )


def test_causes_that_one_rule_counts_are_one_for_verdict_and_summary() -> None:
    assert largest_cause([("host sync", 40), ("host busy", 35), ("launch call", 25)]) == "host busy"
    assert largest_cause([("kernel loading", 1), ("memory allocation", 1), ("host sync", 1)]) == "memory allocation"
    assert (largest_cause([("host sync", 1)]), largest_cause([])) == ("host sync", "")


def test_verdict_and_table_of_bounds_take_eight_simulations(monkeypatch: pytest.MonkeyPatch, opened: Opened) -> None:
    """A fast host with and without pauses, and with three costs of recording the plain step and a fast GPU; a trace without communication and
    waits of streams needs no more."""
    profile, calls = opened(repeated(host=10_000, gpu=2000)), []

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return simulate(*args, **kwargs)

    monkeypatch.setattr("warplens.analyses.graph.bounds.simulate", counted)
    profile.verdict()
    assert len(profile.table("bounds")) == 6
    assert profile.step_model is not None and profile.step_model.step_ms == pytest.approx(10.0, abs=0.1)
    assert len(calls) == 8


@pytest.mark.skipif(not WHAT_IF.exists(), reason="the shared traces are not here")
@pytest.mark.parametrize("size", ["S", "L"])
@pytest.mark.parametrize("given", [True, False], ids=["step time given", "estimated"])
def test_the_small_gpt_is_host_bound_and_the_large_one_and_graphs_are_gpu_bound(size: str, given: bool) -> None:
    truth = json.loads((WHAT_IF / "truth.json").read_text())
    for variant in ("good", "sync", "graph"):
        step_ms = truth[f"{size}_{variant}"]["plain_step_ms"] if given else 0.0
        verdict = warplens.open(WHAT_IF / f"{size}_{variant}.json.gz", step_ms=step_ms).verdict()
        assert verdict.startswith("Host-bound" if (size, variant != "graph") == ("S", True) else "GPU-bound")


def test_the_verdict_names_the_given_step_time(opened: Opened) -> None:
    """Also where the GPU is the limit, and no host makes the simulated step take that long."""
    verdict = opened(repeated(host=2000, gpu=10_000), step_ms=9.7).verdict()
    assert verdict.startswith("GPU-bound. GEMM takes 9.7 of 9.7 ms a step (measured)")


def step_line(profile: warplens.Profile) -> str:
    lines = [text for text, _ in render_summary(profile.document(), width=120).lines]
    (line,) = [text for text in lines if text.startswith(("step  ", "run  "))] or [""]
    return line


def slowed(count: int = 5) -> list[Event]:
    """Steps of 10 ms, nearly all of it in short ops: recording them takes part of that."""
    steps = repeated(host=10_000, gpu=2000, count=count)
    calls = [10_000 * number + 10 * at for number in range(count) for at in range(950)]
    return steps + [event for at in calls for event in (op("aten::t", at, 9), op("aten::view", at + 1, 7))]


def test_the_summary_shows_the_unprofiled_and_the_recorded_step_and_where_the_former_is_from(opened: Opened) -> None:
    estimated, given = opened(slowed()), opened(slowed(), step_ms=9.0)
    assert estimated.clock is not None
    assert (
        step_line(estimated)
        == f"step      {estimated.clock.amount} (estimated) · 10.0 ms recorded · 5 steps · {estimated.clock.hint}"
    )
    assert step_line(given) == "step      9.0 ms (measured, given) · 10.0 ms recorded · 5 steps"


def test_the_step_of_a_bundle_is_the_measured_one(opened: Opened) -> None:
    trace = opened(slowed()).trace
    meta = msgspec.structs.replace(trace.meta, plain_step_ns=8.5e6)
    profile = warplens.Profile(replace(trace, meta=meta))
    assert step_line(profile) == "step      8.5 ms (measured) · 10.0 ms recorded · 5 steps"
    assert "8.5 ms a step (measured)" in profile.verdict()


def test_where_recording_costs_nothing_or_nothing_is_known_the_step_is_as_recorded(opened: Opened) -> None:
    assert step_line(opened(repeated(host=10_000, gpu=2000))) == "step      10.0 ms (measured, as recorded) · 20 steps"
    without_launches = opened([kernel(GEMM, 0, 10)])
    assert (without_launches.plain_step, step_line(without_launches)) == (
        None,
        "run       10.0 µs (measured, as recorded)",
    )
    assert opened(slowed()).corrected().plain_step is None


def test_a_step_time_that_no_cost_of_recording_explains_is_said_to_be_unused(opened: Opened) -> None:
    unusable, usable = opened(slowed(), step_ms=1.0), opened(slowed(), step_ms=9.0)
    text = "the given step time (1.000 ms) is not used: no cost of recording makes the recorded steps take it"
    assert text in unusable.answer().warnings
    assert "step_time_unused" in unusable.table("quality").frame["code"]
    assert "step_time_unused" not in usable.table("quality").frame["code"]
    without_launches = opened([kernel(GEMM, 0, 10)], step_ms=1.0)
    assert text in without_launches.answer().warnings


@pytest.mark.parametrize(
    ("limiting", "first", "text"),
    [
        ("gpu", Part("exposed copies", "memcpy HtoD", 60, 60), "GPU-bound. Exposed memcpy HtoD takes 60.0 of 100.0 ms"),
        ("gpu", Part("after the last kernel", "synchronisation", 60, 60),
         "GPU-bound. Waiting in synchronising calls after the last kernel takes 60.0 ms (simulated) of 100.0 ms a step "
         "(measured) and GEMM 25.0 ms; "),
        ("host", Part("GPU idle", "launch latency", 60, 60), "Host-bound: launch latency takes 60.0 ms. "),
        ("host", Part("exposed communication", "Communication", 60, 60),
         "Host-bound: exposed communication takes 60.0 ms and forward (a.py:1 f) 15.0 ms. "),
        ("communication", Part("GPU idle", "not recorded", 60, 60),
         "Communication-bound: idle time of unrecorded cause takes 60.0 ms. "),
    ],
)  # fmt: skip
def test_the_part_that_the_verdict_names_is_the_first_row_of_the_table(limiting: str, first: Part, text: str) -> None:
    clock = Clock(100.0, 100.0, 100.0, "measured", 120.0)
    parts = [Part("computation", "GEMM", 25, 25), Part("GPU idle", "host: forward", 15, 15, "a.py:1 f"), first]
    parts = [replace(part, low_ms=part.time_ms, high_ms=part.time_ms) for part in parts]
    bounds = saving(**{limiting: 50.0})
    said = verdict_of(clock, parts, bounds, at_most_ms(clock, bounds), ())
    assert said.text.startswith(text)
    assert said.bound == {"gpu": "GPU-bound", "host": "Host-bound", "communication": "Communication-bound"}[limiting]


def test_every_limit_of_a_mixed_step_is_said_with_what_it_saves() -> None:
    clock, bounds = Clock(100.0, 100.0, 100.0, "measured", 120.0), saving(communication=50, host=40)
    said = verdict_of(
        clock, [Part("exposed communication", "Communication", 60, 60)], bounds, at_most_ms(clock, bounds), ()
    )
    assert said.text.endswith("Removing all communication would save up to 50.0 ms (simulated) of 100.0 ms a step "
                              "(measured), and all host time up to 40.0 ms.")  # fmt: skip


def said_of(first: Part, bounds: StepBounds, *quality: str, clock: Clock | None = None) -> Verdict:
    """Of a step of 100 ms with 25 ms of GEMM and this part."""
    clock = clock or Clock(100.0, 100.0, 100.0, "measured", 120.0)
    parts = [
        replace(part, low_ms=part.time_ms, high_ms=part.time_ms)
        for part in (first, Part("computation", "GEMM", 25, 25))
    ]
    return verdict_of(clock, parts, bounds, at_most_ms(clock, bounds), quality)


def test_a_host_of_which_most_is_not_recorded_limits_nothing_for_certain() -> None:
    nameless, bounds = Part("GPU idle", "host: not recorded", 60, 60), saving(host=60)
    said = said_of(nameless, bounds)
    assert (said.certainty, said.bound) == ("cannot tell", "")
    assert said.text == (
        "Cannot tell what limits it: what the host does in 60.0 ms (simulated) of 100.0 ms a step (measured) is not "
        "recorded. Record ranges around what it does (jax.profiler.TraceAnnotation, NVTX, ROCTX)."
    )
    assert "python_tracer_level" in said_of(nameless, bounds, "no_python_tracer").text
    with_calls = said_of(nameless, bounds, "no_stacks").text
    assert with_calls.startswith("Host-bound: unrecorded work of the host takes 60.0 ms. ")
    assert said_of(replace(nameless, time_ms=45, percent=45), bounds).bound == "Host-bound"


def test_a_gpu_that_saves_less_than_the_host_is_not_called_the_limit() -> None:
    pauses = Part("after the last kernel", "synchronisation", 60, 60)
    said = said_of(pauses, saving(gpu=40)._replace(fast_host_ms=45.0))
    assert (said.certainty, said.bound) == ("cannot tell", "Close: GPU and host")
    assert said.text == (
        "Cannot tell whether the GPU or the host is the limit. A faster GPU would save up to 40.0 ms and a faster host "
        "up to 55.0 ms (simulated) of 100.0 ms a step (measured)."
    )


@pytest.mark.parametrize(
    ("part", "text"),
    [
        (Part("GPU idle", "host: ops", 60, 60, "aten::mm"), "ops (aten::mm) take 60.0 ms"),
        (Part("GPU idle", "host: runtime calls", 60, 60), "runtime calls take 60.0 ms"),
        (Part("computation", "Memory Ops", 60, 60), "Memory Ops take 60.0 ms"),
        (Part("computation", "Loss", 60, 60), "Loss takes 60.0 ms"),
        (Part("before the first launch", "earlier work", 40, 40),
         "waiting for work from before the recording takes 40.0 ms"),
    ],
)  # fmt: skip
def test_verbs_agree_with_the_parts_that_they_are_of(part: Part, text: str) -> None:
    assert f": {text}" in said_of(part, saving(host=50)).text


def test_a_word_of_certainty_is_that_of_the_number_before_it() -> None:
    measured, estimated = (
        Clock(100.0, low, 104.0, source, 120.0) for low, source in ((100.0, "measured"), (96.0, "estimated"))
    )
    gemm, of_gpu = Part("computation", "Optimizer", 60, 60), saving(gpu=60, host=5)
    assert said_of(gemm, of_gpu, clock=replace(measured, high_ms=100.0)).text == (
        "GPU-bound. Optimizer takes 60.0 of 100.0 ms a step (measured); removing all host time would save up to 5.0 ms "
        "(simulated)."
    )
    assert said_of(gemm, of_gpu, clock=estimated).text == (
        "GPU-bound. Optimizer takes 60.0 of 100.0 ms a step (96.0 to 104.0, estimated); removing all host time would "
        "save up to 9.0 ms."
    )
