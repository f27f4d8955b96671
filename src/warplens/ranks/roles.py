"""Which ranks do the same: those whose collectives have the same kinds and sizes, and stages of a pipeline."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import polars as pl

from warplens.model.trace import Ints
from warplens.ranks.job import Job
from warplens.ranks.kinds import RECEIVE, SEND

FEW_ALIKE: Final = 3
"""Of fewer ranks that do the same none can be called slow: then all ranks are compared."""


def roles(job: Job) -> Ints:
    """A number per rank; ranks with the same number are comparable. All are where hardly any has a counterpart."""
    texts = []
    for digest in job.digests:
        calls = digest.collectives.filter(pl.col("step") >= 0)
        counted = calls.group_by("kind").agg(pl.len()).sort("kind")
        steps = max(1, digest.steps.height)
        texts.append(str([(kind, round(count / steps)) for kind, count in counted.iter_rows()]))
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    own = np.array([numbers[text] for text in texts], np.int64)
    sizes = Counter(own.tolist())
    return own if min(sizes.values(), default=0) >= FEW_ALIKE else np.zeros(len(own), np.int64)


def stages(job: Job) -> list[int]:
    """The stage of each rank in a pipeline, from who sends to whom first in a step; -1 where there is none."""
    calls = job.matched.filter(pl.col("kind").is_in([SEND, RECEIVE]) & (pl.col("step") >= 0))
    count = len(job.digests)
    if calls.is_empty():
        return [-1] * count
    position = {rank: place for place, rank in enumerate(job.ranks)}
    first = calls.sort("launch_ns").group_by("rank", "step", maintain_order=True).first()
    comes_from: list[int] = []
    for place in range(count):
        own = first.filter(pl.col("rank") == place)
        usual = Counter(zip(own["kind"].to_list(), own["peer"].to_list(), strict=True)).most_common(1)
        kind, peer = usual[0][0] if usual else ("", -1)
        comes_from.append(position.get(peer, -1) if kind == RECEIVE else -1)
    return [_depth(comes_from, place) for place in range(count)]


def _depth(comes_from: list[int], place: int) -> int:
    depth, seen = 0, {place}
    while comes_from[place] >= 0 and comes_from[place] not in seen:
        place = comes_from[place]
        seen.add(place)
        depth += 1
    return depth
