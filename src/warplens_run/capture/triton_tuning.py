"""What `triton.autotune` timed while the program ran: Triton keeps it in its tuners, which are found at the end."""

from __future__ import annotations

import gc
import math
import sys
from typing import Any


def timed_configs() -> dict[Any, list[dict[str, Any]]]:
    """By the function that a tuner is of: its configs with their times in milliseconds, for what it tuned last."""
    try:
        from triton.runtime.autotuner import Autotuner
    except Exception:  # noqa: BLE001 - a broken or older Triton has none
        return {}
    # Where a program has frozen its objects, `gc` does not list them: modules do.
    listed = [
        value for module in list(sys.modules.values()) for value in list(getattr(module, "__dict__", {}).values())
    ]
    # By type: asking an object for its class may run code of the program's.
    tuners = [value for value in (*listed, *gc.get_objects()) if issubclass(type(value), Autotuner)]
    return {tuner.base_fn: _rows(tuner) for tuner in tuners if getattr(tuner, "configs_timings", None)}


def _rows(tuner: Any) -> list[dict[str, Any]]:
    cache = getattr(tuner, "cache", None) or {}
    key = next(reversed(cache), ()) if isinstance(cache, dict) else ()
    chosen = cache.get(key) if isinstance(cache, dict) else None
    rows = []
    for config, times in tuner.configs_timings.items():
        text = ", ".join(f"{name}={value}" for name, value in config.all_kwargs().items())
        # A program may have emptied the tuner's cache, and configs of Triton cannot be compared with None.
        is_chosen = chosen is not None and (config is chosen or config == chosen)
        rows.append({"key": _text(key), "config": text, "ms": _median(times), "chosen": is_chosen})
    return rows


def _text(key: Any) -> str:
    return ", ".join(map(str, key)) if isinstance(key, (tuple, list)) else str(key)


def _median(times: Any) -> float | None:
    """The first of the quantiles that Triton keeps; None for a config that failed."""
    first = times[0] if isinstance(times, (tuple, list)) and times else times
    return float(first) if isinstance(first, (int, float)) and math.isfinite(first) else None
