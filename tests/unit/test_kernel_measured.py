"""Kernels beside profiles: what a profile measured, which of its kernels is meant, work, roofline and time at stake."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import warplens
from kernel_traces import BLOCK, LINES, SOURCE, matmul, trace_of
from support import ROOT, write_trace
from support import kernel as kineto_kernel
from warplens.hardware import gpu_named
from warplens.model.measured import LineSamples, Measured, MeasuredKernel
from warplens_lab.checking.checks import CheckResult, KernelCheck, suggestions_table, with_profiles
from warplens_lab.checking.measured_tables import measured_tables
from warplens_lab.facts.machine import Instruction
from warplens_lab.facts.records import Dot, KernelFacts, Line, Occupancy, SourcePlace
from warplens_lab.measured.joining import KernelMeasurements, at_stake_us, joined
from warplens_lab.measured.match import matched, named, nearest
from warplens_lab.measured.statement_lines import statement_lines
from warplens_lab.measured.work import reported_work, traced_work
from warplens_lab.suggesting.records import Suggestion

SAMPLES = ROOT / "samples"
PROTON = SAMPLES / "proton"
FILE = "/here/product.py"
DOT = Dot(SourcePlace(FILE, LINES["dot"]), (16, 16, 16), "f16", "tf32", "wgmma", "m64n16k16", in_loop=True)
FACTS = KernelFacts(
    kernel="product", file=FILE, target="sm90", triton_version="3.9.0", signature="", config="", num_warps=4,
    num_stages=3, num_ctas=1, dots=(DOT,),
    lines=tuple(Line(SourcePlace(FILE, line), "", 5, 5, ()) for line in LINES.values()),
)  # fmt: skip


def opened(path: Path) -> Measured:
    return warplens.open(path, cache=False).measured()


def profile(*kernels: MeasuredKernel, gpu: str = "H200", source: str = "p.hatchet") -> Measured:
    total = sum(kernel.total_ns for kernel in kernels)
    return Measured(source, gpu, gpu_named(gpu).architecture if gpu else "", 2 * total, kernels)


def suggestion(code: str, line: int | None) -> Suggestion:
    source = SourcePlace(FILE, line) if line else None
    return Suggestion(code=code, title="", compiled_for="sm90", config="", source=source, evidence="", advice="")


def samples(line: int, count: int, **reasons: int) -> LineSamples:
    ordered = tuple(sorted(reasons.items(), key=lambda reason: -reason[1]))
    return LineSamples(count, sum(reasons.values()), ordered, "/there/product.py" if line else "", line, "product")


def raw_nodes(path: Path) -> list[dict[str, Any]]:
    stack, nodes = [json.loads(gzip.decompress(path.read_bytes()))[0]], []
    while stack:
        node = stack.pop()
        nodes.append(node)
        stack += node.get("children", [])
    return nodes


@pytest.mark.parametrize("name", ["tree_shadow", "tree_python", "pcsampling"])
def test_a_proton_tree_s_kernels_are_the_file_s_own_sums(name: str) -> None:
    path = PROTON / f"{name}.hatchet.gz"
    measured = opened(path)
    assert (measured.gpu, measured.architecture) == ("H200", "sm_90")
    nodes = [node for node in raw_nodes(path) if node["metrics"].get("count")]
    assert measured.gpu_ns == sum(node["metrics"]["time (ns)"] for node in nodes)
    for kernel in measured.kernels:
        own = [node["metrics"] for node in nodes if node["frame"]["name"] == kernel.name]
        assert kernel.count == sum(node["count"] for node in own)
        assert kernel.total_ns == sum(node["time (ns)"] for node in own)
        assert kernel.bytes == sum(node.get("bytes", 0) for node in own)
        assert dict(kernel.flop).get("16", 0) == sum(node.get("flops16", 0) for node in own)
        assert sum(node.samples for node in kernel.samples) == sum(node.get("num_samples", 0) for node in own)
    [kernel] = [node for node in measured.kernels if node.name == "matmul_<grid:512>_<warps:8>_<stages:3>"]
    assert (kernel.grid, kernel.warps, kernel.stages) == ((512,), 8, 3)


def test_samples_by_line_and_what_they_waited_for(tmp_path: Path) -> None:
    line = {"frame": {"name": "/w/k.py:7@k"}, "metrics": {"num_samples": 9, "num_stalled_samples": 5, "stalled_wait": 4,
            "stalled_barrier": 1, "stalled_selected": 3}, "children": []}  # fmt: skip
    kernel = {"frame": {"name": "k"}, "metrics": {"time (ns)": 5, "count": 1, "num_samples": 2}, "children": [line]}
    path = tmp_path / "x.hatchet"
    path.write_text(json.dumps([{"frame": {"name": "ROOT"}, "metrics": {}, "children": [kernel]}, {}]))
    [measured] = opened(path).kernels
    assert measured.samples == (
        LineSamples(9, 5, (("wait", 4), ("barrier", 1)), "/w/k.py", 7, "k"),
        LineSamples(2, 0, ()),
    )


def test_the_kernels_of_traces_and_counters() -> None:
    trace = opened(SAMPLES / "replay" / "gpt2_compiled.json.gz")
    fused = next(kernel for kernel in trace.kernels if kernel.name.startswith("triton_red_fused__log_softmax"))
    assert (fused.count, fused.total_ns, fused.grid, fused.threads) == (1, 818400, (8192, 1, 1), 256)
    assert (fused.registers, fused.shared_bytes) == (38, 2048)
    counters = opened(SAMPLES / "ncu" / "ncu_raw.csv.gz")
    product = counters.kernels[0]
    assert (product.name[:10], product.total_ns, product.dram_bytes) == ("nvjet_sm90", 175584, 176711168)
    [waits] = product.samples
    assert waits.reasons[0] == ("barrier", 5721)
    assert waits.samples - waits.stalled > 0 and "selected" not in dict(waits.reasons)


def test_work_that_a_trace_s_launches_say_themselves(tmp_path: Path) -> None:
    def launched(name: str, ts: float, scope: str, **metrics: float) -> dict[str, Any]:
        args = {"call_stack": ["ROOT", scope, name], "metrics": metrics}
        return {"ph": "X", "cat": "kernel", "name": name, "tid": 7, "ts": ts, "dur": 2, "args": args}

    events = [launched("k", 0, "a", flops16=10, bytes=4), launched("k", 5, "a", flops16=30, bytes=4)]
    mixed = [launched("m", 10, "b", flops16=1), launched("n", 15, "b", flops16=1)]
    path = tmp_path / "x.chrome_trace"
    path.write_text(json.dumps({"traceEvents": events + mixed}))
    kernels = {kernel.name: kernel for kernel in opened(path).kernels}
    assert (kernels["k"].flop, kernels["k"].bytes) == ((("16", 40.0),), 8.0)
    assert kernels["m"].flop == kernels["n"].flop == ()


@pytest.mark.parametrize(
    ("name", "recorded", "expected"),
    [
        ("matmul_kernel", ["matmul_kernel", "matmul_kernel_0d1d"], ["matmul_kernel"]),
        ("matmul_kernel", ["matmul_kernel_0d1d2de3", "matmul_kernel_b"], ["matmul_kernel_0d1d2de3"]),
        ("matmul_kernel", ["matmul_<grid:4>_<warps:4>", "matmul2"], ["matmul_<grid:4>_<warps:4>"]),
        ("k", ["kk", "k_1", "k [M=3]"], ["k [M=3]"]),
        ("_attn_fwd", ["attn_fwd", "attn_bwd"], ["attn_fwd"]),
        ("k", ["k.kd"], ["k.kd"]),
        ("mat*", ["matmul", "a_mat"], ["matmul"]),
        ("softmax", ["matmul"], []),
    ],
)
def test_names_of_one_kernel(name: str, recorded: list[str], expected: list[str]) -> None:
    kernels = [MeasuredKernel(kernel_name, 1, 1) for kernel_name in recorded]
    assert [kernel.name for kernel in named(name, profile(*kernels))] == expected


def test_configs_are_distinguished_or_reported_as_one() -> None:
    four = MeasuredKernel("product", 1, 10, grid=(8, 1, 1), threads=128)
    eight = replace(four, threads=256, total_ns=20)
    larger = replace(four, grid=(16, 1, 1), total_ns=30)
    measured = profile(larger, eight, four)
    assert matched(FACTS, measured, grid=(8,)).kernels == (four,)
    together = matched(FACTS, measured)
    assert together.kernels == (larger, four)
    assert "2 launch shapes" in together.notes[0] and "a grid distinguishes them" in together.notes[0]
    other = matched(replace(FACTS, num_warps=2), profile(eight))
    assert other.kernels == (eight,) and "num_warps 8, not 2" in other.notes[0]
    one = matched(replace(FACTS, shared_bytes=64), profile(four, replace(four, shared_bytes=64)))
    assert [kernel.shared_bytes for kernel in one.kernels] == [64]


def test_a_kernel_that_is_not_there_is_one_note_with_the_nearest_names() -> None:
    measured = profile(MeasuredKernel("softmax_kernel_<grid:4>", 1, 9), MeasuredKernel("fill", 1, 99))
    assert nearest("softmaks_kernel", measured) == ["softmax_kernel_<grid:4>"]
    [note] = joined(FACTS, [measured]).notes
    assert note.startswith("p.hatchet has no kernel product; it has: softmax_kernel_<grid:4>, fill")
    assert joined(FACTS, [measured], name="fi*").total_ns == 99


def test_a_profile_of_another_gpu_is_left_out() -> None:
    join = joined(replace(FACTS, target="gfx942"), [profile(MeasuredKernel("product", 1, 9))])
    assert join.total_ns == 0 and join.notes == ("p.hatchet is of H200, not of gfx942",)


def test_exact_work_and_the_roofline_by_hand(tmp_path: Path) -> None:
    launch = matmul(tmp_path, 40, 24, 36)  # 3 × 2 programs, each with 3 products of 16 × 16 × 16
    kernel = MeasuredKernel("product", 10, 1_000_000, grid=(3, 2, 1), flop=(("16", 5.0),), bytes=5.0)
    join = joined(FACTS, [profile(kernel)], traced=trace_of(launch))
    moved, flop = 4 * (40 * 36 + 36 * 24 + 40 * 24), 3 * 2 * 3 * 2 * 16**3
    assert join.work is not None and join.reached is not None
    assert dict(join.work.flop) == {("matrix", "fp16"): flop}
    assert join.work.bytes == moved and join.work.source.startswith("traced")
    gpu = gpu_named("H200")
    peak = gpu.peak_tflops("matrix", "fp16")
    assert peak is not None
    least = max(flop / peak.value, moved / gpu.bandwidth_tbps().value) / 1e6
    assert join.reached.roofline_us == pytest.approx(least)
    assert join.reached.percent == pytest.approx(100 * least / 100)
    assert join.reached.flag.startswith("too small")


def test_work_of_another_launch_is_not_taken_for_this_one(tmp_path: Path) -> None:
    trace = trace_of(matmul(tmp_path, values=False))
    work, notes = traced_work(FACTS, trace, [(4, 2, 1)])
    assert work is None and "grid of 3×2×1, measured with 4×2×1" in notes[0]
    work, notes = traced_work(FACTS, trace, [None])
    assert work is not None and "does not say its grid" in notes[0]
    cut = replace(trace, launches=(replace(trace.launches[0], traced_programs=1),))
    assert traced_work(FACTS, cut, [None])[0] is None
    assert traced_work(replace(FACTS, kernel="other"), trace, [None])[0] is None
    assert traced_work(replace(FACTS, constants=(("BLOCK", BLOCK + 1),)), trace, [None])[0] is None


def test_metrics_of_a_program_are_means_over_its_launches() -> None:
    two = MeasuredKernel("product", 2, 10, flop=(("16", 200.0),), bytes=20.0)
    work = reported_work(FACTS, [two, replace(two, count=1, flop=(("16", 40.0),), bytes=7.0)])
    assert work is not None
    assert (dict(work.flop), work.bytes) == ({("matrix", "fp16"): 80.0}, 9.0)
    assert reported_work(FACTS, [two, replace(two, flop=(), bytes=0.0)]) is None
    assert reported_work(replace(FACTS, dots=()), [two]).flop == ((("vector", "fp32"), 100.0),)  # type: ignore[union-attr]


def test_times_come_rather_from_a_profile_that_took_no_samples() -> None:
    sampled = profile(MeasuredKernel("product", 3, 900, samples=(samples(0, 10, wait=4),)), source="slow.hatchet")
    plain = profile(MeasuredKernel("product", 3, 300), source="quick.json")
    join = joined(FACTS, [sampled, plain])
    assert (join.source, join.total_ns, join.sampled_in, join.sample_count) == ("quick.json", 300, "slow.hatchet", 10)
    assert join.gpu_percent == 50.0 and not join.has_lines


@pytest.mark.parametrize(("gpu", "card", "words"), [("", None, "names no GPU"), ("", "H200", ""), ("H200", "A100 SXM 80GB", "whose limits hold")])  # fmt: skip
def test_the_card_is_the_profile_s_or_is_said(gpu: str, card: str | None, words: str) -> None:
    kernel = MeasuredKernel("product", 1, 9000, flop=(("16", 1e9),), bytes=1e6)
    join = joined(FACTS, [profile(kernel, gpu=gpu)], card=card)
    assert join.reached is not None
    assert join.reached.card == ("H200" if gpu or card else "H100 SXM")
    assert [words in note for note in join.notes] == ([True] if words else [])


def test_time_at_stake_is_the_statement_s_share_of_the_samples() -> None:
    lines = (samples(LINES["a"], 60, wait=50), samples(LINES["dot"], 20), samples(LINES["c"], 20))
    join = joined(FACTS, [profile(MeasuredKernel("product", 1, 10_000, samples=lines))])

    def stake(code: str, line: int | None, measurements: KernelMeasurements | None = join) -> float | None:
        return at_stake_us(suggestion(code, line), FACTS, measurements, SOURCE)

    assert stake("WK102", LINES["a"]) == pytest.approx(6.0)
    assert stake("WK104", 5) == pytest.approx(8.0)  # the loop, with its body
    assert stake("WK102", LINES["b"]) == 0.0
    assert stake("WK101", LINES["a"]) == stake("WK108", None) == 10.0
    assert stake("WK102", LINES["a"], replace(join, samples=(samples(0, 5),))) == 10.0
    assert stake("WK102", LINES["a"], KernelMeasurements()) is None and stake("WK102", None, None) is None


def test_the_suggestions_follow_the_time_at_stake() -> None:
    lines = (samples(LINES["a"], 10), samples(LINES["b"], 90, long_scoreboard=80))
    busy = profile(MeasuredKernel("product", 1, 10_000, samples=lines), MeasuredKernel("other", 1, 50_000))
    first = KernelCheck(FACTS, (suggestion("WK102", LINES["a"]), suggestion("WK106", LINES["b"])))
    second = KernelCheck(replace(FACTS, kernel="other"), (suggestion("WK108", None),))
    result = with_profiles(CheckResult((first, second)), [busy])
    rows = suggestions_table(result).to_dicts()
    assert [(row["code"], row["at_stake_us"], row["time_us"]) for row in rows] == [
        ("WK108", 50.0, 50.0), ("WK106", 9.0, 10.0), ("WK102", 1.0, 10.0)
    ]  # fmt: skip
    times, stalls = measured_tables(result.checks)
    assert times.frame["kernel"].to_list() == ["other", "product"]
    assert stalls.frame.select("place", "percent", "top_stall", "instructions").rows() == [
        (f"product.py:{LINES['b']}", 90.0, "long_scoreboard", 5),
        (f"product.py:{LINES['a']}", 10.0, None, 5),
    ]
    plain = suggestions_table(CheckResult((first, second))).frame
    assert plain["code"].to_list() == ["WK102", "WK106", "WK108"] and plain["at_stake_us"].null_count() == 3


def test_samples_on_lines_without_code_are_reported() -> None:
    moved = profile(MeasuredKernel("product", 1, 10, samples=(samples(400, 30), samples(LINES["a"], 70))))
    assert joined(FACTS, [moved]).notes == ("30 % of the samples are on lines of product.py without code: has it changed since?",)  # fmt: skip


def test_text_that_is_no_python_has_statements_of_one_line() -> None:
    assert list(statement_lines("for (;;)", 1)) == [1]


def test_a_kineto_trace_of_a_known_gpu_sets_the_share(tmp_path: Path) -> None:
    device = {"id": 0, "name": "NVIDIA H200", "computeMajor": 9, "computeMinor": 0, "numSms": 132, "totalGlobalMem": 150_000_000_000}  # fmt: skip
    events = [kineto_kernel("product", 0, 30, grid=[4, 1, 1], block=[128, 1, 1]), kineto_kernel("fill", 40, 70)]
    path = write_trace(tmp_path / "t.json", events, deviceProperties=[device])
    join = joined(FACTS, [opened(path)], grid=(4,))
    assert (join.count, join.total_us, join.gpu_percent) == (1, 30.0, 30.0)


def test_waves_are_of_the_grid_that_ran_not_of_the_script_s(tmp_path: Path) -> None:
    facts = replace(FACTS, occupancy=Occupancy(8, 32, 64, "registers", ()))
    small = MeasuredKernel("product", 1, 2_000, grid=(64,), warps=4)
    large = MeasuredKernel("product", 1, 90_000, grid=(4096,), warps=4)
    script = KernelCheck(facts, (suggestion("WK109", None), suggestion("WK110", None)), launches=1, grid=(4, 4))

    def rows(*kernels: MeasuredKernel, check: KernelCheck = script, **more: Any) -> list[tuple[str, float]]:
        table = suggestions_table(with_profiles(CheckResult((check,)), [profile(*kernels)], **more))
        return [(row["evidence"].partition(",")[0], row["at_stake_us"]) for row in table.to_dicts()]

    # 64 blocks leave half of the card without one, for the time of those launches only.
    assert rows(small, large) == [("", 92.0), ("64 blocks on H200", 2.0)]
    assert rows(large) == [("", 90.0)]
    unnamed = replace(large, grid=())
    assert rows(unnamed) == [("", 90.0)]
    # Traced launches stand for the measured ones; a grid that was asked for is kept.
    assert rows(unnamed, traced=trace_of(matmul(tmp_path, values=False))) == [("16 blocks on H200", 90.0), ("", 90.0)]
    assert len(rows(large, check=replace(script, is_grid_given=True))) == 2


LIBRARY = "/lib/triton/language/standard.py"


def inlined(line: int, *callers: int) -> list[Instruction]:
    """Instructions of a line of Triton's own that is inlined at these lines of the kernel."""
    return [Instruction("FMNMX", "", (SourcePlace(LIBRARY, line), SourcePlace(FILE, caller))) for caller in callers]


def at(line: int, count: int, file: str = "/there/site-packages/triton/language/standard.py") -> LineSamples:
    return LineSamples(count, count, (("wait", count),), file, line, "product")


@pytest.mark.parametrize(("code", "lines"), [
    # the calls of sampled library lines: where the samples are counted
    (inlined(170, LINES["a"]) + inlined(191, LINES["a"]), [("product.py", LINES["a"], 95), ("product.py", LINES["c"], 5)]),
    (inlined(170, LINES["a"]) + inlined(191, LINES["a"], LINES["b"]),
     [("product.py", LINES["a"], 65), ("standard.py", 191, 30), ("product.py", LINES["c"], 5)]),
    (inlined(170, LINES["a"]),  # a line without code here: another version's file
     [("standard.py", 170, 60), ("standard.py", 191, 30), ("product.py", LINES["c"], 5), ("product.py", LINES["a"], 5)]),
    ([], [("standard.py", 170, 60), ("standard.py", 191, 30), ("product.py", LINES["c"], 5), ("product.py", LINES["a"], 5)]),
])  # fmt: skip
def test_samples_in_tritons_own_functions_count_where_only_one_line_calls_them(
    code: list[Instruction], lines: list[tuple[str, int, int]]
) -> None:
    sampled = (at(170, 60), at(191, 30), samples(LINES["c"], 5, wait=5), samples(LINES["a"], 5, wait=5))
    join = joined(FACTS, [profile(MeasuredKernel("product", 1, 10_000, samples=sampled))], code=code)
    places = [(Path(line.file).name, line.line, line.samples) for line in join.samples]
    assert sorted(places) == sorted(lines) and join.sample_count == 100


def test_another_version_of_a_library_is_known_by_the_text_of_its_lines(tmp_path: Path) -> None:
    library = tmp_path / "triton" / "language" / "standard.py"
    library.parent.mkdir(parents=True)
    library.write_text("\n\n    return core.maximum(a, b)\n    return a + b\n")
    code = [
        Instruction(name, "", (SourcePlace(str(library), line), SourcePlace(FILE, caller)))
        for name, line, caller in (("FMNMX", 3, LINES["a"]), ("FADD", 4, LINES["b"]), ("FADD", 4, LINES["c"]))
    ]
    sampled = (
        replace(at(170, 60), source="return core.maximum(a, b)"),
        replace(at(263, 30), source="return a + b"),
        replace(at(3, 10), source="return something_else(a)"),
    )
    join = joined(FACTS, [profile(MeasuredKernel("product", 1, 10_000, samples=sampled))], code=code)
    places = [(Path(line.file).name, line.line, line.samples) for line in join.samples]
    assert places == [("product.py", LINES["a"], 60), ("standard.py", 263, 30), ("standard.py", 3, 10)]
