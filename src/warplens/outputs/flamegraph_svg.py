"""A call tree as a picture: an icicle with the root on top, the heaviest path on the left.

The file stands alone: no script, no font, nothing to load. A viewer shows a frame's full name and numbers when the
pointer rests on it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape

from warplens.model.tree import Tree
from warplens.outputs.palette import KIND_COLOURS, LIGHT, REST, Paper, category_colour, ink_on
from warplens_run.base.printable import clean
from warplens_run.base.text import cell_width, elide
from warplens_run.base.units import format_ns

MARGIN = 12.0
ROW = 17.0
FONT_PX = 11.0
CHAR_PX = 6.65
"""Advance of a monospaced letter at 11 px; 0.602 em in the widest of the usual fonts."""
FONTS = "ui-monospace,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace"
FEWEST_LETTERS = 3
FRAME_GAP = 0.5
NOTE_ROW = 15.0
LEGEND_ROW = 18.0
SWATCH = 11.0
PYTHON_FRAME = re.compile(r"[^<>]+\(\d+\): [^/]+")
OP_NAME = re.compile(r"\w+::\w+")


@dataclass(frozen=True)
class FlameLook:
    """How the picture looks; `categories` maps kernel names to kernel categories, for the colours of the leaves."""

    title: str = ""
    width_px: int = 1200
    min_px: float = 0.3
    categories: Mapping[str, str] = field(default_factory=dict)
    paper: Paper = LIGHT


@dataclass(frozen=True)
class Frame:
    """A node with its place: left edge and width in px, and its row from the top."""

    node: int
    x: float
    width: float
    row: int


def svg_bytes(tree: Tree, name: str, look: FlameLook) -> bytes:
    frames = list(place_frames(tree, look.width_px - 2 * MARGIN, look.min_px))
    title = clean(look.title) or f"{tree.weight} by call path: {clean(name)}"
    notes = _notes(tree, frames, look)
    legend_top = 38 + NOTE_ROW * len(notes)
    legend, legend_px = _legend(_colour_names(tree, frames, look), look.width_px, legend_top)
    top = legend_top + legend_px + 6
    height = top + ROW * (1 + max(frame.row for frame in frames)) + MARGIN
    letters = _letters(look.width_px - 2 * MARGIN)
    ink = "" if look.paper == LIGHT else f' fill="{look.paper.text}"'  # black by itself
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{look.width_px}" height="{height:.0f}" '
        f'viewBox="0 0 {look.width_px} {height:.0f}" font-family="{FONTS}" font-size="{FONT_PX:g}"{ink}>',
        f'<rect width="{look.width_px}" height="{height:.0f}" fill="{look.paper.background}"/>',
        _text(MARGIN, 24, title, _letters(look.width_px - 2 * MARGIN, 15), 'font-size="15" font-weight="bold"'),
        *(
            _text(MARGIN, 43 + NOTE_ROW * row, note, letters, f'fill="{look.paper.notes}"')
            for row, note in enumerate(notes)
        ),
        *legend,
        *(_frame(tree, frame, top, look) for frame in frames),
        "</svg>",
    ]
    return ("\n".join(lines) + "\n").encode()


def place_frames(tree: Tree, width: float, min_px: float) -> Iterator[Frame]:
    """The frames that are wide enough, each below its caller and heaviest first from the left."""
    scale = width / max(1, int(tree.total_ns[0]))
    children = tree.children()
    stack = [Frame(0, MARGIN, width, 0)]
    while stack:
        frame = stack.pop()
        yield frame
        x = frame.x
        for child in children[frame.node]:
            own = int(tree.total_ns[child]) * scale
            if own < min_px or own <= 0:
                break  # the rest is lighter still
            stack.append(Frame(child, x, own, frame.row + 1))
            x += own


def _notes(tree: Tree, frames: list[Frame], look: FlameLook) -> list[str]:
    """What the whole is, and what of it is not drawn."""
    whole = int(tree.total_ns[0])
    notes = [f"{format_ns(whole)} of {tree.weight}, {tree.total_count[0]:,} {_counted(tree)}"]
    drawn = {frame.node for frame in frames}
    missing = len(tree) - len(drawn)
    if missing:
        # Only the outermost of what is left out: what it calls is part of its time.
        ns = sum(int(tree.total_ns[node]) for node in range(1, len(tree)) if _is_edge(tree, node, drawn))
        share = 100 * ns / max(1, whole)
        what = f"{missing:,} frames narrower than {look.min_px:g} px"
        notes.append(f"not drawn: {what}, {format_ns(ns)} ({share:.1f} %) in all")
    return notes


def _is_edge(tree: Tree, node: int, drawn: set[int]) -> bool:
    return node not in drawn and int(tree.parent[node]) in drawn


def _counted(tree: Tree) -> str:
    return "GPU events" if tree.weight.startswith("GPU") else "host events"


def _colour(tree: Tree, node: int, look: FlameLook) -> tuple[str, str]:
    """What the colour of a node stands for, and the colour."""
    kind = tree.kind[node]
    if kind == "kernel" and tree.name[node] in look.categories:
        category = look.categories[tree.name[node]]
        return category, category_colour(category)
    return kind, KIND_COLOURS.get(kind, REST)


def _colour_names(tree: Tree, frames: list[Frame], look: FlameLook) -> dict[str, str]:
    """What the colours in the picture mean: kinds of callers, then categories by their time."""
    colours: dict[str, str] = {}
    all_ns: dict[str, int] = {}
    for frame in frames:
        if frame.node:
            name, colour = _colour(tree, frame.node, look)
            colours[name] = colour
            all_ns[name] = all_ns.get(name, 0) + int(tree.total_ns[frame.node])
    kinds = [kind for kind in KIND_COLOURS if kind in colours]
    rest = sorted(colours.keys() - set(kinds), key=lambda name: (-all_ns[name], name))
    return {name: colours[name] for name in (*kinds, *rest)}


def _legend(colours: dict[str, str], width: float, top: float) -> tuple[list[str], float]:
    """The legend in as many lines as it needs, and its height."""
    lines, x, y = [], MARGIN, top
    for name, colour in colours.items():
        text = elide(clean(name), 40)
        needed = SWATCH + 5 + cell_width(text) * CHAR_PX + 14
        if x + needed > width - MARGIN and x > MARGIN:
            x, y = MARGIN, y + LEGEND_ROW
        lines.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{SWATCH:g}" height="{SWATCH:g}" fill="{colour}" '
            'stroke="#666666" stroke-width="0.5"/>'
        )
        lines.append(_text(x + SWATCH + 5, y + 9.5, text, len(text)))
        x += needed
    return lines, y - top + LEGEND_ROW if colours else 0.0


def _frame(tree: Tree, frame: Frame, top: float, look: FlameLook) -> str:
    name = clean(tree.name[frame.node])
    share = 100 * int(tree.total_ns[frame.node]) / max(1, int(tree.total_ns[0]))
    facts = (
        f"{name}\n{format_ns(int(tree.total_ns[frame.node]))}, {share:.2f} % of {tree.weight}, "
        f"{tree.total_count[frame.node]:,} {_counted(tree)}"
    )
    colour = _colour(tree, frame.node, look)[1]
    y = top + frame.row * ROW
    width = frame.width - FRAME_GAP if frame.width > 6 * FRAME_GAP else frame.width
    rect = f'<rect x="{frame.x:.2f}" y="{y:.1f}" width="{width:.2f}" height="{ROW - 1:g}" fill="{colour}"/>'
    letters = _letters(frame.width - 6)
    text = ""
    if letters >= FEWEST_LETTERS:
        text = _text(frame.x + 3, y + 12, _fitting(name, letters), letters, f'fill="{ink_on(colour)}"')
    return f"<g><title>{escape(facts, quote=False)}</title>{rect}{text}</g>"


def _fitting(name: str, letters: int) -> str:
    """The longest form of a name that fits: a frame without its folders, then its function; an op without `aten::`."""
    forms = [name]
    if PYTHON_FRAME.match(name):
        forms += [name.rpartition("/")[2], name.rpartition("): ")[2]]
    elif OP_NAME.fullmatch(name):
        forms += [name.rpartition("::")[2]]
    return next((form for form in forms if cell_width(form) <= letters), forms[-1])


def _letters(px: float, font_px: float = FONT_PX) -> int:
    return max(0, int(px / (CHAR_PX * font_px / FONT_PX)))


def _text(x: float, y: float, text: str, letters: int, attributes: str = "") -> str:
    # Of a few letters the first ones say most, except where a number distinguishes siblings.
    middle = letters >= 8 or text[-1:].isdigit()
    shown = elide(text, letters, middle=middle)
    while cell_width(shown) > max(letters, 1):
        shown = elide(shown, len(shown) - 1, middle=middle)
    return f'<text x="{x:.1f}" y="{y:.1f}"{" " if attributes else ""}{attributes}>{escape(shown, quote=False)}</text>'
