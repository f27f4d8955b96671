"""Keys and values that no code of a cache allocates: the attention of each layer makes them, and all are kept.

A model that is asked to keep a cache (`use_cache=True`) stores the very tensors that its projections and its rotary
embedding made. Their frames are those of the attention; what tells them from temporaries is that those of one layer are
still held when attention runs two layers on, and that all are given back together.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import polars as pl

from warplens.analyses.memory.categories import ACTIVATIONS, KV_CACHE, TEMPORARY, UNKNOWN
from warplens.analyses.memory.history import Ints
from warplens.model.trace import Bools

ATTENTION: Final = re.compile(r"attn|attention", re.IGNORECASE)
SCORES: Final = "softmax"
"""Attention that is asked for its scores keeps those too."""
LEAST_LAYERS: Final = 3
LAYERS_LATER: Final = 2
"""What a layer hands to the next one is held that long, but no longer."""
LEAST_SHARE: Final = 0.5
"""Of the layers, that keep what they make at this place."""
HOW: Final = "kept by the attention of each layer until the others have run: keys and values"


def with_layer_caches(held: pl.DataFrame, layers: pl.Series) -> pl.DataFrame:
    """Allocations of a program without a backward pass, with the caches among them.

    `layers`: of each the module that made it, by its own number in the model (`Layer_3/Attention_3`), not by pattern.
    """
    attention = [layer for layer in layers.unique() if ATTENTION.search(layer)]
    is_candidate = (
        layers.is_in(attention)
        & held["category"].is_in([TEMPORARY, UNKNOWN, ACTIVATIONS])
        & (held["begin"] >= 0)
        & ~held["op"].str.contains(SCORES)
    ).to_numpy()
    if not is_candidate.any():
        return held
    begins = np.sort(held["begin"].to_numpy())
    sites = held.select("module", "line", "op", "begin", "end").with_columns(
        layers.cast(pl.Categorical).to_physical().cast(pl.Int64).alias("layer"),
        pl.Series("row", np.arange(len(held))),
    ).filter(pl.Series(is_candidate))  # fmt: skip
    is_cache = np.zeros(len(held), bool)
    for site in sites.sort("begin").partition_by("module", "line", "op"):
        begin, end, layer = (site[name].to_numpy() for name in ("begin", "end", "layer"))
        is_cache[site["row"].to_numpy()] = _is_kept(begin, end, layer, np.searchsorted(begins, end))
    chosen = pl.Series(is_cache)
    return held.with_columns(
        pl.when(chosen).then(pl.lit(KV_CACHE)).otherwise("category").alias("category"),
        pl.when(chosen).then(pl.lit(HOW)).otherwise("how").alias("how"),
    )


def _is_kept(begin: Ints, end: Ints, layer: Ints, burst: Ints) -> Bools:
    """Of the allocations of one place, in order, those that outlive their layer, and what is freed together with them.

    `burst`: how many allocations come before each free: frees with the same number follow each other.
    """
    none = np.zeros(len(begin), bool)
    layers = len(np.unique(layer))
    if layers < LEAST_LAYERS:
        return none
    run = np.cumsum(np.append(0, np.diff(layer) != 0))
    first = np.flatnonzero(np.append(True, np.diff(run) > 0))
    later = run + LAYERS_LATER
    follows = later < len(first)
    outlives = follows & (begin[first[np.minimum(later, len(first) - 1)]] < end)
    if len(np.unique(layer[outlives])) < LEAST_SHARE * layers:
        return none
    is_kept: Bools = outlives | np.isin(burst, np.unique(burst[outlives]))
    return is_kept
