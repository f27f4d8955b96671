"""Layouts of tiles: what texts mean, which bank serves which element, and what an access costs; no compiler."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

from warplens.errors import UsageError
from warplens.kernel_lab.layouts.accesses import AccessOptions
from warplens.kernel_lab.layouts.cute import parse_cute
from warplens.kernel_lab.layouts.exploring import Exploration, Panel, explore
from warplens.kernel_lab.layouts.grid import grid_values
from warplens.kernel_lab.layouts.reading import Tile, read_tile
from warplens.kernel_lab.layouts.tables import LAYOUT_TABLES

NAMES = ("attributes", "bases", "cute", "elements", "indexing", "memory", "reading", "types", "registers")


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"warplens.kernel_lab.layouts.{name}")).failed == 0


def passes(exploration: Exploration) -> dict[tuple[str, str], tuple[int, int] | None]:
    """Ways and passes by variant and access."""
    return {
        (panel.variant, result.access.name): (result.found.conflicts + 1, result.found.passes) if result.found else None
        for panel in exploration.panels
        for result in panel.accesses
    }


def offsets(tile: Tile) -> list[int]:
    assert tile.offsets is not None
    return [int(offset) for offset in tile.offsets(tile.coordinates())]


def test_the_columns_of_a_transpose_conflict_until_rows_are_padded_or_swizzled() -> None:
    exploration = explore([read_tile("float[32][32]")])
    assert passes(exploration) == {
        ("given", "row"): (1, 32),
        ("given", "column"): (32, 32 * 32),
        ("padded", "row"): (1, 32),
        ("padded", "column"): (1, 32),
        ("swizzled", "row"): (1, 32),
        ("swizzled", "column"): (1, 32),
    }
    texts = [panel.tile.text for panel in exploration.panels]
    assert texts == ["float[32][32]", "float[32][33]", "Swizzle<5,0,5> o (32,32):(32,1)"]
    assert [panel.tile.bytes for panel in exploration.panels] == [4096, 32 * 33 * 4, 4096]


def test_a_variant_is_the_tile_that_its_text_says() -> None:
    for text in ("float[32][32]", "half[64][64]", "(16,128):(128,1)"):
        for panel in explore([read_tile(text)]).panels:
            again = read_tile(panel.tile.text, element=panel.tile.element)
            assert offsets(again) == offsets(panel.tile), panel.tile.text


def test_what_an_array_has_beyond_a_power_of_two_is_padding() -> None:
    tile = read_tile("__shared__ float tile[32][33];")
    assert (tile.shape, tile.declared, tile.element_bits) == ((32, 32), (32, 33), 32)
    assert offsets(tile)[32:34] == [33, 34]
    assert passes(explore([tile], ["tile[lane][0]"])) == {
        ("given", "tile[lane][0]"): (1, 1),
        ("plain", "tile[lane][0]"): (32, 32),
        ("swizzled", "tile[lane][0]"): (1, 1),
    }
    assert passes(explore([tile], ["tile[lane][32]"], with_variants=False)) == {("given", "tile[lane][32]"): (1, 1)}


def test_the_128_byte_swizzle_of_tma_is_cutes_and_tritons_alike() -> None:
    triton = read_tile("64x128xbf16 nvmma_shared(128, 16)")
    cute = read_tile("Sw<3,4,3> o smem_ptr[16b](unset) o (64,(64,2)):(64,(1,4096))")
    in_elements = read_tile("Swizzle<3,3,3> o (64,(64,2)):(64,(1,4096))", element="bf16")
    assert offsets(triton) == offsets(cute) == offsets(in_elements)
    # Row 1 begins with its second group of eight elements; the right half follows the whole left one.
    assert offsets(triton)[128:144] == [*range(64 + 8, 64 + 16), *range(64, 64 + 8)]
    assert offsets(triton)[64] == 64 * 64
    found = passes(explore([triton]))
    assert (found["given", "matrix"], found["plain", "matrix"]) == ((1, 64), (8, 64 * 8))
    assert (found["given", "column"], found["plain", "column"]) == ((4, 1024), (32, 8192))


def test_nested_modes_run_fastest_first() -> None:
    layout = parse_cute("((2,4),(2,2)):((1,8),(2,4))").layout
    at = np.array([[row, column] for row in (0, 1, 2) for column in (0, 1, 2)])
    assert layout.of(at).tolist() == [0, 2, 4, 1, 3, 5, 8, 10, 12]
    assert [int(layout.at(np.array([index]))[0]) for index in (0, 1, 2, 8)] == [0, 1, 8, 2]
    assert str(parse_cute("(8,(4,2))").layout) == "(8,(4,2)):(1,(8,32))"
    assert str(parse_cute("Layout<Shape<_8,_64>,Stride<_64,_1>>").layout) == "(8,64):(64,1)"


def test_a_layout_composed_with_a_layout_is_applied_to_its_offsets() -> None:
    tile = read_tile("(4,8):(8,1) o (2,4):(4,1)")
    assert offsets(tile) == [(index % 4) * 8 + index // 4 for index in range(8)]


def test_threads_and_values_of_an_mma_are_those_of_triton() -> None:
    """The accumulator of m16n8: CuTe's layout of threads and values, and Triton's."""
    cute = read_tile("((4,8),(2,2)):((32,1),(16,8))", over_threads=(16, 8))
    triton = read_tile(
        "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 1], instrShape = [16, 8]}>"
    )
    assert cute.holders is not None
    assert triton.holders is not None
    assert np.array_equal(cute.holders, triton.holders)


@pytest.mark.parametrize(
    "text",
    [
        "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>",
        "BlockedLayout(size_per_thread=[1, 8], threads_per_warp=[4, 8], warps_per_cta=[4, 1], order=[1, 0], cga_layout=[])",
        "gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])",
        "blocked([1,8],[4,8],[4,1],[1,0])",
        "16x64xf16 blocked<{sizePerThread=[1,8],threadsPerWarp=[4,8],warpsPerCTA=[4,1],order=[1,0]}>",
        "tensor<16x64xf16, #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>>",
        "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], "
        "warp = [[4, 0], [8, 0]], block = []}>",
    ],
)
def test_a_layout_has_one_meaning_however_it_is_written(text: str) -> None:
    tile = read_tile(text)
    assert tile.shape == (16, 64)
    assert tile.holders is not None
    assert tile.holders.shape == (8, 32, 4, 2)
    assert tile.holders[5, 9, 3].tolist() == [3 * 4 + 1, 8 + 5]


def test_padded_and_linear_tiles_in_memory() -> None:
    padded = read_tile("#ttg.padded_shared<[4:+2, 16:+1] {order = [1, 0], shape = [8, 4]}>")
    assert offsets(padded)[:6] == [0, 1, 2, 3, 6, 7]
    assert offsets(padded)[16] == 16 + 4 * 2 + 1
    turned = read_tile("#ttg.shared_linear<{offset = [[1, 0], [0, 1]], block = []}, alignment = 16>", shape=(2, 2))
    assert offsets(turned) == [0, 2, 1, 3]


def test_an_access_that_is_a_register_layout_is_grouped_as_it_lies_in_memory() -> None:
    by = "blocked([1,8],[4,8],[4,1],[1,0])"
    found = explore([read_tile("64x64xf16 swizzled_shared(1, 1, 1, [1, 0])")], [by], with_variants=False).panels[0]
    assert found.accesses[0].found is not None
    assert found.accesses[0].found.lane_bytes == 16
    turned = explore([read_tile("64x64xf16 swizzled_shared(1, 1, 1, [0, 1])")], [by], with_variants=False).panels[0]
    assert turned.accesses[0].found is not None
    assert turned.accesses[0].found.lane_bytes == 2


def test_ldmatrix_needs_rows_of_sixteen_bytes_in_one_piece() -> None:
    panel = explore([read_tile("half[64][65]")], ["matrix"], with_variants=False).panels[0]
    assert panel.accesses[0].found is None
    padded = explore([read_tile("half[64][72]")], ["matrix"], with_variants=False).panels[0]
    assert passes(Exploration("", (padded,))) == {("given", "matrix"): (1, 64)}


def test_vectors_move_as_many_bits_as_are_adjacent_and_aligned() -> None:
    wide = explore([read_tile("float[32][32]")], ["row"], AccessOptions(vector=4), with_variants=False).panels[0]
    assert (wide.accesses[0].found.lane_bytes, wide.accesses[0].found.passes) == (16, 32)  # type: ignore[union-attr]
    odd = explore([read_tile("float[32][33]")], ["row"], AccessOptions(vector=4), with_variants=False).panels[0]
    assert odd.accesses[0].found.lane_bytes == 4  # type: ignore[union-attr]


def test_every_warp_of_a_block_is_counted() -> None:
    tile = read_tile("float[32][32]")
    options = AccessOptions(block=(32, 8), values={"i": 3})
    by_rows = explore([tile], ["tile[threadIdx.y + i][threadIdx.x]"], options, with_variants=False)
    by_columns = explore([tile], ["tile[threadIdx.x][threadIdx.y + i]"], options, with_variants=False)
    assert list(passes(by_rows).values()) == [(1, 8)]
    assert list(passes(by_columns).values()) == [(32, 256)]


def test_lanes_that_need_the_same_word_share_it() -> None:
    tile = read_tile("float[32][32]")
    assert list(passes(explore([tile], ["tile[0][0]", "tile[lane / 16][0]"], with_variants=False)).values()) == [
        (1, 1),
        (2, 2),
    ]
    halves = read_tile("half[32][64]")
    assert list(passes(explore([halves], ["tile[0][lane]"], with_variants=False)).values()) == [(1, 1)]


WRONG = {
    "Swizzle<3,4> o (8,64):(64,1)": "a swizzle has three numbers, Swizzle<B,M,S>, at character 1 of",
    "Swizzle<3,4,2> o (8,64):(64,1)": "S must be at least B",
    "(8,64):(64,1": r"expected '\)', got 'nothing', at the end of",
    "(8,(4,2)):(64,1)": r"the stride \(64,1\) is not nested as the shape \(8,\(4,2\)\) is, at character 1 of",
    "(8,64):(64,x)": "expected a number or '\\(', got 'x', at character 12 of",
    "Swizzle<3,4,3>": "is not applied to a layout",
    "(8,64):(64,1) (2,2)": r"'\(' is not expected here",
    "(8,64):(64,-1)": "has an offset of -63",
    "blocked([1,3],[4,8],[4,1],[1,0])": "blocked: sizePerThread has 3, which is not a power of two",
    "blocked([1,8],[4,8],[4,1])": "blocked: order is missing",
    "blocked([1,8],[4,8],[4],[1,0])": "blocked: warpsPerCTA has 1 dimensions, order has 2",
    "blocked(size=[1,8])": "blocked: it has no size",
    "#ttg.blocked<{sizePerThread = [1, x]}>": "blocked: order is missing",
    "swizzled_shared(8, 1, 8, [1, 0])": "swizzled_shared does not say how large the tile is",
    "64x128 nvmma_shared(48, 16)": "swizzlingByteWidth = 48 is not 0, 32, 64 or 128",
    "padded_shared<[0:+8] {order = [1, 0], shape = [8, 8]}>": "has an interval of 0",
    "tcgen05_layout<{x = 1}>": "is not a known layout",
    "float[32][N]": r"the extent \[N\] of float\[32\]\[N\] is not a positive number",
    "quux[32][32]": "'quux' is not a known type of element",
    "hello": "'hello' is not a known layout",
    "": "an empty layout",
    "(1024,4096):(1,1024)": "has 4,194,304 elements",
}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_names_the_part_that_is_wrong(text: str) -> None:
    with pytest.raises(UsageError, match=WRONG[text]):
        read_tile(text)


WRONG_ACCESS = {
    "tile[lane]": r"tile\[lane\] has 1 index, the tile of 32×32 has 2 dimensions",
    "tile[lane + 1][0]": r"\[lane \+ 1\] is 32 for thread \(31, 0, 0\): dimension 0 has 32 elements",
    "tile[lane][k]": r"'k' of tile\[lane\]\[k\] is not known",
    "tile[lane][f(0)]": "cannot be evaluated",
    "tile[lane % 0][0]": "divides by zero",
    "tile[lane][": "is not a way to access a tile",
    "diagonal": "'diagonal' is not a way to access a tile",
    "#ttg.amd_mfma<{version = 3, warpsPerCTA = [1, 1], instrShape = [32, 32], isTransposed = false}>": "warps of 64 lanes",
}


@pytest.mark.parametrize("text", WRONG_ACCESS)
def test_an_access_that_cannot_be_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(UsageError, match=WRONG_ACCESS[text]):
        explore([read_tile("float[32][32]")], [text])


def given(text: str) -> Panel:
    return explore([read_tile(text)], with_variants=False).panels[0]


def test_tables_have_a_row_per_element_lane_and_access() -> None:
    exploration = explore([read_tile("float[32][33]")], ["tile[lane][0]"])
    tables = {name: entry(exploration) for name, entry in LAYOUT_TABLES.items()}
    banks = tables["layout_banks"].to_dicts()
    of_given = [row for row in banks if row["variant"] == "given"]
    assert [row["bank"] for row in of_given] == list(range(32))
    assert {row["words_in_bank"] for row in banks if row["variant"] == "plain"} == {32}
    assert len(tables["layout_elements"]) == 3 * 32 * 32
    held = LAYOUT_TABLES["layout_elements"](explore([read_tile("blocked([1,8],[4,8],[4,1],[1,0])")])).to_dicts()
    assert held[8 * 32 + 5] == {
        **dict.fromkeys(("offset", "byte", "bank")),
        "variant": "given",
        "layout": "blocked([1,8],[4,8],[4,1],[1,0])",
        "row": 4,
        "column": 5,
        "thread": 32,
        "warp": 1,
        "lane": 0,
        "register": 5,
    }


def test_a_grid_shows_banks_threads_and_who_touches_what() -> None:
    shown, banks = grid_values(given("float[32][33]"), None, 32)
    assert (shown, banks[1, :3].tolist(), banks[31, 1]) == ("bank", [1, 2, 3], 0)
    _, lanes = grid_values(explore([read_tile("float[32][33]")], ["tile[lane][1]"]).panels[0], "lane", 32)
    assert lanes[5, :3].tolist() == [-1, 5, -1]
    shown, threads = grid_values(given("blocked([1,8],[4,8],[4,1],[1,0])"), None, 32)
    assert (shown, threads[4, 9]) == ("thread", 33)
    with pytest.raises(UsageError, match="it has no bank"):
        grid_values(given("blocked([1,8],[4,8],[4,1],[1,0])"), "bank", 32)
