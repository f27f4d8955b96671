"""Counters beside a trace: the same kernel in two spellings, and what was measured of it."""

from __future__ import annotations

import csv
import gzip
import io
from functools import lru_cache
from typing import Any

import polars as pl
import pytest

import warplens
from support import ROOT, SAMPLES, SHARED, Opened, kernel, launch, op, raw_events
from warplens.analyses import Workspace
from warplens.analyses.inside_kernels.counters import BY_BASE, BY_NAME, joined_kernels, name_key, with_short_names
from warplens.api import _counters
from warplens.categories import load_categorizer
from warplens.model.table import Table
from warplens.model.trace import Meta
from warplens.readers.ncu import reader as ncu

FOLDER = ROOT / "samples" / "ncu"
MATMUL = "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT"
HEAD = ("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream", "Block Size", "Grid Size",
        "Device", "CC")  # fmt: skip

PAIRS = [
    # (Nsight Compute, Kineto): as both wrote them
    (
        "void at::<unnamed>::cunn_SoftMaxForwardReg<float, float, float, at::<unnamed>::SoftMaxForwardEpilogue, long, 4>(T3 *, const T1 *, T5)",
        "void at::native::(anonymous namespace)::cunn_SoftMaxForwardReg<float, float, float, at::native::(anonymous namespace)::SoftMaxForwardEpilogue, long, 4>(float*, float const*, long)",
    ),
    (
        "void at::<unnamed>::vectorized_layer_norm_kernel<c10::BFloat16, float, 0>(int, T2, const T1 *, const T1 *, const T1 *, T2 *, T2 *, T1 *)",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, false>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)",
    ),
    (
        "void at::unrolled_elementwise_kernel<at::direct_copy_kernel_cuda(at::TensorIteratorBase &)::[lambda() (instance 3)]::operator ()() const::[lambda() (instance 7)]::operator ()() const::[lambda(float) (instance 1)], std::array<char *, 2>, 4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, memory::LoadWithCast<1>, memory::StoreWithCast<1>>(int, T1, T2, T4, T5, T6, T7)",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1> >(int, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::{lambda(float)#1}, std::array<char*, 2ul>, TrivialOffsetCalculator<1, unsigned int>, TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, at::native::memory::StoreWithCast<1>)",
    ),
    (
        "void mbtopk::fill<unsigned int, unsigned int>(T1 *, T1, T2)",
        "void at::native::mbtopk::fill<unsigned int, unsigned int>(unsigned int*, unsigned int, unsigned int)",
    ),
    (
        "void at::bitonicSortKVInPlace<2, (int)-1, 16, 16, float, long, at::GTOp<float, 1>, unsigned int>(cuda::TensorInfo<T5, T8>, T8, T8, T8, cuda::TensorInfo<T6, T8>, T8, T7)",
        "void at::native::bitonicSortKVInPlace<2, -1, 16, 16, float, long, at::native::GTOp<float, true>, unsigned int>(at::cuda::detail::TensorInfo<float, unsigned int>, unsigned int, unsigned int, unsigned int, at::cuda::detail::TensorInfo<long, unsigned int>, unsigned int, at::native::GTOp<float, true>)",
    ),
    ("mbtopk::computeDigitCumSum(short *, unsigned int *, unsigned int)",
     "at::native::mbtopk::computeDigitCumSum(short*, unsigned int*, unsigned int)"),
    ("scale_kernel", "scale_kernel"),
    (MATMUL, MATMUL),
]  # fmt: skip
RELU, GELU = (
    f"void at::vectorized_elementwise_kernel<8, at::{name}, std::array<char *, 2>>(int, T2, T3)"
    for name in ("relu", "gelu")
)


def page(*launches: tuple[str, str, str, float, int]) -> Table:
    """The counters of a made file: (kernel, grid, block, µs, bytes) each."""
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL)
    writer.writerow([*HEAD, "gpu__time_duration.sum", "dram__bytes.sum"])
    writer.writerow([*[""] * len(HEAD), "us", "byte"])
    for number, (name, grid, block, time_us, moved) in enumerate(launches):
        head = [str(number), "7", "app", "127.0.0.1", name, "1", "7", block, grid, "0", "9.0"]
        writer.writerow([*head, str(time_us), str(moved)])
    return ncu.read(stream.getvalue().encode(), Meta(source="x", format=""), []).extra[0]


def sample(name: str) -> dict[str, Table]:
    found = ncu.read(gzip.decompress((FOLDER / name).read_bytes()), Meta(source=name, format=""), [])
    return {each.name: each for each in found.extra}


@lru_cache(maxsize=1)
def traced() -> Workspace:
    return Workspace(warplens.open(FOLDER / "ops_trace.json.gz", cache=False).trace)


def rows_of(found: Table) -> dict[str, dict[str, Any]]:
    return {row["kernel"]: row for row in found.to_dicts()}


@pytest.mark.parametrize(("counted", "traced"), PAIRS, ids=[name_key(pair[0]).base for pair in PAIRS])
def test_two_spellings_of_a_kernel_have_one_key(counted: str, traced: str) -> None:
    assert name_key(counted) == name_key(traced)


def test_every_kernel_of_a_real_pair_is_found() -> None:
    found = joined_kernels(traced(), sample("ops_raw.csv.gz")["counters"])
    assert found.notes == ("28 of 28 profiled kernels (by name, grid and block) occur in the trace",)
    assert set(found.frame["matched_by"]) == {BY_NAME}
    work = traced()
    kernels = work.gpu.filter(~pl.col("kernel").str.starts_with("Mem"))
    assert found.frame["count"].sum() == len(kernels)
    assert found.frame["total_us"].sum() == pytest.approx(kernels["dur_ns"].sum() / 1e3)
    assert found.frame["profiled"].sum() == 39


def test_what_was_measured_stands_beside_what_the_op_must_move() -> None:
    rows = rows_of(joined_kernels(traced(), sample("ops_raw.csv.gz")["counters"]))
    row = rows[MATMUL]
    assert (row["count"], row["profiled"], row["ncu_us"], row["dram_bytes"]) == (3, 1, 174.432, 85_255_424 + 25_433_344)
    assert row["modelled_bytes"] == 3 * 4096 * 4096 * 2
    assert row["measured_over_modelled"] == pytest.approx(row["dram_bytes"] / row["modelled_bytes"])
    assert (row["occupancy_limit"], row["top_stall"], row["tensor_percent"]) == (
        "registers, shared memory",
        "barrier",
        90.177348,
    )
    several = next(row for name, row in rows.items() if "computeBlockDigitCounts" in name)
    assert (several["count"], several["profiled"], several["modelled_bytes"]) == (12, 4, None)
    outside = rows["scale_kernel"]  # launched by no op
    assert (outside["modelled_bytes"], outside["measured_over_modelled"]) == (None, None)


def test_means_over_the_profiled_launches() -> None:
    counters = sample("ops_raw.csv.gz")["counters"]
    name = next(name for name in counters.frame["kernel"] if "computeBlockDigitCounts" in name)
    expected = counters.frame.filter(pl.col("kernel") == name)
    row = next(
        row for key, row in rows_of(joined_kernels(traced(), counters)).items() if "computeBlockDigitCounts" in key
    )
    assert row["ncu_us"] == pytest.approx(expected["time_us"].mean())
    assert row["dram_bytes"] == expected["dram_bytes"].mean()


def test_the_details_page_joins_as_well_and_brings_its_rules() -> None:
    tables = sample("ops_details.csv.gz")
    rows = rows_of(joined_kernels(traced(), tables["counters"], tables["counter_rules"]))
    assert len(rows) == 28
    promises: dict[Any, dict[str | None, list[float]]] = {}
    for rule in tables["counter_rules"].to_dicts():
        if rule["kind"] == "OPT":
            of_kernel = promises.setdefault(name_key(rule["kernel"]), {})
            of_kernel.setdefault(rule["speedup_type"], []).append(rule["estimated_speedup_percent"])
    # A promise for a part of the kernel does not count, however large, where there is one for the whole.
    assert any(
        max(found["local"]) > max(found["global"]) for found in promises.values() if {"local", "global"} <= set(found)
    )
    for name, row in rows.items():
        found = promises[name_key(name)]
        kind = "global" if "global" in found else "local"
        assert (row["speedup_type"], row["estimated_speedup_percent"]) == (kind, max(found[kind])), name
        assert row["rule"] and row["rule_text"]
    assert rows[MATMUL]["dram_bytes"] is None  # that page has no bytes


def test_rules_of_the_details_page_beside_counters_of_the_raw_page() -> None:
    rules = sample("ops_details.csv.gz")["counter_rules"]
    row = rows_of(joined_kernels(traced(), sample("ops_raw.csv.gz")["counters"], rules))[MATMUL]
    assert row["rule"] and row["dram_bytes"] is not None
    other = rows_of(
        joined_kernels(traced(), sample("ops_raw.csv.gz")["counters"], sample("ncu_details.csv.gz")["counter_rules"])
    )
    assert other[MATMUL]["rule"] is None  # rules of another report


def test_base_names_join_where_only_one_kernel_fits() -> None:
    counters = sample("ops_raw.csv.gz")["counters"]
    names = counters.frame["kernel"].map_elements(lambda name: name_key(name).base, pl.String)
    bare = Table(counters.name, counters.meaning, counters.columns, counters.frame.with_columns(names.alias("kernel")))
    found = joined_kernels(traced(), bare)
    assert found.notes[0] == "24 of 25 profiled kernels (by name, grid and block) occur in the trace"
    assert found.notes[1].startswith("1 fit several kernels and are left out: ")
    assert found.frame.filter(pl.col("kernel").str.contains("cunn_SoftMax"))["matched_by"].to_list() == [BY_BASE]
    assert found.frame.filter(pl.col("grid") == "[16384, 1, 1]")["kernel"].to_list() == ["scale_kernel"]


def kernels(*named: tuple[str, str, str]) -> list[dict[str, Any]]:
    """Kernels of 10 µs each with their launches: (name, grid, block)."""
    events = []
    for number, (name, grid, block) in enumerate(named, start=1):
        sizes = {key: [int(size) for size in text.split()] for key, text in (("grid", grid), ("block", block)) if text}
        events += [launch(20 * number, 1, number), kernel(name, 20 * number + 5, 10, number, **sizes)]
    return events


def test_template_arguments_grid_and_block_tell_kernels_apart(opened: Opened) -> None:
    events = kernels((GELU, "8 1 1", "64 1 1"), (RELU, "4 1 1", "64 1 1"), (RELU, "8 1 1", "32 1 1"))
    work = Workspace(opened(events).trace)
    found = joined_kernels(work, page((RELU, "(8, 1, 1)", "(64, 1, 1)", 5, 100)))
    assert not len(found)
    assert found.notes[:1] == ("0 of 1 profiled kernels (by name, grid and block) occur in the trace",)
    assert found.notes[1].startswith("1 do not: ")
    found = joined_kernels(work, page((RELU, "(8, 1, 1)", "(32, 1, 1)", 5, 100)))
    assert found.frame.select("kernel", "grid", "ncu_us").rows() == [(RELU, "[8, 1, 1]", 5.0)]


def test_a_trace_without_geometry_joins_by_name(opened: Opened) -> None:
    work = Workspace(opened(kernels((RELU, "", ""))).trace)
    found = joined_kernels(work, page((RELU, "(8, 1, 1)", "(64, 1, 1)", 5, 100)))
    assert found.frame["kernel"].to_list() == [RELU]


def test_two_profiled_kernels_are_not_both_one_of_the_trace(opened: Opened) -> None:
    work = Workspace(opened(kernels(("vectorized_elementwise_kernel", "8 1 1", "64 1 1"))).trace)
    one = joined_kernels(work, page((RELU, "(8, 1, 1)", "(64, 1, 1)", 5, 100)))
    assert one.frame["matched_by"].to_list() == [BY_BASE]
    both = joined_kernels(work, page((RELU, "(8, 1, 1)", "(64, 1, 1)", 5, 1), (GELU, "(8, 1, 1)", "(64, 1, 1)", 6, 1)))
    assert not len(both) and "2 fit several kernels" in both.notes[1]


def test_bytes_are_not_compared_where_equal_grids_did_different_work(opened: Opened) -> None:
    events: list[dict[str, Any]] = []
    for number, rows in enumerate((64, 128), start=1):
        start = 100 * number
        sizes = {"Input Dims": [[rows, 64], [rows, 64]], "Input type": ["float", "float"]}
        events += [op("aten::mul", start, 50, **sizes), launch(start + 1, 1, number)]
        events += [kernel("mul_kernel", start + 5, 10, number, grid=[8, 1, 1], block=[64, 1, 1])]
    counters = page(("mul_kernel", "(8, 1, 1)", "(64, 1, 1)", 5, 49_152))
    two = joined_kernels(Workspace(opened(events).trace), counters).to_dicts()[0]
    assert (two["count"], two["modelled_bytes"]) == (2, None)
    first = joined_kernels(Workspace(opened(events[:3]).trace), counters).to_dicts()[0]
    assert (first["modelled_bytes"], first["measured_over_modelled"]) == (3 * 64 * 64 * 4, 1.0)


def test_a_kernel_has_the_op_module_and_line_of_its_launches() -> None:
    """Two of the kernels that Nsight Compute measured elsewhere run in this step of GPT-2 too."""
    profile = warplens.open(
        ROOT / "samples" / "kineto" / "gpt2_train_step.json.gz", cache=False, ncu=[FOLDER / "ops_raw.csv.gz"]
    )
    rows = profile.table("measured_kernels").frame.select("op", "module", "line").rows()
    attention, numbers = rows
    assert attention[0] == "aten::_cudnn_attention_forward"
    assert attention[1] == "GPT2LMHeadModel/GPT2Model_*/GPT2Block_*/GPT2Attention_*"
    assert attention[2].rpartition("/")[2] == "sdpa_attention.py:79 sdpa_attention_forward"
    assert numbers[0] == "aten::arange" and numbers[1] == "GPT2LMHeadModel/GPT2Model_*"


def test_the_op_with_most_time_is_named_where_several_launch_a_kernel(opened: Opened) -> None:
    events = [
        op("aten::relu", 0, 4), launch(1, 1, 1), kernel(RELU, 10, 5, 1, grid="[8, 1, 1]", block="[64, 1, 1]"),
        op("aten::clamp", 5, 4), launch(6, 1, 2), kernel(RELU, 20, 6, 2, grid="[8, 1, 1]", block="[64, 1, 1]"),
    ]  # fmt: skip
    work = Workspace(opened(events).trace)
    (row,) = joined_kernels(work, page((RELU, "(8, 1, 1)", "(64, 1, 1)", 5, 100))).to_dicts()
    assert (row["count"], row["op"], row["module"], row["line"]) == (2, "aten::clamp", None, None)


def test_a_source_page_beside_the_counters_names_the_line_that_waits_most(opened: Opened) -> None:
    events = [op("mm", 0, 4), launch(1, 1, 1), kernel("softmax_kernel", 10, 30, 1)]
    raw, source = sample("kernels_raw.csv.gz"), sample("kernels_lines.csv.gz")
    (row,) = joined_kernels(
        Workspace(opened(events).trace), raw["counters"], instructions=source["counter_instructions"]
    ).to_dicts()
    assert (row["top_stall"], row["stall_line"], row["ncu_us"]) == ("long_scoreboard", "standard.py:170", 32.096)


def test_a_source_page_given_first_does_not_replace_the_counters() -> None:
    pages = [FOLDER / f"kernels_{name}.csv.gz" for name in ("sass", "lines", "raw")]
    tables = _counters(pages, 0)
    counters = next(table for table in tables if table.name == "counters")
    assert counters.frame["time_us"].null_count() == 0


def test_distinct_kernels_of_real_traces_have_distinct_keys() -> None:
    paths = [*SAMPLES, *(SHARED / "traces" / "h200").glob("[cgr]*.json.gz")]
    names = {event["name"] for path in paths for event in raw_events(path) if event.get("cat") == "kernel"}
    keys: dict[Any, set[str]] = {}
    for name in names:
        keys.setdefault(name_key(name), set()).add(name)
    assert len(names) > 100 and not [same for same in keys.values() if len(same) > 1]


@pytest.mark.parametrize(
    "name", ["", "<", "((((", "f<" * 3000, "(" * 5000, "_Z", "void f<a::b<c>", "f(int)::[lambda() (instance"]
)
def test_odd_names_have_some_key(name: str) -> None:
    assert name_key(name) == name_key(name)


def test_short_names_stand_behind_the_names() -> None:
    for table in sample("ncu_details.csv.gz").values():
        found = with_short_names(table, load_categorizer())
        columns = found.frame.columns
        place = columns.index("kernel")
        assert columns[place + 1 : place + 3] == ["kernel_short", "kernel_category"]
        assert found.frame.drop("kernel_short", "kernel_category").equals(table.frame)
        assert found.frame.filter(pl.col("kernel") == MATMUL)["kernel_category"].unique().to_list() == ["GEMM"]
