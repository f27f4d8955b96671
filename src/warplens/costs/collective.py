"""Collectives: what one rank's message costs on the links."""

from __future__ import annotations


def bus_factor(collective: str, ranks: int) -> float | None:
    """How many times each byte of the message crosses a link, as nccl-tests counts it; None for an unknown group.

    >>> bus_factor("allreduce", 8), bus_factor("all_gather_into_tensor", 4), bus_factor("broadcast", 8)
    (1.75, 0.75, 1.0)
    """
    if ranks < 1:
        return None
    name = collective.lower().replace("_", "").replace(" ", "")
    if "allreduce" in name:
        return 2 * (ranks - 1) / ranks
    if any(kind in name for kind in ("allgather", "reducescatter", "alltoall")):
        return (ranks - 1) / ranks
    return 1.0


def algbw_gbps(message_bytes: float, microseconds: float) -> float | None:
    """Message size over time; None where there is nothing to divide.

    >>> algbw_gbps(1e6, 10)
    100.0
    """
    return message_bytes / microseconds / 1e3 if message_bytes > 0 and microseconds > 0 else None


def busbw_gbps(collective: str, ranks: int, message_bytes: float, microseconds: float) -> float | None:
    """Comparable with the speed of the links, whatever the number of ranks."""
    rate, factor = algbw_gbps(message_bytes, microseconds), bus_factor(collective, ranks)
    return None if rate is None or factor is None else rate * factor
