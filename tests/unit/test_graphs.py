"""Captures of GPU graphs joined with their replays: which capture, which kernel, and what tables then say."""

from __future__ import annotations

import gzip
import json
import re
import shlex
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from graph_traces import ADD, GEMM, GEMM_2, LAYER, NORM, TRITON, Events, Node, call, capture, eager, replay
from support import ROOT, Opened, annotation, frame, kernel, op, write_trace
from warplens.analyses.units.calls import unit_calls
from warplens.cli import main
from warplens.model.check import self_check
from warplens.passes.graphs import aligning
from warplens.profiles.what_if import scaling
from warplens.ranks.finding_files import captured_trace
from warplens_run.base.errors import FormatError, UsageError
from warplens_run.formats.bundle import Staging


def open_pair(folder: Path, replays: Events, *captures: Events, **options: Any) -> warplens.Profile:
    files = [write_trace(folder / f"capture{number}.json", events) for number, events in enumerate(captures)]
    trace = write_trace(folder / "replay.json", replays)
    profile = warplens.open(trace, graph_captures=files, cache=False, **options).with_timeline()
    self_check(profile.trace)
    return profile


def ops_of(profile: warplens.Profile) -> dict[str, str]:
    """The op of each kernel."""
    return dict(profile.table("kernels").frame.select("kernel", "op").rows())


def codes(profile: warplens.Profile) -> set[str]:
    return set(profile.table("quality").frame["code"])


EAGER_OPS = {GEMM: "aten::addmm", ADD: "aten::add", NORM: "aten::native_layer_norm", GEMM_2: "aten::mm"}


@pytest.mark.parametrize("api", ["cuda", "hip"])
def test_kernels_of_a_graph_get_the_op_module_shapes_and_cost_of_the_capture(tmp_path: Path, api: str) -> None:
    replays = [*replay(api=api), *replay(api=api, ts=2000, correlation=501)]
    profile = open_pair(tmp_path, replays, capture(api=api))
    assert ops_of(profile) == {**EAGER_OPS, "Memset (Device)": "aten::zero_"}
    modules = dict(profile.table("modules").frame.select("module", "count").rows())
    assert modules == {"Linear_0": 2, "Block_0": 4, "LayerNorm_0": 2, "Linear_1": 2}
    lines = profile.table("python_lines").frame
    assert lines.select("file", "line", "count").rows() == [("serve.py", 9, 10)]
    gemm = profile.table("op_shapes").frame.row(by_predicate=pl.col("op") == "aten::mm", named=True)
    assert (gemm["input_dims"], gemm["count"], gemm["kernel_us_mean"]) == ("[[32, 16], [16, 8]]", 2, 4.0)
    roofline = profile.table("roofline").frame
    assert set(roofline.filter(pl.col("family") == "gemm")["op"]) == {"aten::addmm", "aten::mm"}
    assert "graph_mode" not in codes(profile)
    assert codes(profile) >= {"graphs_joined"}


def test_the_tables_say_what_was_joined_and_what_the_time_of_a_graph_is_made_of(tmp_path: Path) -> None:
    profile = open_pair(tmp_path, replay(), capture(label="capture_32_DECODE"))
    joins = profile.table("graph_joins").to_dicts()
    assert [(row["captured_as"], row["launches"], row["kernels"], row["joined_kernels"], row["joined_percent"],
             row["why_not"], row["capture_file"]) for row in joins] == [
        ("capture_32_DECODE #1", 1, 5, 5, 100.0, "", "capture0.json")
    ]  # fmt: skip
    ops = profile.table("graph_ops").frame
    assert ops["percent_of_graph"].sum() == pytest.approx(100)
    assert ops["captured_as"].unique().to_list() == ["capture_32_DECODE"]


def test_the_commands_of_the_guide_print_what_it_shows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "guides" / "graphs.md").read_text("utf-8")
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    shown = re.findall(r"^\$ warplens (.*samples/.+)\n((?:.+\n)+)```", text, re.MULTILINE)
    assert [command.split()[2] for command, _ in shown] == ["graph_ops", "roofline"]
    for command, output in shown:
        assert main(shlex.split(command)) == 0
        assert capsys.readouterr().out == output


def calls_of(profile: warplens.Profile) -> dict[str, tuple[int, int, float]]:
    """The calls of each op, how many of them graphs replayed, and the GPU time of one."""
    rows = profile.table("ops").to_dicts()
    return {row["op"]: (row["count"], row["replayed_calls"], row["kernel_us"] / row["count"]) for row in rows}


def test_calls_of_ops_are_those_of_the_host_and_those_that_graphs_replay(tmp_path: Path) -> None:
    """The host calls aten::mm twice, once without any GPU work; the graph does three times."""
    replays = [event for number in range(3) for event in replay(ts=1000 + 100 * number, correlation=500 + number)]
    host = [*eager([LAYER[3]]), op("aten::mm", 50, 2), op("aten::view", 60, 2)]
    calls = calls_of(open_pair(tmp_path, [*host, *replays], capture()))
    assert calls["aten::mm"] == (5, 3, 16 / 5)
    assert calls["aten::addmm"] == (3, 3, 4.0)
    assert calls["aten::view"] == (1, 0, 0.0)


def test_calls_of_a_capture_in_the_same_trace_are_those_of_its_replays(opened: Opened) -> None:
    """What only added nodes to the graph ran nothing: the time of a call is that of a replayed one."""
    replays = [event for number in range(3) for event in replay(ts=1000 + 100 * number, correlation=500 + number)]
    profile = opened([*capture(), *replays, *eager([LAYER[0]], ts=5000, first=600)])
    calls = calls_of(profile)
    assert calls["aten::mm"] == (3, 3, 4.0)
    assert calls["aten::addmm"] == (4, 3, 4.0)
    ops = {row["op"]: row for row in profile.table("ops").to_dicts()}
    assert (ops["aten::mm"]["cpu_us"], ops["aten::addmm"]["cpu_us"]) == (6.0, 12.0)


def test_calls_of_a_capture_that_is_not_replayed_count(opened: Opened) -> None:
    assert calls_of(opened(capture()))["aten::mm"] == (1, 0, 0.0)


def test_a_capture_in_the_same_file_is_joined_without_an_option(opened: Opened) -> None:
    profile = opened([*capture(), *replay()])
    assert ops_of(profile) == {**EAGER_OPS, "Memset (Device)": "aten::zero_"}
    # The capture's own calls have their times; those below the launch have none.
    assert profile.table("ops").frame.filter(pl.col("op") == "aten::mm").select("count", "cpu_us").rows() == [(1, 6.0)]


def test_every_kernel_has_the_op_of_its_eager_twin(opened: Opened) -> None:
    graphed, twin = opened([*capture(LAYER * 3), *replay(LAYER * 3)]), opened(eager(LAYER * 3))
    assert same_op_share(graphed, twin) == 1.0


def same_op_share(graphed: warplens.Profile, twin: warplens.Profile) -> float:
    """The share of a graph's kernels that have the op that kernel has in the eager run, call by call in order."""
    sides = []
    for profile in (graphed, twin):
        kernels = profile.workspace.gpu.sort("start_ns").select("kernel", "op")
        sides.append(kernels.with_columns(pl.int_range(pl.len()).over("kernel").alias("call")))
    both = sides[0].join(sides[1], on=["kernel", "call"], how="inner", suffix="_eager")
    return float((both["op"] == both["op_eager"]).mean() or 0.0) if len(both) else 0.0


def test_nodes_that_the_framework_adds_are_counted_and_keep_the_launch(tmp_path: Path) -> None:
    extra = Node("", "void framework_added_kernel(int)")
    profile = open_pair(tmp_path, replay([*LAYER[:2], extra, *LAYER[2:]], api="hip"), capture(api="hip"))
    assert ops_of(profile) == {**EAGER_OPS, "Memset (Device)": "aten::zero_", extra.kernel: "hipGraphLaunch"}
    row = profile.table("graph_joins").to_dicts()[0]
    assert (row["kernels"], row["joined_kernels"], row["why_not"]) == (6, 5, "1 kernel is not in the capture")


def test_nodes_that_the_framework_removes_do_not_shift_the_others(tmp_path: Path) -> None:
    layers = [node._replace(module=f"Layer_{number}") for number in range(3) for node in LAYER]
    profile = open_pair(tmp_path, replay(layers[:3] + layers[4:]), capture(layers))
    assert {ops_of(profile)[name] for name in (GEMM, GEMM_2)} == {"aten::addmm", "aten::mm"}
    assert profile.table("graph_joins").frame["joined_kernels"].to_list() == [14]


BLOCK = [
    *LAYER[:2], Node("aten::x", "void k1(int)"), Node("aten::y", "void k2(int)"), Node("aten::z", "void k3(int)"), LAYER[3],
]  # fmt: skip
UPDATE = [
    Node(f"aten::{name}_", f"void at::native::{name}_kernel_cuda(int)") for name in ("lerp", "mul", "sqrt", "div")
]


@pytest.mark.parametrize("nodes", [BLOCK * 12, UPDATE * 20 + BLOCK], ids=["blocks", "optimizer"])
@pytest.mark.parametrize("most_cells", [1 << 24, 80 * 64])
def test_kernels_without_names_keep_their_ops_beside_nodes_that_differ(
    nodes: list[Node], most_cells: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CUDA: the ops around an elementwise kernel show what it is, in long graphs by a part of the table."""
    monkeypatch.setattr(aligning, "MOST_CELLS", most_cells)
    monkeypatch.setattr(aligning, "LEAST_REACH", 8)
    ran = [node for number, node in enumerate(nodes) if number % 23 != 9]
    ran.insert(20, Node("", "void added_by_the_framework(int)"))
    profile = open_pair(tmp_path, replay(ran), capture(nodes))
    expected = {(node.kernel, node.op or "cudaGraphLaunch") for node in ran}
    assert set(profile.table("kernels").frame.select("kernel", "op").rows()) == expected


def test_a_graph_that_no_capture_is_like_is_left_as_it_is_and_said(tmp_path: Path) -> None:
    other = [Node("aten::x", f"void other_kernel_{number}(int)") for number in range(5)]
    profile = open_pair(tmp_path, replay(api="hip"), capture(other, api="hip"))
    assert set(ops_of(profile).values()) == {"hipGraphLaunch"}
    assert "graphs_unjoined" in codes(profile)
    assert "no capture" in profile.table("graph_joins").frame["why_not"][0]


def test_gemms_below_ops_that_launch_none_are_not_believed(tmp_path: Path) -> None:
    """CUDA's captures name no kernels: the count fits, what the ops can launch does not."""
    wrong = [Node("aten::add", GEMM), Node("aten::mul", GEMM), Node("aten::copy_", GEMM_2), Node("aten::sum", GEMM)]
    profile = open_pair(tmp_path, replay(wrong), capture(wrong))
    assert set(ops_of(profile).values()) == {"cudaGraphLaunch"}


def test_sizes_are_chosen_by_the_annotation_of_the_iteration(tmp_path: Path) -> None:
    def layer(size: int) -> list[Node]:
        return [node._replace(dims=((size, 64), (64, 16))) for node in LAYER]

    captures = [
        *capture(layer(32), ts=0, label="capture_32_DECODE"),
        *capture(layer(8), ts=100, first=50, label="capture_8_DECODE"),
    ]
    replays = [
        *replay(mark="step[DECODE bs=6]"),
        *replay(mark="step[DECODE bs=30]", ts=2000, correlation=501),
    ]
    profile = open_pair(tmp_path, replays, captures)
    assert profile.table("graph_joins").frame["captured_as"].sort().to_list() == [
        "capture_32_DECODE #1",
        "capture_8_DECODE #1",
    ]
    shapes = profile.table("op_shapes").frame.filter(pl.col("op") == "aten::mm")["input_dims"].sort().to_list()
    assert shapes == ["[[32, 64], [64, 16]]", "[[8, 64], [64, 16]]"]
    unmarked = open_pair(tmp_path, replay(), captures)
    row = unmarked.table("graph_joins").to_dicts()[0]
    assert row["joined_kernels"] == 5
    assert "no shapes" in row["why_not"]
    assert set(unmarked.table("op_shapes").frame["input_dims"]) == {""}


def test_equal_layers_of_a_piecewise_model_are_replayed_in_the_order_of_their_captures(tmp_path: Path) -> None:
    def pieces() -> list[list[Node]]:
        first, last = [Node("aten::embedding", "void embed(int)")], [Node("aten::mm", GEMM_2, "Head_0")]
        layers = [[node._replace(module=f"Layer_{number}") for node in LAYER] for number in range(4)]
        return [[*first, *layers[0]], *layers[1:], last]

    captures, replays = [], []
    for number, piece in enumerate(pieces()):
        captures += capture(piece, ts=200 * number, first=1 + 20 * number, api="hip")
    # The recording begins in the middle of an iteration: only the end of it says where.
    order = [2, 3, 4, 0, 1, 2, 3, 4]
    for place, number in enumerate(order):
        replays += replay(pieces()[number], ts=5000 + 100 * place, correlation=500 + place, api="hip")
    profile = open_pair(tmp_path, replays, captures)
    launches = profile.trace.graph_launches
    assert launches["captured_as"].to_list() == [f"capture #{number + 1}" for number in order]


def test_kernels_on_several_streams_are_placed_by_the_numbers_of_their_nodes(tmp_path: Path) -> None:
    nodes = [Node("aten::addmm", GEMM), Node("aten::add", ADD), Node("aten::mul", ADD), Node("aten::mm", GEMM_2)]
    shuffled = [nodes[0], nodes[3], nodes[2], nodes[1]]  # by start; the branches ran beside each other
    replays = replay(shuffled, streams=(7, 9, 7, 9), node_ids=(1, 4, 3, 2), graph_id=5)
    profile = open_pair(tmp_path, replays, capture(nodes))
    rows = profile.workspace.gpu.sort("start_ns").select("op").to_series().to_list()
    assert rows == ["aten::addmm", "aten::mm", "aten::mul", "aten::add"]


def test_inductors_ops_name_the_kernel_that_they_launch(tmp_path: Path) -> None:
    nodes = [Node("aten::mm", GEMM), Node(TRITON, TRITON), Node("aten::mm", GEMM_2)]
    added = [nodes[0], Node("", ADD), *nodes[1:]]
    profile = open_pair(tmp_path, replay(added), capture(nodes))
    assert ops_of(profile)[TRITON] == TRITON


def test_launches_on_other_threads_belong_to_the_capture_and_nested_captures_to_themselves(tmp_path: Path) -> None:
    outer = capture(LAYER, ts=0)
    backward = [
        event for event in capture([Node("aten::mm", GEMM)], ts=12, first=60, tid=2) if "Capture" not in event["name"]
    ]
    inner = capture([Node("aten::relu", ADD)], ts=24.2, first=80, tid=3)
    profile = open_pair(tmp_path, replay([Node("", ADD)], api="cuda"), [*outer, *backward, *inner])
    assert profile.table("graph_joins").frame["joined_kernels"].to_list() == [1]
    assert ops_of(profile) == {ADD: "aten::relu"}


def test_a_capture_without_its_end_is_not_used_and_said(tmp_path: Path) -> None:
    cut = [event for event in capture() if "EndCapture" not in event["name"]]
    profile = open_pair(tmp_path, replay(), cut)
    assert {"open_captures", "graph_mode"} <= codes(profile)


def why_unused(profile: warplens.Profile) -> str:
    quality = profile.table("quality").frame
    return str(quality.filter(code="graph_capture_unused")["message"].first())


def test_a_trace_and_its_capture_that_are_swapped_are_said_to_be(tmp_path: Path) -> None:
    assert "are the trace and its capture swapped?" in why_unused(open_pair(tmp_path, capture(), replay()))


def test_a_file_without_captures_is_said_to_have_none(tmp_path: Path) -> None:
    profile = open_pair(tmp_path, replay(), replay(ts=5000))
    assert "nothing that was given contains the capture of a graph" in why_unused(profile)


def test_captures_beside_a_trace_in_a_folder_of_their_own_are_found(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    write_trace(tmp_path / "captures" / "rank0.json", capture())
    trace = write_trace(tmp_path / "replay.json", replay())
    profile = warplens.open(trace, graph_captures=[tmp_path], cache=False).with_timeline()
    assert profile.table("graph_joins").frame["capture_file"].to_list() == ["captures/rank0.json"]


def test_a_capture_for_a_trace_without_graphs_is_said_to_be_unused(tmp_path: Path) -> None:
    assert "graph_capture_unused" in codes(open_pair(tmp_path, eager(), capture()))


def test_a_folder_of_captures_is_read_and_one_without_traces_refused(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    trace = write_trace(tmp_path / "replay.json", replay())
    with pytest.raises(UsageError, match="no traces of captures"):
        warplens.open(trace, graph_captures=[folder], cache=False)
    write_trace(folder / "a.json", capture())
    assert ops_of(warplens.open(trace, graph_captures=[folder], cache=False).with_timeline())[GEMM] == "aten::addmm"


def test_the_cache_knows_which_captures_a_trace_was_opened_with(tmp_path: Path) -> None:
    trace, file = write_trace(tmp_path / "replay.json", replay()), write_trace(tmp_path / "capture.json", capture())
    for _ in range(2):
        assert ops_of(warplens.open(trace).with_timeline())[GEMM] == "cudaGraphLaunch"
        assert ops_of(warplens.open(trace, graph_captures=[file]).with_timeline())[GEMM] == "aten::addmm"


def test_launches_outside_any_op_keep_their_call_and_its_callers(opened: Opened) -> None:
    bare = [event for event in capture([Node("aten::gone", ADD)]) if event["name"] != "aten::gone"]
    profile = opened([*bare, *replay([Node("", ADD)]), op("aten::view", 900, 1)])
    assert ops_of(profile) == {ADD: "cudaLaunchKernel"}
    assert profile.table("modules").frame["module"].to_list() == ["Linear_0"]
    assert len(profile.table("op_shapes")) == 0
    assert "no_op_kernels" in codes(profile)


def test_the_callers_of_the_replay_come_before_those_of_the_capture(opened: Opened) -> None:
    events = [*capture(), *replay(), frame("nn.Module: Server_0", 999, 20), annotation("step[DECODE bs=4]", 998, 22)]
    tree = opened(events).tree("python")
    path = next(own for own in map(tree.path, range(1, len(tree))) if own[-1].startswith("gemm"))
    assert [*path[:2], path[-3], path[-2]] == ["step[DECODE bs=4]", "Server_0", "Linear_0", "aten::addmm"]


def test_modules_around_the_whole_capture_are_those_of_replays_without_callers(tmp_path: Path) -> None:
    around = [frame("run.py(1): main", -20, 100), frame("nn.Module: Model_0", -10, 80)]
    profile = open_pair(tmp_path, replay(), [*around, *capture()])
    assert "Model_0/Linear_0" in profile.table("modules").frame["module"].to_list()
    with_callers = open_pair(tmp_path, [*replay(), frame("nn.Module: Model_0", 999, 20)], [*around, *capture()])
    assert "Model_0/Linear_0" in with_callers.table("modules").frame["module"].to_list()


def test_joined_kernels_are_units_of_a_replay(opened: Opened) -> None:
    units = unit_calls(opened([*capture(), *replay(), *replay(ts=2000, correlation=501)]).workspace)
    assert units.rest.is_empty()
    assert units.units["calls"].to_list() == [2] * len(LAYER)


def test_a_change_to_some_kernels_of_a_graph_leaves_its_launch(opened: Opened) -> None:
    """The graph is launched at 1000 µs and runs for 24 µs from 1010 on; without two of its kernels it still waits."""
    profile = opened([*capture(), *replay(), op("aten::before", 900, 50), call("cudaLaunchKernel", 910, 1, 400),
                      kernel("before", 915, 5, 400)])  # fmt: skip
    rows = profile.what_if(
        [scaling(profile.table, "op=aten::add", 0.0), scaling(profile.table, "op=aten::*", 0.0)]
    ).to_dicts()
    assert 0.003 < rows[1]["gain_ms"] < 0.006
    assert rows[2]["gain_ms"] > 0.02


def bundle_of(folder: Path, trace: Events, files: list[Events], **index: Any) -> Path:
    staging = Staging(folder)
    staging.folder.joinpath("graph_captures").mkdir()
    for name, events in (
        ("trace.json.gz", trace),
        *((f"graph_captures/{n}.json.gz", own) for n, own in enumerate(files)),
    ):
        staging.folder.joinpath(name).write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    if index:
        staging.write_json("graph_captures/captures.json", {"version": 1, **index})
    return staging.finish({"status": "complete", "backend": "torch", "command": [], "notes": []})


def test_captures_of_a_bundle_are_joined_and_its_list_of_replays_is_believed(tmp_path: Path) -> None:
    sizes = [[node._replace(dims=((size, 64), (64, 16))) for node in LAYER] for size in (8, 32)]
    captures = [capture(nodes) for nodes in sizes]
    replays = [*replay(), *replay(ts=2000, correlation=501), *replay(ts=3000, correlation=502)]
    facts = [{"number": n, "file": f"graph_captures/{n}.json.gz", "start_ns": 0, "end_ns": 10**6} for n in range(2)]
    calls = [[1, 1_000_000, 1], [0, 2_000_000, 1], [-1, 3_000_000, 1]]
    path = bundle_of(tmp_path / "run", replays, captures, captures=facts, replays=calls)
    profile = warplens.open(path, cache=False).with_timeline()
    launches = profile.trace.graph_launches
    assert launches["capture_file"].to_list() == ["graph_captures/1.json.gz", "graph_captures/0.json.gz", ""]
    assert launches["why"].to_list() == ["", "", "its capture was not recorded"]
    assert not {"bundle_damaged"} & codes(profile)


@pytest.mark.parametrize(("launches", "notes"), [(1, set()), (2, {"graph_capture_unused"})])
def test_captures_that_are_not_replayed_are_not_read_where_every_launch_was_seen(
    tmp_path: Path, launches: int, notes: set[str]
) -> None:
    replays = [event for n in range(launches) for event in replay(ts=1000 + 500 * n, correlation=500 + n)]
    facts = [{"number": n, "file": f"graph_captures/{n}.json.gz", "start_ns": 0, "end_ns": 10**6} for n in range(2)]
    damaged: Events = []
    path = bundle_of(tmp_path / "run", replays, [capture(), damaged], captures=facts, replays=[[0, 1_000_000, 1]])
    profile = warplens.open(path, cache=False).with_timeline()
    assert ops_of(profile)[GEMM] == "aten::addmm"
    assert codes(profile) & {"graph_capture_unused"} == notes


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"captures": [{"number": "x"}]}', b'{"captures": 5}', b"\xff"])
def test_a_damaged_list_of_captures_loses_the_list_only(tmp_path: Path, text: bytes) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    write_trace(folder / "a.json", capture())
    (folder / "captures.json").write_bytes(text)
    trace = write_trace(tmp_path / "replay.json", replay())
    assert ops_of(warplens.open(trace, graph_captures=[folder], cache=False).with_timeline())[GEMM] == "aten::addmm"


def test_a_damaged_capture_of_a_bundle_is_a_note_and_one_that_is_given_an_error(tmp_path: Path) -> None:
    path = bundle_of(tmp_path / "run", replay(), [[]])
    profile = warplens.open(path, cache=False).with_timeline()
    assert "graph_capture_unused" in codes(profile)
    trace, damaged = write_trace(tmp_path / "replay.json", replay()), tmp_path / "damaged.json"
    damaged.write_text("no trace")
    with pytest.raises(FormatError):
        warplens.open(trace, graph_captures=[damaged], cache=False)


def test_with_many_replays_some_details_are_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replays = [event for number in range(20) for event in replay(ts=1000 * (number + 1), correlation=500 + number)]
    sizes = []
    for most in (10_000, 210):
        monkeypatch.setattr("warplens.passes.graphs.join.MOST_ROWS", most)
        profile = open_pair(tmp_path, replays, capture())
        sizes.append(len(profile.trace))
        assert ("graph_frames" in codes(profile)) == (most < 10_000)
        assert ops_of(profile)[GEMM] == "aten::addmm"
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("name", ["capture_traces/bs_32_rank0.json", "run.capture.json", "graph_capture_1.json"])
def test_a_folder_of_one_trace_and_its_captures_is_that_trace(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    write_trace(tmp_path / name, capture())
    write_trace(tmp_path / "rank0.json", replay())
    profile = warplens.open(tmp_path, cache=False).with_timeline()
    assert ops_of(profile) == {**EAGER_OPS, "Memset (Device)": "aten::zero_"}
    assert main(["show", str(tmp_path), "graph_joins", "--no-cache", "--json"]) == 0
    printed = capsys.readouterr()
    (row,) = json.loads(printed.out)
    assert row["joined_percent"] == 100
    first = name.partition("/")[0]
    assert f"note: {tmp_path}: rank0.json with captures of its graphs, {first}\n" in printed.err


def test_an_execution_trace_beside_a_trace_and_its_captures_is_theirs(tmp_path: Path) -> None:
    write_trace(tmp_path / "capture.json", capture())
    trace = write_trace(tmp_path / "rank0.json", replay())
    calls = tmp_path / "et.json"
    calls.write_text('{"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": []}')
    assert captured_trace(tmp_path) == (trace, (tmp_path / "capture.json",), calls)
    write_trace(tmp_path / "rank1.json", replay())
    assert captured_trace(tmp_path) is None


def test_a_folder_of_captures_alone_is_opened_as_before(tmp_path: Path) -> None:
    write_trace(tmp_path / "capture_0.json", capture())
    assert "ranks" in warplens.open(tmp_path, cache=False).table_names


def test_a_comparison_joins_both_sides_with_their_captures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = write_trace(tmp_path / "capture.json", capture())
    for side in ("a", "b"):
        (tmp_path / side).mkdir()
        write_trace(tmp_path / side / "replay.json", replay())
    for options in ([], ["--graph-capture", str(given)]):
        sides = [str(tmp_path / side / "replay.json") for side in ("a", "b")]
        assert main(["diff", *sides, "--table", "diff_ops", "--json", "--no-cache", *options]) == 0
        ops = {row["op"] for row in json.loads(capsys.readouterr().out)}
        assert ("aten::addmm" in ops) == bool(options)
    for side in ("a", "b"):
        write_trace(tmp_path / side / "capture.json", capture())
    assert main(["diff", str(tmp_path / "a"), str(tmp_path / "b"), "--table", "diff_ops", "--json", "--no-cache"]) == 0
    assert "aten::addmm" in {row["op"] for row in json.loads(capsys.readouterr().out)}


INDEX = json.dumps([{"file": "bs_32_rank0.json.gz", "batch_size": 32, "mode": "FULL"}], indent=2)
"""What serving engines write beside their captures."""


def test_json_that_is_no_trace_is_passed_over_beside_a_trace_and_its_captures(tmp_path: Path) -> None:
    (tmp_path / "capture_traces").mkdir()
    write_trace(tmp_path / "capture_traces" / "bs_32_rank0.json", capture())
    trace = write_trace(tmp_path / "rank0.json", replay())
    for place in ("capture_traces/execution_details.json", "config.json"):
        (tmp_path / place).write_text(INDEX)
    for opened in (
        warplens.open(tmp_path, cache=False),
        warplens.open(trace, graph_captures=[tmp_path / "capture_traces"], cache=False),
    ):
        profile = opened.with_timeline()
        assert ops_of(profile) == {**EAGER_OPS, "Memset (Device)": "aten::zero_"}
        assert not codes(profile) & {"graph_capture_unused", "graphs_unjoined"}


def test_a_folder_with_nothing_but_such_json_has_no_captures(tmp_path: Path) -> None:
    (tmp_path / "captures").mkdir()
    (tmp_path / "captures" / "execution_details.json").write_text(INDEX)
    trace = write_trace(tmp_path / "replay.json", replay())
    with pytest.raises(UsageError, match="no traces of captures"):
        warplens.open(trace, graph_captures=[tmp_path / "captures"], cache=False)
    with pytest.raises(warplens.FormatError, match="JSON, but not a trace"):
        warplens.open(trace, graph_captures=[tmp_path / "captures" / "execution_details.json"], cache=False)


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b'{"traceEvents": [{"ph'], ids=["empty", "garbage", "cut"])
def test_a_damaged_capture_beside_a_sound_one_is_said_and_a_single_one_is_an_error(
    content: bytes, tmp_path: Path
) -> None:
    folder = tmp_path / "captures"
    folder.mkdir()
    write_trace(folder / "a.json", capture())
    (folder / "b.json").write_bytes(content)
    trace = write_trace(tmp_path / "replay.json", replay())
    profile = warplens.open(trace, graph_captures=[folder], cache=False).with_timeline()
    assert ops_of(profile)[GEMM] == "aten::addmm"
    assert "b.json: " in why_unused(profile)
    (folder / "a.json").unlink()
    with pytest.raises(warplens.FormatError, match=r"b\.json"):
        warplens.open(trace, graph_captures=[folder], cache=False)
