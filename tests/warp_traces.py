"""Traces of regions inside kernels, made by hand as Proton's instrumentation writes them."""

from __future__ import annotations

import json
from typing import Any

CONSUMERS = {0: range(4), 1: range(4, 8)}
PRODUCER = range(8, 12)
TURN, LOAD, STAGES = 400, 150, 3
"""Ticks of a turn of a consumer (one half products, one half the rest), ticks of a load, and buffers between them."""


def region(name: str, start: int, ticks: int, cta: str, warp: int, line: int = 0, init: int = 1000) -> dict[str, Any]:
    kernel = cta.split(" ")[0]
    return {
        "args": {
            "Init Time (ns)": init, "Post Final Time (ns)": init + 10_000, "Finalization Time (ns)": 96,
            "Frequency (MHz)": 1000.0, "call_stack": ["ROOT", kernel],
        },
        "cat": kernel, "cname": "good", "dur": ticks / 1000, "name": name, "ph": "X", "pid": cta,
        "tid": f"warp {warp} (line {line})", "ts": start / 1000,
    }  # fmt: skip


def arrow(name: str, number: int, cta: str, source: tuple[int, int], target: tuple[int, int]) -> list[dict[str, Any]]:
    """A transaction from (warp, tick) to (warp, tick), as Triton 3.9 writes one."""
    common = {"cat": "flow", "cname": "good", "dur": 0, "name": name, "ph": "X", "pid": cta, "bind_id": number}
    ends = [("flow_out", *source), ("flow_in", *target)]
    return [
        common | {way: True, "tid": f"warp {warp} (line 0)", "ts": tick / 1000, "args": {"call_stack": ["ROOT"]}}
        for way, warp, tick in ends
    ]


def ping_pong(ctas: int = 2, turns: int = 6, *, arrows: bool = True) -> dict[str, Any]:
    """Two groups of consumers that take turns at the matrix unit, and a group that loads for both.

    A consumer waits until the other's products are done, multiplies for half a turn, and does the softmax of the result
    in the other half, while the other multiplies. The producer loads a tile for each product, and waits for a free buffer.
    """
    events: list[dict[str, Any]] = []
    number = 0
    for at in range(ctas):
        cta = f"attention Core{2 * at} CTA{at}"
        for group, warps in CONSUMERS.items():
            for warp in warps:
                skew = warp % 4  # the warps of a group are never quite in step
                begin = LOAD + group * TURN // 2 + skew
                events.append(region("wait mma", 0, begin, cta, warp))
                for turn in range(turns):
                    start = begin + turn * TURN
                    events.append(region("mma", start, TURN // 2 - 10, cta, warp))
                    events.append(region("wgmma issue", start + 5, 40, cta, warp, line=1))
                    events.append(region("softmax", start + TURN // 2 - 5, TURN // 2 - 45, cta, warp))
                    events.append(region("wait mma", start + TURN - 45, 45, cta, warp))
        for warp in PRODUCER:
            now = 0
            for tile in range(2 * turns):
                # A buffer is free when the product of the tile before it in there is done.
                free = LOAD + (tile - STAGES + 1) * TURN // 2 if tile >= STAGES else now
                if free > now:
                    events.append(region("wait buffer", now, free - now, cta, warp))
                events.append(region("tma load", max(now, free), LOAD - 5, cta, warp))
                now = max(now, free) + LOAD
                if arrows and warp == PRODUCER[0]:
                    number += 1
                    used = LOAD + tile * TURN // 2
                    events += arrow("tile", number, cta, (warp, now - 5), (CONSUMERS[tile % 2][0], max(used, now)))
    return {"displayTimeUnit": "ns", "traceEvents": events}


def ping_pong_bytes(**options: Any) -> bytes:
    return json.dumps(ping_pong(**options)).encode()
