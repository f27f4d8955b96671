"""Iterations of served models: which GPU work is whose, phases, steady state, rates and latencies."""

from __future__ import annotations

import polars as pl
import pytest

import warplens
from finding_traces import inputs
from serving_traces import GEMM, Work, asynchronous, decode_loop, generate_loop, mark, passes, vllm
from support import ROOT, SHARED, Opened, annotation, frame, kernel, launch, op
from warplens.analyses.serving.iterations import find_iterations
from warplens_run.base.errors import WarplensError

SERVING = SHARED / "traces" / "serving"


def columns(profile: warplens.Profile, table: str, *names: str) -> list[tuple[object, ...]]:
    return profile.table(table).to_polars().select(names).rows()


def test_gpu_work_belongs_to_the_iteration_that_launched_it_not_to_the_one_it_overlaps(opened: Opened) -> None:
    profile = opened(asynchronous())
    rows = columns(profile, "iterations", "iteration", "phase", "count", "kernel_ms", "time_ms", "gap_ms")
    # The second pass is launched while the GPU still works on the first.
    assert rows == [
        (0, "prefill", 1, 1.0, 1.0, 0.0),
        (1, "decode", 1, 0.1, 0.1, 0.0),
        (2, "decode", 1, 0.1, 0.35, 0.25),
    ]


def test_times_of_iterations_add_up_to_the_gpu_s_whole_time(opened: Opened) -> None:
    profile = opened(decode_loop(12, prompts_at=(0, 6)))
    total = profile.table("timeline").to_polars().filter(measure="total", device="all")["time_ms"][0]
    assert profile.table("iterations").to_polars()["time_ms"].sum() == pytest.approx(total)
    phases = profile.table("serving_phases").to_polars()
    assert phases["phase"].to_list() == ["prefill", "decode", "all"]
    assert phases["time_ms"].to_list()[:2] == [pytest.approx(2.2, abs=0.06), pytest.approx(2.0, abs=0.06)]
    assert (phases["time_ms"][2], phases["time_ms"][:2].sum()) == (pytest.approx(total), pytest.approx(total))
    assert phases["percent"].to_list()[2] == pytest.approx(100)
    kernel_us = profile.table("serving_categories").to_polars()["total_us"].sum()
    assert kernel_us == pytest.approx(profile.table("kernel_categories").to_polars()["total_us"].sum())


@pytest.mark.parametrize(("launched", "time_ms"), [(10, 0.1), (880, 1.0)])
def test_the_first_iteration_begins_when_the_gpu_is_free_for_it(opened: Opened, launched: int, time_ms: float) -> None:
    """A copy on a stream of its own starts at once, the pass behind work that is not recorded, or when launched."""
    events = [annotation(vllm(decode=4), 0, 950), launch(0, 2, 1), kernel("tiny", 5, 5, 1, stream=2)]
    profile = opened([*events, launch(launched, 5, 2), kernel(GEMM, 905, 100, 2)])
    assert columns(profile, "iterations", "count", "time_ms", "gap_ms") == [(2, time_ms, 0.0)]
    said = [note for note in profile.table("iterations").notes if "before the recording" in note]
    assert said == (
        ["work from before the recording holds up the first iteration: 900.0 µs are not counted in it"]
        if launched == 10
        else []
    )


def test_a_mark_inside_a_mark_is_the_same_iteration(opened: Opened) -> None:
    outer = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)"
    events = [annotation(outer, 0, 100), annotation("step[DECODE bs=32]", 10, 80)]
    profile = opened([*events, launch(20, 1, 1), kernel("a", 30, 10, 1)])
    assert columns(profile, "iterations", "engine", "requests", "decode_tokens") == [("SGLang", 32, 32)]


def test_marks_that_overlap_are_two_iterations(opened: Opened) -> None:
    events = [annotation(vllm(decode=1), 0, 100), annotation(vllm(decode=2), 90, 100)]
    for number, start in enumerate((10, 95), start=1):
        events += [launch(start, 1, number), kernel("k", start + 5, 20, number)]
    profile = opened(events)
    assert columns(profile, "iterations", "requests", "count") == [(1, 1), (2, 1)]
    assert columns(profile, "steps", "count") == [(1,), (1,)]


def test_what_follows_a_mark_belongs_to_it_until_the_next_but_not_for_ever(opened: Opened) -> None:
    sampled = [launch(120, 1, 2), kernel("sample", 130, 5, 2)]
    much_later = [launch(900, 1, 3), kernel("other", 910, 5, 3)]
    first = [annotation(vllm(decode=4), 0, 100), launch(10, 1, 1), kernel("a", 20, 50, 1)]
    profile = opened([*first, *sampled, *much_later])
    assert columns(profile, "iterations", "count") == [(2,)]
    assert any("1 GPU event (8.3 % of GPU time) launched outside" in note for note in profile.table("iterations").notes)


def test_drafts_of_speculative_decoding_are_part_of_the_pass_that_verifies_them(opened: Opened) -> None:
    spans = (("DRAFT_LOOP", 0), ("TARGET_VERIFY", 100), ("DRAFT_EXTEND_V2", 200))
    events = [annotation(f"step[{mode} bs=2]", start, 90) for mode, start in spans]
    for number, (_, start) in enumerate(spans, start=1):
        events += [launch(start + 5, 1, number), kernel("k", start + 10, 20, number)]
    profile = opened(events)
    assert columns(profile, "iterations", "phase", "requests", "count") == [("decode", 2, 3)]


def test_ranks_that_mark_the_same_passes_are_one_engine(opened: Opened) -> None:
    events = []
    for rank in (1, 2):
        for number in range(3):
            begin = 100 * number
            own = rank * 10 + number
            events += [
                annotation(vllm(decode=8), begin, 50, tid=rank, pid=rank),
                launch(begin + 5, 1, own, tid=rank, pid=rank),
            ]
            events.append(kernel("k", begin + 10, 30, own, device=rank))
    profile = opened(events)
    assert columns(profile, "iterations", "requests", "count") == [(8, 2)] * 3
    assert any("2 threads mark the same iterations" in note for note in profile.table("iterations").notes)


def test_rates_are_of_the_steady_state_and_what_is_left_out_is_said(opened: Opened) -> None:
    profile = opened(decode_loop(20, prompts_at=(0,), growing=4))
    rows = profile.table("iterations").to_polars()
    assert rows["steady"].to_list() == [False] * 4 + [True] * 16
    notes = profile.table("iterations").notes
    assert any("steady state, iterations 4 to 19; omitted: 4 before it" in note for note in notes)
    decode = profile.table("serving_phases").to_polars().row(by_predicate=pl.col("phase") == "decode", named=True)
    # 32 tokens every 0.2 ms.
    assert decode["tokens_per_s"] == pytest.approx(32 / 0.2e-3)


def test_the_time_between_two_tokens_has_the_prompts_in_between(opened: Opened) -> None:
    profile = opened(decode_loop(30, prompts_at=(0, 15)))
    latency = {row["part"]: row for row in profile.table("token_latency").to_dicts()}
    interval = latency["interval"]
    assert (interval["p50_ms"], interval["max_ms"]) == (pytest.approx(0.2), pytest.approx(1.3))
    assert latency["prefill in between"]["max_ms"] == pytest.approx(1.1)
    [slow] = profile.table("slow_iterations").to_dicts()
    assert (slow["iteration"], slow["cause"]) == (16, "prefill in between")
    assert slow["cause_ms"] == pytest.approx(1.1)


def test_requests_that_a_prompt_begins_do_not_wait_for_it(opened: Opened) -> None:
    """Two answers to the same number of requests, one after the other: nobody decodes while the second is read."""
    answer = [vllm(8, 800), *[vllm(decode=8)] * 6]
    latency = opened(passes([*answer, *answer], Work(GEMM, 100))).table("token_latency").to_dicts()
    assert "prefill in between" not in {row["part"] for row in latency}
    assert (latency[0]["tokens"], latency[0]["max_ms"]) == (88, pytest.approx(0.102))


def test_only_requests_from_before_a_prompt_wait_for_it(opened: Opened) -> None:
    names = [vllm(8, 800), *[vllm(decode=8)] * 6, vllm(1, 100), *[vllm(decode=9)] * 6]
    latency = opened(passes(names, Work(GEMM, 100))).table("token_latency").to_polars()
    # 5 intervals of 8 requests, then one of 8 that waited and 1 that began, and 5 of 9.
    waits = latency.row(by_predicate=pl.col("part") == "prefill in between", named=True)
    assert waits["tokens"] == 5 * 8 + 9 + 5 * 9
    assert waits["mean_ms"] == pytest.approx(8 * 0.102 / 94, abs=1e-6)


def test_a_late_host_and_a_slow_collective_are_told_apart(opened: Opened) -> None:
    profile = opened(decode_loop(30, prompts_at=(0,), late_at=10, slow_collective_at=20))
    causes = {row["iteration"]: row["cause"] for row in profile.table("slow_iterations").to_dicts()}
    assert causes == {10: "gap: launched late", 20: "collectives"}


def test_a_prompt_in_the_same_pass_is_the_cause_of_a_slow_one(opened: Opened) -> None:
    profile = opened(decode_loop(20, prompts_at=(), mixed_at=9))
    [slow] = profile.table("slow_iterations").to_dicts()
    assert (slow["iteration"], slow["phase"], slow["cause"]) == (9, "mixed", "prefill in the same pass")


def test_a_loop_that_generates_is_recognised_by_the_shapes_of_its_token_ids(opened: Opened) -> None:
    profile = opened(generate_loop(6, shapes=True))
    rows = columns(profile, "iterations", "phase", "source", "requests", "prefill_tokens", "decode_tokens")
    assert rows == [("prefill", "inferred", 2, 64, 0), *[("decode", "inferred", 2, 0, 2)] * 5]
    assert "no engine marked its iterations" in profile.table("iterations").notes[0]


def test_without_shapes_the_first_longer_pass_is_the_prompt(opened: Opened) -> None:
    profile = opened(generate_loop(6, shapes=False))
    assert columns(profile, "iterations", "phase", "requests") == [("prefill", None), *[("decode", None)] * 5]


def test_graphs_that_repeat_with_choices_of_tokens_are_passes(opened: Opened) -> None:
    events = []
    for number in range(5):
        begin = 100 * number
        events += [launch(begin, 2, number + 1, name="cudaGraphLaunch"), op("aten::argmax", begin + 5, 3)]
        events += [kernel(f"k{part}", begin + 10 + 10 * part, 8, number + 1) for part in range(3)]
    profile = opened(events)
    assert columns(profile, "iterations", "phase", "count") == [("decode", 3)] * 5


def test_nothing_is_inferred_for_training_nor_for_loops_that_may_be_something_else(opened: Opened) -> None:
    backward = op("autograd::engine::evaluate_function: MmBackward0", 5000, 5)
    assert find_iterations(opened([*generate_loop(6, shapes=True), backward]).trace) is None
    graphs = [launch(100 * number, 2, number + 1, name="cudaGraphLaunch") for number in range(5)]
    graphs += [kernel("matmul", 100 * number + 10, 8, number + 1) for number in range(5)]
    assert find_iterations(opened(graphs).trace) is None
    prompts_only = [
        op("aten::embedding", 100 * number, 5, **{"Input Dims": [[100, 8], [4, 16]]}) for number in range(5)
    ]
    with pytest.raises(WarplensError, match="needs passes of a served model"):
        opened(prompts_only).table("iterations")


def test_scopes_named_prefill_and_decode_are_taken_where_both_are_there(opened: Opened) -> None:
    both = [annotation("prefill", 0, 50), annotation("decode_1", 60, 20), annotation("decode_2", 90, 20)]
    assert [span.mark.phase for span in find_iterations(opened(both).trace).spans] == ["prefill", "decode", "decode"]  # type: ignore[union-attr]
    assert find_iterations(opened(both[1:]).trace) is None


def test_marks_without_gpu_work_still_make_a_table(opened: Opened) -> None:
    profile = opened([annotation(vllm(decode=4), 0, 100), frame("a.py(1): f", 10, 5)])
    assert columns(profile, "iterations", "count", "time_ms", "tokens_per_s") == [(0, 0.1, 40000.0)]


def test_thousands_of_iterations_take_seconds(opened: Opened) -> None:
    from support import ends

    with ends("reading iterations", cpu_seconds=60):
        profile = opened(decode_loop(5000, prompts_at=tuple(range(0, 5000, 50))))
        assert len(profile.table("iterations")) == 5000
        assert len(profile.table("slow_iterations")) > 50
        assert profile.table("token_latency").to_dicts()[0]["p99_ms"] == pytest.approx(1.3)


@pytest.mark.skipif(not SERVING.is_dir(), reason="the serving traces are not here")
@pytest.mark.parametrize(
    ("name", "expected"),
    [("sglang_decode", ("SGLang", "decode", 32, 0, 32)), ("vllm_piecewise", ("vLLM", "mixed", 46, 8155, 37))],
)
def test_real_engines_have_the_iterations_that_they_mark(name: str, expected: tuple[object, ...]) -> None:
    profile = warplens.open(SERVING / f"{name}.replay.json.gz", cache=False)
    assert isinstance(profile, warplens.Profile)
    names = ("engine", "phase", "requests", "prefill_tokens", "decode_tokens")
    assert columns(profile, "iterations", *names) == [expected]
    assert not any("outside iterations" in note for note in profile.table("iterations").notes)
    assert mark(profile.table("iterations").to_dicts()[0]["name"]).phase == expected[1]


def test_passes_of_an_engine_are_the_steps_of_its_trace(opened: Opened) -> None:
    profile = opened(decode_loop(6, prompts_at=(0,)))
    assert columns(profile, "steps", "step", "count") == [(number, 2) for number in range(6)]
    assert not any(note.code in ("no_steps", "steps_guessed") for note in profile.trace.quality.notes)


def test_nobody_is_told_to_mark_steps_where_an_engine_marks_its_pass(opened: Opened) -> None:
    profile = opened(passes([vllm(decode=8)], Work(GEMM, 100)))
    assert "no_steps" not in profile.table("quality").frame["code"].to_list()
    assert "no_steps" in opened(passes(["something"], Work(GEMM, 100))).table("quality").frame["code"].to_list()


def test_bytes_that_no_memory_moves_in_that_time_do_not_count(opened: Opened) -> None:
    """Of a table of rows a kernel may read a few; the product's 2 GB take 0.5 ms at the least, and it ran for 0.1."""
    shapes = inputs([1, 8192], [8192, 131072])
    work = Work(GEMM, 100, "aten::mm", shapes)
    profile = opened(passes([vllm(decode=1)] * 4, work), gpu="H200")
    assert 90 < profile.table("iterations").frame["mbu_percent"].max() <= 100


def test_steps_that_the_program_marks_may_have_many_passes(opened: Opened) -> None:
    profile = opened([annotation("ProfilerStep#3", 0, 5000), *decode_loop(6, prompts_at=(0,))])
    assert columns(profile, "steps", "step", "count") == [(3, 12)]
    assert len(profile.table("iterations")) == 6


def test_rates_without_the_profiler_are_those_of_the_corrected_timeline() -> None:
    profile = warplens.open(ROOT / "samples" / "serving" / "bloom_tokens.json.gz", cache=False).with_timeline()
    phases = profile.table("serving_phases")
    plain = dict(phases.frame.select("phase", "plain_tokens_per_s").rows())
    corrected = dict(profile.corrected().table("serving_phases").frame.select("phase", "tokens_per_s").rows())
    assert plain == pytest.approx(corrected, rel=0.01)
    recorded = dict(phases.frame.select("phase", "tokens_per_s").rows())
    assert plain["decode"] > 1.3 * recorded["decode"]  # the host is the limit
    interval = profile.table("token_latency").frame.filter(pl.col("part") == "interval")
    assert interval["plain_p50_ms"][0] < 0.8 * interval["p50_ms"][0]
    assert any(note.startswith("times and rates are as recorded") for note in phases.notes)
    low, high = phases.frame.filter(pl.col("phase") == "decode").select("low_tokens_per_s", "high_tokens_per_s").row(0)
    assert low < plain["decode"] < high
    clock = profile.clock
    assert clock is not None
    assert (plain["decode"] / low, high / plain["decode"]) == pytest.approx(
        (clock.high_ms / clock.step_ms, clock.step_ms / clock.low_ms)
    )
    assert profile.verdict().startswith(
        f"Decode of 1 request: {plain['decode']:.1f} tokens/s ({low:.1f} to {high:.1f}); prefill of"
    )
    assert "(estimated). Host-bound" in profile.verdict()


def test_rates_that_recording_does_not_slow_are_said_to_be_recorded() -> None:
    profile = warplens.open(ROOT / "samples" / "serving" / "served.json.gz", cache=False).with_timeline()
    frame = profile.table("serving_phases").frame
    assert all(
        frame[name].null_count() == 3 for name in ("plain_tokens_per_s", "low_tokens_per_s", "high_tokens_per_s")
    )
    assert any(note.endswith("less than 1 % of the step by estimate") for note in profile.table("iterations").notes)
