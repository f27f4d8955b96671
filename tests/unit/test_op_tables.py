"""Op tables of training jobs: what is simulated, what it costs the job, and what is read of the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import warplens
from op_tables import Pipeline, Seconds, slow_stage, slow_worker, usual
from support import SHARED
from warplens.model.job_ops import no_ops
from warplens.profiles.op_table import OpTableProfile
from warplens.ranks.op_tables.op_job import OpJob
from warplens.ranks.op_tables.simulation import OpGraph
from warplens.ranks.op_tables.tables import OP_JOB_TABLES
from warplens.ranks.op_tables.what_if import Scope, what_if

STUDY = SHARED / "traces" / "ranks" / "straggler_ops"
TAIL_MS = 1 + 2 + 4
"""The gather of parameters before, the reduction and the optimizer after the pipeline."""


def opened(pipeline: Pipeline, folder: Path) -> OpTableProfile:
    profile = warplens.open(pipeline.write(folder / "trace-job.parquet"))
    assert isinstance(profile, OpTableProfile)
    return profile


def graph(group: list[int], times: list[tuple[float, float]], edges: list[tuple[int, int]]) -> OpGraph:
    """One step of ops with these starts and ends."""
    starts, ends = np.array(times, float).T
    before, after = np.array(edges, np.int64).reshape(-1, 2).T
    return OpGraph(np.zeros(len(group), np.int64), np.array(group), starts, ends, before, after)


def test_ops_of_a_group_end_their_transfer_after_the_last_of_them_has_started() -> None:
    # Two ranks compute 10 and 30, then meet in a collective that takes 5.
    own = graph([0, 1, 2, 2], [(0, 10), (0, 30), (10, 35), (30, 35)], [(0, 2), (1, 3)])
    assert own.duration_ns.tolist() == [10, 30, 5, 5]
    assert own.ends(own.duration_ns[:, None])[:, 0].tolist() == [10, 30, 35, 35]
    assert own.ends(np.array([[10.0], [12.0], [5.0], [6.0]]))[:, 0].tolist() == [10, 12, 17, 18]


def test_a_delay_of_the_host_is_what_dependencies_do_not_explain() -> None:
    own = graph([0, 1], [(2, 10), (13, 20)], [(0, 1)])
    assert own.delay_ns.tolist() == [0, 3]
    assert own.step_ns(own.duration_ns[:, None], own.delay_ns).tolist() == [[18.0]]
    assert own.step_ns(own.duration_ns[:, None]).tolist() == [[15.0]]


def test_a_transfer_that_ends_long_before_its_peer_started_is_damage_and_takes_no_time() -> None:
    own = graph([0, 0], [(0, 1e6), (30e6, 31e6)], [])
    assert own.duration_ns.tolist() == [0, 1e6]


def test_ops_that_wait_for_each_other_in_a_circle_are_one_error() -> None:
    own = graph([0, 1], [(0, 1), (1, 2)], [(0, 1), (1, 0)])
    with pytest.raises(warplens.WarplensError, match="wait for each other in a circle"):
        own.step_ns(own.duration_ns[:, None])


def test_many_cases_in_several_rounds_are_what_each_is_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = graph([0, 1, 2, 2], [(0, 10), (0, 30), (10, 35), (30, 35)], [(0, 2), (1, 3)])
    scopes = [Scope("S_rank", str(op), np.arange(4) == op) for op in range(4)]
    ideal = np.array([20.0, 20, 5, 5])
    together = what_if(own, ideal, scopes)
    monkeypatch.setattr("warplens.ranks.op_tables.simulation.CELLS_AT_ONCE", 12)
    in_rounds = what_if(own, ideal, scopes)
    assert [(each.alone_ns, each.without_ns) for each in together.results] == [(25, 35), (35, 25), (25, 35), (25, 35)]
    assert [(each.alone_ns, each.without_ns) for each in in_rounds.results] == [(25, 35), (35, 25), (25, 35), (25, 35)]


@pytest.mark.parametrize(("dp", "stages", "microbatches"), [(1, 1, 3), (2, 2, 4), (1, 4, 6), (3, 3, 2)])
def test_an_even_pipeline_takes_the_time_of_its_schedule(
    dp: int, stages: int, microbatches: int, tmp_path: Path
) -> None:
    profile = opened(Pipeline(dp, stages, microbatches), tmp_path)
    answer = profile.work.what_if
    expected = (microbatches + stages - 1) * 30 + TAIL_MS
    assert answer.step_ns / 1e6 == pytest.approx(expected) == answer.ideal_ns / 1e6
    assert answer.slowdown == pytest.approx(1)
    assert profile.table("job_what_if").frame["explained"].is_null().all()
    assert profile.table("stragglers").to_dicts() == []
    assert profile.verdict().startswith("No stragglers: ")


@pytest.mark.parametrize("seconds", [usual, slow_worker(1, 0, 2.0), slow_stage(2, 1.7)])
def test_unedited_the_graph_gives_every_recorded_time(seconds: Any, tmp_path: Path) -> None:
    pipeline = Pipeline(2, 3, 5, seconds=seconds)
    frame = pipeline.frame()
    # The host is late here and there: the later ops of a worker are all recorded later, whatever they wait for.
    late = frame.with_columns(pl.col("start_ts") + 0.003 * (pl.col("optype") == "optimizer") * pl.col("stage"))
    late.write_parquet(tmp_path / "late.parquet")
    profile = warplens.open(tmp_path / "late.parquet")
    assert isinstance(profile, OpTableProfile)
    own = profile.work.graph
    first = np.array([own.start_ns[own.step == step].min() for step in own.step])
    simulated = own.ends(own.duration_ns[:, None], own.delay_ns)[:, 0]
    assert simulated == pytest.approx(own.end_ns - first, abs=2)  # ns: the file has seconds
    assert own.delay_ns.max() == pytest.approx(6e6, abs=2)


def test_a_slow_worker_is_named_and_explains_the_slowdown(tmp_path: Path) -> None:
    # One of 40 workers (the slowest 3 % are two) computes half as fast: the ideal is the mean of all.
    profile = opened(Pipeline(20, 2, 4, seconds=slow_worker(3, 1, 2.0)), tmp_path)
    answer = profile.work.what_if
    ideal_ms = 5 * 30 * 41 / 40 + TAIL_MS
    assert answer.ideal_ns / 1e6 == pytest.approx(ideal_ms)
    assert answer.step_ns / 1e6 == pytest.approx(4 * 60 + 30 + TAIL_MS)
    rows = profile.table("stragglers").to_dicts()
    assert rows[0]["verdict"] == "cause"
    assert rows[0]["who"].startswith("ranks 23, ")
    assert rows[0]["op_type"] == "backward-compute"
    assert rows[0]["explained_percent"] > 95
    assert [row["verdict"] for row in rows[1:]] == ["includes the cause", "includes the cause"]
    assert profile.table("ranks").to_dicts()[0]["rank"] == 23
    assert profile.verdict().startswith("Ranks 23, ")


def test_a_slow_stage_is_the_cause_where_no_single_worker_is(tmp_path: Path) -> None:
    profile = opened(Pipeline(4, 3, 6, seconds=slow_stage(2, 2.0)), tmp_path)
    (first,) = profile.table("stragglers").to_dicts()
    assert (first["who"], first["kind"], first["verdict"]) == ("stage 2", "slow stage", "cause")
    assert first["op_slower_percent"] == pytest.approx(50)  # 2 against the mean of 1, 1 and 2
    table = profile.table("job_what_if").frame
    last = table.filter(what="M_S").row(0, named=True)
    assert last["scope"] == "stage 2"
    assert last["explained"] > 1  # the others are faster than the mean
    assert table.filter(what="S_stage")["scope"][0] == "stage 2"


def in_turns(direction: str) -> Seconds:
    """In each step another data-parallel rank is slow."""

    def seconds(op_type: str, dp: int, stage: int, step: int) -> float:
        slow = op_type.endswith("-compute") and direction in op_type and step % 4 == dp
        return usual(op_type, dp, stage, step) * (3.0 if slow else 1.0)

    return seconds


@pytest.mark.parametrize(("direction", "kind"), [("ward", "uneven data"), ("backward", "uneven computation")])
def test_ops_that_are_slow_in_turns_are_the_fault_of_no_worker(direction: str, kind: str, tmp_path: Path) -> None:
    profile = opened(Pipeline(4, 1, 4, (0, 1, 2, 3), in_turns(direction)), tmp_path)
    first, *others = profile.table("stragglers").to_dicts()
    assert (first["kind"], first["verdict"]) == (kind, "cause")
    assert first["explained_percent"] == pytest.approx(100)
    assert {row["verdict"] for row in others} <= {"unclear"}
    assert profile.verdict().startswith(f"{kind.capitalize()} slows the job down")
    data = profile.table("job_what_if").frame.filter(what="S_data").row(0, named=True)
    assert data["slowdown"] == pytest.approx(profile.work.what_if.slowdown)


def test_no_cause_is_named_where_none_explains_most(tmp_path: Path) -> None:
    def two_causes(op_type: str, dp: int, stage: int, step: int) -> float:
        factor = {0: 2.0, 7: 2.1}.get(dp, 1.0) if op_type.endswith("-compute") else 1.0
        return usual(op_type, dp, stage, step) * factor

    profile = opened(Pipeline(8, 1, 4, seconds=two_causes), tmp_path)
    rows = profile.table("stragglers").to_dicts()
    assert {row["verdict"] for row in rows} == {"unclear"}
    assert "no part explains 80% of it (most: slow worker, rank 7 (dp 7, stage 0): " in profile.verdict()


def test_the_slowest_workers_have_gains_of_their_own(tmp_path: Path) -> None:
    table = opened(Pipeline(12, 1, 4, seconds=slow_worker(5, 0, 2.0)), tmp_path).table("job_what_if").frame
    workers = table.filter(what="S_worker")
    assert len(workers) == 8
    assert workers["scope"][0] == "rank 5"
    assert workers["gain_ms"][0] == pytest.approx(4 * 30 * (2 - 13 / 12))
    assert workers["gain_ms"][1:].abs().max() < 1e-6
    assert table.filter(what="S_transfer")["gain_ms"].item() == pytest.approx(0, abs=1e-6)


def test_the_parts_of_a_worker_s_step_add_up(tmp_path: Path) -> None:
    profile = opened(Pipeline(2, 1, 4, (7,), slow_worker(0, 0, 2.0)), tmp_path)
    assert profile.table("rank_steps").frame.drop("dp_rank", "stage", "step").rows() == [
        # rank, step, computation with the optimizer, transfers, wait for rank 0, idle
        (0, 247.0, 244.0, 3.0, 0.0, 0.0),
        (1, 247.0, 124.0, 3.0, 120.0, 0.0),
    ]
    per_rank = profile.table("ranks").frame
    assert per_rank["wait_ms"].to_list() == [0, 120]
    assert per_rank["compute_slower_percent"].to_list() == pytest.approx([100 * 60 / 184, -100 * 60 / 184])


def test_a_worker_that_waits_while_it_computes_does_not_wait(tmp_path: Path) -> None:
    profile = opened(Pipeline(2, 3, 6, seconds=slow_stage(2, 2.0)), tmp_path)
    steps = profile.table("rank_steps").frame
    parts = pl.sum_horizontal("compute_ms", "transfer_ms", "wait_ms", "idle_ms")
    assert steps.select((parts - pl.col("step_ms")).abs().max()).item() < 1e-5
    assert (steps["idle_ms"].abs() < 1e-5).all()
    last = steps.filter(stage=2)
    # 6 × 60 of computation, 4 of the optimizer, 3 of the collectives; it waits for the first forward to arrive.
    assert last["compute_ms"].to_list() == pytest.approx([364] * 4)
    assert last.filter(step=7)["wait_ms"].to_list() == pytest.approx([427 - 364 - 3] * 2)


def test_times_since_1970_are_as_good_as_those_of_a_step(tmp_path: Path) -> None:
    pipeline = Pipeline(seconds=slow_worker(1, 0, 2.0))
    frame = pipeline.frame()
    near, far = (tmp_path / f"{name}.parquet" for name in ("near", "far"))
    frame.write_parquet(near)
    frame.with_columns(pl.col("start_ts") + 1_760_000_000.0).write_parquet(far)
    first, second = (warplens.open(path).table("job_what_if").frame for path in (near, far))
    assert second["slowdown"].to_list() == pytest.approx(first["slowdown"].to_list(), rel=1e-5)


def two_chunks() -> pl.DataFrame:
    """Two stages with two model chunks each, one microbatch: it crosses from stage to stage three times each way."""
    rows: list[dict[str, Any]] = []

    def add(name: str, stage: int, start: int, end: int, number: int, gmc: int = -1) -> None:
        row = {"dp_rank": 0, "stage": stage, "rank": stage, "step": 1, "optype": name, "seq_id": number, "mb_id": 0}
        rows.append(row | {"start_ts": start / 1e3, "duration": (end - start) / 1e3, "gmc": gmc, "mc": gmc // 2})

    counts: dict[tuple[str, int], int] = {}

    def count(name: str, stage: int) -> int:
        counts[name, stage] = counts.get((name, stage), -1) + 1
        return counts[name, stage]

    for turn, gmc in enumerate([0, 1, 2, 3, 3, 2, 1, 0]):
        direction = "forward" if turn < 4 else "backward"
        stage, start = gmc % 2, 10 * turn
        add(f"{direction}-compute", stage, start, start + 10, count(direction, stage), gmc)
        if turn in (3, 7):
            continue
        add(f"{direction}-send", stage, start + 10, start + 10, count(f"{direction}-send", stage))
        add(f"{direction}-recv", 1 - stage, start + 9, start + 10, count(f"{direction}-recv", 1 - stage))
    for stage in (0, 1):
        add("optimizer", stage, 80, 84, 0)
    return pl.DataFrame(rows)


def test_sends_meet_their_receives_across_model_chunks(tmp_path: Path) -> None:
    two_chunks().write_parquet(tmp_path / "trace-chunks.parquet")
    profile = warplens.open(tmp_path / "trace-chunks.parquet")
    assert isinstance(profile, OpTableProfile)
    own = profile.work.graph
    assert sorted(np.bincount(own.group).tolist()) == [1] * 10 + [2] * 6
    assert own.step_ns(own.duration_ns[:, None])[0, 0] / 1e6 == pytest.approx(84)
    slow = np.where((profile.job.ops["op_type"] == "forward-compute").to_numpy(), 20e6, own.duration_ns)
    assert own.step_ns(slow[:, None])[0, 0] / 1e6 == pytest.approx(84 + 4 * 10)


def test_reductions_that_overlap_start_when_the_gradients_of_their_chunk_are_there(tmp_path: Path) -> None:
    def op(name: str, start: int, end: int, number: int = 0, chunk: int = -1) -> dict[str, Any]:
        row = {"dp_rank": 0, "stage": 0, "rank": 0, "step": 1, "optype": name, "seq_id": number, "mb_id": 0}
        return row | {"start_ts": start / 1e3, "duration": (end - start) / 1e3, "gmc": chunk, "mc": chunk}

    rows = [
        op("forward-compute", 0, 10, 0, 0), op("forward-compute", 10, 20, 1, 1),
        op("backward-compute", 20, 30, 0, 1), op("backward-compute", 30, 40, 1, 0),
        op("grads-reduce-scatter", 30, 45, 0, 1), op("grads-reduce-scatter", 45, 60, 1, 0),
        op("separate-grads-all-reduce", 60, 61), op("optimizer", 61, 65),
    ]  # fmt: skip
    pl.DataFrame(rows).write_parquet(tmp_path / "overlapped.parquet")
    profile = warplens.open(tmp_path / "overlapped.parquet")
    assert isinstance(profile, OpTableProfile)
    own = profile.work.graph
    assert own.delay_ns.tolist() == [0] * 8
    short = own.duration_ns.copy()
    short[4:6] = 1e6
    assert own.step_ns(short[:, None])[0, 0] / 1e6 == 41 + 1 + 4


def test_the_sizes_of_a_job_are_those_of_the_file_beside_the_table(tmp_path: Path) -> None:
    path = Pipeline().write(
        tmp_path / "trace-X.parquet", "# a job\ntrial_name: 'X'\ndp_size: 2\ntp_size: 4\nworld_size: 16\n"
    )
    profile = warplens.open(path)
    assert isinstance(profile, OpTableProfile)
    assert profile.job.name == "X"
    assert profile.job.sizes == {"dp_size": 2, "pp_size": 2, "vpp_size": 1, "tp_size": 4, "world_size": 16}
    assert profile.document().facts["tensor-parallel ranks"] == "4"
    assert profile.table("quality").to_dicts() == []


def test_without_that_file_they_are_counted_and_a_note_says_so(tmp_path: Path) -> None:
    profile = opened(Pipeline(dp=3), tmp_path)
    assert profile.job.sizes == {"dp_size": 3, "pp_size": 2, "vpp_size": 1}
    (note,) = profile.table("quality").to_dicts()
    assert note["code"] == "sizes_inferred"
    assert "dp_size 3" in note["message"]


def test_damaged_rows_are_counted_and_the_rest_is_simulated(tmp_path: Path) -> None:
    frame = Pipeline().frame()
    row = frame.filter(optype="optimizer").head(1)
    bad = [
        row.with_columns(seq_id=pl.lit(9, pl.Int64), start_ts=pl.lit(float("nan"))),
        row.with_columns(seq_id=pl.lit(9, pl.Int64), duration=pl.lit(-1.0)),
        row.with_columns(seq_id=pl.lit(9, pl.Int64), start_ts=pl.lit(1e30)),
        row.with_columns(seq_id=pl.lit(9, pl.Int64), start_ts=pl.lit(1e6)),
        row.with_columns(optype=pl.lit(None, pl.String)),
        row.with_columns(optype=pl.lit("data-loading")),
        row.with_columns(duration=pl.lit(99.0)),
    ]
    pl.concat([frame, *bad]).write_parquet(tmp_path / "damaged.parquet")
    profile = warplens.open(tmp_path / "damaged.parquet")
    notes = {row["code"]: row for row in profile.table("quality").to_dicts()}
    assert {code: note["count"] for code, note in notes.items()} == {
        "bad_ops": 5, "unknown_ops": 1, "doubled_ops": 1, "sizes_inferred": 0,
    }  # fmt: skip
    assert "data-loading" in notes["unknown_ops"]["message"]
    assert profile.table("job_what_if").frame["slowdown"][0] == pytest.approx(1)


def test_a_worker_that_is_missing_in_a_step_is_named(tmp_path: Path) -> None:
    frame = Pipeline().frame().filter(~((pl.col("rank") == 3) & (pl.col("step") == 8)))
    frame.write_parquet(tmp_path / "missing.parquet")
    profile = warplens.open(tmp_path / "missing.parquet")
    (note,) = [row for row in profile.table("quality").to_dicts() if row["code"] == "missing_workers"]
    assert (note["count"], "dp 1 stage 1" in note["message"]) == (1, True)
    assert profile.table("job_what_if").frame["step_ms"][0] > 100


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (lambda path: pl.DataFrame({"a": [1]}).write_parquet(path), "not an op table: no column optype"),
        (lambda path: Pipeline().frame().clear().write_parquet(path), "an op table without ops"),
        (lambda path: path.write_bytes(b"PAR1" + bytes(50)), "cannot be read"),
        (
            lambda path: path.write_bytes(Pipeline().write(path.with_name("whole.parquet")).read_bytes()[:900]),
            "cannot be read",
        ),
    ],
    ids=["other columns", "no ops", "no Parquet", "cut short"],
)
def test_what_is_no_op_table_is_one_error(content: Any, reason: str, tmp_path: Path) -> None:
    content(tmp_path / "x.parquet")
    with pytest.raises(warplens.FormatError, match=reason) as failure:
        warplens.open(tmp_path / "x.parquet")
    assert "\n" not in str(failure.value)


def test_what_is_joined_to_a_trace_cannot_be_joined_to_an_op_table(tmp_path: Path) -> None:
    path = Pipeline().write(tmp_path / "trace-job.parquet")
    with pytest.raises(warplens.UsageError, match="is not a trace"):
        warplens.open(path, replay="x.json")


def test_the_tables_of_a_job_without_ops_have_the_types_of_full_ones(tmp_path: Path) -> None:
    full, empty = opened(Pipeline(), tmp_path).work, OpJob(no_ops())
    for name, entry in OP_JOB_TABLES.items():
        assert entry(empty).frame.schema == entry(full).frame.schema
        assert entry(empty).name == name


def test_a_report_writes_pages_workbooks_and_folders(tmp_path: Path) -> None:
    path = Pipeline(seconds=slow_worker(1, 0, 2.0)).write(tmp_path / "trace-job.parquet")
    outputs = [tmp_path / "x.html", tmp_path / "x.xlsx", tmp_path / "x.md", f"{tmp_path}/tables/"]
    warplens.report(path, outputs)
    assert sorted(file.stem for file in (tmp_path / "tables").glob("*.csv")) == sorted(OP_JOB_TABLES)
    assert all(Path(output).exists() for output in outputs)


def published(job: str) -> tuple[dict[str, Any], float, float]:
    """What the study's own program gives: all of its results, M_W and M_S."""
    result, workers, stage = (json.loads((STUDY / f"{kind}-{job}.json").read_text()) for kind in ("result", "mw", "ms"))
    return result, workers["Mw"], stage["Ms"]


@pytest.mark.parametrize(("job", "culprit"), [("AR", "rank 0 (dp 0, stage 0)"), ("ST", "stage 3")])
@pytest.mark.skipif(not STUDY.exists(), reason="the op tables of the study are not beside this checkout")
def test_published_slowdowns_are_met(job: str, culprit: str) -> None:
    profile = warplens.open(STUDY / f"trace-{job}.parquet")
    assert isinstance(profile, OpTableProfile)
    result, of_workers, of_stage = published(job)
    table = profile.table("job_what_if").frame
    rows = {(row["what"], row["scope"]): row for row in table.iter_rows(named=True)}
    assert rows["S", "all"]["slowdown"] == pytest.approx(result["blocking_slowdown"], rel=1e-5)
    for what, shape, parts in (
        ("S_type", "{}", result["blocking_decompose_by_optype"]),
        ("S_rank", "dp {}", result["blocking_decompose_by_dp_rank"]),
        ("S_stage", "stage {}", result["blocking_decompose_by_stage"]),
    ):
        for name, slowdown in parts.items():
            assert rows[what, shape.format(name)]["slowdown"] == pytest.approx(slowdown, rel=1e-5)
    assert table.filter(what="M_W")["explained"].item() == pytest.approx(of_workers, rel=1e-5)
    assert table.filter(what="M_S")["explained"].item() == pytest.approx(of_stage, rel=1e-5)
    own = profile.work.graph
    steps_s = own.step_ns(own.duration_ns[:, None])[:, 0] / 1e9
    assert steps_s == pytest.approx([result["step_t_nodelay"][str(step)] for step in own.steps], rel=1e-5)
    assert profile.table("stragglers").to_dicts()[0]["who"] == culprit
