"""Which kernels of the ranks are one collective: by group and order of launch, checked by kind, type and size.

A call is known by its group, its step and its number in that step; where calls of a group record sequence numbers that
agree with kinds, types and sizes, by those. Where the ranks of a group made other calls in a step, their sequences are
aligned; what has no counterpart stays unmatched and is counted, never guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import polars as pl

from warplens.model.kinds import NONE
from warplens.ranks.kinds import EXCHANGE, POINT_TO_POINT, RECEIVE, SEND, SIZES_DIFFER
from warplens.ranks.records import RankDigest
from warplens.ranks.unnamed_groups import by_their_ends

UNKNOWN_GROUP: Final = "(unknown)"
CUSTOM_GROUP: Final = "(custom)"
"""Of kernels of other libraries than these, which record no group."""
LIBRARIES: Final = r"(?i)nccl|rccl|^gloo:|^mpi|^ucc|^c10d::|^record_param_comms"
BEFORE: Final = -1
"""Part of calls before the first step."""
NUMBERED: Final = -2
"""Part of calls that are known by their sequence numbers."""
LONGEST_ALIGNED: Final = 5_000
"""Calls of a step in a group: to align longer sequences that differ takes too long."""
MOST_AT_ONCE: Final = 1_000
"""Calls under one sequence number, as coalesced ones are."""
KEYS: Final = ("group_key", "part")
OWNER: Final = ("rank", "device")


@dataclass(frozen=True)
class Matching:
    """All communication kernels of a job with the `match` that each belongs to (-1: none)."""

    frame: pl.DataFrame
    """The digests' collectives with rank, group_key, signature, part, number and match."""


def match(digests: Sequence[RankDigest]) -> Matching:
    """The kernels of all ranks, matched; `rank` is a rank's position among the digests."""
    frame = _aligned(_numbered(_in_parts(_all_calls(digests))))
    matched = by_their_ends(_matched(_with_sequence_numbers(frame)), UNNAMED)
    return Matching(_dense(_with_partners(matched, digests)))


UNNAMED: Final = pl.col("group").is_in([UNKNOWN_GROUP, CUSTOM_GROUP])


def _all_calls(digests: Sequence[RankDigest]) -> pl.DataFrame:
    frames = [
        _with_group_key(digest, position).with_columns(pl.lit(position).cast(pl.Int32).alias("rank"))
        for position, digest in enumerate(digests)
    ]
    frame = pl.concat(frames)
    kind = pl.when(pl.col("kind").is_in([SEND, RECEIVE])).then(pl.lit("p2p")).otherwise("kind")
    return frame.with_columns(
        pl.when(pl.col("group") == CUSTOM_GROUP).then(pl.concat_str("kind", "kernel", separator=" "))
        .when(pl.col("kind").is_in(SIZES_DIFFER)).then("kind")
        .otherwise(pl.concat_str(kind, "dtype", "bytes", separator=" "))
        .alias("signature")
    )  # fmt: skip


def _with_group_key(digest: RankDigest, position: int) -> pl.DataFrame:
    """Name and ranks of a group; of a send or receive, the two ranks in the direction of the data."""
    own = digest.facts.rank if digest.facts.rank >= 0 else position
    ranks = _ranks_of_groups(digest)
    by_name = {name: f"{name} {list(members)}" for name, members in ranks.items()}
    others = {name: sum(members) - own for name, members in ranks.items() if len(members) == 2 and own in members}
    is_custom = (pl.col("group") == UNKNOWN_GROUP) & ~pl.col("kernel").str.contains(LIBRARIES)
    partner = pl.col("group").replace_strict(others, default=NONE, return_dtype=pl.Int64)
    frame = digest.collectives.with_columns(
        pl.when(is_custom).then(pl.lit(CUSTOM_GROUP)).otherwise("group").alias("group"),
        pl.when((pl.col("peer") < 0) & pl.col("kind").is_in([SEND, RECEIVE]))
        .then(partner)
        .otherwise("peer")
        .alias("peer"),
    )
    listed = pl.concat_str("group", "group_ranks", separator=" ")
    group = pl.col("group").replace_strict(by_name, default=None, return_dtype=pl.String).fill_null(listed)
    peer, has_peer = pl.col("peer").cast(pl.String), pl.col("peer") >= 0
    itself = pl.when(pl.col("member") >= 0).then("member").otherwise(own).cast(pl.String)
    to, fro = pl.concat_str(itself, peer, separator="→"), pl.concat_str(peer, itself, separator="→")
    return frame.with_columns(
        pl.when((pl.col("kind") == SEND) & has_peer)
        .then(pl.concat_str(group, to, separator=" "))
        .when((pl.col("kind") == RECEIVE) & has_peer)
        .then(pl.concat_str(group, fro, separator=" "))
        .otherwise(group)
        .alias("group_key")
    )


def _ranks_of_groups(digest: RankDigest) -> dict[str, tuple[int, ...]]:
    """The ranks of the groups that a rank is in, by name; without names that two of them have."""
    own = digest.facts.rank
    groups = {
        (group.name, group.ranks) for group in digest.facts.groups if group.ranks and (own in group.ranks or own < 0)
    }
    names = Counter(name for name, _ in groups)
    return {name: ranks for name, ranks in groups if names[name] == 1}


def _in_parts(frame: pl.DataFrame) -> pl.DataFrame:
    """With `part`: the step, or the time before the first. What is launched between two steps belongs to the first."""
    frame = frame.sort("rank", "launch_ns", "start_ns", "id")
    part = pl.when(pl.col("step") >= 0).then("step").forward_fill().over("rank")
    return frame.with_columns(part.fill_null(BEFORE).alias("part")).with_columns(pl.col("part").alias("step"))


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    """The number of each call in its part and group; where a rank began to record within the part, counted back.

    None where calls are all alike and either their begin or their end is missing.
    """
    within = [*OWNER, *KEYS]
    own = frame.group_by(within).agg(pl.len().cast(pl.Int64).alias("calls"), pl.col("signature").first())
    steps = pl.col("part").filter(pl.col("part") >= 0)
    recorded = frame.group_by("rank").agg(steps.min().alias("first_part"), steps.max().alias("last_part"))
    is_first, is_alike = pl.col("part") == pl.col("first_part"), pl.col("signature").n_unique().over(KEYS) == 1
    own = own.join(recorded, on="rank", how="left").with_columns(
        (is_first & (pl.col("calls") < pl.col("calls").max().over(KEYS))).fill_null(value=False).alias("is_cut"),
        ((pl.col("part") == BEFORE) & pl.col("first_part").is_not_null()).alias("is_before"),
    )
    own = own.with_columns(
        (pl.col("is_cut").any().over(KEYS) | pl.col("is_before")).alias("is_back"),
        (pl.col("is_cut") & is_alike & (pl.col("first_part") == pl.col("last_part"))).alias("is_open"),
    )
    frame = frame.join(own.select(*within, "calls", "is_back", "is_open"), on=within, how="left", maintain_order="left")
    number = pl.int_range(pl.len()).over(within).cast(pl.Int64)
    placed = pl.when("is_open").then(None).when("is_back").then(number - pl.col("calls")).otherwise(number)
    return frame.with_columns(placed.alias("number")).drop("calls", "is_back", "is_open")


def _aligned(frame: pl.DataFrame) -> pl.DataFrame:
    """The numbers of calls in parts where ranks differ, after aligning their sequences; null where none fits."""
    groups = frame.group_by(*KEYS, "number").agg(pl.col("signature").n_unique().alias("kinds"))
    odd = groups.filter(pl.col("kinds") > 1).select(*KEYS, pl.lit(value=True).alias("is_odd")).unique()
    if odd.is_empty():
        return frame
    marked = frame.join(odd, on=KEYS, how="left", maintain_order="left")
    parts = marked.filter("is_odd").drop("is_odd").partition_by(*KEYS, maintain_order=True)
    even = marked.filter(pl.col("is_odd").is_null()).drop("is_odd")
    return pl.concat([even, *map(_realigned, parts)]).sort("rank", "launch_ns", "start_ns", "id")


def _realigned(calls: pl.DataFrame) -> pl.DataFrame:
    owners = calls.partition_by(*OWNER, maintain_order=True)
    sequences = [tuple(own["signature"].to_list()) for own in owners]
    common = Counter(sequences).most_common(1)[0][0]
    known = {sequence: _numbers(sequence, common) for sequence in set(sequences)}
    return pl.concat([
        own.with_columns(pl.Series("number", known[sequence], dtype=pl.Int64))
        for own, sequence in zip(owners, sequences, strict=True)
    ])  # fmt: skip


def _numbers(sequence: tuple[str, ...], common: tuple[str, ...]) -> list[int | None]:
    """The place of each call in the sequence that most ranks have; None for one that it lacks."""
    if sequence == common:
        return list(range(len(common)))
    numbers: list[int | None] = [None] * len(sequence)
    if max(len(sequence), len(common)) > LONGEST_ALIGNED:
        return numbers
    for block in SequenceMatcher(None, sequence, common, autojunk=False).get_matching_blocks():
        for offset in range(block.size):
            numbers[block.a + offset] = block.b + offset
    return numbers


def _with_sequence_numbers(frame: pl.DataFrame) -> pl.DataFrame:
    """Calls of groups whose sequence numbers can be trusted have these as their numbers.

    All calls of the group record one, in the order of their launches, and never for calls of other kinds, types or
    sizes. Calls that are coalesced share a number: they are told apart by their order. Calls without the name of their
    group have a number where the rank has one group only.
    """
    place = pl.int_range(pl.len()).over(*OWNER, "group_key", "seq")
    calls = frame.with_columns((pl.col("seq") * MOST_AT_ONCE + place).cast(pl.Int64).alias("numbered"))
    falls = (pl.col("seq").diff() < 0).any().over(*OWNER, "group_key")
    is_numbered = (pl.col("seq") >= 0).all().over("group_key") & ~falls.any().over("group_key")
    differs = pl.col("signature").n_unique().over("group_key", "numbered") > 1
    calls = calls.with_columns((is_numbered & ~differs.any().over("group_key")).alias("is_trusted"))
    return calls.with_columns(
        pl.when("is_trusted").then("numbered").otherwise("number").alias("number"),
        pl.when("is_trusted").then(pl.lit(NUMBERED)).otherwise("part").cast(pl.Int64).alias("part"),
    ).drop("numbered", "is_trusted")


def _matched(frame: pl.DataFrame) -> pl.DataFrame:
    """Calls of two ranks or more with the same number.

    Where other calls name their groups, one of the same library that does not was launched before the recording: its
    group may be any. Nor is it known who meets whom in a message without a peer, unless its group has two ranks. Peers
    of a group without a name are numbers within it: their ends show which ranks these are.
    """
    keys = [*KEYS, "number", "signature"]
    is_unknown = pl.col("group") == UNKNOWN_GROUP
    is_named = ~pl.col("group").is_in([UNKNOWN_GROUP, CUSTOM_GROUP])
    has_partner = ((pl.col("kind") == EXCHANGE) & (pl.col("group_size") == 2)) | (pl.col("peer") >= 0)
    is_message = pl.col("kind").is_in(list(POINT_TO_POINT))
    can_match = (
        pl.col("number").is_not_null()
        & ~(is_unknown & is_named.any())
        & (~is_message | (has_partner & (is_named | (pl.col("member") >= 0))))
    )
    size, owners = pl.len().over(keys), pl.struct(OWNER).n_unique().over(keys)
    # Ranks that meet twice under one number cannot be told apart, and a group has no more ranks than it says.
    fits = (size == owners) & ((pl.col("group_size") <= 0) | (size <= pl.col("group_size")))
    is_match = can_match & (pl.col("rank").n_unique().over(keys) > 1) & fits
    number = pl.struct(keys).rank("dense").cast(pl.Int64)
    return frame.with_columns(pl.when(is_match).then(number).otherwise(NONE).alias("match"))


def _with_partners(frame: pl.DataFrame, digests: Sequence[RankDigest]) -> pl.DataFrame:
    """Peers that were numbers within a group are numbers of ranks: those that the messages met; -1 where none did."""
    numbers = [digest.facts.rank if digest.facts.rank >= 0 else place for place, digest in enumerate(digests)]
    number = pl.col("rank").cast(pl.Int64).replace_strict(range(len(numbers)), numbers, return_dtype=pl.Int64)
    is_pair = (pl.col("match") >= 0) & (pl.len().over("match") == 2)
    partner = pl.when(is_pair).then(number.sum().over("match") - number).otherwise(NONE)
    return frame.with_columns(pl.when(pl.col("member") >= 0).then(partner).otherwise("peer").alias("peer"))


def _dense(frame: pl.DataFrame) -> pl.DataFrame:
    """Matches numbered 0, 1, … in the order in which they begin."""
    first = (
        frame.filter(pl.col("match") >= 0).group_by("match").agg(pl.col("start_ns").median()).sort("start_ns", "match")
    )
    order = first.select("match", pl.int_range(pl.len(), dtype=pl.Int64).alias("order"))
    joined = frame.join(order, on="match", how="left", maintain_order="left")
    return joined.with_columns(pl.col("order").fill_null(NONE).alias("match")).drop("order")
