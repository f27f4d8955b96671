"""Patterns, sectors, shadow memory and number formats, each against a slow and obvious version."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warplens_lab.compiling.statements import statement_at
from warplens_lab.scenes.kernel_scene import Mask, Pattern
from warplens_lab.tracing.watching.patterns import Book, LaneBlock
from warplens_lab.tracing.watching.sectors import Waiting
from warplens_lab.tracing.watching.shadow import Area, Shadow
from warplens_lab.tracing.watching.values import bfloat_of_float, decoded, float_of_bfloat

SHAPES = st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple)
START = 1 << 40


@st.composite
def blocks(draw: st.DrawFn) -> tuple[Any, Any, int]:
    """Pointers and a mask: a grid of any strides, or anything; the mask whole, a box, or anything."""
    shape = draw(SHAPES)
    size = int(np.prod(shape))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    if draw(st.booleans()):
        strides = tuple(draw(st.integers(-5, 9)) for _ in shape)
        offsets = Pattern(itemsize, shape, strides).relative()
    else:
        offsets = np.array(draw(st.lists(st.integers(-50, 50), min_size=size, max_size=size))).reshape(shape)
    kind = draw(st.sampled_from(["whole", "box", "any"]))
    mask = np.ones(shape, bool)
    if kind == "box":
        mask[:] = False
        mask[tuple(slice(draw(st.integers(0, n)), draw(st.integers(0, n))) for n in shape)] = True
    elif kind == "any":
        mask = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(shape)
    return (START + offsets * itemsize).astype(np.uint64), mask, itemsize


@settings(max_examples=200)
@given(blocks(), st.booleans())
def test_a_block_gives_back_its_pointers_and_mask(block: tuple[Any, Any, int], keep: bool) -> None:
    pointers, mask, itemsize = block
    described, pattern, mask_id = Book(keep=keep).block(pointers, mask, itemsize)
    again = int(pointers.flat[0]) + described.pattern.relative() * itemsize
    assert np.array_equal(again.astype(np.uint64), pointers)
    assert np.array_equal(described.mask.lanes(), mask)
    assert described.mask.active == mask.sum()
    assert mask_id == 0
    assert pattern == (0 if keep or described.pattern.strides is not None else -1)


@settings(max_examples=200)
@given(blocks())
def test_cells_are_the_active_elements(block: tuple[Any, Any, int]) -> None:
    pointers, mask, itemsize = block
    described, _, _ = Book(keep=True).block(pointers, mask, itemsize)
    offsets = (pointers.astype(np.int64) - int(pointers.flat[0])) // itemsize
    expected = set(offsets[mask].tolist())
    memory = np.zeros(400, bool)
    if expected:
        Area(described.cells, 200, 1).put(memory, True)
        assert (described.cells.low, described.cells.high) == (min(expected), max(expected))
    assert set((np.flatnonzero(memory) - 200).tolist()) == expected


def slow_sectors(places: list[int | None], itemsize: int) -> tuple[int, int]:
    touched = fewest = 0
    for first in range(0, len(places), 32):
        warp = {place for place in places[first : first + 32] if place is not None}
        touched += len({place // 32 for place in warp})
        fewest += -(-len(warp) * itemsize // 32)
    return touched, fewest


@settings(max_examples=200)
@given(blocks(), st.integers(0, 7))
def test_sectors_equal_a_count_by_hand(block: tuple[Any, Any, int], shift: int) -> None:
    pointers, mask, itemsize = block
    described, _, _ = Book(keep=True).block(pointers, mask, itemsize)
    first = shift * itemsize
    offsets = pointers.astype(np.int64) - int(pointers.flat[0]) + first
    strides = described.pattern.strides
    order = list(range(mask.ndim))
    if strides is not None:
        order.sort(key=lambda axis: -(abs(strides[axis]) or 1 << 40))
    flat, active = offsets.transpose(order).reshape(-1), mask.transpose(order).reshape(-1)
    places = [int(place) if on else None for place, on in zip(flat, active, strict=True)]
    assert described.sectors(first) == slow_sectors(places, itemsize)


def test_irregular_accesses_are_counted_in_batches() -> None:
    generator = np.random.default_rng(0)
    waiting, expected, counted = Waiting(4, START), [0, 0], [0, 0]
    for number in range(150):
        size = 64 if number % 3 else 48
        places = generator.integers(0, 500, size) * 4
        mask = generator.random(size) < (0.7 if number % 2 else 1)
        touched, fewest = slow_sectors([int(p) if on else None for p, on in zip(places, mask, strict=True)], 4)
        expected = [expected[0] + touched, expected[1] + fewest]
        some = waiting.add((START + places).astype(np.uint64), None if mask.all() else mask)
        counted = [counted[0] + some[0], counted[1] + some[1]]
    rest = waiting.counted()
    assert [counted[0] + rest[0], counted[1] + rest[1]] == expected
    assert waiting.counted() == (0, 0)


def slow_races(accesses: list[tuple[int, str, list[int]]]) -> set[tuple[str, int]]:
    """Every element that two programs touch in a way that matters, from all pairs."""
    races = set()
    for at, (program, op, cells) in enumerate(accesses):
        for other, other_op, other_cells in accesses[:at]:
            kinds = {op, other_op}
            if other == program or kinds <= {"load"} or kinds <= {"atomic"}:
                continue
            name = "read_write_race" if "load" in kinds else "write_write_race"
            races |= {(name, cell) for cell in set(cells) & set(other_cells)}
    return races


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.sampled_from(["load", "store", "atomic"]),
            st.lists(st.integers(0, 5), min_size=1, max_size=4),
        ),
        max_size=10,
    )
)
def test_races_equal_those_of_all_pairs(accesses: list[tuple[int, str, list[int]]]) -> None:
    accesses = sorted(accesses, key=lambda access: access[0])
    shadow = Shadow(6, None)
    races, start, last = set(), 1, -1
    for number, (program, op, cells) in enumerate(accesses, 1):
        start, last = (number, program) if program != last else (start, last)
        offsets = np.array(cells)
        block = LaneBlock(Pattern(4, (len(cells),), None, offsets), Mask((len(cells),), len(cells)))
        touch = {"load": shadow.load, "store": shadow.store, "atomic": shadow.atomic}[op]
        for conflict in touch(Area(block.cells, 0, 1), number, start):
            if conflict.kind != "overwritten_store":  # of one program with itself
                races |= {(conflict.kind, int(unit)) for unit in conflict.units}
    expected = slow_races(accesses)
    # An element that raced with a store is marked by the store; that it also raced with an older read may be lost.
    assert {cell for _, cell in races} == {cell for _, cell in expected}
    assert races <= expected
    touched_by = {cell: {program for program, _, cells in accesses if cell in cells} for cell in range(6)}
    assert shadow.used_units()[2:] == (
        sum(bool(programs) for programs in touched_by.values()),
        sum(len(programs) > 1 for programs in touched_by.values()),
    )


def test_undefined_units_are_reported_until_they_are_written() -> None:
    shadow = Shadow(4, np.array([True, False, True, True]))
    cells = LaneBlock(Pattern(4, (3,), (1,)), Mask((3,), 3)).cells
    (conflict,) = shadow.load(Area(cells, 0, 1), 1, 1)
    assert (conflict.kind, conflict.units.tolist()) == ("uninitialised_read", [0, 2])
    assert list(shadow.store(Area(cells, 0, 1), 2, 1)) == []
    assert list(shadow.load(Area(cells, 0, 1), 3, 1)) == []


def test_elements_of_several_units() -> None:
    shadow = Shadow(16, None)
    cells = LaneBlock(Pattern(4, (2,), (2,)), Mask((2,), 2)).cells
    list(shadow.store(Area(cells, 4, 2), 1, 1))
    assert shadow.last_writes is not None
    assert np.flatnonzero(shadow.last_writes).tolist() == [4, 5, 8, 9]


@settings(max_examples=200)
@given(st.floats(width=32))
def test_bfloat16_rounds_as_pytorch_does(value: float) -> None:
    torch = pytest.importorskip("torch")
    bits = bfloat_of_float(np.array([value], np.float32))
    expected = torch.tensor([value]).bfloat16().float().numpy()
    assert np.array_equal(float_of_bfloat(bits), expected, equal_nan=True)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_every_float8_is_decoded_as_pytorch_does(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    expected = torch.arange(256, dtype=torch.uint8).view(getattr(torch, dtype)).float().numpy()
    assert np.array_equal(decoded(np.arange(256, dtype=np.uint8), dtype), expected, equal_nan=True)


def test_a_statement_over_several_lines_is_shown_whole(tmp_path: Any) -> None:
    source = tmp_path / "kernel.py"
    source.write_text("def f(x):\n    for i in x:\n        y = (\n            x +\n            1)\n    return y\n")
    assert statement_at(str(source), 4) == "y = ( x + 1)"
    assert statement_at(str(source), 2) == "for i in x:"
    assert statement_at(str(source), 6) == "return y"
    assert statement_at("nowhere.py", 3) == ""
