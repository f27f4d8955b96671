"""Findings on idle time: each part of a gap has one of them, and none wins more than the GPU's idle time."""

from __future__ import annotations

from typing import Any

import pytest

import warplens
from finding_traces import ELEMENTWISE, GEMM, LINE, PLACE, by_code, call, rows_gain_ms, rule_findings, step_marks, waits
from support import ROOT, Opened, annotation, frame, kernel, launch, op
from warplens.model.edits import CaptureGraph, RemoveHostTime

IDLE_CODES = ("WL101", "WL104", "WL107", "WL108", "WL109", "WL301", "WL303", "WL304")


def assert_no_more_than_idle(profile: warplens.Profile) -> None:
    """Of a trace without steps."""
    idle = next(row["time_ms"] for row in profile.table("timeline").to_dicts() if row["measure"] == "idle")
    own = [finding.gain_ms for finding in rule_findings(profile) if finding.code in IDLE_CODES]
    assert sum(own) <= idle + 1e-9


def test_wl101_fires_from_a_tenth_of_idle_time_on(opened: Opened) -> None:
    """Gaps of 40 and 60 µs among 900 µs of work."""
    finding = by_code(opened(waits([40, 60], dur=300)))["WL101"]
    assert finding.gain_ms == pytest.approx(0.100)
    assert (finding.gain_percent, finding.bound) == (pytest.approx(10.0), True)
    assert finding.title == "the GPU waits for its next launch"
    assert finding.place == f"{PLACE} 100 % of the launches"
    assert finding.evidence.startswith("2 gaps, longest 0.06 ms; 3 launches per ms, one every 333.3 µs; recorded with")
    for step in ("CUDA graph", "torch.compile", "larger batch"):
        assert step in finding.advice
    (row,) = finding.rows
    assert (row.count, row.time_ms, row.gain_ms, row.place) == (2, pytest.approx(0.1), pytest.approx(0.1), PLACE)
    assert row.detail.startswith("host busy: ")


def test_wl101_is_silent_below_a_tenth_of_idle_time(opened: Opened) -> None:
    assert "WL101" not in by_code(opened(waits([40, 59.9], dur=300)))


def test_wl101_is_silent_where_other_causes_hold_the_idle_time(opened: Opened) -> None:
    """Of 1020 µs of waiting the host prepares launches for 20, below 2 % of the total."""
    events = [*waits([20, 1000], dur=400), call("cudaMalloc", 850, 900)]
    found = by_code(opened(events))
    assert "WL101" not in found
    assert found["WL108"].gain_ms == pytest.approx(1.0)


def test_wl101_says_that_recorded_stacks_slow_the_host_only_where_there_are_any(opened: Opened) -> None:
    without = [event for event in waits([40, 60], dur=300) if event["cat"] != "python_function"]
    finding = by_code(opened(without))["WL101"]
    assert "recorded with stacks" not in finding.evidence
    assert finding.place == "aten::mm 100 % of the launches"


def test_wl104_names_the_modules_that_launch_most_of_the_step(opened: Opened) -> None:
    """Of 20 launches 12 are a cell's in two layers and 6 another module's; what few launches are in has no name."""
    events = waits([45] * 19, dur=5, host="aten::mul", name=ELEMENTWISE)
    begins = [event["ts"] for event in events if event["cat"] == "cpu_op"]
    spans = {"Cell_0": (0, 7), "Cell_1": (7, 12), "Head_0": (12, 18)}
    modules = [
        frame(f"nn.Module: {name}", begins[first] - 1, begins[last] - begins[first] - 2)
        for name, (first, last) in spans.items()
    ]
    inner = [event for event in events if event["cat"] != "python_function"]
    model = frame("nn.Module: Net_0", -1, begins[18] + 1)
    finding = by_code(opened([model, *modules, *inner]))["WL104"]
    assert finding.place == "Net/Cell_* 60 %, Net/Head_* 30 % of the launches"


def test_gains_are_per_step_where_steps_are_marked(opened: Opened) -> None:
    """Four kernels, three gaps of 100 µs between them, two steps: one gap each within, one between the two.

    The steps are 400 and 300 µs long, since the last ends with its last kernel; the gap between is won once a step.
    """
    events = [*waits([100, 100, 100]), *step_marks(0, 300, 800)]
    profile = opened(events)
    assert profile.table("gaps").frame["between_steps"].to_list().count(True) == 1
    finding = by_code(profile)["WL101"]
    assert finding.gain_ms == pytest.approx((0.1 + 0.1) / 2 + 0.1 / 1)
    assert finding.gain_percent == pytest.approx(100 * 0.2 / 0.35)
    assert rows_gain_ms(finding) == pytest.approx(finding.gain_ms)


def test_a_gain_counts_only_what_lies_inside_the_steps(opened: Opened) -> None:
    """100 µs idle before the first step's first kernel, 40 in the step: the step can win 40."""
    events = [
        annotation("ProfilerStep#1", 200, 100),
        op("aten::mm", 200, 50),
        launch(210, 1, 1),
        launch(295, 1, 2),
        kernel(GEMM, 0, 110),
        kernel(GEMM, 210, 50, 1),
        kernel(GEMM, 300, 10, 2),
    ]
    finding = by_code(opened(events))["WL101"]
    assert finding.gain_ms == pytest.approx(0.040)
    assert finding.gain_percent == pytest.approx(40.0)


def test_wl104_fires_when_most_events_are_short_and_the_gpu_waits_for_launches(opened: Opened) -> None:
    """19 waits of 45 µs in the 955 µs from the first start to the last end."""
    profile = opened(waits([45] * 19, dur=5, host="aten::mul", name=ELEMENTWISE))
    finding = by_code(profile)["WL104"]
    assert finding.gain_ms == pytest.approx(19 * 0.045)
    assert finding.gain_percent == pytest.approx(100 * 19 * 45 / 955)
    assert (finding.bound, finding.place) == (True, f"{PLACE} 100 % of the launches")
    assert finding.evidence.startswith("20 of 20 GPU events; 21 launches per ms, one every 47.7 µs")
    assert [(row.place, row.count, row.time_ms) for row in finding.rows] == [("aten::mul", 20, pytest.approx(0.1))]
    assert_no_more_than_idle(profile)


def test_wl104_fires_with_the_gaps_too_short_to_list(opened: Opened) -> None:
    profile = opened(waits([8] * 20, dur=5, name=ELEMENTWISE))
    assert len(profile.table("gaps")) == 0
    assert by_code(profile)["WL104"].gain_ms == pytest.approx(20 * 0.008)


def test_wl104_does_not_speak_of_launches_in_a_trace_without_a_host_side(opened: Opened) -> None:
    events = [event for event in waits([8] * 20, dur=5, name=ELEMENTWISE) if event["cat"] == "kernel"]
    finding = by_code(opened(events))["WL104"]
    assert finding.title == "host-bound: 100 % of GPU events are short, and the GPU is idle between them"
    assert finding.evidence == "21 of 21 GPU events; 79 GPU events per ms, one every 12.6 µs"
    assert finding.advice.startswith("fewer, larger kernels")
    assert "launch" not in finding.advice


def mixed(long: int) -> list[dict[str, Any]]:
    """20 kernels 50 µs apart, of 5 µs, some of 12."""
    events = waits([45] * 19, dur=5, name=ELEMENTWISE)
    kernels = [event for event in events if event["cat"] == "kernel"]
    return [{**event, "dur": 12} if event in kernels[:long] else event for event in events]


def test_wl104_is_silent_when_fewer_than_half_of_the_events_are_short(opened: Opened) -> None:
    assert "WL104" in by_code(opened(mixed(10)))
    assert "WL104" not in by_code(opened(mixed(11)))


def test_wl104_is_silent_when_events_are_long_or_the_gpu_does_not_wait(opened: Opened) -> None:
    long = by_code(opened(waits([45] * 19, dur=10, name=ELEMENTWISE)))
    assert "WL104" not in long
    assert long["WL101"].gain_ms == pytest.approx(19 * 0.045)
    assert "WL104" not in by_code(opened(waits([0.5] * 19, dur=5, name=ELEMENTWISE)))


def test_wl104_is_silent_about_kernels_inside_graphs_which_wait_for_no_launch(opened: Opened) -> None:
    inside = [kernel(ELEMENTWISE, 10 + 9 * number, 5, 1) for number in range(20)]
    found = by_code(opened([launch(1, 2, 1, name="cudaGraphLaunch"), *inside]))
    assert "WL104" not in found
    assert found["WL109"].gain_ms == pytest.approx(19 * 0.004)
    assert found["WL109"].place == "cudaGraphLaunch"
    assert [(row.what, row.count) for row in found["WL109"].rows] == [("short gaps", 19)]
    assert "CUDA graph" not in found["WL109"].advice


def test_wl104_takes_all_gaps_that_launches_explain_and_wl101_is_silent_then(opened: Opened) -> None:
    profile = opened(waits([50, 50, 200, 200], dur=5, name=ELEMENTWISE))
    found = by_code(profile)
    assert found["WL104"].gain_ms == pytest.approx(0.5)
    assert "WL101" not in found
    assert_no_more_than_idle(profile)


def stall(gap: float, others: float) -> list[dict[str, Any]]:
    """One gap with the host in a call of its own, and ten shorter ones elsewhere."""
    events = waits([others / 10] * 10, dur=200)
    end = max(event["ts"] + event["dur"] for event in events if event["cat"] == "kernel")
    compile_frame = frame("model.py(7): compile", end, gap + 5)
    return [*events, compile_frame, op("mine::built", end, gap), launch(end + gap - 2, 1, 99),
            kernel(GEMM, end + gap, 200, 99)]  # fmt: skip


def test_wl107_fires_for_a_long_gap_in_one_place(opened: Opened) -> None:
    profile = opened(stall(1500, 500))
    found = by_code(profile)
    finding = found["WL107"]
    assert finding.title == "the GPU waits over 1 ms in 1 gap with the host in one place"
    assert (finding.place, finding.bound) == ("model.py:7 compile", True)
    assert finding.gain_ms == pytest.approx(1.5)
    assert finding.evidence.startswith("longest 1.5 ms, before ")
    assert found["WL101"].gain_ms == pytest.approx(0.5)
    assert_no_more_than_idle(profile)


def test_wl107_is_silent_about_gaps_of_less_than_a_millisecond_and_small_parts_of_the_idle_time(
    opened: Opened,
) -> None:
    assert "WL107" not in by_code(opened(stall(999, 500)))
    assert "WL107" in by_code(opened(stall(1000, 9000)))
    assert "WL107" not in by_code(opened(stall(1000, 9100)))


@pytest.mark.parametrize("name", ["cudaMalloc", "cuModuleLoadData"])
def test_wl108_fires_from_one_percent_of_waiting_for_memory_or_kernels_on(opened: Opened, name: str) -> None:
    profile = opened([*waits([20], dur=990), call(name, 1001, 12)])
    finding = by_code(profile)["WL108"]
    assert finding.gain_ms == pytest.approx(0.020)
    assert (finding.gain_percent, finding.bound, finding.place) == (pytest.approx(1.0), True, PLACE)
    assert finding.evidence == "1 gap, longest 0.02 ms"
    assert_no_more_than_idle(profile)


def test_wl108_is_silent_below_one_percent(opened: Opened) -> None:
    assert "WL108" not in by_code(opened([*waits([19.9], dur=990), call("cudaMalloc", 1001, 12)]))


def queued(gap: float) -> list[dict[str, Any]]:
    """Both launches are over before the first kernel ends, yet the second kernel comes late."""
    return [op("aten::mm", 0, 20), launch(1, 1, 1), launch(5, 1, 2), kernel(GEMM, 30, 450, 1),
            kernel(GEMM, 480 + gap, 450, 2)]  # fmt: skip


def test_wl109_fires_where_the_launch_was_in_time(opened: Opened) -> None:
    finding = by_code(opened(queued(100)))["WL109"]
    assert finding.gain_ms == pytest.approx(0.1)
    assert (finding.gain_percent, finding.bound) == (pytest.approx(10.0), True)
    assert finding.evidence == "idle causes: dependency 100 %"


def test_wl109_is_silent_below_a_tenth(opened: Opened) -> None:
    assert "WL109" not in by_code(opened(queued(99)))


def test_wl109_fires_where_gpus_take_turns_without_a_gap_of_their_own(opened: Opened) -> None:
    profile = opened([kernel(GEMM, 0, 10, device=0), kernel(GEMM, 50, 10, device=1)])
    assert len(profile.table("idle")) == 0
    finding = by_code(profile)["WL109"]
    assert finding.gain_ms == pytest.approx(0.040)
    assert finding.title == "GPU idle: one GPU works after the other"
    assert "no GPU works in 40.0 of 60.0 µs of the run" in profile.verdict()


def reading(gap: float, *, name: str = "cudaStreamSynchronize") -> list[dict[str, Any]]:
    """`.item()` in line 9 waits for the first kernel; then the host takes its time."""
    return [*waits([gap], dur=990), frame("train.py(9): log", 15, 990), op("aten::item", 16, 988), call(name, 17, 986)]


@pytest.mark.parametrize("name", ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaMemcpy"])
def test_wl301_fires_from_one_percent_of_waiting_after_a_synchronisation_on(opened: Opened, name: str) -> None:
    profile = opened(reading(20, name=name))
    finding = by_code(profile)["WL301"]
    assert finding.gain_ms == pytest.approx(0.020)
    assert (finding.gain_percent, finding.bound, finding.place) == (pytest.approx(1.0), False, "train.py:9 log")
    assert finding.rows[0].detail.startswith(f"host sync: {name}, before ")
    assert_no_more_than_idle(profile)


def test_gaps_say_that_they_are_recorded_where_the_step_is_another_one() -> None:
    """Their time is the recorded one, and the gain beside it is of the step without the profiler."""
    faults = ROOT / "samples" / "faults"
    names = ("item_sync.before.json.gz", "graph_gaps.before.json.gz")
    found = [found for name in names for found in warplens.open(faults / name, cache=False).findings()]
    (slowed,), (as_recorded,) = ([each for each in found if each.code == code] for code in ("WL301", "WL304"))
    assert slowed.evidence.endswith(" ms, as recorded")
    assert all(row.what.endswith(" ms, as recorded") for row in slowed.rows)
    assert "as recorded" not in as_recorded.evidence + as_recorded.rows[0].what


def test_wl301_is_silent_below_one_percent_and_where_nothing_synchronises(opened: Opened) -> None:
    assert "WL301" not in by_code(opened(reading(19.9)))
    assert "WL301" not in by_code(opened(reading(20, name="cudaEventQuery")))


def loading(gap: float, name: str) -> list[dict[str, Any]]:
    return [*waits([gap], dur=990), frame(name, 15, 985 + gap - 8)]


def test_wl303_fires_where_the_host_waits_for_the_data_loader(opened: Opened) -> None:
    profile = opened(loading(20, "torch/utils/data/dataloader.py(708): __next__"))
    finding = by_code(profile)["WL303"]
    assert (finding.gain_ms, finding.gain_percent) == (pytest.approx(0.020), pytest.approx(1.0))
    assert (finding.bound, finding.place) == (True, PLACE)
    assert "workers" in finding.advice
    assert_no_more_than_idle(profile)


def test_wl303_names_the_loader_where_no_line_is_recorded(opened: Opened) -> None:
    mark = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events = [event for event in waits([40], dur=990) if event["cat"] != "python_function"]
    finding = by_code(opened([*events, annotation(mark, 15, 985 + 40 - 8)]))["WL303"]
    assert finding.place == mark


def test_wl303_is_silent_below_one_percent_and_elsewhere(opened: Opened) -> None:
    assert "WL303" not in by_code(opened(loading(19.9, "torch/utils/data/dataloader.py(708): __next__")))
    assert "WL303" not in by_code(opened(loading(20, "data.py(3): __next__")))


def replays(gap: float) -> list[dict[str, Any]]:
    """Two replays; the host synchronises before the second."""
    graph = "cudaGraphLaunch"
    return [frame(LINE, 0, 2100), launch(1, 2, 1, name=graph), kernel(GEMM, 10, 990, 1),
            call("cudaStreamSynchronize", 5, 996), launch(1000 + gap - 4, 2, 2, name=graph),
            kernel(GEMM, 1000 + gap, 990, 2)]  # fmt: skip


def test_wl304_fires_for_the_gaps_between_graph_replays(opened: Opened) -> None:
    profile = opened(replays(20))
    found = by_code(profile)
    assert found["WL304"].gain_ms == pytest.approx(0.020)
    assert (found["WL304"].gain_percent, found["WL304"].bound) == (pytest.approx(1.0), True)
    assert found["WL304"].place == PLACE
    assert "WL301" not in found
    assert_no_more_than_idle(profile)


def test_wl304_is_silent_below_one_percent(opened: Opened) -> None:
    assert "WL304" not in by_code(opened(replays(19.9)))


def test_wl301_is_silent_where_the_host_pauses_long_after_the_call_has_returned(opened: Opened) -> None:
    """The call returns 2 µs into a gap of 8 ms; the rest is the host's own. After 4 ms it would still be the call's."""
    events = [*waits([8000], dur=990), frame("train.py(9): log", 15, 992), call("cudaStreamSynchronize", 17, 985)]
    found = by_code(opened(events))
    assert "WL301" not in found
    assert found["WL107"].gain_ms == pytest.approx(8.0)
    assert "WL301" in by_code(opened([*waits([4000], dur=990), *events[-2:]]))


def test_gaps_of_several_gpus_win_no_more_than_the_time_in_which_all_are_idle(opened: Opened) -> None:
    """Two GPUs with the same gap of 2 ms and another of 100 µs, launched by one thread each."""
    events = []
    for device in (0, 1):
        starts, tid = (0, 2300, 2700), 10 + device
        for number, ts in enumerate(starts):
            key = 10 * device + number + 1
            events += [op(f"aten::op{number}", ts - 20, 15, tid=tid), launch(ts - 15, 5, key, tid=tid)]
            events += [kernel(GEMM, ts, 300, key, device=device)]
    profile = opened(events)
    assert_no_more_than_idle(profile)
    found = by_code(profile)
    assert found["WL107"].gain_ms == pytest.approx(2.0)
    assert found["WL101"].gain_ms == pytest.approx(0.1)


def waiting_for_a_copy(*, host: float, dependency: float) -> list[dict[str, Any]]:
    """A kernel of 1 ms, the host busy for so long, and a launch whose work then waits for something on the GPU."""
    issued, begins = 1000 + host, 1000 + host + 8 + dependency
    return [
        launch(0, 5, 1), kernel(GEMM, 8, 992, 1),
        launch(1001, host - 2, 7, name="hipStreamWaitEvent"), launch(issued, 5, 2), kernel(GEMM, begins, 100, 2),
    ]  # fmt: skip


def test_the_parts_of_a_gap_belong_to_the_rules_of_their_causes(opened: Opened) -> None:
    """Of 900 µs, 408 until the launch took effect, 492 after that."""
    findings = by_code(opened(waiting_for_a_copy(host=400, dependency=492)))
    assert findings["WL101"].gain_ms == pytest.approx(0.408)
    assert findings["WL109"].gain_ms == pytest.approx(0.492)


def test_a_dependency_behind_a_launch_in_time_is_not_the_hosts(opened: Opened) -> None:
    """The launch returns 50 µs into a gap of 493 ms: no rule on the host claims it, nor does the verdict."""
    profile = opened(waiting_for_a_copy(host=45, dependency=493_000))
    findings = by_code(profile)
    assert set(findings) & {"WL101", "WL104", "WL107", "WL109"} == {"WL109"}
    assert findings["WL109"].gain_ms == pytest.approx(493.0)
    assert findings["WL109"].rows[0].detail.startswith("dependency: ")
    assert profile.bounds is None, "nothing recorded explains the wait"
    assert profile.verdict().startswith("Cannot tell what limits it: no GPU works in 493.1 of 494.2 ms")


def test_a_graph_is_simulated_only_where_launches_cause_most_of_the_idle_time(opened: Opened) -> None:
    """A graph would also end the wait for an allocation in the simulation, and claim its time."""
    launches = waits([500] * 3)
    finding = by_code(opened(launches))["WL101"]
    assert finding.edits == (CaptureGraph(),)
    end = 10 + 3 * 500 + 4 * 100
    allocating = [call("cudaMalloc", end + 100, 9000), launch(end + 9200, 5, 78), kernel(GEMM, end + 9210, 100, 78)]
    findings = by_code(opened([*launches, *allocating]))
    (edit,) = findings["WL101"].edits
    assert isinstance(edit, RemoveHostTime) and len(edit.ranges_ns) == 3
    assert findings["WL108"].gain_ms > findings["WL101"].gain_ms


def test_waits_for_work_from_before_the_recording_are_not_idle_time(opened: Opened) -> None:
    """Another stream shows that the GPU was there; the first work of this one waits for what ran before."""
    launches = [launch(10 * number, 5, number + 1) for number in range(20)]
    other = [launch(300, 5, 100), kernel("other", 310, 2, 100, stream=9)]

    def codes(wait: float, first: int) -> set[str]:
        """`wait` passes before the kernel of that number."""
        starts = [400 + 1001 * number + wait * (number >= first) for number in range(20)]
        kernels = [kernel(GEMM, start, 1000, number + 1) for number, start in enumerate(starts)]
        return {finding.code for finding in opened([*launches, *other, *kernels]).findings()}

    assert "WL109" in codes(50_000, first=5)
    assert "WL109" not in codes(50_000, first=0)
