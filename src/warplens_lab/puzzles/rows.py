"""Exercises on rows: sums, softmax, layer norm, a running sum."""

from __future__ import annotations

from typing import Any, Final

from warplens_lab.puzzles.drawing import Draw, rows_apart, unwritten
from warplens_lab.puzzles.records import Case, Goal, Puzzle, sizes


def _row_sum(draw: Draw, rows: int, columns: int, gap: int, block: int) -> Case:
    x = rows_apart(draw.normal(rows, columns), gap)
    return Case(
        (rows,),
        {
            "x_ptr": x,
            "out_ptr": unwritten(rows),
            "columns": columns,
            "row_stride": x.stride(0),
            "BLOCK": block,
        },
        {"out_ptr": x.double().sum(1)},
        mistakes={"each sum is divided by the number of columns": x.double().mean(1)},
        flop=rows * (columns - 1),
    )


def _long_row_sum(draw: Draw, rows: int, columns: int, block: int) -> Case:
    x = draw.normal(rows, columns)
    wide, full = x.double(), columns // block * block
    last = (columns - 1) // block * block
    steps = range(columns // block)
    return Case(
        (rows,),
        {"x_ptr": x, "out_ptr": unwritten(rows), "columns": columns, "BLOCK": block},
        {"out_ptr": wide.sum(1)},
        mistakes={
            "only the first block of each row is summed": wide[:, :block].sum(1),
            "only the last block of each row is summed": wide[:, last:].sum(1),
            "the last block of a row, which is not full, is omitted": wide[:, :full].sum(1),
            "the loop counts blocks, and the offsets lack · BLOCK": sum(
                (wide[:, at : at + block].sum(1) for at in steps), 0 * wide.sum(1)
            ),
        },
    )


def _softmax_input(draw: Draw, rows: int, columns: int, around: float) -> Any:
    return draw.normal(rows, columns, scale=2.0, around=around)


def _softmax(draw: Draw, rows: int, columns: int, around: float, block: int) -> Case:
    import torch

    x = _softmax_input(draw, rows, columns, around)
    wide = x.double()
    padded = torch.nn.functional.pad(wide, (0, block - columns))
    return Case(
        (rows,),
        {"x_ptr": x, "out_ptr": unwritten(rows, columns), "columns": columns, "BLOCK": block},
        {"out_ptr": wide.softmax(1)},
        mistakes={
            "the lanes past the end of the row count too, as zeros": padded.softmax(1)[:, :columns],
            "the numbers are not divided by their sum": (wide - wide.amax(1, keepdim=True)).exp(),
            "the sum goes over a column, not over a row": wide.softmax(0),
        },
        flop=rows * (5 * columns - 2),
    )


def _online_softmax(draw: Draw, rows: int, columns: int, slope: float, block: int) -> Case:
    import torch

    x = draw.normal(rows, columns) + slope * torch.arange(columns)
    wide = x.double()
    blocks = wide.split(block, dim=1)
    highest = torch.stack([part.amax(1) for part in blocks]).cummax(0).values
    unscaled = sum((part - top[:, None]).exp().sum(1) for part, top in zip(blocks, highest, strict=True))
    weights = (wide - highest[-1][:, None]).exp()
    padded = torch.nn.functional.pad(wide, (0, -columns % block))
    return Case(
        (rows,),
        {"x_ptr": x, "out_ptr": unwritten(rows, columns), "columns": columns, "BLOCK": block},
        {"out_ptr": wide.softmax(1)},
        mistakes={
            "the sum so far is not rescaled when a later block raises the maximum": weights / unscaled[:, None],
            "each block is normalised for itself": torch.cat([part.softmax(1) for part in blocks], dim=1),
            "the lanes past the end of the row count too, as zeros": padded.softmax(1)[:, :columns],
            "highest is not kept from block to block and stays −inf": weights + float("inf"),
            "the sum is that of the last block alone": weights / weights[:, -blocks[-1].shape[1] :].sum(1)[:, None],
        },
        least_loaded=2 * x.nbytes,
    )


def _shifted_norm(x: Any, mean: Any, eps: float) -> Any:
    return (x - mean) * (((x - mean) ** 2).mean(1, keepdim=True) + eps).rsqrt()


def _layer_norm(draw: Draw, rows: int, columns: int, around: float, block: int) -> Case:
    x = draw.normal(rows, columns, around=around)
    weight, bias, eps = draw.normal(columns), draw.normal(columns), 1e-2
    wide, scale, shift = x.double(), weight.double(), bias.double()
    mean = wide.mean(1, keepdim=True)
    variance = wide.var(1, keepdim=True, correction=0)
    centred = wide - mean

    def normed(spread: Any) -> Any:
        return centred * (spread + eps).rsqrt() * scale + shift

    return Case(
        (rows,),
        {
            "x_ptr": x,
            "weight_ptr": weight,
            "bias_ptr": bias,
            "out_ptr": unwritten(rows, columns),
            "columns": columns,
            "eps": eps,
            "BLOCK": block,
        },
        {"out_ptr": normed(variance)},
        mistakes={
            "x − mean is not divided by the standard deviation": centred * scale + shift,
            "the lanes past the end of the row count in the variance: there x is 0, and 0 − mean is not": normed(
                variance + (block - columns) * mean**2 / columns
            ),
            "the variance is divided by BLOCK instead of columns": normed(variance * columns / block),
            "the mean is divided by BLOCK instead of columns": _shifted_norm(wide, mean * columns / block, eps) * scale
            + shift,
            "the variance is divided by columns − 1 instead of columns": normed(wide.var(1, keepdim=True)),
            "eps is added to the standard deviation instead of the variance": (
                centred / (variance.sqrt() + eps) * scale + shift
            ),
            "x is not centred: the mean is not subtracted": wide * (variance + eps).rsqrt() * scale + shift,
            "weight and bias are not applied": centred * (variance + eps).rsqrt(),
        },
        least_loaded=x.nbytes + rows * (weight.nbytes + bias.nbytes),
        tolerance=1e-3,
    )


def _carried_blocks(blocks: Any, block: int, *, running: bool = False) -> Any:
    """Running sums whose carry has a lane for each element of a block."""
    import torch

    carry, parts = torch.zeros(blocks[0].shape[0], block, dtype=torch.float64), []
    for part in blocks:
        parts.append(part.cumsum(1) + carry[:, : part.shape[1]])
        whole = torch.nn.functional.pad(part, (0, block - part.shape[1]))
        carry = carry + (whole.cumsum(1) if running else whole)
    return torch.cat(parts, 1)


def _running_sum(draw: Draw, rows: int, columns: int, block: int) -> Case:
    import torch

    x = draw.normal(rows, columns)
    wide = x.double()
    blocks = wide.split(block, dim=1)
    sums = [torch.zeros(rows, 1, dtype=torch.float64), *(part.sum(1, keepdim=True) for part in blocks)]
    return Case(
        (rows,),
        {"x_ptr": x, "out_ptr": unwritten(rows, columns), "columns": columns, "BLOCK": block},
        {"out_ptr": wide.cumsum(1)},
        mistakes={
            "each block begins anew at zero": torch.cat([part.cumsum(1) for part in blocks], 1),
            "a block continues from the sum of the one before it, not of all before it": torch.cat(
                [part.cumsum(1) + carry for part, carry in zip(blocks, sums, strict=False)], 1
            ),
            "element i is not part of its own sum": wide.cumsum(1) - wide,
            "the carry is a block, lane by lane, and not one number: its sum": _carried_blocks(blocks, block),
            "the carry is the running sum of the blocks, lane by lane, and not their sum": _carried_blocks(
                blocks, block, running=True
            ),
        },
        tolerance=1e-3,
    )


PUZZLES: Final = (
    Puzzle(
        4, "row_sum", "easy", "sum each row of a matrix, one program per row",
        "reductions, and what a mask leaves in the lanes it switches off",
        (
            "BLOCK is a power of two and may be longer than the row: without a mask the load runs into the next row.",
            "Lanes that a mask switches off hold anything, unless other= says what. Which value leaves a sum as it is?",
            "tl.load(x_ptr + row * row_stride + offsets, mask=offsets < columns, other=0.0), then tl.sum(x, axis=0).",
        ),
        _row_sum,
        (
            sizes(rows=4, columns=32, gap=0, block=32),
            sizes("a block is longer than a row", rows=6, columns=50, gap=0, block=64),
            sizes("rows are further apart than they are long", rows=5, columns=20, gap=7, block=32),
        ),
        Goal("loaded", 1.01, "every element is read once"),
    ),
    Puzzle(
        5, "long_row_sum", "easy", "sum rows that are longer than a block",
        "a loop over blocks, an accumulator, masks inside the loop",
        (
            "for start in range(0, columns, BLOCK): each iteration takes the columns start … start + BLOCK − 1.",
            "Keep an accumulator of BLOCK lanes, tl.zeros((BLOCK,), tl.float32), and reduce it once after the loop.",
            "Each iteration needs its own mask: start + offsets < columns.",
        ),
        _long_row_sum,
        (
            sizes(rows=4, columns=128, block=32),
            sizes("the last block of a row is not full", rows=5, columns=100, block=32),
            sizes("a row is shorter than a block", rows=3, columns=20, block=32),
        ),
        Goal("loaded", 1.01, "every element is read once"),
    ),
    Puzzle(
        6, "softmax", "medium", "softmax of each row, for large numbers too",
        "two reductions over one block, numbers that overflow",
        (
            "exp(89) is more than a float32 holds. softmax(x) does not change when a number is subtracted from all x.",
            "Subtract the row's maximum: then the largest exponent is exp(0) = 1.",
            "Empty lanes must not win the maximum and must add nothing to the sum: other=-float('inf') does both.",
        ),
        _softmax,
        (
            sizes(rows=4, columns=32, around=0.0, block=32),
            sizes("a block is longer than a row", rows=6, columns=50, around=0.0, block=64),
            sizes("large numbers", rows=3, columns=40, around=300.0, block=64),
            sizes("large negative numbers", rows=3, columns=40, around=-300.0, block=64),
        ),
        Goal("loaded", 1.01, "each row is read once"),
    ),
    Puzzle(
        7, "online_softmax", "medium", "softmax of rows longer than a block, reading each row twice only",
        "maximum and sum in one pass, rescaling what was summed before",
        (
            "A sum of exp(x − m) becomes the sum of exp(x − m') when it is multiplied by exp(m − m').",
            "Per block: new = max(highest, block's maximum); total = total · exp(highest − new) + Σ exp(x − new).",
            "Then a second loop writes exp(x − highest) / total. Begin with highest = -inf and total = 0.",
        ),
        _online_softmax,
        (
            sizes("the maximum is anywhere", rows=3, columns=128, slope=0.0, block=32),
            sizes("each block has a larger maximum than the last", rows=3, columns=100, slope=0.5, block=32),
            sizes("the first block has the maximum", rows=3, columns=100, slope=-0.5, block=32),
            sizes("a row is shorter than a block", rows=2, columns=20, slope=0.0, block=32),
        ),
        Goal("loaded", 1.01, "each row is read twice, not three times"),
    ),
    Puzzle(
        8, "layer_norm", "medium", "centre and scale each row, then apply weight and bias",
        "mean and variance in one block, and the empty lanes between them",
        (
            "The mean is tl.sum(x) / columns, not / BLOCK: with other=0.0 the empty lanes add nothing to the sum.",
            "After x − mean the empty lanes hold −mean. tl.where(mask, x − mean, 0.0) empties them again.",
            "Do not take the variance as mean(x²) − mean(x)²: for numbers around 1000 nothing is left of it.",
        ),
        _layer_norm,
        (
            sizes(rows=4, columns=32, around=0.0, block=32),
            sizes("a block is longer than a row", rows=5, columns=48, around=3.0, block=64),
            sizes("numbers far from zero", rows=3, columns=40, around=1000.0, block=64),
        ),
        Goal("loaded", 1.01, "each row is read once"),
    ),
    Puzzle(
        10, "running_sum", "medium", "the sum of all elements up to each one, along rows longer than a block",
        "a scan within a block, a carry from block to block",
        (
            "tl.cumsum(x, axis=0) is the running sum within one block.",
            "What a block lacks is the sum of all blocks before it: one number that grows with each iteration.",
            "carry += tl.sum(x, axis=0) at the end of each iteration, after the block was stored as cumsum + carry.",
        ),
        _running_sum,
        (
            sizes(rows=2, columns=64, block=16),
            sizes("the last block of a row is not full", rows=3, columns=50, block=16),
            sizes("a row is shorter than a block", rows=2, columns=10, block=16),
        ),
        Goal("loaded", 1.01, "every element is read once"),
    ),
)  # fmt: skip
