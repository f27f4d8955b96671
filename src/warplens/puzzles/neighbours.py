"""Exercises in which blocks meet: a histogram, whose programs share memory; a convolution, whose blocks overlap."""

from __future__ import annotations

from typing import Final

from warplens.puzzles.drawing import Draw, cdiv, unwritten
from warplens.puzzles.records import Case, Goal, Puzzle, sizes


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
)  # fmt: skip
