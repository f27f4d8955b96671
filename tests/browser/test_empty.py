"""Traces that lack something: every section and every table says what is missing, in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import warplens
from page_profiles import opened_once
from support import ROOT, kernel, launch, op, write_trace

Show = Callable[..., Any]
Written = Callable[[Path], Path]
HOST_ONLY = ROOT / "samples" / "kineto" / "cpu_mlp_train.json.gz"
WITHOUT_HOST = ROOT / "samples" / "kineto" / "cudagraph_infer.json.gz"
NO_HOST = "No ops, ranges or Python frames"
GENERIC = "There is nothing of this kind in this trace."


def section(page: Any, name: str) -> str:
    page.page.locator(f"#{name}").scroll_into_view_if_needed()
    if name == "flame":
        page.page.wait_for_selector("#flame .is-made")
    return page.page.locator(f"#{name} .body").inner_text()


def reasons(page: Any, profile: warplens.Profile) -> dict[str, str]:
    """Why each table without rows has none, as the page says it."""
    said = {}
    for table in profile.tables():
        page.state(table=table.name)
        panel = page.page.locator(".tv-panel .empty")
        assert panel.is_visible() == (len(table) == 0), table.name
        if not len(table):
            said[table.name] = panel.inner_text()
    assert all(text[0].isupper() and text.endswith(".") for text in said.values()), said
    assert not [name for name, text in said.items() if GENERIC in text]
    return said


def kernels(count: int = 3) -> list[dict[str, Any]]:
    return [kernel(f"void gemm_{place}()", 100.0 * place, 50, place + 1) for place in range(count)]


def calls(count: int = 3, **args: Any) -> list[dict[str, Any]]:
    pairs = (
        (op("aten::mm", 100.0 * place, 20, **args), launch(100.0 * place + 2, 5, place + 1)) for place in range(count)
    )
    return [event for pair in pairs for event in pair]


def made(events: list[dict[str, Any]], folder: Path) -> tuple[warplens.Profile, Path]:
    path = folder / "page.html"
    return warplens.report(write_trace(folder / "trace.json", events), path, cache=False), path


def test_a_trace_of_the_host_alone(written: Written, show: Show) -> None:
    page = show(written(HOST_ONLY))
    profile = opened_once(HOST_ONLY)
    assert "No GPU work in this trace" in section(page, "findings")
    steps = section(page, "steps")
    assert "No GPU work in this trace: shares of the host's time in ops" in steps
    heaviest = max(profile.table("ops").to_dicts(), key=lambda row: row["cpu_self_us"])
    assert page.page.locator(".bars button").first.inner_text() == heaviest["op"]
    assert not page.page.locator(".whole-bar").is_visible()
    assert page.page.locator(".step").count() == len(profile.table("steps"))
    assert "No GPU work in this trace: the lanes are CPU threads." in section(page, "timeline")
    assert "of CPU time in 975 host calls" in section(page, "flame")
    gpu = page.page.locator("#flame").get_by_role("button", name="GPU time")
    assert gpu.is_disabled()
    assert gpu.get_attribute("title") == "no GPU work in this trace"
    assert "No GPU work in the file" in section(page, "roofline")
    assert page.page.locator("#roofline .rl-svg").count() == 0
    said = reasons(page, profile)
    assert len(said) > 20
    assert all(
        "No GPU work" in said[name] for name in ("kernels", "gaps", "roofline", "modules", "ceilings", "findings")
    )
    step = profile.table("steps").frame["step"][0]
    page.page.locator(f'.step[data-step="{step}"]').click()
    assert f"step {step}." in page.page.locator("#scope").inner_text()
    page.assert_quiet()


def test_a_trace_of_kernels_alone(tmp_path: Path, show: Show) -> None:
    profile, path = made(kernels(), tmp_path)
    page = show(path)
    assert "GPU 0" in section(page, "timeline")
    assert "100 % of it has no recorded launch, so its caller is unknown." in section(page, "flame")
    cpu = page.page.locator("#flame").get_by_role("button", name="CPU time")
    assert cpu.is_disabled()
    assert cpu.get_attribute("title") == "no host events in this trace"
    assert "No steps are marked in this trace" in section(page, "steps")
    assert f"{NO_HOST}: kernels cannot be attributed to ops" in section(page, "roofline")
    said = reasons(page, profile)
    assert all(NO_HOST in said[name] for name in ("op_shapes", "chains", "roofline"))
    page.state(table="host_events")
    assert NO_HOST in page.page.locator(".tv-panel .empty").inner_text()
    page.page.locator("#flame").scroll_into_view_if_needed()
    page.state(weight="cpu")
    page.page.locator(".flame-text", has_text="No host calls in this trace.").wait_for()
    page.page.locator("#flame").get_by_role("button", name="Show GPU time").click()
    page.page.locator(".flame-text", has_text="150 µs of GPU time").wait_for()
    page.assert_quiet()


def test_a_trace_without_stacks_shapes_steps_and_a_known_gpu(tmp_path: Path, show: Show) -> None:
    profile, path = made([*kernels(), *calls()], tmp_path)
    page = show(path)
    assert "No stacks were recorded: with_stack=True" in section(page, "flame")
    assert "No steps are marked in this trace" in section(page, "steps")
    roofline = section(page, "roofline")
    assert "record with record_shapes=True" in roofline
    assert "No roofline: the limits of this GPU are not known" in roofline
    said = reasons(page, profile)
    assert "record_shapes=True" in said["roofline"]
    assert "record_shapes=True" in said["gemm"]
    assert "limits of this GPU are not known" in said["ceilings"]
    assert "prof.step()" in said["steps"]
    assert said["comm"] == "No communication kernels in this trace."
    assert "profile_memory=True" in said["memory"]
    badges = page.page.locator(".badges").inner_text()
    assert all(note in badges for note in ("no stacks", "no shapes", "no steps", "unknown gpu"))
    page.assert_quiet()


def test_an_unknown_gpu_has_dots_without_ceilings(tmp_path: Path, show: Show) -> None:
    shapes = {"Input Dims": [[64, 32], [32, 64]], "Input type": ["float", "float"]}
    profile, path = made([*kernels(), *calls(**shapes)], tmp_path)
    page = show(path)
    text = section(page, "roofline")
    assert page.page.locator(".rl-svg .rl-dot").count() == len(profile.table("roofline")) == 1
    assert page.page.locator(".rl-svg .rl-ceiling").count() == 0
    assert "No roofline: the limits of this GPU are not known" in text
    assert "No op here has a known limit" in text
    said = reasons(page, profile)
    assert said["attention"] == "No fused attention with known sizes is in this trace."
    page.assert_quiet()


def test_a_graph_hides_its_ops(written: Written, show: Show) -> None:
    page = show(written(WITHOUT_HOST))
    profile = opened_once(WITHOUT_HOST)
    assert "launched by a CUDA or HIP graph, inside which no ops are recorded" in section(page, "roofline")
    assert "No stacks were recorded" in section(page, "flame")
    assert NO_HOST in reasons(page, profile)["op_shapes"]
    page.assert_quiet()


def test_a_selection_without_work_says_so(written: Written, show: Show) -> None:
    trace = ROOT / "samples" / "faults" / "straggler_step.before.json.gz"
    page = show(written(trace), "range=0-10")
    selected = page.js("() => warplens.selection.text")
    assert "10.0 ns" in selected
    assert selected in page.page.locator("#scope").inner_text()
    assert "No GPU event belongs to the selection." in section(page, "steps")
    assert f"No GPU work in {selected}" in section(page, "flame")
    page.page.locator("#flame").get_by_role("button", name="Show CPU time").click()
    assert page.js("() => warplens.store.text('weight')") == "cpu"
    page.state(table="kernels")
    rows = len(opened_once(trace).table("kernels"))
    said = page.page.locator(".tv-panel .empty").inner_text()
    assert said == f"Nothing of it is in {selected}; for the whole trace there are {rows} rows."
    page.page.keyboard.press("Escape")
    assert not page.page.locator("#scope").is_visible()
    page.assert_quiet()
