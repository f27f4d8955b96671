"""The rules on many ranks: from tables of a job, and on real ranks and simulated jobs."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

import warplens
from make_ranks import Fault, Grid, JobSpec, make_job
from warplens.advice.job_verdict import JobVerdict, job_verdict
from warplens.advice.rank_rules import JOB_RULES, find_in_job
from warplens.analyses.graph.breakdown import COLUMNS as PART_COLUMNS
from warplens.model.answer import CANNOT_TELL, ESTIMATED, SIMULATED
from warplens.model.clock import RECORDED, Clock
from warplens.model.finding import Finding, gain_text
from warplens.model.table import Column, Table
from warplens.profiles.job import JobProfile
from warplens.ranks.coverage import Coverage
from warplens.ranks.hiding import gain_of_hiding
from warplens.ranks.slow.records import BEFORE_FIRST_STEP
from warplens.ranks.tables.collectives import KIND_COLUMNS, WAIT_COLUMNS
from warplens.ranks.tables.exchange import EXCHANGE_COLUMNS, EXPOSED_COLUMNS, PIPELINE_COLUMNS
from warplens.ranks.tables.per_rank import RANK_COLUMNS
from warplens.ranks.tables.step import RANK_OF_JOB
from warplens.ranks.tables.stragglers import COLUMNS as STRAGGLER_COLUMNS

NCCL4 = Path(__file__).parents[2] / "samples" / "ranks" / "nccl4"
COLUMNS: dict[str, tuple[Column, ...]] = {
    "stragglers": STRAGGLER_COLUMNS,
    "waits": WAIT_COLUMNS,
    "ranks": RANK_COLUMNS,
    "pipeline": PIPELINE_COLUMNS,
    "all_to_all": EXCHANGE_COLUMNS,
    "exposed_by_module": EXPOSED_COLUMNS,
    "collective_kinds": KIND_COLUMNS,
    "breakdown": (RANK_OF_JOB, *PART_COLUMNS),
}
EMPTY: dict[Any, Any] = {pl.Int64: 0, pl.Float64: 0.0, pl.String: ""}
STEPS = dict.fromkeys((4, 5, 6), 60.0) | dict.fromkeys((7, 8, 9), 100.0)
SLOW: dict[str, Any] = {
    "rank": 2, "group": "rank 2", "since_step": 7, "excess_ms": 45.0, "gain_ms": 40.0, "gain_low_ms": 31.6,
    "gain_high_ms": 48.4, "lost_ms": 120.0, "explained_percent": 95.0,
    "place": "aten::mm", "confidence": "high",
}  # fmt: skip


def tables(**rows: list[dict[str, Any]]) -> dict[str, Table]:
    """The tables that rules read, with these rows; columns that are not named are empty."""
    given = {"ranks": [{"rank": number} for number in range(4)]} | rows
    return {
        name: Table.from_rows(
            name, "", columns, [[row.get(c.name, EMPTY[c.dtype]) for c in columns] for row in given.get(name, [])]
        )
        for name, columns in COLUMNS.items()
    }


def clock_of(step_ms: float) -> Clock:
    return Clock(step_ms, step_ms, step_ms, RECORDED, step_ms, "step", 3)


def found(hidden_ms: float = 0.0, min_gain_percent: float = 1.0, **rows: list[dict[str, Any]]) -> list[Finding]:
    return find_in_job(tables(**rows), STEPS, clock_of(100.0), lambda _: hidden_ms, 2, min_gain_percent)


@pytest.mark.parametrize(
    ("code", "row", "received"),
    [
        ("WL402", {"cause": "GPU"}, ()),
        ("WL403", {"cause": "host"}, ()),
        ("WL404", {"cause": "data"}, ()),
        ("WL405", {"cause": "network"}, ()),
        ("WL406", {"cause": "imbalance"}, (100, 100, 110, 100)),
        ("WL407", {"cause": "imbalance", "group": "rank 2 (stage 2)"}, ()),
        ("WL408", {"cause": "imbalance"}, (100, 100, 300, 100)),
        ("WL408", {"cause": "GPU"}, (100, 100, 300, 100)),
        ("WL402", {"cause": "GPU"}, (300, 100, 100, 100)),
        ("WL411", {"cause": "host", "place": BEFORE_FIRST_STEP}, ()),
        ("WL412", {"cause": "unclear", "explained_percent": 55.0, "confidence": "low"}, ()),
    ],
)
def test_each_cause_of_a_straggler_has_its_own_finding(
    code: str, row: dict[str, Any], received: tuple[float, ...]
) -> None:
    sent = [{"from_rank": 0, "to_rank": rank, "sent_bytes": float(size)} for rank, size in enumerate(received)]
    (finding,) = found(stragglers=[SLOW | row], all_to_all=sent)
    assert finding.code == code
    assert (finding.gain_ms, finding.gain_percent) == (40.0, 40.0)  # of the job's step
    assert "rank 2" in finding.title
    assert finding.advice
    assert sum(evidence.gain_ms for evidence in finding.rows) == finding.gain_ms
    assert finding.gain_low_ms <= finding.gain_ms <= finding.gain_high_ms <= 100.0
    assert finding.bound == (code == "WL412")


def test_a_straggler_that_other_work_hides_is_no_finding() -> None:
    row = SLOW | {"cause": "host", "gain_ms": 0.9}
    assert found(stragglers=[row]) == []
    assert [finding.code for finding in found(stragglers=[row], min_gain_percent=0.5)] == ["WL403"]
    assert found(stragglers=[row | {"gain_ms": 0.0}], min_gain_percent=0.0) == []


def test_a_doubtful_straggler_may_win_nothing() -> None:
    (finding,) = found(stragglers=[SLOW | {"cause": "network", "confidence": "low", "gain_low_ms": 0.0}])
    assert (finding.gain_low_ms, finding.gain_high_ms) == (0.0, 48.4)
    assert "low confidence" in finding.evidence
    assert gain_text(finding, clock_of(100.0)) == "≤ 48.4 ms"


def test_the_evidence_names_who_waits_longest_and_points_at_rows() -> None:
    waits = [
        {"rank": 0, "for_rank": 2, "count": 5, "wait_ms_per_step": 30.0},
        {"rank": 1, "for_rank": 3, "count": 5, "wait_ms_per_step": 20.0},
        {"rank": 3, "for_rank": 2, "count": 5, "wait_ms_per_step": 10.0},
    ]
    (finding,) = found(stragglers=[SLOW | {"cause": "GPU"}], waits=waits)
    assert [row.what for row in finding.rows] == ["rank 2", "rank 0 waits for rank 2", "rank 3 waits for rank 2"]
    assert [(target.table, target.row) for target in finding.targets] == [("stragglers", 0), ("ranks", 2)]
    assert finding.rows[2].targets[0].row == 2
    assert finding.gpu_gain_ms == 45.0


def test_uneven_stages_come_with_the_computation_of_every_stage() -> None:
    stages = [{"stage": number, "ranks": str(number), "compute_ms": 10.0 + 40 * (number == 2)} for number in range(4)]
    row = SLOW | {"cause": "imbalance", "group": "rank 2 (stage 2)"}
    (finding,) = found(stragglers=[row], pipeline=stages)
    assert [row.time_ms for row in finding.rows[1:]] == [10.0, 10.0, 50.0, 10.0]


def test_ranks_that_are_all_of_a_machine_are_named_with_it() -> None:
    ranks = [{"rank": rank, "host": f"node{rank // 2}"} for rank in range(4)]
    row = SLOW | {"cause": "host", "group": "ranks 2–3"}
    assert "for ranks 2–3 (all of node1) takes 45.00 ms" in found(stragglers=[row], ranks=ranks)[0].title
    assert "all of" not in found(stragglers=[row | {"group": "ranks 1–2"}], ranks=ranks)[0].title


def exposed(kind: str = "all_reduce", exposed_ms: float = 30.0, wait_ms: float = 5.0) -> dict[str, Any]:
    return {"module": "Net_0/Layer_1", "kind": kind, "count": 2.0, "exposed_ms": exposed_ms, "wait_ms": wait_ms}


MATCHED = [{"kind": "all_reduce", "count": 2}]


def test_exposed_transfers_are_named_by_module_with_a_simulated_bound() -> None:
    rows = [exposed(), exposed("all_gather", 7.0, 2.0)]
    parts = [
        {"rank": 2, "cause": "transfers", "time_ms": 18.0},
        {"rank": 2, "cause": "waits for other ranks", "time_ms": 9.0},
        {"rank": 3, "cause": "transfers", "time_ms": 40.0},
    ]
    (finding,) = found(hidden_ms=24.0, exposed_by_module=rows, collective_kinds=MATCHED, breakdown=parts)
    assert (finding.code, finding.bound, finding.place) == ("WL409", True, "Net_0/Layer_1")
    assert (finding.gain_ms, finding.gain_percent, finding.gain_low_ms) == (24.0, 24.0, 0.0)  # of the job's step
    assert [row.gain_ms for row in finding.rows] == [20.0, 4.0]
    of_job, _, of_rank = finding.title.partition("; ")
    assert of_job.endswith("cost up to 24 % of the job's step, on the path over all ranks")
    assert of_rank == "they are 18 % of rank 2's"


def test_exposed_time_that_is_waiting_or_wins_nothing_is_no_finding() -> None:
    assert found(hidden_ms=24.0, exposed_by_module=[exposed(wait_ms=29.0)], collective_kinds=MATCHED) == []
    assert found(hidden_ms=2.0, exposed_by_module=[exposed()], collective_kinds=MATCHED) == []


def test_exposed_time_of_calls_without_a_counterpart_may_all_be_waiting() -> None:
    assert found(hidden_ms=24.0, exposed_by_module=[exposed()]) == []


def test_what_hides_a_transfer_depends_on_its_kind() -> None:
    texts = {
        kind: found(hidden_ms=24.0, exposed_by_module=[exposed(kind)], collective_kinds=MATCHED)[0].advice
        for kind in ("all_reduce", "all_to_all", "recv")
    }
    assert re.search("DDP", texts["all_reduce"])
    assert re.search("expert", texts["all_to_all"])
    assert re.search("microbatches", texts["recv"])


def small(count: int = 96, size: int = 4096) -> dict[str, Any]:
    values = {"count": count, "message_bytes": size, "group_size": 4, "exposed_ms": 12.0, "algbw_gbps": 0.1}
    return {"kind": "all_reduce", "transfer_us": 40.0} | values


def test_many_small_collectives_are_a_finding_and_a_few_or_large_ones_are_not() -> None:
    (finding,) = found(hidden_ms=2.0, collective_kinds=[small()])
    assert (finding.code, finding.gain_ms, finding.bound) == ("WL410", 2.0, True)
    assert finding.title == "16 collectives a step are smaller than 1.0 MiB"
    assert found(hidden_ms=2.0, collective_kinds=[small(count=12)]) == []
    assert found(hidden_ms=2.0, collective_kinds=[small(size=2 << 20)]) == []


def test_without_common_steps_there_are_no_findings() -> None:
    assert find_in_job(tables(stragglers=[SLOW | {"cause": "GPU"}]), {}, None, lambda _: 1.0, 0) == []


def test_every_code_explains_how_its_gain_is_estimated_and_when_it_is_reported() -> None:
    for code in JOB_RULES.codes:
        text = JOB_RULES.explain(code)
        assert "gain is" in text, code
        assert "Reported from" in text or code == "WL411", code
        assert "{" not in text


WHOLE = Coverage(ranks=4, world_size=4, calls=100, matched=96)
"""Nothing keeps these recordings from showing who waits."""


def said(
    *rows: dict[str, Any], step_ms: float = 100.0, steps: dict[int, float] = STEPS, known: Coverage = WHOLE
) -> JobVerdict:
    clock = clock_of(step_ms) if steps else None
    return job_verdict(tables(stragglers=list(rows))["stragglers"], steps, clock, known)


def verdict(*rows: dict[str, Any], **values: Any) -> str:
    return said(*rows, **values).text


def test_the_verdict_has_the_affected_steps_and_those_before() -> None:
    slow = SLOW | {"cause": "host"}
    assert verdict(slow) == (
        "Rank 2 delays 3 ranks since step 7; cause: host (aten::mm). "
        "A step takes 100.0 ms, without it 60.0 (51.6 to 68.4, simulated); 60.0 ms before."
    )
    assert verdict(slow | {"since_step": 4}, slow, slow) == (
        "Rank 2 delays 3 ranks in every step; cause: host (aten::mm). "
        "A step takes 100.0 ms, without it 60.0 (51.6 to 68.4, simulated). 2 more stragglers: table stragglers."
    )
    assert verdict(slow | {"group": "ranks 2–3 (stage 1)", "cause": "unclear", "place": ""}) == (
        "Ranks 2–3 (stage 1) delay the others since step 7; the cause is unclear. "
        "A step takes 100.0 ms, without them 60.0 (51.6 to 68.4, simulated); 60.0 ms before."
    )
    # A long first step is not what the job was like before.
    late = {2: 700.0, 3: 100.0, 4: 100.0}
    assert "before" not in verdict(slow | {"since_step": 3}, steps=late)


def test_what_is_slower_for_all_ranks_delays_no_others() -> None:
    slow = SLOW | {"group": "ranks 0–3", "cause": "network", "lost_ms": 0.0, "place": "all_reduce in group 0"}
    assert verdict(slow) == (
        "Network: all 4 ranks take 45.00 ms a step longer since step 7; cause: network (all_reduce in group 0). "
        "A step takes 100.0 ms, without that 60.0 (51.6 to 68.4, simulated); 60.0 ms before."
    )


def test_low_confidence_is_in_the_words_of_the_verdict() -> None:
    low = SLOW | {"cause": "unclear", "confidence": "low", "gain_low_ms": 0.0}
    assert verdict(low) == (
        "Rank 2 is 45.0 ms slower per step since step 7; the cause is unclear (most in aten::mm). It is not certain that "
        "this delays the job: a step takes 100.0 ms, without it 51.6 to 100.0 ms (estimated, low confidence); 60.0 ms "
        "before."
    )
    assert "hidden by other work (estimated, low confidence)" in verdict(low | {"gain_ms": 0.0})
    assert said(low).certainty == ESTIMATED


def test_the_verdict_without_a_cost_or_a_straggler() -> None:
    assert said() == ("4 ranks, 100.0 ms a step; no rank delays the others (simulated).", SIMULATED)
    assert verdict(
        SLOW | {"cause": "host", "gain_ms": 0.0, "gain_low_ms": 0.0, "note": "its GPU computes 3.0 times as long"}
    ) == (
        "Rank 2 is 45.0 ms slower per step since step 7 (its GPU computes 3.0 times as long); cause: host (aten::mm). "
        "The delay is hidden by other work (simulated). A step takes 100.0 ms."
    )
    late = SLOW | {"cause": "host", "place": BEFORE_FIRST_STEP, "since_step": 1, "note": "its step begins late"}
    assert verdict(late, steps={1: 100.0}) == (
        "Rank 2 delays 3 ranks: its step begins late; cause: host. "
        "A step takes 100.0 ms, without it 60.0 (51.6 to 68.4, simulated)."
    )
    unsure = late | {"gain_ms": 0.5, "gain_low_ms": 0.0, "gain_high_ms": 3.1}
    assert verdict(unsure, steps={1: 100.0}) == (
        "Rank 2: its step begins late; cause: host. It is not certain that this delays the job: a step takes 100.0 ms, "
        "without it 96.9 to 100.0 ms (simulated)."
    )


@pytest.mark.parametrize(
    ("fact", "reason", "record"),
    [
        ({"has_work": False, "has_steps": False, "calls": 0, "matched": 0}, "nor a collective is recorded", "the GPU"),
        ({"has_launches": False, "has_steps": False}, "launches its work", "Record the CPU"),
        ({"has_steps": False}, "no step was recorded by all ranks", "prof.step()"),
        ({"ranks": 1, "world_size": 1}, "no other rank", "Record every rank"),
        ({"calls": 0, "matched": 0}, "no communication is recorded", "in which ranks communicate"),
        ({"matched": 0}, "no collective of 100 could be matched", "ExecutionTrace"),
        ({"matched": 79}, "only 79 % of the communication", "ExecutionTrace"),
        ({"has_one_clock": False}, "share no collective", "all ranks communicate"),
        ({"ranks": 2, "world_size": 128}, "126 ranks of 128 are not here", "Record every rank"),
    ],
)
def test_what_the_recordings_do_not_show_is_not_denied(fact: dict[str, Any], reason: str, record: str) -> None:
    known = msgspec.structs.replace(WHOLE, **fact)
    text, certainty = said(steps=STEPS if known.has_steps else {}, known=known)
    assert certainty == CANNOT_TELL
    cannot, _, advice = text.partition(reason)
    assert "cannot tell who waits" in cannot
    assert record in advice
    assert "no rank delays" not in text


def test_a_slow_rank_is_named_where_not_all_waits_are_seen_and_what_is_not_seen_is_said() -> None:
    slow = SLOW | {"cause": "host"}
    unmatched = verdict(slow, known=msgspec.structs.replace(WHOLE, matched=0))
    assert unmatched.startswith("Rank 2 is 45.0 ms slower per step since step 7 (estimated, low confidence; cause")
    assert "cannot tell who waits for it: no collective of 100 could be matched" in unmatched
    few = verdict(slow, known=msgspec.structs.replace(WHOLE, world_size=6))
    assert few.endswith("2 ranks of 6 are not here: others may be slower. Record every rank.")


def test_a_part_of_a_real_job_cannot_tell_who_waits(tmp_path: Path) -> None:
    make_job(tmp_path, JobSpec(grid=Grid(dp=4), seed=2))
    files = sorted(tmp_path.glob("*rank[01]*.json*"))
    assert len(files) == 2
    whole, part = warplens.open_ranks([tmp_path], cache=False), warplens.open_ranks(files, cache=False)
    assert whole.verdict().endswith("no rank delays the others (simulated).")
    assert part.verdict().startswith("2 of 4 ranks, ")
    assert "cannot tell who waits: 2 ranks of 4 are not here. Record every rank." in part.verdict()


@pytest.fixture(scope="module")
def nccl4() -> JobProfile:
    return warplens.open_ranks([NCCL4])


def test_the_more_transfers_are_hidden_the_more_is_won_and_never_the_whole_step(nccl4: JobProfile) -> None:
    model = nccl4.model
    gains = [gain_of_hiding(model, below) for below in (1, 1 << 20, 64 << 20)] + [gain_of_hiding(model)]
    assert gains[0] == 0.0
    assert gains == sorted(gains)
    assert 0 < gains[-1] < float(model.step_ns.max()) / 1e6


def test_findings_of_a_job_are_in_its_tables_its_page_and_its_explanations(nccl4: JobProfile) -> None:
    codes = [finding.code for finding in nccl4.findings()]
    assert codes == nccl4.table("findings").frame["code"].to_list() != []
    extras = nccl4.document().extras()
    assert set(extras.explanations) == set(codes)
    assert len(extras.finding_targets) == len(codes)
    for finding in nccl4.findings():
        for target in finding.targets:
            assert target.row < len(nccl4.table(target.table))


def test_a_slow_gpu_is_found_with_its_gain_and_a_healthy_job_has_no_slow_rank(tmp_path: Path) -> None:
    fault = Fault.parse("slow_gpu:rank=2,since=2,factor=1.5")
    truth = make_job(tmp_path / "slow", JobSpec(grid=Grid(dp=4), faults=(fault,), seed=2))
    slow = warplens.open_ranks([tmp_path / "slow"], cache=False)
    (finding,) = (finding for finding in slow.findings() if finding.code == "WL402")
    gain_ms = truth.faults[0].gain_ms_per_step
    assert finding.gain_ms == pytest.approx(gain_ms, rel=0.1)
    assert finding.gain_low_ms < gain_ms < finding.gain_high_ms
    for row in slow.table("stragglers").to_dicts():
        most = row["gain_high_ms"] - row["gain_ms"]
        assert most >= 0.2 * row["gain_ms"], "20 % of the gain, and 2.5 % of the step"
        least = row["gain_ms"] - most if row["confidence"] == "high" else 0.0
        assert row["gain_low_ms"] == pytest.approx(max(0.0, least), abs=1e-6)
    for row in slow.table("job_what_if").to_dicts():
        assert row["gain_low_ms"] <= row["gain_ms"] <= row["gain_high_ms"]
    make_job(tmp_path / "healthy", JobSpec(grid=Grid(dp=4), seed=2))
    healthy = warplens.open_ranks([tmp_path / "healthy"], cache=False)
    assert not {finding.code for finding in healthy.findings()} - {"WL409", "WL410"}
