"""Layouts of tiles: what texts mean, which bank serves which element, and what an access costs; no compiler."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest

from warplens_lab.layouts.accesses import AccessOptions
from warplens_lab.layouts.bases import spread
from warplens_lab.layouts.cute_text import parse_cute
from warplens_lab.layouts.exploring import Exploration, Panel, explore
from warplens_lab.layouts.grid import grid_values
from warplens_lab.layouts.reading import Tile, read_tile
from warplens_lab.layouts.tables import LAYOUT_TABLES
from warplens_run.base.errors import UsageError

NAMES = (
    "attributes",
    "bases",
    "cute",
    "cute_text",
    "elements",
    "indexing",
    "linear",
    "memory",
    "reading",
    "types",
    "registers",
)


@pytest.mark.parametrize("name", NAMES)
def test_the_examples_in_the_docstrings_hold(name: str) -> None:
    assert doctest.testmod(importlib.import_module(f"warplens_lab.layouts.{name}")).failed == 0


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


SAME_AS: dict[str, str] = {
    # C++: what CuTe prints of it
    "composition(Swizzle<5, 0, 5>{}, make_layout(make_shape(Int<32>{}, Int<32>{}), GenRowMajor{}))": "Sw<5,0,5> o _0 o (_32,_32):(_32,_1)",
    "cute::composition(cute::Swizzle<3,3,3>{}, cute::make_layout(cute::make_shape(cute::_8{}, cute::_64{}), "
    "cute::make_stride(cute::_64{}, cute::_1{})))": "S<3,3,3> o 0 o (8,64):(64,1)",
    "auto sA = composition(Swizzle<3,4,3>{}, smem_ptr_flag_bits<16>{}, Layout<Shape<_8,_64>,Stride<_64,_1>>{});": "Sw<3,4,3> o smem_ptr[16b](unset) o (_8,_64):(_64,_1)",
    "using Atom = decltype(composition(Swizzle<3, 3, 3>{}, Layout<Shape<_8, Shape<_8, _8>>, Stride<_8, Stride<_1, _64>>>{}));": "Sw<3,3,3> o _0 o (_8,(_8,_8)):(_8,(_1,_64))",
    "ComposedLayout<Swizzle<3,3,3>, Int<0>, Layout<Shape<_8,_64>,Stride<_64,_1>>>{}": "Sw<3,3,3> o _0 o (_8,_64):(_64,_1)",
    "make_layout(make_shape(Int<32>{}, 16), make_stride(Int<17>{}, _1{}))": "(32,16):(17,1)",
    "make_layout(make_shape(_8{}, _4{}))": "(_8,_4):(_1,_8)",
    "make_layout(make_shape(make_shape(_2{}, _4{}), _8{}), LayoutRight{})": "((2,4),8):((32,8),1)",
    "make_layout(make_shape(make_shape(_2{}, _4{}), _8{}), GenColMajor{})": "((2,4),8):((1,2),8)",
    "make_ordered_layout(make_shape(_8{}, _64{}), Step<_2,_1>{})": "(8,64):(64,1)",
    "make_layout(make_layout(_8{}, _64{}), make_layout(_64{}, _1{}))": "(8,64):(64,1)",
    "composition(make_layout(make_shape(_4{}, _8{}), GenRowMajor{}), make_layout(make_shape(_2{}, _4{}), make_stride(_4{}, _1{})))": "(4,8):(8,1) o (2,4):(4,1)",
    "Sw<3,4,3>_smem_ptr[16b](0x7fff1000) o ((_8,_2),_64):((_64,_512),_1)": "Sw<3,4,3> o smem_ptr[16b](unset) o (_16,_64):(_64,_1)",
    "tile_to_shape(GMMA::Layout_K_SW128_Atom<half_t>{}, make_shape(Int<128>{}, Int<64>{}))": "Sw<3,4,3> o smem_ptr[16b](unset) o ((_8,_16),(_64,_1)):((_64,_512),(_1,_0))",
    "tile_to_shape(GMMA::Layout_MN_SW128_Atom<cutlass::half_t>{}, Shape<_128,_64,_3>{})": "Sw<3,4,3> o smem_ptr[16b](unset) o ((_64,_2),(_8,_8),_3):((_1,_512),(_64,_1024),_8192)",
    "tile_to_shape(UMMA::Layout_K_SW32_Atom<tfloat32_t>{}, Shape<_64,_32>{}, Step<_2,_1>{})": "Sw<1,4,3> o smem_ptr[32b](unset) o ((_8,_8),(_8,_4)):((_8,_256),(_1,_64))",
}


@pytest.mark.parametrize("text", SAME_AS)
def test_c_plus_plus_means_what_cute_prints_of_it(text: str) -> None:
    written, printed = read_tile(text), read_tile(SAME_AS[text])
    assert written.shape == printed.shape
    assert offsets(written) == offsets(printed)


def test_the_element_of_an_atom_is_the_elements_type() -> None:
    tile = read_tile("GMMA::Layout_MN_SW64_Atom<cute::float_e4m3_t>{}")
    assert (tile.shape, tile.element, tile.element_bits) == ((64, 8), "float_e4m3_t", 8)


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


PRINTED = """
 - register=1 -> (0, 1)
   register=2 -> (0, 2)
   register=4 -> (0, 4)
 - lane=1 -> (0, 8)
   lane=2 -> (0, 16)
   lane=4 -> (0, 32)
   lane=8 -> (1, 0)
   lane=16 -> (2, 0)
 - warp=1 -> (4, 0)
   warp=2 -> (8, 0)
 - block is a size 1 dimension
where out dims are: [dim0 (size 16), dim1 (size 64)]"""
BASES = (
    "#ttg.linear<{register = [[0, 1], [0, 2], [0, 4]], lane = [[0, 8], [0, 16], [0, 32], [1, 0], [2, 0]], "
    "warp = [[4, 0], [8, 0]], block = []}>"
)
BLOCKED = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"


@pytest.mark.parametrize(
    "text",
    [
        PRINTED,
        f"#linear = {BASES}",
        f"#blocked = {BLOCKED}",
        f"#blocked = {BLOCKED}\ntensor<16x64xf16, #blocked>",
        "#blocked = #ttg.blocked<{sizePerThread = [1, 1, 8], threadsPerWarp = [1, 4, 8], warpsPerCTA = [1, 4, 1], "
        "order = [2, 1, 0]}>\n#slice = #ttg.slice<{dim = 0, parent = #blocked}>",
    ],
)
def test_what_triton_prints_of_a_layout_has_its_bases(text: str) -> None:
    tile = read_tile(text)
    assert tile.shape == (16, 64)
    assert tile.linear_form().text == BASES


def test_a_linear_layout_of_memory_is_read_in_both_directions() -> None:
    by_offset = "- offset=1 -> (0, 1) offset=2 -> (1, 1) - block is a size 1 dimension where out dims are: [dim0 (size 2), dim1 (size 2)]"
    by_element = "- dim0=1 -> (3, 0) - dim1=1 -> (1, 0) where out dims are: [offset (size 4), block (size 1)]"
    assert offsets(read_tile(by_offset)) == offsets(read_tile(by_element)) == [0, 1, 3, 2]


def test_the_blocks_of_a_cluster_hold_a_part_each() -> None:
    tile = read_tile(BLOCKED.replace("}>", ", CGALayout = [[1, 0]]}>"), shape=(64, 64))
    assert dict(tile.linear_form().bases)["block"] == ((32, 0),)
    assert tile.holders is not None
    assert tile.holders[0, 0, 4].tolist() == [32, 0]
    assert tile.notes == ("2 blocks of 4 warps: warp 4 is the first of the second block",)
    shared = "#ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0], CGALayout = [[0, 1]]}>"
    assert read_tile(shared, shape=(3, 64, 128), element="f16").shape == (64, 64)


ADDRESSED = [
    *SAME_AS,
    "(8,8):(16,1)",
    "float[64][64]",
    "64x128xbf16 nvmma_shared(128, 16)",
    "64x64xf16 swizzled_shared(8, 2, 4, [0, 1])",
    "blocked([2,4],[8,4],[2,2],[0,1])",
    "#ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>",
]


@pytest.mark.parametrize("text", ADDRESSED)
def test_bases_reproduce_every_address(text: str) -> None:
    tile = read_tile(text)
    form = tile.linear_form()
    coordinates = tile.coordinates()
    if form.why_not:
        assert any(extent & (extent - 1) for extent in tile.shape) or ":(17,1)" in SAME_AS[text]
    elif tile.holders is not None:
        parts = [spread(vectors, len(tile.shape)) for _, vectors in form.bases]
        register, lane, warp, block = parts
        assert len(block) == 1
        assert np.array_equal(register[:, None, None] ^ lane[None, :, None] ^ warp[None, None], tile.holders)
    elif form.bases[0][0] == "offset":
        elements = spread(form.bases[0][1], len(tile.shape))
        assert tile.offsets is not None
        assert np.array_equal(tile.offsets(elements), np.arange(len(coordinates)))
    else:
        terms = [spread(vectors, 1)[coordinates[:, dim], 0] for dim, (_, vectors) in enumerate(form.bases)]
        assert np.bitwise_xor.reduce(terms).tolist() == offsets(tile)
    if form.text.startswith("#ttg."):
        again = read_tile(form.text, tile.shape, tile.element)
        assert again.linear_form() == form


def test_a_layout_that_is_not_linear_says_why() -> None:
    assert read_tile("float[32][33]").linear_form().text == "not linear: (1, 1) is at 34, its bits add up to 32"
    assert read_tile("(8,6):(8,1)").linear_form().text == "not linear: 6 is not a power of two"
    assert read_tile("Swizzle<2,0,2> o 1 o (4,4):(4,1)").linear_form().text == "not linear: it begins at 1, not at 0"
    assert (
        read_tile("((4,8),(2,3)):((32,1),(16,8))", over_threads=(16, 12)).linear_form().why_not
        == "6 is not a power of two"
    )


def test_padded_and_linear_tiles_in_memory() -> None:
    padded = read_tile("#ttg.padded_shared<[4:+2, 16:+1] {order = [1, 0], shape = [8, 4]}>")
    assert offsets(padded)[:6] == [0, 1, 2, 3, 6, 7]
    assert offsets(padded)[16] == 16 + 4 * 2 + 1
    turned = read_tile("#ttg.shared_linear<{offset = [[1, 0], [0, 1]], block = []}, alignment = 16>", shape=(2, 2))
    assert offsets(turned) == [0, 2, 1, 3]
    swizzled = "#ttg.shared_linear<{offset = [[0, 1], [0, 2], [1, 0], [2, 2]], block = []}>"
    tile = read_tile(swizzled)
    assert tile.shape == (4, 4)
    assert tile.linear_form().text == swizzled


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
    "make_layout(make_shape(Int<32>{}, Int<N>{}), GenRowMajor{})": r"expected a number or '\(', got 'N', at character 39 of",
    "composition(Swizzle<5,0,5>{}, make_shape(_32{}, _32{}))": "mode by mode, with a tuple, is not understood, at character 31 of",
    "tile_to_shape(SmemLayoutAtom{}, Shape<_128,_64>{})": "'SmemLayoutAtom' is not understood, at character 15 of",
    "tile_to_shape(Layout<Shape<_8,_64>,Stride<_72,_1>>{}, Shape<_16,_64>{})": "which has gaps, is not understood",
    "tile_to_shape(GMMA::Layout_K_SW128_Atom<foo>{}, Shape<_8,_64>{})": "'foo' is not a known type of element, at character 41 of",
    "(64,32):(1@0,1@1)": "'@' is not part of a CuTe layout, at character 11 of",
    "make_tensor(make_smem_ptr(p), (8,8))": "'make_tensor' is not understood, at character 1 of",
    "#ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>": "#mma is not defined, at character 34 of",
    "#ttg.blocked<{sizePerThread = [1, 8": r"'\[' is not closed, at character 31 of",
    "#ttg.blocked<{order = [1, 0]}>)": "is not a known layout",
    "- register=1 -> (0, 1) register=4 -> (0, 2)": "expected register=2, at character 33 of",
    "- register=1 -> (0, 1) lane": r"expected a line such as lane=1 -> \(0, 8\), at character 24 of",
    "- lane=1 -> (0, 2) where out dims are: [dim0 (size 1), dim1 (size 2)]": "the bases do not fit the out dims, at character 41 of",
    "- row=1 -> (1, 0) - col=1 -> (0, 1)": "from row, col to dim0, dim1 is not shown",
    "- a is a size 1 dimension where out dims are: []": "expected out dims such as dim0",
    f"4 shared_linear<{{offset = {[[1]] * 40}}}>": "a layout with 40 bits: at most 22 are shown",
    f"4 linear<{{register = {[[0]] * 20}, lane = {[[1]] * 5}, warp = []}}>": "over 2\\^26 registers of threads",
    "(" * 5000: "nested too deep to read",
    "64x128 nvmma_shared<{swizzlingByteWidth = 64, fp4Padded = true}>": "fp4Padded = true is not modelled",
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0], CTAsPerCGA = [2]}>": "CTAsPerCGA = \\[2\\] is not modelled",
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
    "- register=1 -> (1, 0) - lane=1 -> (0, 1)": "linear is not a layout of 32×32 elements over",
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
