"""A transpose through shared memory whose rows lie on the same banks; written in Gluon, which names layouts."""

from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl


@gluon.jit
def transpose_kernel(x_ptr, out_ptr, VECTOR: ttgl.constexpr, PHASES: ttgl.constexpr):
    by_rows: ttgl.constexpr = ttgl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
    by_columns: ttgl.constexpr = ttgl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
    kept: ttgl.constexpr = ttgl.SwizzledSharedLayout(VECTOR, 1, PHASES, order=[1, 0])
    rows = ttgl.arange(0, 32, layout=ttgl.SliceLayout(1, by_rows))
    columns = ttgl.arange(0, 32, layout=ttgl.SliceLayout(0, by_rows))
    x = ttgl.load(x_ptr + rows[:, None] * 32 + columns[None, :])
    tile = ttgl.allocate_shared_memory(ttgl.float32, [32, 32], kept)
    tile.store(x)
    turned = tile.load(by_columns)  # fault
    rows = ttgl.arange(0, 32, layout=ttgl.SliceLayout(1, by_columns))
    columns = ttgl.arange(0, 32, layout=ttgl.SliceLayout(0, by_columns))
    ttgl.store(out_ptr + columns[None, :] * 32 + rows[:, None], turned)
