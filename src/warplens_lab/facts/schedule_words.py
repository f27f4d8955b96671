"""What a loop's schedule is called, and the sentence that describes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from warplens_lab.facts.records import SchedulePartition, ScheduleStep
from warplens_run.base.units import listed, plural

UNPIPELINED: Final = ", and with it does not pipeline"
"""Ends what is said of a loop that the compiler would pipeline if it were not to be split among warps."""
_COPIES: Final = ("load", "async copy", "tma copy")
_STORES: Final = ("store", "tma store")


def pattern_of(steps: Sequence[ScheduleStep], partitions: Sequence[SchedulePartition], *, has_turns: bool) -> str:
    """`has_turns`: some warps wait for the others before the loop, which puts them half a turn behind."""
    multiplying = [partition for partition in partitions if "multiplies" in partition.role]
    if len(multiplying) > 1 and any("named" in step.operation for step in steps):
        return "ping-pong"
    if partitions:
        return "producer/consumer"
    if has_turns and any(step.kind == "priority" for step in steps) and any(step.kind == "product" for step in steps):
        return "ping-pong"
    return "pipelined" if any(step.ahead for step in steps) else "sequential"


def role_of(kinds: Sequence[str]) -> str:
    """What a partition does, in a few words."""
    done = []
    if any(kind in _COPIES for kind in kinds):
        done.append("loads")
    if "product" in kinds:
        done.append("multiplies")
    if any(kind in ("reduction", "tensor memory load") for kind in kinds) and "product" not in kinds:
        done.append("computes")
    if any(kind in _STORES for kind in kinds):
        done.append("stores")
    return listed(done) if done else "waits"


def loop_sentence(
    pattern: str, stages: int, steps: Sequence[ScheduleStep], partitions: Sequence[SchedulePartition]
) -> str:
    if partitions:
        return f"{pattern} in {plural(len(partitions), 'partition')}: {_partitions(steps, partitions)}"
    if pattern == "ping-pong":
        products = sum(step.kind == "product" for step in steps)
        turns = f"the priority is raised around {'the product' if products == 1 else f'each of {products} products'}"
        return f"ping-pong: half of the warps multiply while the others load, {turns}{_loads(steps)}"
    if pattern == "pipelined":
        return f"pipelined in {plural(stages, 'stage')}{_loads(steps)}{_in_flight(steps)}"
    return "sequential: each iteration loads and computes by itself"


def _loads(steps: Sequence[ScheduleStep]) -> str:
    early = [step for step in steps if step.ahead and step.kind in (*_COPIES, "product")]
    parts = []
    for kind in dict.fromkeys(step.kind for step in early):
        alike = [step for step in early if step.kind == kind]
        most = max(step.ahead for step in alike)
        parts.append(f"{_counted(len(alike), kind)} {plural(most, 'iteration')} ahead")
    copies = max((step.copies for step in steps if step.kind in _COPIES or step.kind == "shared store"), default=0)
    buffers = f", {copies} buffers of a tile" if copies > 1 else ""
    return f"; {', '.join(parts)}{buffers}" if parts else buffers


def _in_flight(steps: Sequence[ScheduleStep]) -> str:
    waits = [step for step in steps if step.kind == "wait for products" and not step.detail.startswith("0")]
    return "; a product overlaps the next" if waits else ""


def _partitions(steps: Sequence[ScheduleStep], partitions: Sequence[SchedulePartition]) -> str:
    texts = []
    for partition in partitions:
        own = [step for step in steps if step.partition == partition.name]
        size = [plural(partition.warps, "warp")] * bool(partition.warps)
        size += [f"{partition.registers} registers"] * bool(partition.registers)
        about = f" ({', '.join(size)})" if size else ""
        ahead = max((step.ahead for step in own if step.kind in _COPIES), default=0)
        reach = f" up to {plural(ahead, 'tile')} ahead" if ahead else ""
        texts.append(f"{partition.name}{about} {partition.role}{reach}")
    return ", ".join(texts)


def _counted(count: int, kind: str) -> str:
    plurals = {"async copy": "async copies", "tma copy": "tma copies"}
    return f"{count} {kind if count == 1 else plurals.get(kind, f'{kind}s')}"
