"""Flame graphs as pictures: the frames are the tree's numbers, and nothing in a trace can break out of them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import warplens
from support import SAMPLES, Opened, kernel, launch, op
from warplens.categories import category_names
from warplens.model.tree import Tree
from warplens.outputs.flamegraph_svg import MARGIN, FlameLook, place_frames, svg_bytes
from warplens.outputs.palette import CATEGORY_COLOURS, SPARE_COLOURS, category_colour, ink_on

SVG = "{http://www.w3.org/2000/svg}"
NASTY = [
    "<img src=x onerror=1>",
    "</svg><script>alert(1)</script>",
    "a\"b'c&d",
    "]]>",
    "x\x00\x1b[31m\x0b\ud800y",
    "<!--",
]


def tree_of(opened: Opened, *names: str) -> Tree:
    events = [op("aten::mm", 0, 100)]
    for number, name in enumerate(names, start=1):
        events += [launch(number, 1, number), kernel(name, 200 + 100 * number, 10 * number, number)]
    return opened(events).tree("op", short_names=False)


def parsed(tree: Tree, **look: object) -> ElementTree.Element:
    return ElementTree.fromstring(svg_bytes(tree, "t.json", FlameLook(**look)))  # type: ignore[arg-type]


def groups(root: ElementTree.Element) -> list[tuple[str, ElementTree.Element, str]]:
    """Tooltip, rectangle and label of every frame."""
    return [
        (
            group.findtext(f"{SVG}title") or "",
            group.find(f"{SVG}rect"),  # type: ignore[misc]
            group.findtext(f"{SVG}text") or "",
        )
        for group in root.iter(f"{SVG}g")
    ]


def test_widths_are_shares_and_tooltips_say_the_numbers(opened: Opened) -> None:
    frames = groups(parsed(tree_of(opened, "k_small", "k_large"), width_px=1024))
    titles = [title for title, _, _ in frames]
    assert titles[0] == "all\n30.00 µs, 100.00 % of GPU time, 2 GPU events"
    assert titles[1].startswith("aten::mm\n30.00 µs")
    by_name = {title.splitlines()[0]: rect for title, rect, _ in frames}
    large, small = by_name["k_large"], by_name["k_small"]
    assert float(large.attrib["x"]) == MARGIN
    assert float(small.attrib["x"]) == pytest.approx(MARGIN + 1000 * 2 / 3, abs=0.01)
    assert float(small.attrib["width"]) == pytest.approx(1000 / 3, abs=1)
    assert float(large.attrib["y"]) > float(by_name["aten::mm"].attrib["y"]) > float(by_name["all"].attrib["y"])


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_drawn_and_left_out_frames_are_the_whole_tree(sample: Path) -> None:
    tree = warplens.open(sample, cache=False).tree()
    root = parsed(tree, min_px=2.0)
    drawn = len(groups(root))
    note = " ".join(text.text or "" for text in root.iter(f"{SVG}text") if "not drawn" in (text.text or ""))
    left_out = re.search(r"not drawn: ([\d,]+) frames narrower than 2 px", note)
    assert drawn + (int(left_out[1].replace(",", "")) if left_out else 0) == len(tree)
    assert len(groups(parsed(tree, min_px=0))) == int((tree.total_ns > 0).sum()) + (0 if tree.total_ns[0] else 1)


def test_children_lie_side_by_side_inside_their_callers() -> None:
    sample = next(path for path in SAMPLES if path.name == "gpt2_train_step.json.gz")
    tree = warplens.open(sample, cache=False).tree()
    frames = list(place_frames(tree, 1000, 0.1))
    place = {frame.node: frame for frame in frames}
    assert len(frames) > 100
    for frame in frames[1:]:
        around = place[int(tree.parent[frame.node])]
        assert frame.row == around.row + 1
        assert around.x - 1e-6 <= frame.x
        assert frame.x + frame.width <= around.x + around.width + 1e-6
        assert frame.width == pytest.approx(1000 * tree.total_ns[frame.node] / tree.total_ns[0])
    for row in range(max(frame.row for frame in frames) + 1):
        level = sorted((frame for frame in frames if frame.row == row), key=lambda frame: frame.x)
        assert all(a.x + a.width <= b.x + 1e-6 for a, b in pairwise(level))


@pytest.mark.parametrize("name", NASTY)
def test_names_are_text_and_nothing_but_text(opened: Opened, name: str) -> None:
    tree = tree_of(opened, name)
    content = svg_bytes(tree, name, FlameLook(title=name, categories={name: name}))
    root = ElementTree.fromstring(content)
    assert {element.tag for element in root.iter()} == {f"{SVG}{tag}" for tag in ("svg", "g", "title", "rect", "text")}
    assert b"<script" not in content
    assert b"<img" not in content
    assert not any(char < 32 and char != 10 for char in content)
    tooltips = [title.splitlines()[0] for title, _, _ in groups(root)]
    assert any(tip == name or (not name.isprintable() and re.fullmatch("x[^\x1b]*y", tip)) for tip in tooltips)


def test_the_file_stands_alone(opened: Opened) -> None:
    content = svg_bytes(tree_of(opened, "k"), "t.json", FlameLook()).decode()
    assert re.findall(r'https?://[^"]+', content) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"\b(href|on\w+|style|src)\s*=|@import|url\(", content)


def test_labels_fit_their_frames(opened: Opened) -> None:
    tree = tree_of(opened, "k" * 400, "核" * 300, "m")
    for _, rect, label in groups(parsed(tree, width_px=700)):
        cells = sum(2 if char == "核" else 1 for char in label)
        assert cells * 6.65 <= float(rect.attrib["width"])


def test_python_frames_lose_their_folders_before_their_functions(opened: Opened) -> None:
    from support import frame

    name = "transformers/models/llama/modeling_llama.py(364): forward"
    events = [frame(name, 0, 10), launch(1, 1, 1), kernel("k", 20, 5, 1)]
    tree = opened(events).tree("python")
    labels = {
        width: next(label for title, _, label in groups(parsed(tree, width_px=width)) if title.startswith(name))
        for width in (800, 300, 100)
    }
    assert labels == {800: name, 300: "modeling_llama.py(364): forward", 100: "forward"}


def test_kernels_have_the_colour_of_their_category_and_the_legend_names_it(opened: Opened) -> None:
    tree = tree_of(opened, "k_gemm", "k_mine")
    root = parsed(tree, categories={"k_gemm": "GEMM", "k_mine": "My own"})
    colours = {title.splitlines()[0]: rect.attrib["fill"] for title, rect, _ in groups(root)}
    assert colours["k_gemm"] == CATEGORY_COLOURS["GEMM"]
    assert colours["k_mine"] == category_colour("My own")
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"op", "GEMM", "My own"} <= set(texts)


def test_the_same_tree_gives_the_same_bytes(opened: Opened) -> None:
    tree = tree_of(opened, "a", "b", "c")
    assert svg_bytes(tree, "t", FlameLook()) == svg_bytes(tree, "t", FlameLook())


def test_a_tree_without_time_is_still_a_picture(opened: Opened) -> None:
    root = parsed(opened([op("aten::mm", 0, 10)]).tree())
    assert [title.splitlines()[0] for title, _, _ in groups(root)] == ["all"]


def test_every_category_has_a_colour_of_its_own() -> None:
    assert set(CATEGORY_COLOURS) == set(category_names())
    assert len(set(CATEGORY_COLOURS.values())) == len(CATEGORY_COLOURS)
    assert category_colour("one of a user") in SPARE_COLOURS


COMMON = [
    "GEMM",
    "Elementwise",
    "Flash Attention Forward",
    "Communication",
    "Convolution",
    "Normalization",
    "Reduction",
    "Memory Ops",
]
VISION = {
    # Machado, Oliveira and Fernandes (2009), severity 1.0
    "normal": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lightness_and_hue(colour: str, matrix: list[list[float]]) -> list[float]:
    """CIE L*a*b* of a colour as seen with some kind of vision."""
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    seen = [min(1, max(0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in matrix]
    to_xyz = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    xyz = [sum(a * b for a, b in zip(row, seen, strict=True)) for row in to_xyz]
    white = (0.9505, 1.0, 1.089)
    f = [t ** (1 / 3) if (t := x / w) > 0.008856 else 7.787 * t + 16 / 116 for x, w in zip(xyz, white, strict=True)]
    return [116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])]


@pytest.mark.parametrize("vision", VISION)
def test_common_categories_are_told_apart_with_any_colour_vision(vision: str) -> None:
    seen = [lightness_and_hue(CATEGORY_COLOURS[name], VISION[vision]) for name in COMMON]
    for row, first in enumerate(seen):
        for column, second in enumerate(seen[:row]):
            distance = sum((a - b) ** 2 for a, b in zip(first, second, strict=True)) ** 0.5
            assert distance > 10, (COMMON[row], COMMON[column], distance)


def test_labels_have_contrast() -> None:
    for colour in CATEGORY_COLOURS.values():
        lightness = lightness_and_hue(colour, VISION["normal"])[0]
        assert (ink_on(colour) == "#000000") == (lightness > 49.5), colour


def test_heading_legend_and_frames_do_not_touch(opened: Opened) -> None:
    root = parsed(tree_of(opened, *(f"k{number}" for number in range(9))), width_px=400, min_px=100)
    lines = [text for text in root if text.tag == f"{SVG}text"]
    heading = [float(text.attrib["y"]) for text in lines if text.attrib.get("fill") == "#444444"]
    legend = [float(rect.attrib["y"]) for rect in root if rect.attrib.get("stroke")]
    frames = [float(rect.attrib["y"]) for _, rect, _ in groups(root)]
    assert len(heading) == 2
    assert heading[-1] + 4 <= min(legend)
    assert max(legend) + 11 <= min(frames)
