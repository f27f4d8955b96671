"""Exercises in which blocks meet: a histogram, whose programs share memory; convolutions, whose blocks overlap."""

from __future__ import annotations

from typing import Final

from warplens_lab.puzzles.drawing import Draw, cdiv, unwritten
from warplens_lab.puzzles.records import Case, Goal, Puzzle, sizes


def _histogram(draw: Draw, n: int, bins: int, block: int) -> Case:
    import torch

    x = draw.integers(0, bins, n)
    counts = torch.bincount(x, minlength=bins)
    empty = torch.zeros_like(counts)
    empty[0] = cdiv(n, block) * block - n
    return Case(
        (cdiv(n, block),),
        {"x_ptr": x, "counts_ptr": torch.zeros(bins, dtype=torch.int32), "n": n, "BLOCK": block},
        {"counts_ptr": counts},
        mistakes={"the empty lanes of the last block are counted too, in bin 0": counts + empty} if empty[0] else {},
        flop=0,
    )


def _convolution(draw: Draw, n: int, width: int, block: int) -> Case:
    import torch

    x, w = draw.normal(n), draw.normal(width)
    wide, half = x.double(), width // 2

    def convolved(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        return values.unfold(0, width, 1) @ weights.double()

    zeros = torch.zeros(width, dtype=torch.float64)
    centred = torch.cat([zeros[:half], wide, zeros[:half]])
    late = torch.cat([wide, zeros[: width - 1]])
    around = torch.cat([wide[n - half :], wide, wide[:half]])
    return Case(
        (cdiv(n, block),),
        {"x_ptr": x, "w_ptr": w, "out_ptr": unwritten(n), "n": n, "width": width, "BLOCK": block},
        {"out_ptr": convolved(centred, w)},
        mistakes={
            "only the middle weight is used": wide * w[half].double(),
            "w is taken from its end: out[i] must use w[0] for the leftmost neighbour": convolved(centred, w.flip(0)),
            "the window begins at i instead of i − width // 2": convolved(late, w),
            "the window wraps around at the ends, where zeros are wanted": convolved(around, w),
        },
        flop=2 * n * width,
    )


def _convolution_2d(
    draw: Draw, images: int, height: int, width: int, tall: int, wide: int, block_h: int, block_w: int
) -> Case:
    import torch

    x, w = draw.normal(images, height, width), draw.normal(tall, wide)
    up, left = tall // 2, wide // 2
    padded = torch.nn.functional.pad(x.double(), (left, left, up, up))
    late = torch.nn.functional.pad(x.double(), (0, wide - 1, 0, tall - 1))

    def convolved(values: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        windows = values.unfold(1, tall, 1).unfold(2, wide, 1)
        return torch.einsum("bijst,st->bij", windows, weights.double())

    # Rows are guarded and columns are not: what is beside a row's ends is in the rows before and after it.
    edge = torch.zeros(left, dtype=torch.float64)
    flat = torch.cat([edge, x.double().flatten(), edge])
    image, row, column = (torch.arange(size) for size in x.shape)
    around = torch.zeros(x.shape, dtype=torch.float64)
    for s in range(tall):
        near = row + s - up
        inside = ((near >= 0) & (near < height)).double()
        first = (image[:, None] * height + near.clamp(0, height - 1)[None, :])[:, :, None] * width + column
        for t in range(wide):
            around += w[s, t].double() * flat[first + t] * inside[None, :, None]
    right = convolved(padded, w)
    return Case(
        (images, cdiv(height, block_h), cdiv(width, block_w)),
        {
            "x_ptr": x,
            "w_ptr": w,
            "out_ptr": unwritten(images, height, width),
            "height": height,
            "width": width,
            "tall": tall,
            "wide": wide,
            "BLOCK_H": block_h,
            "BLOCK_W": block_w,
        },
        {"out_ptr": right},
        mistakes={
            "only the middle weight is used": x.double() * w[up, left].double(),
            "w is turned around: out[b, i, j] must use w[0, 0] for the neighbour above and to the left": convolved(
                padded, w.flip(0, 1)
            ),
            "the window begins at (i, j) instead of (i − tall // 2, j − wide // 2)": convolved(late, w),
            "the neighbours of a row's ends are taken from the rows beside it: the columns need a mask too": around,
            **({"every image is computed from the first one": right[:1].expand_as(right)} if images > 1 else {}),
        },
        flop=2 * images * height * width * tall * wide,
    )


PUZZLES: Final = (
    Puzzle(
        9, "histogram", "medium", "count how often each number occurs",
        "programs that write the same memory, atomics",
        (
            "Between one program's load and its store, another program may have counted: its count is lost.",
            "Even within one program two lanes with the same number store the same count: one of them is lost.",
            "tl.atomic_add(counts_ptr + x, 1, mask=mask) reads, adds and writes as one step, lane by lane.",
        ),
        _histogram,
        (
            sizes(n=256, bins=16, block=64),
            sizes("the last block is not full", n=200, bins=8, block=64),
            sizes("more bins than a block has lanes", n=150, bins=100, block=32),
        ),
        Goal("loaded", 1.01, "every element of x is read once"),
    ),
    Puzzle(
        11, "convolution", "medium", "a one-dimensional convolution with zeros beyond both ends",
        "neighbours in other blocks, masks at both ends",
        (
            "out[i] needs x[i − width // 2] … x[i + width // 2]. Loop over the weights, not over the elements.",
            "For weight t the block's neighbours are offsets + t − width // 2: a load of its own for each weight.",
            "A neighbour may be below 0 as well as n or more. The mask needs both, and other=0.0.",
        ),
        _convolution,
        (
            sizes(n=64, width=3, block=32),
            sizes("the last block is not full", n=100, width=5, block=32),
            sizes("the window is wider than what is left of x", n=20, width=7, block=32),
        ),
    ),
    Puzzle(
        20, "convolution_2d", "medium", "a two-dimensional convolution of several images, with zeros beyond all edges",
        "tiles with neighbours on all sides, a third program id, masks of four conditions",
        (
            "Loop over the rows s and the columns t of the window: each weight meets a whole tile of neighbours.",
            "For weight (s, t) the tile's neighbours are in rows i + s − tall // 2 and columns j + t − wide // 2.",
            "Row and column are checked apart: row · width + column of a column −1 is an element of the row above.",
            "The image is program_id(0); its first element is image · height · width after the first of x.",
        ),
        _convolution_2d,
        (
            sizes(images=1, height=16, width=16, tall=3, wide=3, block_h=8, block_w=8),
            sizes("no side is a multiple of the block",
                  images=2, height=13, width=21, tall=3, wide=3, block_h=8, block_w=16),
            sizes("the window is taller than it is wide",
                  images=2, height=12, width=10, tall=5, wide=3, block_h=8, block_w=8),
            sizes("the window is larger than the image",
                  images=1, height=3, width=4, tall=5, wide=7, block_h=4, block_w=8),
        ),
        measured=1,
    ),
)  # fmt: skip
