"""ExecutionTraces beside the traces of a job: what they add to collectives that the traces do not describe."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import warplens
from rank_digests import matches
from support import SHARED, kernel, launch, op, write_trace
from warplens.model.trace import Trace
from warplens.profiles.reading import read_rank
from warplens.readers import inputs
from warplens.readers.execution_trace import collectives
from warplens_run.base.errors import UsageError

RANKS = SHARED / "traces" / "ranks"
CALL = "record_param_comms"
PID = 1
Call = dict[str, Any]


def call(size: int, seq: object, group: object, *, kind: str = "allreduce", **more: Any) -> Call:
    return {"size": size, "seq": seq, "group": group, "kind": kind, "record": 0, "wait": 0, "tail": [0, 1, 2]} | more


def traced(path: Path, calls: list[Call], rank: int = 0, world: int = 2, **args: Any) -> Path:
    """A trace as old PyTorch wrote it: kernels and ops of collectives, and shapes only."""
    events = []
    for number, each in enumerate(calls):
        begin, own = 100 * number, args | ({"Record function id": each["record"]} if each["record"] else {})
        others = 6 + len(each["tail"])
        shapes = {"Input Dims": [[each["size"]], *[[]] * others], "Input type": ["float", *["Scalar"] * others]}
        events += [
            op(CALL, begin, 20, pid=PID, **{"External id": number + 1, **shapes, **own}),
            launch(begin + 5, 2, number + 1, pid=PID),
            kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclKernelComm*)", begin + 10 + each["wait"],
                   60 - each["wait"], number + 1),
        ]  # fmt: skip
    return write_trace(path, events, distributedInfo={"backend": "nccl", "rank": rank, "world_size": world})


def recorded(
    path: Path, calls: list[Call], groups: dict[str, list[int]] | None = None, pid: int = PID, group_size: int = 4
) -> Path:
    """Its ExecutionTrace, as today's PyTorch writes it."""
    listed = [
        {"pg_name": name, "pg_desc": "", "ranks": ranks, "group_size": group_size}
        for name, ranks in (groups or {}).items()
    ]
    nodes = [_node(2, "## process_group:init ##", 1, [json.dumps(listed)], [[]], ["String"])]
    for number, each in enumerate(calls):
        tensor = [10, 11, 0, each["size"], 4, "cuda:0"]
        values = [tensor, each["seq"], each["group"], 0, each["kind"], [], [], *each["tail"]]
        shapes = [[each["size"]], *[[]] * (len(values) - 1)]
        types = ["Tensor(float)", *["Int"] * (len(values) - 1)]
        nodes.append(_node(number + 3, CALL, each["record"] or number + 2, values, shapes, types, [tensor]))
    head = {"schema": "1.1.1-chakra.0.0.4", "pid": pid, "time": "2026-01-02 03:04:05", "start_ts": 1}
    path.write_text(json.dumps({**head, "nodes": nodes, "finish_ts": 2}))
    return path


def _node(
    number: int,
    name: str,
    record: int,
    values: list[Any],
    shapes: list[Any],
    types: list[str],
    made: Sequence[Any] = (),
) -> dict[str, Any]:
    strides: list[Any] = [[]] * len(values)
    return {
        "id": number, "name": name, "ctrl_deps": 1,
        "inputs": {"values": values, "shapes": shapes, "types": types, "strides": strides},
        "outputs": {"values": list(made), "shapes": shapes[:1], "types": types[:1], "strides": strides[:1]},
        "attrs": [{"name": "rf_id", "type": "uint64", "value": record}],
    }  # fmt: skip


def described(folder: Path, calls: list[Call], nodes: list[Call] | None = None, **more: Any) -> Trace:
    trace = traced(folder / "rank0.json", calls)
    calls_of_rank = recorded(folder / "et0.json", calls if nodes is None else nodes, **more)
    trace_of_rank = read_rank(inputs.find(trace, calls_of_rank))
    assert isinstance(trace_of_rank, Trace)
    return trace_of_rank


def seqs(trace: Trace) -> list[int]:
    return trace.collectives["seq"].to_list()


def test_calls_are_described_in_their_order(tmp_path: Path) -> None:
    calls = [call(64, [7, False], ["0", "default_pg"]), call(32, [8, False], ["0", "default_pg"])]
    trace = described(tmp_path, calls, groups={"0": []})
    row = trace.collectives.to_dicts()[0]
    assert (row["collective"], row["dtype"], row["in_elements"], row["out_elements"]) == ("allreduce", "Float", 64, 64)
    assert (row["group"], row["group_size"], row["ranks"], row["seq"]) == ("0", 2, "[0, 1, 2, 3]", 7)
    assert trace.meta.distributed is not None
    assert [group.ranks for group in trace.meta.distributed.groups] == [(0, 1, 2, 3)]


def test_calls_are_described_by_the_number_that_both_record(tmp_path: Path) -> None:
    calls = [call(64, [7, False], ["0", ""], record=31), call(64, [8, False], ["0", ""], record=32)]
    trace = described(tmp_path, calls, [calls[1] | {"record": 32}])
    assert seqs(trace) == [8]
    assert trace.collectives["id"].to_list() == [trace.events.filter(pl.col("external_id") == 2)["id"][0]]


def test_a_send_has_no_number_in_its_group(tmp_path: Path) -> None:
    assert seqs(described(tmp_path, [call(64, [7, True], ["0", ""], kind="send")])) == [-1]


def test_waits_are_not_described(tmp_path: Path) -> None:
    calls = [call(64, 7, ["0", ""]), call(64, 7, ["0", ""], kind="wait")]
    assert seqs(described(tmp_path, calls)) == [7]


def test_numbers_count_for_addresses_only_where_there_is_one_group(tmp_path: Path) -> None:
    calls = [call(64, 7, 94594108284448, tail=[]), call(32, 8, 94594108284448, tail=[])]
    trace = described(tmp_path, calls)
    assert (seqs(trace), trace.collectives["group"].to_list()) == ([7, 8], [None, None])
    other = [calls[0], calls[1] | {"group": 94594108289999}]
    assert seqs(described(tmp_path, other)) == [-1, -1]


@pytest.mark.parametrize(
    ("nodes", "pid"),
    [
        pytest.param([call(64, 7, ["0", ""])], PID + 1, id="another process"),
        pytest.param([call(128, 7, ["0", ""])], PID, id="other shapes"),
        pytest.param([call(64, 7, ["0", ""]), call(64, 8, ["0", ""])], PID, id="two places"),
    ],
)
def test_what_may_be_other_calls_is_not_used(tmp_path: Path, nodes: list[Call], pid: int) -> None:
    trace = described(tmp_path, [call(64, 0, ["0", ""])], nodes, pid=pid)
    assert trace.collectives.is_empty()
    assert trace.quality.has("execution_trace_unused")


def test_what_the_trace_records_counts_and_what_it_lacks_is_added(tmp_path: Path) -> None:
    calls = [call(64, [7, False], ["9", ""])]
    own = {"Collective name": "allreduce", "dtype": "Float", "Process Group Name": "0", "In msg nelems": 64,
           "Out msg nelems": 64, "Group size": 2}  # fmt: skip
    path = traced(tmp_path / "rank0.json", calls, **own)
    trace = read_rank(inputs.find(path, recorded(tmp_path / "et0.json", calls)))
    assert isinstance(trace, Trace)
    (row,) = trace.collectives.to_dicts()
    assert (row["group"], row["seq"]) == ("0", 7)


def test_collectives_of_many_shapes_are_not_all_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    monkeypatch.setattr(collectives, "agree", lambda *row: compared.append(row) or row[0] == row[2])
    calls = [call(size + 1, [size, False], ["0", ""]) for size in range(400)]
    trace = described(tmp_path, calls)
    assert trace.collectives.is_empty()
    assert not compared


def test_groups_of_all_ranks_are_not_all_written_out(tmp_path: Path) -> None:
    """Three hundred groups of a million ranks each, in 20 KB."""
    groups: dict[str, list[int]] = {f"g{number}": [] for number in range(300)}
    trace = described(tmp_path, [call(64, [7, False], ["g0", ""])], groups=groups, group_size=2**20 - 1)
    assert trace.meta.distributed is not None
    assert sum(len(group.ranks) for group in trace.meta.distributed.groups) < 2**20


def job_of_pairs(folder: Path) -> None:
    """Two pairs of ranks whose calls look and end alike: only the ExecutionTraces tell who meets whom."""
    for rank in range(4):
        pair = [0, 1] if rank < 2 else [2, 3]
        calls = [call(64, [7 + n, False], ["1", ""], wait=10 * (rank % 2)) for n in range(3)]
        traced(folder / f"rank{rank}.json", calls, rank, 4)
        recorded(folder / f"et_rank{rank}.json", calls, {"1": pair})


def test_groups_of_execution_traces_show_who_meets_whom(tmp_path: Path) -> None:
    job_of_pairs(tmp_path)
    job = warplens.open_ranks([tmp_path], cache=False)
    pairs = {frozenset([(rank, place), (rank + 1, place)]) for rank in (0, 2) for place in range(3)}
    assert matches(job.job) == pairs
    assert len(job.job.digests) == 4
    notes = [note.message for note in job.job.notes()]
    assert "ExecutionTraces describe the collectives of 4 ranks" in notes
    assert not any("left out" in note or "not used" in note for note in notes)


@pytest.mark.parametrize("what", ["missing", "damaged"])
def test_execution_traces_of_some_ranks_are_not_used(tmp_path: Path, what: str) -> None:
    job_of_pairs(tmp_path)
    if what == "missing":
        (tmp_path / "et_rank3.json").unlink()
    else:
        text = (tmp_path / "et_rank3.json").read_text()
        (tmp_path / "et_rank3.json").write_text(text[: text.index('"id"') + 20])
    job = warplens.open_ranks([tmp_path], cache=False)
    assert matches(job.job) == {frozenset((rank, place) for rank in range(4)) for place in range(3)}
    assert any("ExecutionTraces not used" in note.message for note in job.job.notes())


def test_a_folder_of_execution_traces_is_not_a_job(tmp_path: Path) -> None:
    recorded(tmp_path / "et_rank0.json", [call(64, 7, ["0", ""])])
    with pytest.raises(UsageError, match="only ExecutionTraces"):
        warplens.open_ranks([tmp_path])


def test_one_rank_is_opened_beside_execution_traces(tmp_path: Path) -> None:
    from warplens.profiles.job import file_of_rank

    job_of_pairs(tmp_path)
    assert file_of_rank([tmp_path], 2) == tmp_path / "rank2.json"


@pytest.mark.skipif(not RANKS.exists(), reason="the shared traces are not here")
def test_real_ranks_have_types_sizes_and_splits_from_their_execution_traces(tmp_path: Path) -> None:
    for file in [*(RANKS / "dlrm8").iterdir(), *(RANKS / "dlrm8_et").iterdir()]:
        (tmp_path / file.name).symlink_to(file)
    plain, job = (warplens.open_ranks([path], cache=False) for path in (RANKS / "dlrm8", tmp_path))
    assert matches(job.job) == matches(plain.job)
    assert job.job.calls.sort("rank", "launch_ns")["seq"].to_list() == [*range(147, 155)] * 8
    frame = job.table("collectives").frame
    assert frame["dtype"].to_list() == ["Float", "Long", "Int", "Int", "Float", "Float", "Float", "Float"]
    assert frame["message_bytes"].is_not_null().all()
    sent = job.table("all_to_all").frame.filter(pl.col("from_rank") == 0, pl.col("to_rank") == 3)
    assert sent["sent_bytes"].to_list() == [4 * (768 + 48 + 1664 + 768)]
    assert plain.table("all_to_all").frame.is_empty()
