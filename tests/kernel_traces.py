"""Traces of kernels made by hand, as the tracer records them: no Triton is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from warplens_lab.scenes.kernel_scene import Mask, Pattern
from warplens_lab.tracing.records import (
    AccessTotals,
    Events,
    Fault,
    KeptValues,
    KernelTrace,
    Reuse,
    Site,
    TensorInfo,
    TracedLaunch,
)

BLOCK = 16
SOURCE = """import tools


def product(a_ptr, b_ptr, c_ptr):
    for start in range(3):
        a = tl.load(a_ptr)
        b = tl.load(b_ptr)
        total = tl.dot(a, b, total)
    tl.store(c_ptr, total)


SECRET = "outside the kernel"
"""
LINES = {"a": 6, "b": 7, "dot": 8, "c": 9}


class _Book:
    """Numbers of the patterns and masks met so far."""

    def __init__(self, block: int) -> None:
        self.shape = (block, block)
        self.patterns: list[Pattern] = []
        self.masks: list[Mask] = []

    def pattern(self, columns: int) -> int:
        return _number(self.patterns, Pattern(4, self.shape, (columns, 1)))

    def mask(self, rows: int, columns: int) -> int:
        """The first `rows` × `columns` lanes of a block."""
        block = self.shape[0]
        rows, columns = max(0, min(block, rows)), max(0, min(block, columns))
        if rows == columns == block:
            return _number(self.masks, Mask(self.shape, block * block))
        box = ((0, rows), (0, columns)) if rows * columns else ((0, 0), (0, 0))
        return _number(self.masks, Mask(self.shape, rows * columns, box))


def _number(numbered: list[object], item: object) -> int:  # type: ignore[type-arg]
    if item not in numbered:
        numbered.append(item)
    return numbered.index(item)


def matmul(
    folder: Path,
    m: int = 40,
    n: int = 24,
    k: int = 36,
    *,
    block: int = BLOCK,
    values: bool = True,
    name: str = "product",
) -> TracedLaunch:
    """A product of m × k and k × n in square blocks, with masks at the edges; its source is written to `folder`."""
    file = folder / "kernel.py"
    file.write_text(SOURCE)
    book, rows, arrays = _Book(block), [], []
    a = np.arange(m * k, dtype=np.float32).reshape(m, k) % 7 - 3
    b = np.arange(k * n, dtype=np.float32).reshape(k, n) % 5 - 2
    grid = (-(-m // block), -(-n // block), 1)
    for x in range(grid[0]):
        for y in range(grid[1]):
            program, total = x * grid[1] + y, np.zeros((block, block), np.float32)
            top, left = x * block, y * block
            for start in range(0, k, block):
                a_tile = _tile(a, top, start, block)
                b_tile = _tile(b, start, left, block)
                total = total + a_tile @ b_tile
                rows.append((program, 0, 0, 0, top * k + start, book.pattern(k), book.mask(m - top, k - start), -1))
                rows.append((program, 0, 1, 1, start * n + left, book.pattern(n), book.mask(k - start, n - left), -1))
                rows.append((program, 1, 2, -1, 0, -1, -1, 0))
                arrays += [a_tile, b_tile, total]
            rows.append((program, 2, 3, 2, top * n + left, book.pattern(n), book.mask(m - top, n - left), -1))
            arrays.append(total)
    columns = np.array(rows, np.int64).T
    events = Events(
        ("load", "dot", "store"), ((block, block, block),), *(np.ascontiguousarray(array) for array in columns)
    )
    c = a @ b
    tensors = tuple(
        TensorInfo(f"{letter}_ptr", "float32", shape, (shape[1], 1), 0, place, 4 * shape[0] * shape[1], 4)
        for place, (letter, shape) in enumerate({"a": (m, k), "b": (k, n), "c": (m, n)}.items())
    )
    launch = TracedLaunch(
        index=0,
        kernel=name,
        file=str(file),
        line=4,
        grid=grid,
        traced_programs=grid[0] * grid[1],
        constants=(("BLOCK", str(block)),),
        called_from=(("host.py", 3, "<module>"),),
        tensors=tensors,
        sites=tuple(_site(str(file), LINES[name]) for name in ("a", "b", "dot", "c")),
        accesses=_totals(events, tuple(book.masks), block),
        elementwise_flop=0,
        reuse=tuple(Reuse((info.name,), *_use(info, place)) for place, info in enumerate(tensors)),
        faults=(),
        patterns=tuple(book.patterns),
        masks=tuple(book.masks),
        events=events,
    )
    if not values:
        return launch
    recorded = KeptValues(tuple(("fp32", array) for array in arrays), (a, b, np.zeros_like(c)), (a, b, c))
    return replace(launch, values=recorded)


def copy_past_the_end(folder: Path) -> TracedLaunch:
    """A copy of 256 elements in blocks of 64 that reads one block too far."""
    file = folder / "copy.py"
    file.write_text("def shifted(x_ptr, out_ptr):\n    x = tl.load(x_ptr + 64)\n    tl.store(out_ptr, x)\n")
    rows = []
    for program in range(4):
        rows.append((program, 0, 0, 0, 64 * (program + 1), 0, int(program == 3), -1))
        rows.append((program, 1, 1, 1, 64 * program, 0, 0, -1))
    columns = np.array(rows, np.int64).T
    info = TensorInfo("x_ptr", "float32", (256,), (1,), 0, 0, 1024, 4)
    sites = (_site(str(file), 2, "shifted"), _site(str(file), 3, "shifted"))
    message = "program (3, 0, 0) loads x_ptr[256] (lane 0): its memory has 256 elements"
    return TracedLaunch(
        index=1,
        kernel="shifted",
        file=str(file),
        line=1,
        grid=(4, 1, 1),
        traced_programs=4,
        constants=(),
        called_from=(),
        tensors=(info, replace(info, name="out_ptr", storage=1)),
        sites=sites,
        accesses=(
            AccessTotals(0, "load", 0, 4, 256, 192, 1024, 768),
            AccessTotals(1, "store", 1, 4, 256, 256, 1024, 1024),
        ),
        elementwise_flop=0,
        reuse=(),
        faults=(Fault("out_of_bounds", 0, "load", "x_ptr", (3, 0, 0), 256, (0,), message, 64),),
        patterns=(Pattern(4, (64,), (1,)),),
        masks=(Mask((64,), 64), Mask((64,), 0, ((0, 0),))),
        events=Events(("load", "store"), (), *(np.ascontiguousarray(column) for column in columns)),
    )


def scaled(folder: Path) -> TracedLaunch:
    """The same copy with two elementwise operations between its load and its store."""
    launch = copy_past_the_end(folder)
    rows = []
    for program in range(4):
        rows.append((program, 0, 0, 0, 64 * program, 0, 0, -1))
        rows += [(program, op, 0, -1, 0, -1, -1, 0) for op in (1, 2)]
        rows.append((program, 3, 1, 1, 64 * program, 0, int(program == 3), -1))
    columns = np.array(rows, np.int64).T
    totals = (
        AccessTotals(0, "load", 0, 4, 256, 256, 1024, 1024),
        AccessTotals(0, "mul", -1, 4, flop=256),
        AccessTotals(0, "where", -1, 4),
        AccessTotals(1, "store", 1, 4, 256, 192, 1024, 768),
    )
    events = Events(("load", "mul", "where", "store"), ((64,),), *(np.ascontiguousarray(column) for column in columns))
    return replace(launch, kernel="scaled", events=events, accesses=totals, elementwise_flop=256, faults=())


def trace_of(*launches: TracedLaunch, sample: float | None = None) -> KernelTrace:
    numbered = tuple(replace(launch, index=at) for at, launch in enumerate(launches))
    return KernelTrace("record", "3.9.0", 0, sample, numbered)


def _tile(matrix: np.ndarray, top: int, left: int, block: int) -> np.ndarray:  # type: ignore[type-arg]
    tile = np.zeros((block, block), np.float32)
    part = matrix[top : top + block, left : left + block]
    tile[: part.shape[0], : part.shape[1]] = part
    return tile


def _site(file: str, line: int, function: str = "product") -> Site:
    statement = Path(file).read_text().splitlines()[line - 1].strip()
    return Site(file, line, function, statement, ((file, line, function),))


def _totals(events: Events, masks: tuple[Mask, ...], block: int) -> tuple[AccessTotals, ...]:
    totals = []
    for site, (op, tensor) in enumerate((("load", 0), ("load", 1), ("dot", -1), ("store", 2))):
        chosen = np.flatnonzero(events.site == site)
        active = sum(masks[at].active for at in events.mask[chosen].tolist() if at >= 0)
        lanes = 0 if tensor < 0 else block * block * len(chosen)
        flop = 2 * block**3 * len(chosen) if tensor < 0 else 0
        totals.append(AccessTotals(site, op, tensor, len(chosen), lanes, active, 4 * lanes, 4 * active, flop=flop))
    return tuple(totals)


def _use(info: TensorInfo, place: int) -> tuple[int, int, int, int]:
    size = info.storage_bytes
    return (0, size, size, 0) if place == 2 else (size, 0, size, size)
