"""rocprofv3 JSON: kernels, copies, calls and ranges become the same trace as any other."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import warplens
from rocprofv3_files import dispatch, record, tool
from support import SHARED
from warplens_run.base.errors import FormatError

REAL = SHARED / "traces" / "public" / "rocprofv3_results.json.gz"


def opened(folder: Path, *tools: dict[str, Any]) -> warplens.Profile:
    path = folder / "r.json"
    path.write_text(json.dumps({"rocprofiler-sdk-tool": list(tools)}))
    return warplens.open(path, cache=False)


def test_a_kernel_knows_its_launch_its_range_and_its_blocks(tmp_path: Path) -> None:
    profile = opened(
        tmp_path,
        tool(
            kernel_dispatch=[dispatch(5_000, 9_000, 4)],
            hip_api=[record("HIP_RUNTIME_API", 0, 1_000, 2_000, 4)],
            marker_api=[record("MARKER_CORE_API", 0, 500, 3_000, 50)],
        ),
    )
    row = profile.gpu_events().row(0, named=True)
    assert (row["kernel"], row["device"], row["stream"], row["dur_ns"]) == ("gemm_k", 0, 3, 4_000)
    trace = profile.trace
    assert trace.names[trace.ints("name")[row["launch"]]] == "hipLaunchKernel"
    assert trace.geometries.row(row["geometry"])[:4] == ("[4, 4, 1]", "[256, 1, 1]", 128, 1024)
    paths = [profile.tree("annotation").path(node) for node in range(len(profile.tree("annotation")))]
    assert any(path[:1] == ["forward"] and path[-1] == "gemm_k" for path in paths)
    assert trace.meta.devices[0].name == "AMD Instinct MI300X"
    assert trace.meta.devices[0].multiprocessors == 304


def test_copies_and_collectives(tmp_path: Path) -> None:
    copy = record("MEMORY_COPY", 2, 3_000, 4_000, 8, bytes=4096, dst_agent_id={"handle": 9}, src_agent_id={"handle": 1})
    calls = [record("RCCL_API", 0, 10, 20, 9)]
    profile = opened(tmp_path, tool(memory_copy=[copy], rccl_api=calls, kernel_dispatch=[dispatch(5_000, 6_000, 1)]))
    row = next(each for each in profile.gpu_events().to_dicts() if each["kernel"].startswith("Memcpy"))
    assert (row["kernel"], row["device"]) == ("Memcpy Host -> Device", 1)
    assert profile.trace.copies["bytes"].to_list() == [4096]
    assert "ncclAllReduce" in profile.trace.names


def test_a_second_process_is_not_dropped_in_silence(tmp_path: Path) -> None:
    one = tool(kernel_dispatch=[dispatch(0, 10, 1)])
    assert opened(tmp_path, one, one).trace.quality.has("other_processes")


@pytest.mark.parametrize("text", ['{"rocprofiler-sdk-tool": []}', '{"rocprofiler-sdk-tool": [{}]}',
                                  '{"rocprofiler-sdk-tool": [{"agents": 3}]}', '{"rocprofiler-sdk-tool": [{"agents"'])  # fmt: skip
def test_a_damaged_or_empty_file_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(FormatError, match="rocprofv3"):
        warplens.open(path, cache=False)


@pytest.mark.skipif(not REAL.exists(), reason="the shared traces are not beside this checkout")
def test_totals_are_the_sums_of_the_file() -> None:
    with gzip.open(REAL) as stream:
        records = json.load(stream)["rocprofiler-sdk-tool"][0]["buffer_records"]["kernel_dispatch"]
    profile = warplens.open(REAL, cache=False)
    expected = sum(each["end_timestamp"] - each["start_timestamp"] for each in records)
    assert int(profile.gpu_events()["dur_ns"].sum()) == expected == 4_441_741_378
    assert len(profile.gpu_events()) == len(records) == 43_915
    categories = profile.table("kernel_categories").frame
    assert categories["kernel_category"][0] == "Communication"
    assert "Other" not in categories["kernel_category"].to_list()[:10]
