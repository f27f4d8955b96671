"""Which ranks do the same: those whose collectives have the same kinds and sizes, and stages of a pipeline."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import polars as pl

from warplens.model.kinds import NONE
from warplens.model.trace import Ints
from warplens.ranks.job import Job
from warplens.ranks.kinds import RECEIVE, SEND

MISSING: Final = -2
"""Where a rank's first message comes from: a rank whose trace is not here."""
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
    calls = job.calls.filter(pl.col("kind").is_in([SEND, RECEIVE]) & (pl.col("step") >= 0) & (pl.col("peer") >= 0))
    count = len(job.digests)
    if calls.is_empty():
        return [-1] * count
    position = {rank: place for place, rank in enumerate(job.ranks)}
    first = calls.sort("launch_ns").group_by("rank", "step", maintain_order=True).first()
    comes_from: list[int] = []
    for place in range(count):
        own = first.filter(pl.col("rank") == place)
        usual = Counter(zip(own["kind"].to_list(), own["peer"].to_list(), strict=True)).most_common(1)
        kind, peer = usual[0][0] if usual else ("", NONE)
        comes_from.append(position.get(peer, MISSING) if kind == RECEIVE else NONE)
    known = [_depth(comes_from, place) for place in range(count)]
    return [_of_neighbours(job, known, place) if depth < 0 else depth for place, depth in enumerate(known)]


def _depth(comes_from: list[int], place: int) -> int:
    """How many stages are before a rank; -1 where one of them is missing."""
    depth, seen = 0, {place}
    while comes_from[place] >= 0 and comes_from[place] not in seen:
        place = comes_from[place]
        seen.add(place)
        depth += 1
    return NONE if comes_from[place] == MISSING else depth


def _of_neighbours(job: Job, known: list[int], place: int) -> int:
    """The stage of most ranks in a rank's smaller groups, as those of tensor and data parallel ranks; 0 without any."""
    calls = job.matched.filter(~pl.col("kind").is_in([SEND, RECEIVE]) & (pl.col("members") < len(known)))
    own = calls.filter(pl.col("rank") == place)["match"].unique()
    ranks = calls.filter(pl.col("match").is_in(own.implode()) & (pl.col("rank") != place))["rank"].to_list()
    usual = Counter(known[rank] for rank in ranks if known[rank] >= 0).most_common(1)
    return usual[0][0] if usual else 0
