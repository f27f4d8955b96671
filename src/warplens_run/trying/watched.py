"""`warplens.watch`: values of a program that are compared with and without a fix."""

from __future__ import annotations

from typing import Any

_values: dict[str, list[Any]] = {}
_is_watching = False


def watch(name: str, value: Any) -> None:
    """Compare a number or tensor of each step under `warplens try`; elsewhere it does nothing.

    A tensor counts with its mean, and is read when a turn has ended: nothing waits for the GPU here.

    >>> watch("loss", 2.5)
    """
    if _is_watching:
        kept = value.detach() if hasattr(value, "detach") else value
        _values.setdefault(name, []).append(kept.float().mean() if hasattr(kept, "mean") else kept)


def begin_watching() -> None:
    global _is_watching
    _is_watching = True


def take_watched() -> dict[str, float]:
    """The mean of each value since this was last asked."""
    means = {name: sum(float(value) for value in values) / len(values) for name, values in _values.items() if values}
    _values.clear()
    return means
