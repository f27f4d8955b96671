"""Bytes and FLOPs of the kernels equal those derived by hand; results are right and clean kernels have no faults."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from warplens_lab.tracing import TABLES, Tracing, trace  # noqa: E402
from warplens_lab.tracing.records import is_elementwise  # noqa: E402


@dataclass(frozen=True)
class Expected:
    loaded: int
    stored: int
    attempted: int
    flop: int
    atomic: int = 0


# Derived from the shapes in each file's `inputs` and the blocks of its `launch`.
EXPECTED: dict[str, tuple[Expected, ...]] = {
    # 1000 floats in 4 blocks of 256: three accesses, one add per lane
    "vector_add": (Expected(2 * 4000, 4000, 3 * 4096, 4 * 256),),
    # 6 rows of 100, padded to 128: max and sum are 127 combines each; subtract, exp and divide 128 each
    "softmax": (Expected(2400, 2400, 2 * 6 * 512, 6 * (2 * 127 + 3 * 128)),),
    # 5 rows of 48, padded to 64: two sums of 63 combines, five scalar operations, five per lane; mean and rstd stored
    "layer_norm": (Expected(3 * 960, 960 + 2 * 20, 4 * 1280 + 2 * 20, 5 * (2 * 63 + 5 + 5 * 64)),),
    # 40×36 by 36×24 in 16×16 tiles: 3×2 programs of 3 steps; A is read once per tile column, B once per tile row
    "matmul": (Expected(2 * 40 * 36 * 4 + 3 * 36 * 24 * 4, 40 * 24 * 4, (2 * 18 + 6) * 1024, 18 * 2 * 16**3),),
    # 32×32 by 32×48 in halves: nothing is padded
    "matmul_unmasked": (Expected(3 * 2048 + 2 * 3072, 3072, 3 * 2048 + 2 * 3072 + 3072, 2 * 32 * 48 * 32),),
    # 72×24 by 24×40: 15 programs of 2 steps; rows and columns wrap, so each program reads 16 whole rows and columns
    "grouped_matmul": (Expected(2 * 15 * 16 * 24 * 4, 72 * 40 * 4, (2 * 30 + 15) * 1024, 30 * 2 * 16**3),),
    # 2 heads of 40×16: 6 programs, 3 key blocks each; per key block 2 dots, 5×256 + 5×16 elementwise, 2×16×15 combines
    "flash_attention": (
        Expected(
            5120 + 2 * 6 * 2560,
            5120,
            (6 + 36 + 6) * 1024,
            18 * (2 * 2 * 16**3 + 5 * 256 + 5 * 16 + 2 * 240) + 6 * 256,
        ),
    ),
    # 400 bfloat16 in 4 blocks of 128: the bias add and nine operations of the GELU per lane
    "bias_gelu": (Expected(2 * 800, 800, 3 * 1024, 4 * 128 * 10),),
    # 1000 floats in 8 blocks of 128, then 8 partial sums
    "reduction": (Expected(4000, 32, 4096 + 32, 8 * 127), Expected(32, 4, 32 + 4, 7)),
    # 300 integers in 5 blocks of 64: integer adds are no FLOPs
    "histogram": (Expected(1200, 0, 2 * 1280, 0, atomic=1200),),
    # 24×32 bfloat16 by 32×40 int8: 2×3 programs of 2 steps, then a scale per element of the tile
    "quantised_matmul": (
        Expected(
            3 * 24 * 32 * 2 + 2 * 32 * 40 + 2 * 40 * 4,
            24 * 40 * 2,
            12 * (512 + 256) + 6 * 64 + 6 * 512,
            12 * 2 * 16**3 + 6 * 256,
        ),
    ),
}


def traced(name: str, mode: str = "record", **options: Any) -> tuple[Tracing, Any, Any]:
    module = importlib.import_module(f"kernels.{name}")
    inputs = module.inputs()
    with trace(mode, **options) as tracing:
        result = module.launch(*inputs)
    return tracing, result, module.reference(*inputs)


@pytest.mark.parametrize("name", EXPECTED)
def test_bytes_and_flops_equal_those_derived_by_hand(name: str) -> None:
    tracing, result, reference = traced(name)
    counted = [
        Expected(launch.loaded_bytes, launch.stored_bytes, launch.attempted_bytes, launch.flop, launch.atomic_bytes)
        for launch in tracing.launches
    ]
    assert counted == list(EXPECTED[name])
    torch.testing.assert_close(result, reference)
    assert tracing.faults == ()


def work_of(name: str) -> list[tuple[int, str, int, int]]:
    """Line, operation, times and FLOPs of what touches no memory."""
    rows = TABLES["kernel_accesses_traced"](traced(name)[0].trace).to_dicts()
    return [(row["line"], row["op"], row["accesses"], row["flop"]) for row in rows if not row["tensor"]]


def test_elementwise_operations_are_operations_with_their_lines() -> None:
    # Four programs with blocks of 128: the GELU is a function, the addition and the conversions are the kernel's.
    assert work_of("bias_gelu") == [
        (21, "cast", 4, 0),
        (22, "cast", 4, 0),
        (23, "add", 4, 512),
        (13, "mul", 16, 4 * 512),
        (13, "add", 4, 512),
        (14, "sub", 4, 512),
        (14, "exp", 4, 512),
        (14, "add", 4, 512),
        (14, "div", 4, 512),
        (23, "cast", 4, 0),
    ]
    # What a reduction does inside is its own.
    assert work_of("softmax") == [
        (16, "reduce_max", 6, 6 * 127),
        (16, "sub", 6, 6 * 128),
        (17, "exp", 6, 6 * 128),
        (18, "reduce_sum", 6, 6 * 127),
        (19, "div", 6, 6 * 128),
    ]
    assert work_of("histogram") == []  # whole numbers


@pytest.mark.parametrize("name", ["bias_gelu", "softmax", "layer_norm", "flash_attention", "quantised_matmul"])
def test_the_work_of_statements_adds_up_to_that_of_the_launch(name: str) -> None:
    (launch,) = traced(name)[0].launches
    elementwise = sum(row.flop for row in launch.accesses if is_elementwise(row.op))
    assert elementwise == launch.elementwise_flop > 0
    assert sum(row.flop for row in launch.accesses) == launch.flop
    assert launch.events is not None
    counted: dict[tuple[int, str], int] = {}
    for site, op in zip(launch.events.site.tolist(), launch.events.op.tolist(), strict=True):
        counted[site, launch.events.ops[op]] = counted.get((site, launch.events.ops[op]), 0) + 1
    totals: dict[tuple[int, str], int] = {}
    for row in launch.accesses:
        totals[row.site, row.op] = totals.get((row.site, row.op), 0) + row.accesses
    assert counted == totals


def test_masked_lanes_of_loads_and_of_stores_are_apart() -> None:
    """Tiles of 16 × 16 over 40 × 36 by 36 × 24: the last step along k has 4 of 16, the last row of tiles 8, columns 8."""
    (row,) = TABLES["kernel_launches"](traced("matmul")[0].trace).to_dicts()
    loaded, stored = 2 * 40 * 36 + 3 * 36 * 24, 40 * 24
    assert row["masked_loads_percent"] == pytest.approx(100 * (1 - loaded / (2 * 18 * 256)))
    assert row["masked_stores_percent"] == pytest.approx(100 * (1 - stored / (6 * 256)))
    (counts,) = TABLES["kernel_launches"](traced("histogram")[0].trace).to_dicts()
    assert counts["masked_loads_percent"] == pytest.approx(100 * 20 / 320)
    assert counts["masked_stores_percent"] is None  # it has atomics only


@pytest.mark.parametrize("name", ["matmul", "histogram", "reduction", "bias_gelu"])
def test_counting_finds_what_recording_finds(name: str) -> None:
    recorded, counted = traced(name)[0].trace, traced(name, "count")[0].trace
    for table in ("kernel_launches", "kernel_accesses_traced", "kernel_tensors_traced"):
        assert TABLES[table](counted).to_dicts() == TABLES[table](recorded).to_dicts()
    assert all(launch.events is None and launch.patterns == () for launch in counted.launches)
    assert all(launch.events is not None for launch in recorded.launches)


def test_events_add_up_to_the_totals() -> None:
    launch = traced("quantised_matmul")[0].launches[0]
    events = launch.events
    assert events is not None
    sums: dict[tuple[int, str, int], int] = {}
    for row in range(len(events)):
        if events.mask[row] >= 0:
            key = (int(events.site[row]), events.ops[events.op[row]], int(events.tensor[row]))
            itemsize = launch.patterns[events.pattern[row]].itemsize
            sums[key] = sums.get(key, 0) + int(launch.masks[events.mask[row]].lanes().sum()) * itemsize
    assert sums == {(row.site, row.op, row.tensor): row.true_bytes for row in launch.accesses if row.lanes}


def test_offsets_of_events_are_the_elements_touched() -> None:
    """The stores of all programs cover every element of the output exactly once."""
    launch = traced("matmul")[0].launches[0]
    events = launch.events
    assert events is not None
    hits = [0] * (40 * 24)
    for row in range(len(events)):
        if events.ops[events.op[row]] == "store":
            lanes = launch.masks[events.mask[row]].lanes()
            places = int(events.base[row]) + launch.patterns[events.pattern[row]].relative()[lanes]
            for place in places.tolist():
                hits[place] += 1
    assert hits == [1] * (40 * 24)


def test_reuse_between_programs() -> None:
    rows = {row["tensor"]: row for row in TABLES["kernel_tensors_traced"](traced("matmul")[0].trace).to_dicts()}
    assert (rows["a_ptr"]["unique_bytes"], rows["a_ptr"]["shared_bytes"], rows["a_ptr"]["loads_per_byte"]) == (
        40 * 36 * 4,
        40 * 36 * 4,
        2.0,
    )
    assert rows["b_ptr"]["loads_per_byte"] == 3.0
    assert (rows["c_ptr"]["unique_bytes"], rows["c_ptr"]["shared_bytes"]) == (40 * 24 * 4, 0)


def test_intensity_and_masks_are_named_for_what_they_are() -> None:
    (row,) = TABLES["kernel_launches"](traced("vector_add")[0].trace).to_dicts()
    assert row["active_lanes_percent"] == pytest.approx(100 * 1000 / 1024)
    assert row["flop_per_byte"] == pytest.approx(1024 / 12000, abs=1e-6)
    assert row["flop_per_unique_byte"] == pytest.approx(1024 / 12000, abs=1e-6)
    assert (row["grid"], row["programs"], row["traced_programs"]) == ("4 × 1 × 1", 4, 4)


def test_lines_are_those_of_the_source() -> None:
    module = importlib.import_module("kernels.matmul")
    assert module.__file__ is not None
    with open(module.__file__) as stream:  # noqa: PTH123
        lines = stream.read().splitlines()
    for row in TABLES["kernel_accesses_traced"](traced("matmul")[0].trace).to_dicts():
        text = lines[row["line"] - 1].strip()
        assert text == row["statement"]
        assert {"load": "tl.load", "store": "tl.store", "dot": "tl.dot"}[row["op"]] in text
