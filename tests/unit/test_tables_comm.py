"""`comm`: sizes, bandwidths and exposed time of collectives, worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

from support import Opened, annotation, kernel, launch, op

GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_execute_kernel"


def collective(
    name: str, ts: float, dur: float, *, sent: int, received: int, dtype: str = "BFloat16", size: int = 8, **place: Any
) -> dict[str, Any]:
    args = {
        "Collective name": name,
        "In msg nelems": sent,
        "Out msg nelems": received,
        "dtype": dtype,
        "Group size": size,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]",
    }
    return kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)", ts, dur, **place, **args)


def rows(profile: Any) -> list[dict[str, Any]]:
    return list(profile.table("comm").to_dicts())


def test_bandwidth_is_the_message_over_the_mean_duration(opened: Opened) -> None:
    """1 M bf16 elements are 2 MB; in 100 µs on average that is 20 GB/s, and all-reduce moves 2·7/8 of it per link."""
    events = [collective("allreduce", ts, dur, sent=1_000_000, received=1_000_000) for ts, dur in ((0, 80), (200, 120))]
    (row,) = rows(opened(events))
    assert (row["collective"], row["group"], row["group_size"], row["dtype"]) == ("allreduce", "0", 8, "BFloat16")
    assert (row["message_bytes"], row["count"], row["total_us"]) == (2_000_000, 2, 200.0)
    assert (row["mean_us"], row["min_us"], row["max_us"]) == (100.0, 80.0, 120.0)
    assert row["algbw_gbps"] == pytest.approx(20.0)
    assert row["busbw_gbps"] == pytest.approx(20.0 * 2 * 7 / 8)
    assert row["percent"] == 100.0


@pytest.mark.parametrize(
    ("name", "sent", "received", "factor"),
    [
        ("allreduce", 1000, 1000, 2 * 3 / 4),
        ("_allgather_base", 250, 1000, 3 / 4),
        ("reduce_scatter_tensor_coalesced", 1000, 250, 3 / 4),
        ("all_to_allv", 1000, 1000, 3 / 4),
        ("broadcast", 1000, 1000, 1.0),
        ("reduce", 1000, 1000, 1.0),
        ("send", 1000, 1000, 1.0),
    ],
)
def test_the_bus_factor_depends_on_the_collective_and_the_larger_side_is_the_message(
    opened: Opened, name: str, sent: int, received: int, factor: float
) -> None:
    (row,) = rows(opened([collective(name, 0, 4, sent=sent, received=received, dtype="Float", size=4)]))
    assert row["message_bytes"] == 4000
    assert row["algbw_gbps"] == pytest.approx(1.0)
    assert row["busbw_gbps"] == pytest.approx(factor)


@pytest.mark.parametrize(
    ("dtype", "size"),
    [
        ("Float", 4),
        ("c10::Half", 2),
        ("BFloat16", 2),
        ("Long", 8),
        ("Int", 4),
        ("Double", 8),
        ("Short", 2),
        ("Bool", 1),
        ("c10::BFloat16", 2),
        ("Byte", 1),
        ("Float8_e4m3fn", 1),
    ],
)
def test_elements_count_by_the_size_of_their_type(opened: Opened, dtype: str, size: int) -> None:
    (row,) = rows(opened([collective("allreduce", 0, 4, sent=10, received=10, dtype=dtype)]))
    assert row["message_bytes"] == 10 * size


def test_exposed_time_is_what_no_computation_on_the_same_gpu_hides(opened: Opened) -> None:
    """The first runs 0 to 100 beside a product from 60 on; the second runs alone; GPU 1's work hides nothing."""
    events = [
        collective("allreduce", 0, 100, sent=1, received=1, stream=20),
        kernel(GEMM, 60, 100),
        collective("allreduce", 200, 30, sent=1, received=1, stream=20),
        kernel(GEMM, 0, 300, device=1),
    ]
    (row,) = rows(opened(events))
    assert row["exposed_us"] == 60.0 + 30.0


def test_collectives_of_other_groups_sizes_and_types_are_rows_of_their_own(opened: Opened) -> None:
    events = [
        collective("allreduce", 0, 10, sent=100, received=100),
        collective("allreduce", 20, 20, sent=200, received=200),
        collective("allreduce", 50, 30, sent=100, received=100, dtype="Float"),
        collective("allreduce", 90, 5, sent=100, received=100, size=2),
    ]
    found = [(row["dtype"], row["group_size"], row["message_bytes"], row["total_us"]) for row in rows(opened(events))]
    assert found == [
        ("Float", 8, 400, 30.0),
        ("BFloat16", 8, 400, 20.0),
        ("BFloat16", 8, 200, 10.0),
        ("BFloat16", 2, 200, 5.0),
    ]


def test_the_record_of_the_call_serves_kernels_that_carry_none(opened: Opened) -> None:
    args = {
        "Collective name": "allreduce",
        "In msg nelems": 100,
        "Out msg nelems": 100,
        "dtype": "Float",
        "Group size": 2,
    }
    events = [op("record_param_comms", 0, 20, **args), op("c10d::allreduce_", 2, 10), launch(3, 1, 1)]
    (row,) = rows(opened([*events, kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30, 10, 1)]))
    assert (row["collective"], row["message_bytes"], row["group_size"]) == ("allreduce", 400, 2)


def test_without_any_record_the_op_names_the_collective_and_no_bandwidth_is_claimed(opened: Opened) -> None:
    events = [annotation("nccl:all_reduce", 0, 20), op("c10d::allreduce_", 2, 10), launch(3, 1, 1)]
    (row,) = rows(opened([*events, kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 30, 10, 1)]))
    assert (row["collective"], row["group"], row["dtype"]) == ("c10d::allreduce_", "(unknown)", "(unknown)")
    assert (row["message_bytes"], row["algbw_gbps"], row["busbw_gbps"]) == (None, None, None)
    assert row["exposed_us"] == 10.0


def test_a_collective_without_duration_has_no_bandwidth(opened: Opened) -> None:
    (row,) = rows(opened([collective("allreduce", 0, 0, sent=10, received=10)]))
    assert (row["message_bytes"], row["algbw_gbps"], row["busbw_gbps"]) == (20, None, None)


def test_a_collective_without_data_has_no_bandwidth(opened: Opened) -> None:
    (row,) = rows(opened([collective("barrier", 0, 5, sent=0, received=0)]))
    assert (row["message_bytes"], row["algbw_gbps"], row["busbw_gbps"]) == (0, None, None)


def test_computation_is_no_communication(opened: Opened) -> None:
    assert rows(opened([kernel(GEMM, 0, 10)])) == []


def test_a_group_has_its_description_and_its_ranks(opened: Opened) -> None:
    """From the call itself; a list that is cut after 30 ranks is completed from the head of the file."""
    config = [
        {"pg_name": "0", "pg_desc": "default_pg", "ranks": list(range(64))},
        {"pg_name": "1", "pg_desc": "tensor parallel", "ranks": [0, 1, 2, 3]},
        {"pg_name": "1", "pg_desc": "data parallel", "ranks": [0, 8, 16]},
    ]
    cut = f"[{', '.join(map(str, range(30)))}, ...]"
    groups: list[dict[str, Any]] = [
        {"Process Group Name": "0", "Process Group Ranks": cut, "Process Group Description": "default_pg"},
        {"Process Group Name": "1", "Process Group Ranks": "[0, 8, 16]"},
        {"Process Group Name": "0", "Process Group Ranks": None},
        {"Process Group Name": "1", "Process Group Ranks": None},
        {"Process Group Name": "7", "Process Group Ranks": cut, "Process Group Description": "experts"},
    ]
    events = [collective("allreduce", 100 * at, 10 + at, sent=100 + at, received=100 + at) for at in range(len(groups))]
    for event, group in zip(events, groups, strict=True):
        event["args"] |= group
    job = {"rank": 0, "world_size": 64, "pg_config": config}
    found = {row["count"] * row["message_bytes"]: row for row in rows(opened(events, {"distributedInfo": job}))}
    described = [(found[2 * (100 + at)]["group_description"], found[2 * (100 + at)]["group_ranks"]) for at in range(5)]
    assert described == [
        ("default_pg", "0–63"),
        ("data parallel", "0, 8, 16"),
        ("default_pg", "0–63"),
        ("", ""),
        ("experts", "0–29, …"),
    ]


def test_without_a_record_of_the_group_nothing_is_said_of_it(opened: Opened) -> None:
    (row,) = rows(opened([kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 10)]))
    assert (row["group"], row["group_description"], row["group_ranks"]) == ("(unknown)", "", "")
