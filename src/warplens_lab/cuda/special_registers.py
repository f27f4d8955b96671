"""PTX's special registers for every lane of a block."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from warplens_lab.cuda.lanes import LANES, Ints


def special_registers(block: Sequence[int]) -> dict[str, Ints]:
    """Warps × lanes. Lanes of the last warp that the block does not fill do as the first of them does.

    >>> registers = special_registers((16, 4))
    >>> [registers[name][1, 17].item() for name in ("%tid.x", "%tid.y", "%warpid", "%laneid")]
    [1, 3, 1, 17]
    """
    x, y, z = (*block, 1, 1)[:3]
    threads = x * y * z
    warps = -(-threads // LANES)
    thread = np.arange(warps * LANES, dtype=np.int64)
    lane = np.where(thread < threads, thread, thread // LANES * LANES).reshape(warps, LANES)
    number = np.broadcast_to(np.arange(LANES, dtype=np.int64), lane.shape)
    own = np.int64(1) << number
    sides = {f"%ntid.{name}": np.full(lane.shape, side, np.int64) for name, side in zip("xyz", (x, y, z), strict=True)}
    return {
        "%tid.x": lane % x,
        "%tid.y": lane // x % y,
        "%tid.z": lane // (x * y),
        **sides,
        "%laneid": number,
        "%warpid": lane // LANES,
        "%lanemask_eq": own,
        "%lanemask_lt": own - 1,
        "%lanemask_le": own * 2 - 1,
        "%lanemask_gt": (1 << LANES) - own * 2,
        "%lanemask_ge": (1 << LANES) - own,
    }
