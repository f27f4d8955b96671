"""The simulated jobs obey the rules of streams and rendezvous, and their truth is what was planted."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from isal import igzip

import warplens
from make_ranks import Fault, Grid, JobSpec, Truth, make_job

GRIDS = {
    "data": JobSpec(grid=Grid(dp=4), steps=3, events=150, layers=2),
    "sharded": JobSpec(grid=Grid(dp=2), steps=2, events=100, layers=3, sharded=True),
    "pipeline": JobSpec(grid=Grid(tp=2, pp=2, dp=2), steps=2, events=120, layers=2),
    "experts": JobSpec(grid=Grid(dp=2, ep=2), steps=2, events=100, layers=2),
    "late host": JobSpec(grid=Grid(dp=2), steps=2, events=100, layers=2, sync=False, host_share=2.0),
}


def job(spec: JobSpec, *faults: str, **changes: Any) -> JobSpec:
    values = {name: getattr(spec, name) for name in spec.__dataclass_fields__}
    return JobSpec(**(values | changes | {"faults": tuple(Fault.parse(text) for text in faults)}))


def written(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(igzip.decompress(path.read_bytes()))
    return document


def kernels(path: Path) -> dict[int, dict[str, Any]]:
    events = written(path)["traceEvents"]
    return {event["args"]["correlation"]: event for event in events if event.get("cat") in ("kernel", "gpu_memcpy")}


@pytest.fixture(scope="module", params=GRIDS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("job")
    return folder, make_job(folder, GRIDS[request.param])


def test_no_collective_ends_before_its_last_rank_has_started(made: tuple[Path, Truth]) -> None:
    folder, truth = made
    ranks = [kernels(folder / f"rank{rank}.json.gz") for rank in range(truth.world)]
    assert truth.collectives
    for collective in truth.collectives:
        calls = [ranks[rank][correlation] for rank, correlation in collective.correlations.items()]
        assert sorted(collective.correlations) == collective.ranks
        assert all("nccl" in call["name"] for call in calls)
        last_start = max(call["ts"] for call in calls)
        ends = [call["ts"] + call["dur"] for call in calls]
        assert min(ends) >= last_start + collective.transfer_us - 0.01
        assert max(ends) - min(ends) <= 3.1 + 0.01 * collective.transfer_us
        assert ranks[collective.last_rank][collective.correlations[collective.last_rank]]["ts"] == last_start


def test_every_collective_kernel_is_in_the_truth_once(made: tuple[Path, Truth]) -> None:
    folder, truth = made
    for rank in range(truth.world):
        recorded = {
            number for number, event in kernels(folder / f"rank{rank}.json.gz").items() if "nccl" in event["name"]
        }
        matched = [each.correlations[rank] for each in truth.collectives if rank in each.correlations]
        assert sorted(matched) == sorted(recorded)


def test_events_of_a_stream_follow_each_other_and_their_launches(made: tuple[Path, Truth]) -> None:
    folder, _truth = made
    events = written(folder / "rank1.json.gz")["traceEvents"]
    gpu = [event for event in events if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    for stream in {event["tid"] for event in gpu}:
        ordered = sorted((event for event in gpu if event["tid"] == stream), key=lambda event: event["ts"])
        for earlier, later in pairwise(ordered):
            assert later["ts"] >= earlier["ts"] + earlier["dur"] - 0.002
    launches = {
        event["args"]["correlation"]: event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")
    }
    for event in gpu:
        launch = launches[event["args"]["correlation"]]
        assert event["ts"] >= launch["ts"] + launch["dur"]


def test_host_events_of_a_thread_nest(made: tuple[Path, Truth]) -> None:
    folder, _truth = made
    events = written(folder / "rank0.json.gz")["traceEvents"]
    host = [
        event for event in events if event.get("cat") in ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")
    ]
    for thread in {event["tid"] for event in host}:
        open_ends: list[float] = []
        for event in sorted(
            (event for event in host if event["tid"] == thread), key=lambda event: (event["ts"], -event["dur"])
        ):
            while open_ends and open_ends[-1] <= event["ts"] + 0.002:
                open_ends.pop()
            assert not open_ends or event["ts"] + event["dur"] <= open_ends[-1] + 0.002, event["name"]
            open_ends.append(event["ts"] + event["dur"])


def test_a_rank_opens_without_warnings(made: tuple[Path, Truth]) -> None:
    folder, truth = made
    profile = warplens.open(folder / "rank1.json.gz", cache=False)
    assert isinstance(profile, warplens.Profile)
    assert [note.code for note in profile.trace.quality.notes if note.severity == "warning"] == []
    assert profile.meta.distributed is not None
    assert (profile.meta.distributed.rank, profile.meta.distributed.world_size) == (1, truth.world)
    assert len(profile.table("steps").frame) == len(truth.steps)


def test_a_collective_has_what_pytorch_records(tmp_path: Path) -> None:
    make_job(tmp_path, job(GRIDS["pipeline"], seq=True))
    document = written(tmp_path / "rank5.json.gz")
    info = document["distributedInfo"]
    assert (info["rank"], info["world_size"]) == (5, 8)
    assert [(group["pg_desc"], group["ranks"]) for group in info["pg_config"]] == [
        ("default_pg", list(range(8))),
        ("mesh_tp", [4, 5]),
        ("mesh_dp", [5, 7]),
        ("mesh_pp_forward", [1, 5]),
        ("mesh_pp_backward", [1, 5]),
    ]
    records = [event["args"] for event in document["traceEvents"] if event["name"] == "record_param_comms"]
    by_name = {args["Collective name"]: args for args in records}
    assert by_name.keys() == {"allreduce", "recv", "send", "wait"}
    assert by_name["recv"]["Src Rank"] == 1
    assert "Seq" not in by_name["recv"]
    reduced = [args for args in records if args["Collective name"] == "allreduce" and args["Group size"] == 8]
    assert [(args["In msg nelems"], args["Seq"], args["Rank"]) for args in reduced] == [(1, 1, 5), (1, 2, 5)]
    annotations = {event["name"] for event in document["traceEvents"] if event.get("cat") == "user_annotation"}
    assert {"nccl:all_reduce", "nccl:recv 1<-0", "nccl:send 1->0", "ProfilerStep#2"} <= annotations


def test_a_healthy_job_has_nothing_to_gain(tmp_path: Path) -> None:
    truth = make_job(tmp_path, GRIDS["data"])
    assert truth.faults == []
    assert truth.step_ms == truth.healthy_step_ms
    assert {(clock.offset_us, clock.drift_ppm) for clock in truth.clocks} == {(0.0, 0.0)}


def test_a_seed_gives_the_same_files_and_another_one_others(tmp_path: Path) -> None:
    spec = job(GRIDS["experts"], "slow_gpu:rank=1", "clock")
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        make_job(tmp_path / name, job(spec, "slow_gpu:rank=1", "clock", seed=seed))
    first, same, other = (
        [path.read_bytes() for path in sorted((tmp_path / name).iterdir())] for name in ("a", "b", "c")
    )
    assert first == same
    assert first != other


def compute_ms(path: Path, step: int, truth: Truth) -> float:
    events = written(path)["traceEvents"]
    mark = next(
        e for e in events if e["name"] == f"ProfilerStep#{truth.steps[step]}" and e["cat"] == "gpu_user_annotation"
    )
    inside = [e for e in events if e.get("cat") == "kernel" and mark["ts"] <= e["ts"] < mark["ts"] + mark["dur"]]
    return float(sum(e["dur"] for e in inside if "nccl" not in e["name"])) / 1e3


def test_a_slow_gpu_costs_its_own_excess_from_its_first_step_on(tmp_path: Path) -> None:
    truth = make_job(tmp_path, job(GRIDS["data"], "slow_gpu:rank=2,since=1,factor=1.5"))
    (fault,) = truth.faults
    assert (fault.ranks, fault.since_step, fault.cause) == ([2], 3, "GPU")
    excess = compute_ms(tmp_path / "rank2.json.gz", 1, truth) / 3
    assert fault.gain_ms[0] == 0
    assert fault.gain_ms[1] == pytest.approx(excess, rel=0.1)
    for rank in (0, 1, 3):
        assert compute_ms(tmp_path / f"rank{rank}.json.gz", 1, truth) == pytest.approx(2 * excess, rel=0.05)


@pytest.mark.parametrize(
    ("name", "fault", "cause", "ranks"),
    [
        ("data", "slow_link:rank=1,factor=8", "network", [1]),
        ("data", "gc:rank=1,every=1,ms=9", "host", [1]),
        ("data", "late_data:rank=3,ms=9", "data", [3]),
        ("data", "uneven_data:rank=1", "imbalance", [1]),
        ("data", "slow_host:rank=1,factor=4", "host", [1]),
        ("data", "late_start:rank=2", "host", [2]),
        ("pipeline", "uneven_stage", "imbalance", [4, 5, 6, 7]),
        ("pipeline", "uneven_data:rank=2", "imbalance", [2, 3, 6, 7]),
        ("experts", "hot_expert:rank=3,factor=1.8", "imbalance", [3]),
    ],
)
def test_each_fault_costs_time(name: str, fault: str, cause: str, ranks: list[int], tmp_path: Path) -> None:
    (planted,) = make_job(tmp_path, job(GRIDS[name], fault)).faults
    assert (planted.cause, planted.ranks) == (cause, ranks)
    assert planted.gain_ms_per_step > 0.2


def test_the_gains_of_two_faults_are_each_without_the_other(tmp_path: Path) -> None:
    both = make_job(tmp_path / "both", job(GRIDS["data"], "late_data:rank=1,ms=7", "slow_gpu:rank=2,since=2"))
    one = make_job(tmp_path / "one", job(GRIDS["data"], "late_data:rank=1,ms=7"))
    late, slow = both.faults
    assert [a - b for a, b in zip(both.step_ms, one.step_ms, strict=True)] == pytest.approx(slow.gain_ms)
    # The data loader of one rank and the GPU of another delay the same collectives.
    assert slow.gain_ms[:2] == [0, 0]
    assert late.gain_ms[0] == pytest.approx(7, rel=0.05)


def test_clocks_move_the_files_of_a_host_and_not_the_job(tmp_path: Path) -> None:
    plain = make_job(tmp_path / "plain", job(GRIDS["data"], gpus_per_host=2))
    truth = make_job(tmp_path / "off", job(GRIDS["data"], "clock", gpus_per_host=2))
    assert truth.step_ms == plain.step_ms
    offsets = [clock.offset_us for clock in truth.clocks]
    assert offsets[0] == offsets[1] != offsets[2] == offsets[3]
    assert all(abs(offset) <= 50_000 for offset in offsets)
    for rank in (0, 3):
        before, after = (kernels(tmp_path / name / f"rank{rank}.json.gz") for name in ("plain", "off"))
        first = min(before.values(), key=lambda event: event["ts"])
        moved = after[first["args"]["correlation"]]["ts"] - first["ts"]
        assert moved == pytest.approx(offsets[rank], abs=10)  # 100 ppm of 10 ms are 1 µs


def test_a_missing_rank_has_no_file_but_took_part(tmp_path: Path) -> None:
    truth = make_job(tmp_path, job(GRIDS["data"], "missing:rank=2"))
    assert sorted(path.name for path in tmp_path.glob("rank*")) == [f"rank{rank}.json.gz" for rank in (0, 1, 3)]
    assert all(each.ranks == [0, 1, 2, 3] and sorted(each.correlations) == [0, 1, 3] for each in truth.collectives)


def test_without_metadata_nothing_names_groups_or_sizes(tmp_path: Path) -> None:
    make_job(tmp_path, job(GRIDS["data"], "no_metadata"))
    text = igzip.decompress((tmp_path / "rank0.json.gz").read_bytes()).decode()
    assert "distributedInfo" not in text
    assert "nelems" not in text
    assert "Process Group" not in text


def test_longer_sequences_are_in_the_shapes(tmp_path: Path) -> None:
    make_job(tmp_path, job(GRIDS["data"], "uneven_data:rank=1,factor=1.5"))

    def elements(rank: int) -> int:
        events = written(tmp_path / f"rank{rank}.json.gz")["traceEvents"]
        shapes = [shape for event in events for shape in event.get("args", {}).get("Input Dims", [])]
        return sum(shape[0] for shape in shapes if len(shape) == 2 and shape[0] in (8_192, 12_288))

    assert elements(1) == pytest.approx(1.5 * elements(0), rel=1e-9)
    assert elements(0) == elements(2)


def test_tokens_sent_are_those_received(tmp_path: Path) -> None:
    truth = make_job(tmp_path, job(GRIDS["experts"], "hot_expert:rank=1,factor=1.8"))
    ranks = [kernels(tmp_path / f"rank{rank}.json.gz") for rank in range(truth.world)]
    exchanges = [each for each in truth.collectives if each.kind == "all_to_all"]
    assert exchanges
    for each in exchanges:
        calls = [ranks[rank][each.correlations[rank]]["args"] for rank in each.ranks]
        sent = [json.loads(args["In split size"]) for args in calls]
        received = [json.loads(args["Out split size"]) for args in calls]
        assert [list(column) for column in zip(*sent, strict=True)] == received
        assert [sum(row) for row in sent] == [args["In msg nelems"] for args in calls]


@pytest.mark.parametrize("text", ["slow", "slow_gpu:speed=2"])
def test_an_unknown_fault_or_value_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="slow"):
        Fault.parse(text)


def test_faults_that_the_grid_has_no_place_for_are_refused() -> None:
    for text, grid in (("slow_gpu:rank=4", Grid(dp=4)), ("uneven_stage", Grid(dp=4)), ("hot_expert", Grid(dp=4))):
        with pytest.raises(ValueError, match=text.partition(":")[0]):
            JobSpec(grid=grid, faults=(Fault.parse(text),))


def test_a_fault_that_ends_costs_nothing_afterwards(tmp_path: Path) -> None:
    (fault,) = make_job(tmp_path, job(GRIDS["data"], "late_data:rank=1,ms=5,since=1,until=2")).faults
    assert fault.gain_ms == pytest.approx([0, 5, 0], abs=0.3)
    assert fault.gain_ms_per_step == fault.gain_ms[1]


def test_lengths_that_differ_everywhere_have_no_single_rank(tmp_path: Path) -> None:
    (fault,) = make_job(tmp_path, job(GRIDS["data"], "uneven_data:spread=0.4")).faults
    assert fault.ranks == [0, 1, 2, 3]
    assert len({round(gain, 1) for gain in fault.gain_ms}) > 1


def test_without_noise_ranks_do_the_same(tmp_path: Path) -> None:
    make_job(tmp_path, job(GRIDS["data"], noise=0.0))
    first, second = (
        [event["dur"] for event in kernels(tmp_path / f"rank{rank}.json.gz").values() if "nccl" not in event["name"]]
        for rank in (0, 1)
    )
    assert first == pytest.approx(second, abs=0.0011)


def test_gradients_belong_to_the_modules_of_their_forward_pass(tmp_path: Path) -> None:
    make_job(tmp_path, GRIDS["data"])
    profile = warplens.open(tmp_path / "rank0.json.gz", cache=False)
    modules = profile.table("modules").frame
    layers = modules.filter(modules["module"].str.contains("Layer_"))
    assert len(layers) == 2
    assert all(layers["subtree_forward_us"] > 0)
    assert all(layers["subtree_backward_us"] > 0)
    events = written(tmp_path / "rank0.json.gz")["traceEvents"]
    node = next(event for event in events if event["name"].startswith("autograd::engine"))
    launches = {
        event["args"]["correlation"]: event["tid"] for event in events if event.get("cat", "").startswith("cuda")
    }
    gpu = [event for event in events if event.get("cat") in ("kernel", "gpu_memset") and "nccl" not in event["name"]]
    backward_us = sum(event["dur"] for event in gpu if launches[event["args"]["correlation"]] == node["tid"])
    assert layers["subtree_backward_us"].sum() == pytest.approx(backward_us)
