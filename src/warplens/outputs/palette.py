"""Colours of pictures. A kernel category has the same colour in every one of them.

The categories that share most pictures have the colours of Okabe and Ito, which people with any kind of colour
vision distinguish; the others follow Paul Tol's muted scheme, in tones that differ in lightness from their
neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from zlib import crc32


@dataclass(frozen=True)
class Paper:
    """What a picture is drawn on, and what is not a kernel's: its text, its notes and its lines."""

    background: str
    text: str
    notes: str
    grid: str
    rules: str


LIGHT: Final = Paper("#FFFFFF", "#000000", "#444444", "#E4E4E4", "#BBBBBB")
DARK: Final = Paper("#16181D", "#E6E6E6", "#A9ADB5", "#2C3038", "#4A4F59")


def paper_of(theme: str) -> Paper:
    """What a picture is drawn on with a theme; light where none is chosen."""
    return DARK if theme == "dark" else LIGHT


CATEGORY_COLOURS: Final = {
    "GEMM": "#0072B2",
    "Elementwise": "#009E73",
    "Flash Attention Forward": "#E69F00",
    "Flash Attention Backward": "#8C5A00",
    "Attention (other)": "#F5C66B",
    "Communication": "#D55E00",
    "Convolution": "#56B4E9",
    "Normalization": "#F0E442",
    "Reduction": "#CC79A7",
    "Memory Ops": "#707070",
    "Softmax": "#882255",
    "Embedding/Index": "#332288",
    "Sort/Scan": "#AA4499",
    "Pooling": "#88CCEE",
    "Random": "#DDCC77",
    "Optimizer": "#0B4F24",
    "Quantization": "#661100",
    "MoE": "#6699CC",
    "RoPE": "#999933",
    "SSM": "#44AA99",
    "RNN": "#AA4466",
    "Loss": "#CC6677",
    "Triton Fused": "#785EF0",
    "XLA Fused": "#648FFF",
    "Layout Transform": "#B8B8B8",
    "FFT": "#7B3F00",
    "Linear Algebra": "#224466",
    "Other": "#DDDDDD",
}
KIND_COLOURS: Final = {
    # Callers are pale, so that the kernels they lead to stand out.
    "root": "#E6E6E6",
    "thread": "#DCDCDC",
    "python": "#F6EACB",
    "module": "#D3E8CA",
    "annotation": "#E6DAEE",
    "op": "#D2E1F3",
    "runtime": "#F3D5C5",
    "kernel": "#B9C7D6",
}
SPARE_COLOURS: Final = (
    "#4477AA",
    "#EE6677",
    "#228833",
    "#CCBB44",
    "#66CCEE",
    "#AA3377",
    "#EE7733",
    "#33BBEE",
    "#CC3311",
)
"""For categories that only a user's rules know."""
RANK_COLOURS: Final = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#332288",
    "#882255", "#117733", "#999933", "#661100", "#6699CC", "#AA4499", "#DDCC77", "#000000",
)  # fmt: skip
"""For things that have no colour of their own, in the order of their time."""
REST: Final = "#C4C4C4"


def category_colour(category: str) -> str:
    """The category's own colour; one that only a user's rules know gets one by its name."""
    spare = SPARE_COLOURS[crc32(category.encode("utf-8", "replace")) % len(SPARE_COLOURS)]
    return CATEGORY_COLOURS.get(category, spare)


def ink_on(colour: str) -> str:
    """Black or white, whichever reads better on a colour.

    >>> ink_on("#F0E442"), ink_on("#0072B2")
    ('#000000', '#FFFFFF')
    """
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]  # bounded: a colour of ours
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    # Where the contrast against black and against white is the same.
    return "#000000" if luminance > 0.179 else "#FFFFFF"
