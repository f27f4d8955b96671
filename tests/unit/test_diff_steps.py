"""Steps of one trace compared with each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import warplens
from support import ROOT, Opened, RunInside, annotation, kernel, launch, op, write_trace
from warplens_run.base.errors import UsageError

STALL = ROOT / "samples" / "faults" / "dataloader_stall.before.json.gz"


def steps(*lengths: float) -> list[dict[str, Any]]:
    """A step per length: a product of 10 µs and a sum that takes what is left of half of it."""
    events, at = [], 0.0
    for number, length in enumerate(lengths):
        events += [annotation(f"ProfilerStep#{number + 4}", at, length)]
        for name, begin, duration in (("mm", at + 1, 10), ("sum", at + 20, length / 2 - 10)):
            correlation = 1 + len(events)
            events += [op(f"aten::{name}", begin, 5), launch(begin + 1, 1, correlation)]
            events += [kernel(f"{name}_kernel", begin + 4, duration, correlation)]
        at += length
    return events


def times(comparison: Any, table: str, key: str) -> dict[str, tuple[float, float]]:
    return {row[key]: (row["a_us"], row["b_us"]) for row in comparison.table(table).to_dicts()}


def test_two_steps_are_compared_by_op_kernel_and_length(opened: Opened) -> None:
    comparison = warplens.diff(opened(steps(100, 200, 100, 100)), steps="4,5")
    assert times(comparison, "diff_ops", "op") == {"aten::sum": (40.0, 90.0), "aten::mm": (10.0, 10.0)}
    assert times(comparison, "diff_timeline", "measure")["total"] == (pytest.approx(100), pytest.approx(200))
    assert comparison.verdict().startswith("B is 2.00× slower")
    assert comparison.facts()["A"].startswith("step 4 of ")
    assert comparison.facts()["times"] == "of step 4 (A) and step 5 (B)"


def test_a_range_is_the_mean_of_its_steps_and_the_last_step_is_named(opened: Opened) -> None:
    comparison = warplens.diff(opened(steps(100, 200, 100, 100)), steps="4-5, 7")
    assert times(comparison, "diff_ops", "op")["aten::sum"] == (65.0, 40.0)
    assert "no next step ends the last one, in B" in comparison.facts()["times"]


def test_gaps_after_the_work_of_the_last_step_are_no_part_of_it(opened: Opened) -> None:
    later = [kernel("unlinked", at, 5) for at in (400, 700)]
    comparison = warplens.diff(opened([*steps(100, 100), *later]), steps="4,5")
    idle_us = sum(b_us for _, b_us in times(comparison, "diff_idle", "cause").values())
    assert idle_us == times(comparison, "diff_timeline", "measure")["idle"][1] == 9


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4", "not a pair"),
        ("4,5,6", "not a pair"),
        ("4,x", "not a pair"),
        ("4,9", "no step 9"),
        ("5-4,6", "no step 5-4"),
    ],
)
def test_what_names_no_steps_is_refused(opened: Opened, text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        warplens.diff(opened(steps(100, 100, 100)), steps=text)


def test_steps_need_a_trace_that_has_them_and_no_other_trace(opened: Opened) -> None:
    profile = opened([kernel("k", 0, 5)])
    with pytest.raises(UsageError, match=r"trace\.json has no steps$"):
        warplens.diff(profile, steps="1,2")
    for arguments in ({}, {"b": profile, "steps": "1,2"}):
        with pytest.raises(UsageError, match="are compared"):
            warplens.diff(profile, **arguments)


def test_the_command_says_which_step_lost_its_time_and_how_to_go_on(run_inside: RunInside) -> None:
    done = run_inside("diff", STALL, "--steps", "4,5", COLUMNS="80")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert len(lines) <= 40 and max(len(line) for line in lines if "warplens diff " not in line) <= 80
    assert "On the GPU, as recorded: 25.7 → 8.50 ms per step" in " ".join(" ".join(lines[:3]).split())
    assert "(data loading" in " ".join(" ".join(lines[:4]).split())
    assert lines[-1].strip() == f"warplens diff {STALL} --steps 4,5 --table diff_ops"
    assert run_inside("diff", STALL, "--steps", "4,5", "--table", "diff_kernels", "--json").returncode == 0
    assert "two steps of one: --steps 3,7" in run_inside("diff", STALL).stderr
    assert "omit B" in run_inside("diff", STALL, STALL, "--steps", "4,5").stderr


def test_without_numbers_the_median_step_and_the_slowest_are_compared(opened: Opened, run_inside: RunInside) -> None:
    comparison = warplens.diff(opened(steps(100, 140, 300, 120, 900)), steps="usual")  # no next step ends the last
    assert comparison.facts()["times"] == "of step 7 (A) and step 6 (B)"
    numbered, alone = (run_inside("diff", str(STALL), "--steps", *word) for word in (("usual",), ()))
    assert alone.returncode == 0
    assert alone.stdout == numbered.stdout
    assert alone.stdout.count("--steps usual") >= 1


def products(durations_us: tuple[float, ...]) -> list[dict[str, Any]]:
    """Product kernels of 64³, of which the first were launched before the recording began, and steps of two each."""
    product = {
        "Input Dims": [[64, 64], [64, 64]],
        "Input type": ["c10::BFloat16"] * 2,
        "Concrete Inputs": ["", ""],
    }
    launched = durations_us[2:]
    events = [kernel("gemm_bf16", 10 * place, time_us) for place, time_us in enumerate(durations_us[:2])]
    for place, time_us in enumerate(launched):
        at = 100 * (1 + place)
        step = [annotation(f"ProfilerStep#{place // 2}", at, 200)] if place % 2 == 0 else []
        events += [*step, op("aten::mm", at + 1, 20, **product), launch(at + 5, 5, 1 + place)]
        events += [kernel("gemm_bf16", at + 12, time_us, 1 + place)]
    return events


def test_steps_of_identical_work_have_identical_flops_whatever_their_kernels_take(opened: Opened) -> None:
    a, b = (opened(products(times_us)) for times_us in ((3, 7, 10, 20, 30, 40, 9, 9), (8, 2, 60, 5, 5, 5, 70, 9)))
    two_products = "1.049 MFLOP (A) and 1.049 MFLOP (B) per step"
    assert warplens.diff(a, b).facts()["work"] == two_products
    assert warplens.diff(a, steps="0,1").facts()["work"] == two_products
    assert warplens.diff(a, b, whole=True).facts()["work"] == "4.194 MFLOP (A) and 4.194 MFLOP (B)"


def with_a_step_on_the_host(*more_ops: str) -> list[dict[str, Any]]:
    """A step with a kernel and one in which only the host works."""
    events = [annotation("ProfilerStep#7", 0, 100), op("aten::mm", 10, 20), launch(15, 5, 1), kernel("gemm", 30, 40, 1)]
    events += [annotation("ProfilerStep#8", 100, 100), op("aten::to", 110, 30)]
    return [*events, *(op(name, 150 + 10 * place, 8) for place, name in enumerate(more_ops))]


def host_counts(comparison: Any) -> dict[str, tuple[str, float, float]]:
    rows = comparison.table("diff_host").to_dicts()
    return {row["op"]: (row["status"], row["a_count"], row["b_count"]) for row in rows}


def test_ops_of_steps_without_gpu_work_are_compared(opened: Opened) -> None:
    a, b = opened(with_a_step_on_the_host()), opened(with_a_step_on_the_host("CatBackward0", "AddmmBackward0"))
    comparison = warplens.diff(a, b)
    assert host_counts(comparison) == {
        "aten::mm": ("both", 0.5, 0.5),
        "aten::to": ("both", 0.5, 0.5),
        "CatBackward0": ("only in B", 0, 0.5),
        "AddmmBackward0": ("only in B", 0, 0.5),
    }
    assert "means over 2 (A) and 2 (B) steps, also those without GPU work" in comparison.table("diff_host").notes[0]
    assert times(comparison, "diff_kernels", "kernel_short") == {"gemm": (40.0, 40.0)}, (
        "GPU time is per step with GPU work"
    )


def test_steps_without_gpu_work_are_compared_with_others(opened: Opened) -> None:
    profile = opened(with_a_step_on_the_host("CatBackward0"))
    comparison = warplens.diff(profile, steps="7,8")
    assert host_counts(comparison) == {
        "aten::mm": ("only in A", 1, 0),
        "aten::to": ("only in B", 0, 1),
        "CatBackward0": ("only in B", 0, 1),
    }
    start = "Only A has GPU work, so the host's ops are compared. No difference: 100 → 100 µs per recorded step."
    assert comparison.verdict().startswith(start)


def test_steps_are_compared_where_all_gpu_work_is_outside_of_them(opened: Opened) -> None:
    events = [annotation("ProfilerStep#1", 0, 10), op("aten::to", 1, 5), annotation("ProfilerStep#2", 10, 10)]
    events += [op("aten::cat", 11, 5), op("aten::mm", 50, 5), launch(51, 1, 1), kernel("gemm", 60, 10, 1)]
    comparison = warplens.diff(opened(events), steps="1,2")
    assert host_counts(comparison) == {"aten::to": ("only in A", 1, 0), "aten::cat": ("only in B", 0, 1)}
    assert comparison.facts()["times"] == "of step 1 (A) and step 2 (B)"


def test_the_screen_shows_host_ops_where_steps_without_gpu_work_have_them(
    tmp_path: Path, run_inside: RunInside
) -> None:
    a = write_trace(tmp_path / "a.json", with_a_step_on_the_host())
    b = write_trace(tmp_path / "b.json", with_a_step_on_the_host("CatBackward0"))
    done = run_inside("diff", a, b)
    assert done.returncode == 0
    host = done.stdout[done.stdout.index("host time by op") :]
    assert "CatBackward0" in host and " new" in host
