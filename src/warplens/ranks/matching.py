"""Which kernels of the ranks are one collective: by group and order of launch, checked by kind, type and size.

A call is known by its group, its step and its number in that step. Where the ranks of a group made other calls in a
step, their sequences are aligned; what has no counterpart stays unmatched and is counted, never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import numpy as np
import polars as pl

from warplens.model.kinds import NONE
from warplens.ranks.kinds import POINT_TO_POINT, RECEIVE, SEND
from warplens.ranks.records import RankDigest

UNKNOWN_GROUP: Final = "(unknown)"
BEFORE: Final = -1
"""Number of the step of calls before the first one."""
LONGEST_ALIGNED: Final = 5_000
"""Calls of a step in a group: to align longer sequences that differ takes too long."""
KEYS: Final = ("group_key", "step")


@dataclass(frozen=True)
class Matching:
    """All communication kernels of a job with the `match` that each belongs to (-1: none), and what was not matched."""

    frame: pl.DataFrame
    """The digests' collectives with rank, group_key, signature, number and match."""
    unmatched: dict[str, int]
    """Kernels without a counterpart, by the reason."""


def match(digests: Sequence[RankDigest]) -> Matching:
    """The kernels of all ranks, matched; `rank` is a rank's position among the digests."""
    frame = _all_calls(digests)
    frame = _numbered(frame)
    frame = _aligned(frame)
    return _matched(frame)


def _all_calls(digests: Sequence[RankDigest]) -> pl.DataFrame:
    frames = [
        digest.collectives.with_columns(
            pl.lit(position).cast(pl.Int32).alias("rank"),
            _group_key(digest, position).alias("group_key"),
        )
        for position, digest in enumerate(digests)
    ]
    frame = pl.concat(frames)
    signature = pl.concat_str("kind", "dtype", "bytes", separator=" ")
    pair = pl.when(pl.col("kind") == SEND).then(pl.lit("p2p")).when(pl.col("kind") == RECEIVE).then(pl.lit("p2p"))
    return frame.with_columns(
        pl.when(pl.col("kind").is_in(["all_to_all"])).then("kind").otherwise(
            pl.concat_str(pair.otherwise("kind"), "dtype", "bytes", separator=" ")
        ).fill_null(signature).alias("signature")
    )  # fmt: skip


def _group_key(digest: RankDigest, position: int) -> pl.Expr:
    """Name and ranks of a group; of a send or receive, the two ranks in the direction of the data."""
    own = str(digest.facts.rank if digest.facts.rank >= 0 else position)
    by_name = {group.name: f"{group.name} {list(group.ranks)}" for group in digest.facts.groups}
    listed = pl.concat_str("group", "group_ranks", separator=" ")
    group = pl.col("group").replace_strict(by_name, default=None, return_dtype=pl.String).fill_null(listed)
    peer = pl.col("peer").cast(pl.String)
    to, fro = pl.concat_str(pl.lit(f"{own}→"), peer), pl.concat_str(peer, pl.lit(f"→{own}"))
    has_peer = pl.col("peer") >= 0
    return (
        pl.when((pl.col("kind") == SEND) & has_peer)
        .then(pl.concat_str(group, to, separator=" "))
        .when((pl.col("kind") == RECEIVE) & has_peer)
        .then(pl.concat_str(group, fro, separator=" "))
        .otherwise(group)
    )


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """The number of each call in its step and group; those before the first step count back from it."""
    first = pl.col("launch_ns").filter(pl.col("step") >= 0).min().over("rank")
    has_steps = (pl.col("step") >= 0).any().over("rank")
    early = pl.when(has_steps & (pl.col("step") < 0) & (pl.col("launch_ns") < first))
    # What is launched after a step's end and before the next belongs to the step before.
    step = pl.when(pl.col("step") >= 0).then("step").forward_fill().over("rank", order_by="launch_ns")
    frame = frame.sort("rank", "launch_ns", "start_ns", "id").with_columns(
        early.then(pl.lit(BEFORE)).otherwise(step).fill_null(BEFORE).alias("step")
    )
    within = ["rank", *KEYS]
    number = pl.int_range(pl.len()).over(within)
    back = number - pl.len().over(within)
    counts_back = has_steps & (pl.col("step") == BEFORE)
    return frame.with_columns(pl.when(counts_back).then(back).otherwise(number).cast(pl.Int64).alias("number"))


def _aligned(frame: pl.DataFrame) -> pl.DataFrame:
    """The numbers of calls in steps where ranks differ, after aligning their sequences; -1,000,000 where none fits."""
    groups = frame.group_by(*KEYS, "number").agg(pl.col("signature").n_unique().alias("kinds"))
    odd = groups.filter(pl.col("kinds") > 1).select(*KEYS).unique()
    if odd.is_empty():
        return frame
    is_odd = pl.struct(KEYS).is_in(odd.select(pl.struct(KEYS)).to_series().implode())
    parts = frame.filter(is_odd).partition_by(*KEYS, maintain_order=True)
    return pl.concat([frame.filter(~is_odd), *map(_realigned, parts)]).sort("rank", "launch_ns", "start_ns", "id")


def _realigned(calls: pl.DataFrame) -> pl.DataFrame:
    parts = calls.partition_by("rank", as_dict=True, maintain_order=True)
    sequences = {rank: own["signature"].to_list() for (rank,), own in parts.items()}
    common = Counter(map(tuple, sequences.values())).most_common(1)[0][0]
    numbers = {rank: _numbers(sequence, common) for rank, sequence in sequences.items()}
    ranks = calls["rank"].to_list()
    place: Counter[int] = Counter()
    result = []
    for rank in ranks:
        result.append(numbers[rank][place[rank]])
        place[rank] += 1
    return calls.with_columns(pl.Series("number", result, dtype=pl.Int64))


def _numbers(sequence: list[str], common: tuple[str, ...]) -> list[int]:
    """The place of each call in the sequence that most ranks have; a negative number for one that it lacks."""
    numbers = [-1_000_000 - index for index in range(len(sequence))]
    if max(len(sequence), len(common)) > LONGEST_ALIGNED:
        return numbers
    for block in SequenceMatcher(None, sequence, common, autojunk=False).get_matching_blocks():
        for offset in range(block.size):
            numbers[block.a + offset] = block.b + offset
    return numbers


def _matched(frame: pl.DataFrame) -> Matching:
    """Calls of two ranks or more with the same number.

    Where other calls name their groups, one that does not was launched before the recording: its group may be any. Nor
    is it known who meets whom in a message without a peer.
    """
    keys = [*KEYS, "number", "signature"]
    is_unknown = pl.col("group") == UNKNOWN_GROUP
    can_match = ~(is_unknown & ((~is_unknown).any() | pl.col("kind").is_in(list(POINT_TO_POINT))))
    # Ranks that meet twice under one number cannot be told apart.
    calls = frame.with_columns(pl.len().over(keys).alias("size"), pl.col("rank").n_unique().over(keys).alias("ranks"))
    is_match = can_match & (pl.col("size") > 1) & (pl.col("size") == pl.col("ranks"))
    number = pl.struct(keys).rank("dense").cast(pl.Int64)
    calls = calls.with_columns(pl.when(is_match).then(number).otherwise(NONE).alias("match"))
    alone = calls.filter(pl.col("match") == NONE)
    reasons = Counter(alone["group"].replace("", UNKNOWN_GROUP).to_list())
    return Matching(_dense(calls.drop("size", "ranks")), dict(reasons))


def _dense(frame: pl.DataFrame) -> pl.DataFrame:
    """Matches numbered 0, 1, … in the order in which they begin."""
    first = (
        frame.filter(pl.col("match") >= 0).group_by("match").agg(pl.col("start_ns").median()).sort("start_ns", "match")
    )
    order = first["match"].to_list()
    numbers = np.arange(len(order))
    return frame.with_columns(pl.col("match").replace_strict(order, numbers, default=NONE, return_dtype=pl.Int64))
