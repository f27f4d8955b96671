"""Hardware counters that CUPTI's range profiler measures in place of kernels' times (`cuda_profiler_range`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import warplens
from support import Opened, RunInside, annotation, kernel, launch, op, write_trace
from warplens_run.base.errors import UsageError

FADD, FFMA = (f"smsp__sass_thread_inst_executed_op_{name}_pred_on.sum" for name in ("fadd", "ffma"))
GEMM = "void gemm<float, (lambda at x.cu:3){lambda()#1}>(float*, int)"
RELU = "void relu(float*)"


def measured(name: str, ts: float, device: int = 0, **values: Any) -> dict[str, Any]:
    """As PyTorch writes it: the times are equal shares of the recording."""
    args = {FADD: values["fadd"], FFMA: values["ffma"]}
    return {
        "ph": "X",
        "cat": "cuda_profiler_range",
        "name": name,
        "pid": device,
        "tid": 0,
        "ts": ts,
        "dur": 5,
        "args": args,
    }


def calls() -> list[dict[str, Any]]:
    events = [op("aten::linear", 0, 50), op("aten::addmm", 5, 40), launch(10, 5, 1), launch(20, 5, 2)]
    return [*events, op("aten::relu", 60, 20), launch(65, 5, 3), annotation("setup", 100, 5)]


def ranges() -> list[dict[str, Any]]:
    return [
        measured(GEMM, 1, fadd=10, ffma=1000),
        measured(RELU, 11, fadd=0, ffma=0),
        measured(GEMM, 6, fadd=30, ffma=3000),
    ]


def rows(profile: warplens.Profile) -> dict[tuple[str, str, str], dict[str, Any]]:
    table = profile.table("counters").to_dicts()
    return {(row["kernel"], row["op"], row["metric"]): row for row in table}


def test_counters_are_summed_by_kernel_op_and_metric(opened: Opened) -> None:
    """The n-th range, by time, measured the n-th launch."""
    profile = opened(calls() + ranges())
    found = rows(profile)
    assert set(found) == {
        *((GEMM, "aten::addmm", metric) for metric in (FADD, FFMA)),
        *((RELU, "aten::relu", metric) for metric in (FADD, FFMA)),
    }
    product = found[GEMM, "aten::addmm", FFMA]
    assert product["outer_op"] == "aten::linear"
    assert [product[name] for name in ("count", "total", "mean", "min", "max")] == [2, 4000, 2000, 1000, 3000]
    assert found[GEMM, "aten::addmm", FADD]["total"] == 40


def test_a_trace_with_counters_is_not_one_whose_gpu_work_is_missing(opened: Opened, run_inside: RunInside) -> None:
    profile = opened(calls() + ranges())
    codes = {note.code for note in profile.trace.quality.notes}
    assert "counters_only" in codes and not codes & {"launches_only", "no_gpu"}
    assert profile.verdict().startswith("Hardware counters of kernels (measured), but no times of GPU work")
    done = run_inside("report", profile.source, "--no-cache")
    assert "hardware counters of 3 kernels" in done.stdout.replace("\n          ", " ")
    assert "none of the GPU work" not in done.stdout and " counters\n" in done.stdout


@pytest.mark.parametrize("device", [0, 1])
def test_ranges_that_cannot_be_told_apart_have_counters_without_ops(opened: Opened, device: int) -> None:
    """More launches than ranges; ranges of two GPUs, whose launches are not in one order."""
    events = calls() + (ranges()[:2] if device == 0 else [*ranges()[:2], measured(GEMM, 6, device, fadd=1, ffma=1)])
    profile = opened(events)
    assert {op for _, op, _ in rows(profile)} == {""}
    assert "which belong together is not known" in profile.table("counters").notes[0]


def test_counters_survive_a_conversion(tmp_path: Path, run_inside: RunInside) -> None:
    path, converted = write_trace(tmp_path / "ranges.json", calls() + ranges()), tmp_path / "x.perfetto.json"
    assert run_inside("convert", path, "-o", converted).returncode == 0
    first, second = (warplens.open(each, cache=False).table("counters").to_dicts() for each in (path, converted))
    assert first == second and len(first) == 4


def test_a_file_that_ends_early_has_the_counters_of_its_whole_ranges(tmp_path: Path) -> None:
    whole = json.dumps({"traceEvents": calls() + ranges()}).encode()
    (tmp_path / "cut.json").write_bytes(whole[: whole.rindex(b'"args"') + 20])
    kept = rows(warplens.open(tmp_path / "cut.json", cache=False))
    assert {key: row["count"] for key, row in kept.items()} == {
        (name, "", metric): 1 for name in (GEMM, RELU) for metric in (FADD, FFMA)
    }


def test_values_that_are_not_numbers_are_omitted_and_the_order_of_keys_does_not_matter(tmp_path: Path) -> None:
    first, *others = ranges()
    first["args"] = {FADD: "many", FFMA: 1000, "nested": [1]}
    turned = [{"args": each["args"], **{key: each[key] for key in each if key != "args"}} for each in others]
    profile = warplens.open(write_trace(tmp_path / "odd.json", [*calls(), first, *turned]), cache=False)
    found = rows(profile)
    assert {metric for _, _, metric in found} == {FADD, FFMA}
    assert (found[GEMM, "aten::addmm", FADD]["total"], found[GEMM, "aten::addmm", FFMA]["total"]) == (30, 4000)


def test_other_traces_say_what_the_table_takes(opened: Opened) -> None:
    with pytest.raises(UsageError, match=r"table counters needs .*profiler_metrics"):
        opened([kernel("a", 0, 5)]).table("counters")
