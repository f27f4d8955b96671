"""The table of GPUs is consistent and dense, and names, devices and files find the right entry or say why not."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import each_case
from warplens.hardware import DTYPES, UNITS, Gpu, Peak, all_gpus, gpu_named, gpu_of_device, load_gpu_file
from warplens.hardware.tables import gpu_from_table
from warplens_run.base.errors import UsageError

GIB = 1024**3
BY_NAME = {gpu.name: gpu for gpu in all_gpus()}
every_gpu = each_case(all_gpus())

DEVICE_NAMES = {
    "Tesla V100-SXM2-16GB": "V100 SXM2 16GB",
    "Tesla V100-SXM2-32GB": "V100 SXM2 32GB",
    "Tesla V100-PCIE-16GB": "V100 PCIe 16GB",
    "Tesla V100-PCIE-32GB": "V100 PCIe 32GB",
    "Tesla T4": "T4",
    "A100-SXM4-40GB": "A100 40GB",
    "NVIDIA A100-SXM4-40GB": "A100 40GB",
    "NVIDIA A100-PCIE-40GB": "A100 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "NVIDIA A100-SXM-80GB": "A100 SXM 80GB",
    "NVIDIA A100 80GB PCIe": "A100 PCIe 80GB",
    "NVIDIA A800-SXM4-80GB": "A800 SXM 80GB",
    "NVIDIA A800 80GB PCIe": "A800 PCIe 80GB",
    "NVIDIA A800 40GB Active": "A800 40GB Active",
    "NVIDIA A10": "A10",
    "NVIDIA A10G": "A10G",
    "NVIDIA A30": "A30",
    "NVIDIA A40": "A40",
    "NVIDIA L4": "L4",
    "NVIDIA L20": "L20",
    "NVIDIA L40": "L40",
    "NVIDIA L40S": "L40S",
    "GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 3090": "RTX 3090",
    "NVIDIA GeForce RTX 4090": "RTX 4090",
    "NVIDIA GeForce RTX 5090": "RTX 5090",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "RTX PRO 6000 Blackwell Workstation",
    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "RTX PRO 6000 Blackwell Max-Q",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "RTX PRO 6000 Blackwell Server",
    "NVIDIA RTX A6000": "RTX A6000",
    "NVIDIA RTX A4000": "RTX A4000",
    "Quadro RTX 6000": "Quadro RTX 6000",
    "NVIDIA Quadro RTX 8000": "Quadro RTX 8000",
    "NVIDIA RTX 6000 Ada Generation": "RTX 6000 Ada",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "NVIDIA H100 PCIe": "H100 PCIe",
    "NVIDIA H100 80GB HBM2e": "H100 PCIe",
    "NVIDIA H100 NVL": "H100 NVL",
    "NVIDIA H800": "H800 SXM",
    "NVIDIA H800 PCIe": "H800 PCIe",
    "NVIDIA H20": "H20",
    "NVIDIA H20-3e": "H20-3e",
    "NVIDIA H200": "H200",
    "NVIDIA H200 NVL": "H200 NVL",
    "NVIDIA GH200 480GB": "GH200",
    "NVIDIA GH200 120GB": "GH200",
    "NVIDIA GH200 144G HBM3e": "GH200 144GB",
    "NVIDIA B100": "B100",
    "NVIDIA B200": "B200",
    "NVIDIA GB200": "GB200",
    "NVIDIA B300 SXM6 AC": "B300",
    "NVIDIA GB300": "GB300",
    "AMD Instinct MI100": "MI100",
    "AMD Instinct MI210": "MI210",
    "AMD Instinct MI250": "MI250 (one GCD)",
    "AMD Instinct MI250X": "MI250X (one GCD)",
    "AMD Instinct MI300A": "MI300A",
    "AMD Instinct MI300X": "MI300X",
    "AMD Instinct MI300X OAM": "MI300X",
    "AMD Instinct MI300X VF": "MI300X",
    "AMD Instinct MI325X": "MI325X",
    "AMD Instinct MI325X VF": "MI325X",
    "AMD Instinct MI350X": "MI350X",
    "AMD Instinct MI355X": "MI355X",
}

OTHER_DEVICES = [
    "NVIDIA GeForce RTX 3090 Ti",
    "NVIDIA GeForce RTX 4090 D",
    "NVIDIA GeForce RTX 4090 Laptop GPU",
    "NVIDIA RTX PRO 5000 Blackwell",
    "Quadro RTX 5000",
    "NVIDIA A100-SXM-64GB",
    "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
    "NVIDIA H20A",
    "NVIDIA L2",
    "NVIDIA A800-SXM4-80GB MIG 3g.40gb",
    "NVIDIA GB300-WS",
    "Tesla V100S-PCIE-32GB",
    "AMD Instinct MI308X",
    "AMD Radeon RX 7900 XTX",
    "",
]

# name, multiprocessors, memory in bytes, compute capability → entry; the first five rows are from real traces
DEVICES = [
    ("NVIDIA H800", 132, 84943110144, "9.0", "H800 SXM"),
    ("NVIDIA H200", 132, 150109880320, "9.0", "H200"),
    ("AMD Instinct MI300X", 304, 206141652992, "9.4", "MI300X"),
    ("AMD Instinct MI210", 104, 68702699520, "9.0", "MI210"),
    ("", 304, 206141652992, "9.4", "MI300X"),
    ("NVIDIA B200", 148, 191_514_000_000, "10.0", "B200"),
    ("NVIDIA B300 SXM6 AC", 148, 275040 * 1024**2, "10.3", "B300"),
    ("NVIDIA A100-PCIE", 108, 42_505_273_344, "8.0", "A100 40GB"),
    ("NVIDIA A100-PG509-200", 108, 42_505_273_344, "8.0", "A100 40GB"),
    ("NVIDIA A100 PCIe", 108, 85_000_000_000, "8.0", "A100 PCIe 80GB"),
    ("NVIDIA A100-SXM4", 108, 85_000_000_000, "8.0", "A100 SXM 80GB"),
    ("NVIDIA A100", 108, 42_505_273_344, "8.0", "A100 40GB"),
    ("NVIDIA A100", 108, 85_000_000_000, "8.0", None),
    ("Tesla V100-SXM2", 80, 16_945_512_448, "7.0", "V100 SXM2 16GB"),
    ("Tesla V100-SXM2", 80, 34_089_730_048, "7.0", "V100 SXM2 32GB"),
    ("Tesla V100-SXM2", 80, 0, "7.0", None),
    ("NVIDIA H100", 114, 85_000_000_000, "9.0", "H100 PCIe"),
    ("NVIDIA H100", 132, 85_000_000_000, "9.0", "H100 SXM"),
    ("NVIDIA H100", 132, 100_000_000_000, "9.0", "H100 NVL"),
    ("NVIDIA GH200", 132, 102_000_000_000, "9.0", "GH200"),
    ("NVIDIA GH200", 132, 151_000_000_000, "9.0", "GH200 144GB"),
    ("AMD Instinct MI250X/MI250", 110, 68702699520, "9.0", "MI250X (one GCD)"),
    ("AMD Instinct MI250X/MI250", 104, 68702699520, "9.0", "MI250 (one GCD)"),
    ("AMD Instinct MI250X/MI250", 0, 68702699520, "9.0", None),
    # an MI300X cut into eight devices has an eighth of the peaks
    ("AMD Instinct MI300X", 38, 25_700_000_000, "9.4", None),
    ("", 110, 68702699520, "9.0", "MI250X (one GCD)"),
    ("", 104, 68702699520, "9.0", None),
    ("", 304, 274_800_000_000, "gfx942", "MI325X"),
    ("", 304, 0, "9.4", None),
    ("", 0, 206141652992, "9.4", None),
    ("", 304, 206141652992, "9.5", None),
    ("", 304, 206141652992, "", "MI300X"),
    ("AMD Radeon Graphics", 304, 206141652992, "9.4", "MI300X"),
    ("gfx942:sramecc+:xnack-", 304, 206141652992, "", "MI300X"),
    ("gfx950", 304, 206141652992, "", None),
    ("Device 0", 304, 206141652992, "9.4", "MI300X"),
    ("NVIDIA Graphics Device", 80, 16_945_512_448, "7.0", None),
    ("NVIDIA Graphics Device", 40, 15_835_660_288, "7.5", "T4"),
    ("NVIDIA H800 PCIe", 114, 85_000_000_000, "9.0", "H800 PCIe"),
    ("NVIDIA H800", 114, 85_000_000_000, "9.0", None),
    ("NVIDIA H20", 78, 102_000_000_000, "9.0", "H20"),
    ("NVIDIA A800-SXM4-80GB", 108, 85_000_000_000, "8.0", "A800 SXM 80GB"),
    ("NVIDIA L20", 92, 47_600_000_000, "8.9", "L20"),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", 188, 97887 * 1024**2, "12.0", "RTX PRO 6000 Blackwell Server"),
    # a nameless device is not guessed where two models have its size (H100 and H800)
    ("NVIDIA Graphics Device", 132, 85_000_000_000, "sm_90", None),
    ("NVIDIA Graphics Device", 132, 100_000_000_000, "sm_90", None),
    # a model that is not in the table is not guessed from its size
    ("NVIDIA H800X", 132, 85_000_000_000, "9.0", None),
]

TYPED_NAMES = {
    "h100": "H100 SXM",
    "H100 SXM": "H100 SXM",
    "h100_sxm5": "H100 SXM",
    "h100-pcie": "H100 PCIe",
    "nvl h100": "H100 NVL",
    "NVIDIA H100 80GB HBM3": "H100 SXM",
    "h800": "H800 SXM",
    "h800-pcie": "H800 PCIe",
    "h20": "H20",
    "h20-3e": "H20-3e",
    "a800": "A800 SXM 80GB",
    "l20": "L20",
    "rtx pro 6000": "RTX PRO 6000 Blackwell Workstation",
    "rtx pro 6000 server": "RTX PRO 6000 Blackwell Server",
    "h200": "H200",
    "h200 nvl": "H200 NVL",
    "a100-80": "A100 SXM 80GB",
    "a100-80 pcie": "A100 PCIe 80GB",
    "A100-40": "A100 40GB",
    "NVIDIA A100-SXM4-80GB": "A100 SXM 80GB",
    "v100 sxm2 16": "V100 SXM2 16GB",
    "v100 sxm2": "V100 SXM2 32GB",
    "v100-pcie": "V100 PCIe 32GB",
    "t4": "T4",
    "a10": "A10",
    "a10g": "A10G",
    "a30": "A30",
    "a40": "A40",
    "l4": "L4",
    "l40": "L40",
    "l40s": "L40S",
    "3090": "RTX 3090",
    "rtx4090": "RTX 4090",
    "GeForce RTX 5090": "RTX 5090",
    "a6000": "RTX A6000",
    "6000 ada": "RTX 6000 Ada",
    "gh200": "GH200",
    "gh200 144": "GH200 144GB",
    "b100": "B100",
    "b200": "B200",
    "gb200": "GB200",
    "b300": "B300",
    "gb300": "GB300",
    "mi100": "MI100",
    "mi210": "MI210",
    "mi250": "MI250 (one GCD)",
    "mi250x": "MI250X (one GCD)",
    "mi300a": "MI300A",
    "MI300X": "MI300X",
    "amd instinct mi300x vf": "MI300X",
    "mi325": "MI325X",
    "mi350": "MI350X",
    "mi355x": "MI355X",
}

# Dense 16-bit FLOP per clock and multiprocessor with fp32 accumulation, from the architecture documents, and the
# quoted boost clock in GHz; bf16 where the GPU has it, else fp16.
CLOCKS = {
    "V100 SXM2 16GB": (1024, 1.53),
    "V100 SXM2 32GB": (1024, 1.53),
    "V100 PCIe 16GB": (1024, 1.38),
    "V100 PCIe 32GB": (1024, 1.38),
    "T4": (1024, 1.59),
    "Quadro RTX 6000": (1024, 1.77),
    "Quadro RTX 8000": (1024, 1.77),
    "A100 40GB": (2048, 1.41),
    "A100 SXM 80GB": (2048, 1.41),
    "A100 PCIe 80GB": (2048, 1.41),
    "A800 SXM 80GB": (2048, 1.41),
    "A800 PCIe 80GB": (2048, 1.41),
    "A800 40GB Active": (2048, 1.41),
    "A10": (1024, 1.695),
    "A10G": (512, 1.71),
    "A30": (2048, 1.44),
    "A40": (1024, 1.74),
    "RTX 3090": (512, 1.695),
    "RTX A6000": (1024, 1.8),
    "RTX A4000": (1024, 1.56),
    "L4": (1024, 2.04),
    "L20": (512, 2.52),
    "L40": (512, 2.49),
    "L40S": (1024, 2.52),
    "RTX 4090": (512, 2.52),
    "RTX 6000 Ada": (1024, 2.505),
    "H100 SXM": (4096, 1.83),
    "H100 PCIe": (4096, 1.62),
    "H800 SXM": (4096, 1.83),
    "H800 PCIe": (4096, 1.62),
    "H200": (4096, 1.83),
    "GH200": (4096, 1.83),
    "GH200 144GB": (4096, 1.83),
    "RTX 5090": (512, 2.407),
    "RTX PRO 6000 Blackwell Workstation": (1024, 2.617),
    "RTX PRO 6000 Blackwell Max-Q": (1024, 2.288),
    "MI100": (512, 1.502),
    "MI210": (1024, 1.7),
    "MI250 (one GCD)": (1024, 1.7),
    "MI250X (one GCD)": (1024, 1.7),
    "MI300A": (2048, 2.1),
    "MI300X": (2048, 2.1),
    "MI325X": (2048, 2.1),
    "MI350X": (4096, 2.2),
    "MI355X": (4096, 2.4),
}

# Where only the highest clock is known, the quoted figure lies below it, but not as far as a sparse one above.
HIGHEST_CLOCKS = {
    "H100 NVL": (4096, 1.785),
    "H200 NVL": (4096, 1.785),
    # A quarter of the tensor rate of other Hopper GPUs.
    "H20": (1024, 1.98),
    "H20-3e": (1024, 1.98),
    "RTX PRO 6000 Blackwell Server": (1024, 2.617),
    "B200": (8192, 1.965),
    "GB200": (8192, 2.062),
    "B300": (8192, 2.032),
    "GB300": (8192, 2.062),
}


def dense_16_bit(gpu: Gpu) -> float:
    return gpu.datasheet.matrix.get("bf16", gpu.datasheet.matrix["fp16"])


@each_case(DEVICE_NAMES.items())
def test_a_driver_s_device_name_finds_its_entry(device: str, name: str) -> None:
    found = gpu_of_device(device)
    assert found is not None and found.name == name


@pytest.mark.parametrize("device", OTHER_DEVICES)
def test_a_device_that_is_not_in_the_table_is_none(device: str) -> None:
    assert gpu_of_device(device) is None


@each_case(DEVICES)
def test_sizes_decide_what_the_name_leaves_open(
    device: str, multiprocessors: int, memory_bytes: int, compute: str, name: str | None
) -> None:
    found = gpu_of_device(device, multiprocessors, memory_bytes, compute)
    assert (found and found.name) == name


@given(st.text(), st.integers(), st.integers(), st.text())
def test_no_device_description_raises(name: str, multiprocessors: int, memory_bytes: int, compute: str) -> None:
    gpu_of_device(name, multiprocessors, memory_bytes, compute)


def test_absurdly_large_sizes_do_not_raise() -> None:
    assert gpu_of_device("", 10**400, 10**400, "9.0") is None
    assert gpu_of_device("NVIDIA A100", 10**400, 10**400) is None


@each_case(TYPED_NAMES.items())
def test_a_typed_name_finds_its_entry(typed: str, name: str) -> None:
    assert gpu_named(typed).name == name


@every_gpu
def test_every_name_and_alias_finds_its_own_entry(gpu: Gpu) -> None:
    for name in (gpu.name, gpu.name.lower(), gpu.name.replace(" ", "_"), f"{gpu.vendor} {gpu.name}", *gpu.aliases):
        assert gpu_named(name) is gpu


@pytest.mark.parametrize(
    ("typed", "candidates"),
    [
        ("a100", ["A100 40GB", "A100 SXM 80GB", "A100 PCIe 80GB"]),
        ("V100", ["V100 SXM2 16GB", "V100 SXM2 32GB", "V100 PCIe 16GB", "V100 PCIe 32GB"]),
        ("mi3", ["MI300A", "MI300X", "MI325X", "MI350X", "MI355X"]),
    ],
)
def test_an_ambiguous_name_lists_the_candidates(typed: str, candidates: list[str]) -> None:
    with pytest.raises(UsageError, match="more than one GPU") as raised:
        gpu_named(typed)
    assert raised.value.hint == "one of: " + ", ".join(candidates)


@pytest.mark.parametrize(("typed", "near"), [("h10", "H100"), ("mi300z", "MI300X"), ("rtx 4080", "RTX 4090")])
def test_a_misspelt_name_hints_at_the_nearest(typed: str, near: str) -> None:
    with pytest.raises(UsageError) as raised:
        gpu_named(typed)
    assert near in (raised.value.hint or "")


@pytest.mark.parametrize("typed", ["", "  ", "nvidia", "?!", "quantum computer"])
def test_a_name_unlike_any_lists_all(typed: str) -> None:
    with pytest.raises(UsageError) as raised:
        gpu_named(typed)
    assert all(gpu.name in (raised.value.hint or "") for gpu in all_gpus())


@every_gpu
def test_every_entry_is_complete(gpu: Gpu) -> None:
    assert gpu.vendor in ("NVIDIA", "AMD")
    assert re.fullmatch(r"sm_\d+" if gpu.vendor == "NVIDIA" else "gfx[0-9a-f]+", gpu.architecture)
    assert (
        gpu.match
        and gpu.source
        and gpu.memory_gb > 0
        and gpu.max_threads_per_multiprocessor in (1024, 1536, 2048, 2560)
    )
    assert 0.1 < gpu.datasheet.bandwidth_tbps < 20
    assert gpu.datasheet.vector["fp32"] > 0 and "fp64" in gpu.datasheet.vector
    assert gpu.multiprocessors or gpu.name == "B100"
    assert gpu.host_link_gbps or gpu.name in ("MI300A", "GB200", "GB300")


@every_gpu
def test_narrower_types_are_never_slower(gpu: Gpu) -> None:
    for ladder in (("fp64", "fp32", "tf32", "bf16", "fp8", "fp4"), ("fp32", "tf32", "bf16", "fp16", "int8")):
        rates = [gpu.datasheet.matrix[dtype] for dtype in ladder if dtype in gpu.datasheet.matrix]
        assert rates == sorted(rates)
    vector = [gpu.datasheet.vector[dtype] for dtype in ("fp64", "fp32", "fp16") if dtype in gpu.datasheet.vector]
    assert vector == sorted(vector)
    assert dense_16_bit(gpu) > 1.9 * gpu.datasheet.vector["fp32"]


@every_gpu
def test_the_16_bit_figure_is_dense_by_multiprocessors_and_clock(gpu: Gpu) -> None:
    if gpu.name in CLOCKS:
        flop_per_clock, ghz = CLOCKS[gpu.name]
        assert dense_16_bit(gpu) == pytest.approx(gpu.multiprocessors * flop_per_clock * ghz / 1e3, rel=0.02)
    elif gpu.name in HIGHEST_CLOCKS:
        flop_per_clock, ghz = HIGHEST_CLOCKS[gpu.name]
        assert 0.85 < dense_16_bit(gpu) / (gpu.multiprocessors * flop_per_clock * ghz / 1e3) <= 1
    else:
        assert gpu.name == "B100"


# Matrix rates as multiples of the dense 16-bit one; a sparse figure among them would be off by two.
USUAL_RATIOS = {"tf32": 0.5, "bf16": 1, "fp16": 1, "fp8": 2, "int8": 2}
OTHER_RATIOS = {
    # CDNA: bf16 at half the rate of fp16; CDNA and CDNA 2: int8 as fast as fp16.
    **{("MI100", dtype): 2 for dtype in ("fp16", "int8")},
    **{(name, "int8"): 1 for name in ("MI210", "MI250 (one GCD)", "MI250X (one GCD)")},
    # GeForce cards halve fp32 accumulation, but not int32's.
    **{(name, "int8"): 4 for name in ("RTX 3090", "RTX 4090", "RTX 5090")},
}


@every_gpu
def test_no_other_matrix_figure_is_a_sparse_one(gpu: Gpu) -> None:
    for dtype in USUAL_RATIOS.keys() & gpu.datasheet.matrix.keys():
        ratio = OTHER_RATIOS.get((gpu.name, dtype), USUAL_RATIOS[dtype])
        assert gpu.datasheet.matrix[dtype] == pytest.approx(ratio * dense_16_bit(gpu), rel=0.02), dtype


@every_gpu
def test_fp4_is_at_most_three_times_fp8_except_on_geforce(gpu: Gpu) -> None:
    if "fp4" in gpu.datasheet.matrix:
        ratio = gpu.datasheet.matrix["fp4"] / gpu.datasheet.matrix["fp8"]
        assert ratio == pytest.approx(4, rel=0.01) if gpu.name == "RTX 5090" else 1.99 < ratio <= 3.01


@every_gpu
def test_fp32_vector_rate_follows_from_multiprocessors_and_a_plausible_clock(gpu: Gpu) -> None:
    lanes = {"sm_70": 64, "sm_75": 64, "sm_80": 64, "gfx908": 64, "gfx90a": 64, "gfx942": 128, "gfx950": 128}
    if gpu.multiprocessors:
        flop_per_clock = gpu.multiprocessors * lanes.get(gpu.architecture, 128) * 2
        ghz = gpu.datasheet.vector["fp32"] * 1e3 / flop_per_clock
        assert 1.3 < ghz < 2.7


def test_units_that_do_not_exist_have_no_figure() -> None:
    absent = [("V100 SXM2 16GB", "bf16"), ("V100 SXM2 16GB", "int8"), ("T4", "bf16"), ("A100 40GB", "fp8")]
    absent += [("H100 SXM", "fp4"), ("H100 SXM", "fp32"), ("MI100", "tf32"), ("MI355X", "tf32"), ("L4", "fp64")]
    assert [pair for pair in absent if gpu_named(pair[0]).peak_tflops("matrix", pair[1]) is not None] == []


def test_well_known_figures() -> None:
    figures = {
        ("H100 SXM", "matrix", "bf16"): 989.4,
        ("H100 PCIe", "matrix", "bf16"): 756,
        ("B200", "matrix", "fp4"): 9000,
        ("GB200", "matrix", "fp8"): 5000,
        ("MI300X", "matrix", "tf32"): 653.7,
        ("MI300X", "matrix", "fp64"): 163.4,
        ("MI300X", "vector", "fp64"): 81.7,
        ("RTX 4090", "matrix", "bf16"): 165.2,
        ("H800", "matrix", "bf16"): 989.4,
        ("H800", "vector", "fp64"): 1,
        ("H20", "matrix", "bf16"): 148,
        ("A800", "matrix", "bf16"): 312,
        ("L20", "matrix", "bf16"): 119.5,
    }
    assert {key: gpu_named(key[0]).peak_tflops(*key[1:]) for key in figures} == {
        key: Peak(value, measured=False) for key, value in figures.items()
    }
    assert gpu_named("H100 SXM").bandwidth_tbps() == Peak(3.35, measured=False)


def test_a_measured_ceiling_is_preferred() -> None:
    h200 = gpu_named("H200")
    assert h200.peak_tflops("matrix", "bf16") == Peak(790, measured=True)
    assert h200.peak_tflops("vector", "fp64") == Peak(33.5, measured=False)
    assert h200.bandwidth_tbps() == Peak(4.3, measured=True)
    assert h200.datasheet.matrix["bf16"] == 989.4 and "H200" in h200.measured


@every_gpu
def test_no_measured_ceiling_exceeds_the_data_sheet(gpu: Gpu) -> None:
    assert gpu.achievable.bandwidth_tbps <= gpu.datasheet.bandwidth_tbps
    for unit in UNITS:
        assert all(value <= gpu.datasheet.of(unit)[dtype] for dtype, value in gpu.achievable.of(unit).items())


def test_vector_types_without_a_figure_fall_back_to_wider_units() -> None:
    assert gpu_named("T4").peak_tflops("vector", "bf16") == Peak(16.2, measured=False)
    assert gpu_named("MI300X").peak_tflops("vector", "bf16") == Peak(163.4, measured=False)
    assert gpu_named("A100 80GB").peak_tflops("vector", "bf16") == Peak(39, measured=False)
    assert gpu_named("A100 80GB").peak_tflops("vector", "fp8") is None


def test_an_unknown_unit_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        gpu_named("T4").peak_tflops("tensor", "bf16")


def test_gpus_are_cached_hashable_and_can_go_to_another_process() -> None:
    assert all_gpus() is all_gpus()
    assert len(set(all_gpus())) == len(all_gpus()) == len(BY_NAME)
    assert pickle.loads(pickle.dumps(all_gpus())) == all_gpus()


def test_importing_reads_no_table_and_nothing_heavy() -> None:
    code = (
        "import sys, warplens.hardware as h; assert not h.all_gpus.cache_info().currsize;"
        "assert not {'numpy', 'polars', 'msgspec', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")})


def written(folder: Path, content: str) -> Path:
    path = folder / "my_gpu.toml"
    path.write_text(content, "utf-8")
    return path


WHOLE = """
name = "X1"
vendor = "Acme"
architecture = "x1"
match = ["Acme X1"]
memory_gb = 48
bandwidth_tbps = 1.5
multiprocessors = 60
[matrix]
bf16 = 200
[max_achievable.vector]
fp32 = 10
"""


def test_a_file_describes_a_whole_gpu(tmp_path: Path) -> None:
    gpu = load_gpu_file(written(tmp_path, WHOLE))
    assert (gpu.name, gpu.vendor, gpu.multiprocessors, gpu.l2_mb) == ("X1", "Acme", 60, 0.0)
    assert gpu.peak_tflops("matrix", "bf16") == Peak(200, measured=False)
    assert gpu.peak_tflops("vector", "fp32") == Peak(10, measured=True)
    assert gpu.bandwidth_tbps() == Peak(1.5, measured=False)


@pytest.mark.parametrize("opening", ["[[gpu]]", "[gpu]"])
def test_a_file_may_hold_its_gpu_as_an_entry(tmp_path: Path, opening: str) -> None:
    content = f'{opening}\nname = "X1"\nbandwidth_tbps = 1.5\n[gpu.matrix]\nfp8 = 3\n'
    assert load_gpu_file(str(written(tmp_path, content))).peak_tflops("matrix", "fp8") == Peak(3, measured=False)


def test_a_file_may_change_some_fields_of_a_known_gpu(tmp_path: Path) -> None:
    content = 'base = "H100 SXM"\nname = "our H100"\nbandwidth_tbps = 3.0\n[matrix]\nbf16 = 800\n'
    gpu, base = load_gpu_file(written(tmp_path, content)), gpu_named("H100 SXM")
    assert gpu.name == "our H100" and gpu.bandwidth_tbps() == Peak(3.0, measured=False)
    assert gpu.datasheet.matrix == {**base.datasheet.matrix, "bf16": 800}
    assert (gpu.datasheet.vector, gpu.memory_gb, gpu.source) == (base.datasheet.vector, base.memory_gb, base.source)
    assert base.datasheet.matrix["bf16"] == 989.4


def test_a_changed_figure_replaces_the_base_s_measured_one(tmp_path: Path) -> None:
    gpu = load_gpu_file(written(tmp_path, 'base = "H200"\n[matrix]\nbf16 = 900\n'))
    assert gpu.peak_tflops("matrix", "bf16") == Peak(900, measured=False)
    assert gpu.bandwidth_tbps() == Peak(4.3, measured=True) and gpu.measured
    assert gpu.peak_tflops("matrix", "tf32") == Peak(409, measured=True)
    every = "bandwidth_tbps = 4.5\n[matrix]\nfp64 = 60\ntf32 = 400\nbf16 = 900\nfp16 = 900\nfp8 = 1800\nint8 = 1800\n"
    gpu = load_gpu_file(written(tmp_path, f'base = "H200"\n{every}[vector]\nfp32 = 60\n'))
    assert gpu.bandwidth_tbps() == Peak(4.5, measured=False) and gpu.measured == ""


def test_a_file_may_bring_its_own_measurements(tmp_path: Path) -> None:
    content = 'base = "mi300x"\n[max_achievable]\nbandwidth_tbps = 4.1\nmatrix = { bf16 = 700 }\nmeasured = "rocBLAS"\n'
    gpu = load_gpu_file(written(tmp_path, content))
    assert gpu.peak_tflops("matrix", "bf16") == Peak(700, measured=True)
    assert (gpu.bandwidth_tbps(), gpu.measured) == (Peak(4.1, measured=True), "rocBLAS")


FUSED = '[[fused_attention]]\nbackend = "B"\ndtypes = ["fp32"]\nwidths = [32, 64]\nforward = [10, 20]\n'


def test_what_fused_attention_reaches_is_read_off_between_widths_and_lengths(tmp_path: Path) -> None:
    content = f'name = "X"\nbandwidth_tbps = 1\n{FUSED}backward = [8, 12]\nhalf_length = 100\n'
    (fused,) = load_gpu_file(written(tmp_path, content)).fused_attention
    assert fused.tflops(32, 1e9, backward=False) == pytest.approx(10)
    rates = [fused.tflops(width, 100, backward=True) for width in (16, 32, 48, 64, 128)]
    assert rates == [4, 4, 5, 6, 6], "half of the rate at that length; none beyond the measured widths"


def test_fused_attention_of_shipped_gpus_is_below_the_units_that_compute_it() -> None:
    fused = [(gpu, each) for gpu in all_gpus() for each in gpu.fused_attention]
    assert {"H200"} <= {gpu.name for gpu, _ in fused}
    for gpu, each in fused:
        for dtype in each.dtypes:
            peak = gpu.peak_tflops("vector" if dtype == "fp32" else "matrix", dtype)
            assert peak is not None and max(*each.forward, *each.backward) < peak.value


BAD_FILES = {
    f'name = "X"\nbandwidth_tbps = 1\n{FUSED}': "fused_attention[0].backward is a list of positive numbers",
    f'name = "X"\nbandwidth_tbps = 1\n{FUSED}backward = [1]\n': "fused_attention[0].widths rise, and each has a rate",
    'name = "X"\nbandwidth_tbps = 1\nfused_attention = 3\n': "fused_attention is a list of tables, not 3",
    'name = "X"\nbandwidth_tbps = "fast"\n': "bandwidth_tbps is a positive number, not 'fast'",
    'name = "X"\nbandwidth_tbps = true\n': "bandwidth_tbps is a positive number",
    'name = "X"\nbandwidth_tbps = -1\n': "bandwidth_tbps is a positive number, not -1",
    'name = "X"\nbandwidth_tbps = 0\n': "bandwidth_tbps is a positive number",
    'name = "X"\nbandwidth_tbps = nan\n': "bandwidth_tbps is a positive number, not nan",
    'name = "X"\nbandwidth_tbps = inf\n': "bandwidth_tbps is a positive number",
    f'name = "X"\nbandwidth_tbps = 1{"0" * 400}\n': "bandwidth_tbps is a positive number",
    f'name = "X"\nbandwidth_tbps = 1{"0" * 5000}\n': "not a TOML file",
    'name = "X"\nbandwidth_tbps = 1\nmultiprocessors = 1.5\n': "multiprocessors is a whole number",
    'name = "X"\nbandwidth_tbps = 1\nbandwith = 1\n': "unknown key 'bandwith'",
    'name = "X"\nbandwidth_tbps = 1\n[matrix]\nbf61 = 1\n': "unknown key 'matrix.bf61'",
    'name = "X"\nbandwidth_tbps = 1\n[matrix]\nbf16 = "1"\n': "matrix.bf16 is a positive number",
    'name = "X"\nbandwidth_tbps = 1\nmatrix = 7\n': "matrix is a table, not 7",
    'name = "X"\nbandwidth_tbps = 1\n[max_achievable]\nsource = "me"\n': "unknown key 'max_achievable.source'",
    'name = "X"\nbandwidth_tbps = 1\n[max_achievable.vector]\nfp32 = -2\n': "max_achievable.vector.fp32 is a positive",
    "name = 5\nbandwidth_tbps = 1\n": "name is a text, not 5",
    'name = ""\nbandwidth_tbps = 1\n': "name is a text",
    'name = "X"\nbandwidth_tbps = 1\nmatch = "X"\n': "match is a list of texts",
    'name = "X"\nbandwidth_tbps = 1\nmatch = ["("]\n': "is not a regular expression",
    'name = "X"\n': "bandwidth_tbps is missing",
    "": "name is missing",
    'name = "X\n': "not a TOML file",
    "\x00\x01": "not a TOML file",
    "a = " + "[" * 3000: "not a TOML file",
    'base = "H1000"\n': "base: no GPU is known as 'H1000'",
    'base = "a100"\n': "base: 'a100' is more than one GPU",
    "base = 3\n": "base is a text, not 3",
    'base = "H200"\nmatrix = 3\n': "matrix is a table, not 3",
    'base = "H200"\nmax_achievable = 3\n': "max_achievable is a table, not 3",
    "gpu = 3\n": "one [[gpu]] is needed",
    "gpu = []\n": "one [[gpu]] is needed, found 0",
    '[[gpu]]\nbase = "H200"\n[[gpu]]\nbase = "H200"\n': "one [[gpu]] is needed, found 2",
    'base = "H200"\n[[gpu]]\nname = "X"\n': "unknown key 'base'",
}


@pytest.mark.parametrize(("content", "complaint"), BAD_FILES.items(), ids=BAD_FILES.values())
def test_a_bad_file_is_one_line_that_names_file_and_key(tmp_path: Path, content: str, complaint: str) -> None:
    path = written(tmp_path, content)
    with pytest.raises(UsageError) as raised:
        load_gpu_file(path)
    assert complaint in raised.value.message and str(path) in raised.value.message
    assert "\n" not in raised.value.message and len(raised.value.message) < len(str(path)) + 200


def test_a_file_that_cannot_be_read_is_one_line_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b'name = "\xff"\n')
    for path in (tmp_path / "absent.toml", tmp_path, tmp_path / "latin.toml", "nul\0.toml"):
        with pytest.raises(UsageError, match="cannot read the GPU file") as raised:
            load_gpu_file(path)
        assert "\n" not in raised.value.message and "base" in (raised.value.hint or "")


@given(st.floats(), st.sampled_from(DTYPES))
def test_a_number_is_taken_exactly_when_it_is_positive_and_finite(value: float, dtype: str) -> None:
    table = {"name": "X", "bandwidth_tbps": 1, "matrix": {dtype: value}}
    if math.isfinite(value) and value > 0:
        assert gpu_from_table(table, "x").peak_tflops("matrix", dtype) == Peak(value, measured=False)
    else:
        with pytest.raises(UsageError):
            gpu_from_table(table, "x")


@every_gpu
def test_every_pattern_of_the_shipped_table_is_a_regular_expression(gpu: Gpu) -> None:
    assert gpu.match
    for pattern in gpu.match:
        re.compile(pattern)
